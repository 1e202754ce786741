"""The SQLite ledger keeps the contract of the desk; its own limits and its plans on large ledgers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from fyke.db.sqlite import SqliteDatabase, open_connection
from fyke.ledgers.sqlite import SqliteLedger
from fyke.testing.clock import FakeClock
from fyke.testing.desk_contract import DeskContract


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fyke.db"


@pytest.fixture
async def ledger(path: Path, clock: FakeClock) -> AsyncIterator[SqliteLedger]:
    found = SqliteLedger(SqliteDatabase(path), clock)
    await found.migrate()
    yield found
    await found.close()


@pytest.fixture
def damage(path: Path) -> Callable[[str], Awaitable[None]]:
    async def run(statement: str) -> None:
        connection = open_connection(path)
        assert connection.execute(statement).rowcount > 0, "nothing was damaged"
        connection.close()

    return run


class TestDeskOfSqlite(DeskContract):
    pass
