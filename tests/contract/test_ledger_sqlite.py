"""The SQLite ledger keeps the contract, with two handles on one file."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fyke.db.migrate import upgrade
from fyke.db.sqlite import SqliteDatabase, open_connection
from fyke.ledgers.sqlite import SqliteLedger
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_contract import LedgerContract


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file to copy, for alembic takes its time."""
    path = tmp_path_factory.mktemp("ledger") / "empty.db"
    connection = open_connection(path)
    connection.execute("BEGIN IMMEDIATE")
    upgrade(connection)
    connection.execute("COMMIT")
    connection.close()
    return path


@pytest.fixture
async def ledger(tmp_path: Path, clock: FakeClock, empty_ledger: Path) -> AsyncIterator[SqliteLedger]:
    shutil.copy(empty_ledger, tmp_path / "ledger.db")
    found = SqliteLedger(SqliteDatabase(tmp_path / "ledger.db"), clock)
    yield found
    await found.close()


@pytest.fixture
async def other(ledger: SqliteLedger, tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteLedger]:
    found = SqliteLedger(SqliteDatabase(tmp_path / "ledger.db"), clock)
    yield found
    await found.close()


class TestSqliteLedger(LedgerContract):
    pass
