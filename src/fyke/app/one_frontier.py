"""One ledger, one frontier: two of them ask each host twice as fast (P4), and hand out each task twice.

Each process says in its heartbeat which frontier its settings name, and which making of it answers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import sha256
from random import Random
from typing import Final

from fyke.app.stores import Stores
from fyke.app.waiting import Patience
from fyke.errors import TransientError, UsageError
from fyke.model import WorkerRow
from fyke.pipeline.heart import ENDED, PROCESS
from fyke.ports import Ledger
from fyke.settings import Settings, masked

log = logging.getLogger("fyke.start")

# Processes beat every 5 s; so long after its last beat one may still be working.
LATELY_MS: Final = 30_000
# Those that gave a sign since then have met a frontier that was made again meanwhile.
NOW_MS: Final = 12_000
NAMED: Final = "frontier"
MADE: Final = "made"
BITS: Final = 48
SHOWN: Final = 4


def named(settings: Settings) -> int:
    """Which frontier the settings name, whatever address leads to it; a number, for heartbeats hold numbers."""
    if settings.frontier_kind == "sql":
        return 1
    return 2 + int.from_bytes(sha256(settings.redis.namespace.encode()).digest()[: BITS // 8])


async def refuse_another(stores: Stores) -> None:
    """Wait until no process of this ledger works on another frontier than these settings name: `servers.wait` long.

    One that was killed counts until half a minute after its last sign.

    Raises:
        UsageError: one still does.
        TransientError: the ledger cannot be asked in that time.
    """
    settings = stores.settings
    patience = Patience(settings.servers.wait, stores.clock, Random())
    found: list[WorkerRow] = []

    async def look() -> None:
        found[:] = await _on_another(stores.ledger, named(settings))
        if found:
            raise TransientError(f"another frontier of this ledger is in use by {_names(found)}")

    try:
        await patience.reach(masked(settings.frontier), look)
    except TransientError:
        if not found:
            raise
        space = f", redis.namespace {settings.redis.namespace}" if settings.frontier_kind == "redis" else ""
        raise UsageError(
            f"another frontier of this ledger than {masked(settings.frontier)}{space} is in use by {_names(found)}:"
            " two of them ask each host twice as fast",
            field="frontier",
            hint="give all processes the same `frontier` and `redis.namespace`; to change it, stop all of them first",
        ) from None


def apart(alive: Sequence[WorkerRow], now: int) -> str:
    """For people: that processes work on different frontiers; "" where they do not."""
    groups: dict[tuple[int, int], list[WorkerRow]] = {}
    for row in alive:
        process = row.stage.get(PROCESS, {})
        if process.get(MADE) and row.beat_at >= now - NOW_MS:
            groups.setdefault((process[NAMED], process[MADE]), []).append(row)
    if len(groups) < 2:
        return ""
    sides = " | ".join(_names(rows) for rows in groups.values())
    return (
        f"processes of this ledger work on {len(groups)} different frontiers, so hosts are asked that many times as"
        f" fast: {sides}. Give all the same `frontier` (an address that leads to the same server from each machine)"
        " and `redis.namespace`"
    )


async def _on_another(ledger: Ledger, own: int) -> list[WorkerRow]:
    rows = await ledger.workers(since=await ledger.now() - LATELY_MS)
    processes = [(row, row.stage.get(PROCESS, {})) for row in rows]
    return [row for row, process in processes if not process.get(ENDED) and process.get(NAMED, own) != own]


def _names(rows: Sequence[WorkerRow]) -> str:
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return ", ".join(f"{row.pool} {row.host}:{row.pid}" for row in rows[:SHOWN]) + more
