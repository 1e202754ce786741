"""A real ledger and a real frontier on one file, by a clock that tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from msgspec import Struct

from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger
from fyke.testing.clock import FakeClock


class Servers(Struct):
    clock: FakeClock
    ledger: SqlLedger
    frontier: SqlFrontier


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    clock = FakeClock()
    database = SqliteDatabase(tmp_path / "ledger.db")
    ledger = SqlLedger(database, clock)
    await ledger.migrate()
    yield Servers(clock, ledger, SqlFrontier(database, clock, Random(1), lease_ms=30_000))
    await database.close()
