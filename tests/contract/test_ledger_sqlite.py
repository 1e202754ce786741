"""The SQLite ledger keeps the contract, with two handles on one file."""

import re
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fyke.db.migrate import upgrade
from fyke.db.sqlite import SqliteDatabase, open_connection
from fyke.errors import TransientError
from fyke.ledgers.sql import SqlLedger
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_contract import LedgerContract
from fyke.testing.ledger_steps import Book, make_entry
from tests.contract.hot_statements import BIG, BY_PARTIAL_INDEX, HOT
from tests.contract.ledger_cases import LedgerCases, OpenLedger, change


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
async def open_ledger(tmp_path: Path, clock: FakeClock, empty_ledger: Path) -> AsyncIterator[OpenLedger]:
    shutil.copy(empty_ledger, tmp_path / "ledger.db")
    async with AsyncExitStack() as stack:

        async def open_one() -> SqlLedger:
            found = SqlLedger(SqliteDatabase(tmp_path / "ledger.db"), clock)
            stack.push_async_callback(found.close)
            return found

        yield open_one


@pytest.fixture
async def ledger(open_ledger: OpenLedger) -> SqlLedger:
    return await open_ledger()


@pytest.fixture
async def other(open_ledger: OpenLedger, ledger: SqlLedger) -> SqlLedger:
    return await open_ledger()


class TestContract(LedgerContract):
    pass


class TestCases(LedgerCases):
    pass


async def test_a_full_disk_is_passing_and_leaves_nothing_half(ledger: SqlLedger, clock: FakeClock) -> None:
    # CRASH-WINDOWS 22
    book = await Book(ledger, clock).prepare()
    lease = await book.begin()
    entries = [make_entry(f"k{number}", "long " * 500) for number in range(100)]
    await ledger._db.write(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchone())
    with pytest.raises(TransientError, match="disk is full"):
        await book.show(lease, *entries)
    assert (await book.count()).listed == 0
    await ledger._db.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchone())
    assert (await book.show(lease, *entries)).new == 100
    await book.balanced()


async def test_the_file_itself_refuses_a_second_running_run(ledger: SqlLedger, clock: FakeClock) -> None:
    book = await Book(ledger, clock).prepare()
    await book.open(slot=1_000)
    again = (
        "INSERT INTO run(source_id, slot, started_by, state, started_at, limit_ms, deadline)"
        " SELECT source_id, slot + 1, started_by, state, started_at, limit_ms, deadline FROM run"
    )
    with pytest.raises(sqlite3.IntegrityError):
        await change(ledger, again)
    assert len(await ledger.running()) == 1


@pytest.mark.parametrize("name", HOT)
async def test_no_hot_statement_walks_a_big_table(ledger: SqlLedger, name: str) -> None:
    statement = HOT[name]

    def plan(connection: sqlite3.Connection) -> list[str]:
        values = [1] * statement.count("?")
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]

    steps = await ledger._db.read(plan)
    aliases = dict(re.findall(r"(?:FROM|JOIN) (\w+) (\w+)\b", statement))
    tables = {alias: table for table, alias in aliases.items()}
    scanned = [step for step in steps if step.startswith("SCAN")]
    walked = [step for step in scanned if tables.get(step.split()[1], step.split()[1]) in BIG]
    if name in BY_PARTIAL_INDEX:
        walked = [step for step in walked if BY_PARTIAL_INDEX[name] not in step]
    assert walked == []
    assert not any("TEMP B-TREE" in step for step in steps)
