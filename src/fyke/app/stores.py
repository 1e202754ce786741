"""The composition root: settings → objects. The only place that names concrete classes.

Back ends are imported when they are asked for, so that a verb pays for nothing that it does not use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from msgspec import Struct

from fyke.errors import UsageError
from fyke.ports import Clock, Frontier, Ledger
from fyke.settings import Settings

# --- Time and stores ---


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Stores(Struct, frozen=True):
    """What every process opens: the truth, and what hands out work from it."""

    settings: Settings
    clock: Clock
    ledger: Ledger
    frontier: Frontier


@asynccontextmanager
async def open_stores(settings: Settings, *, create: bool = True) -> AsyncIterator[Stores]:
    """Open ledger and frontier, upgrade their tables, and empty a frontier that belongs to another ledger or epoch.

    `create` False: a ledger that is not there yet is an error, so that looking at the wrong folder shows.

    Raises:
        UsageError: there is no ledger, it was moved, or a newer Fyke wrote it.
        TransientError: it cannot be opened now.
    """
    from fyke.db.sqlite import SqliteDatabase
    from fyke.frontiers.sql import SqlFrontier
    from fyke.ledgers.sql import SqlLedger

    path = settings.ledger_path
    _check_place(path, create=create)
    clock = SystemClock()
    database = SqliteDatabase(path)
    ledger: Ledger = SqlLedger(database, clock)
    frontier: Frontier = SqlFrontier(database, clock, Random(), lease_ms=settings.lease)
    try:
        await ledger.migrate()
        await frontier.rebuild(*await ledger.identity())
        yield Stores(settings, clock, ledger, frontier)
    finally:
        await frontier.close()
        await ledger.close()
        await database.close()


def _check_place(path: Path, *, create: bool) -> None:
    if path.exists():
        return
    if not create:
        raise UsageError(
            f"there is no ledger at {path}", hint="`fyke run --once` makes it; --ledger or FYKE_LEDGER names another"
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(f"the ledger's folder {path.absolute().parent} does not exist", hint="make it first")
