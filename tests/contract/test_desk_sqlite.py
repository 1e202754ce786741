"""The SQLite ledger keeps the contract of the desk; its own limits and its plans on large ledgers."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from fyke.db.migrate import upgrade
from fyke.db.sqlite import SqliteDatabase, open_connection
from fyke.errors import UsageError
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger, audit
from fyke.ledgers.sql.desk import COUNTS
from fyke.ledgers.sql.forget import SIGHTINGS
from fyke.model import ForgetFilter
from fyke.pipeline import auditor
from fyke.testing.clock import FakeClock
from fyke.testing.desk_contract import DeskContract
from fyke.testing.desk_setting import everything
from fyke.testing.desk_steps import Steps


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file to copy: migrating takes longer than most of these tests."""
    path = tmp_path_factory.mktemp("empty") / "fyke.db"
    connection = open_connection(path)
    connection.execute("BEGIN IMMEDIATE")
    upgrade(connection)
    connection.execute("COMMIT")
    connection.close()
    return path


@pytest.fixture
def path(tmp_path: Path, empty_ledger: Path) -> Path:
    return Path(shutil.copy(empty_ledger, tmp_path / "fyke.db"))


@pytest.fixture
async def ledger(path: Path, clock: FakeClock) -> AsyncIterator[SqlLedger]:
    found = SqlLedger(SqliteDatabase(path), clock)
    yield found
    await found.close()


@pytest.fixture
def damage(path: Path) -> Callable[[str], Awaitable[None]]:
    async def run(statement: str) -> None:
        connection = open_connection(path)
        assert connection.execute(statement).rowcount > 0, "nothing was damaged"
        connection.close()

    return run


def contents(files: tuple[Path, ...]) -> list[bytes]:
    return [file.read_bytes() for file in files]


async def filled(ledger: SqlLedger, clock: FakeClock) -> None:
    steps = Steps(ledger, clock)
    await steps.source()
    await everything(steps)


class TestDeskOfSqlite(DeskContract):
    """The contract, and what only a file can show."""

    async def test_an_audit_keeps_nobody_waiting(self, ledger: SqlLedger, clock: FakeClock, path: Path) -> None:
        """Reads and writes go on beside it, and it counts one snapshot."""
        steps = Steps(ledger, clock)
        await steps.source("plain", detail=False, scope="plain", table="plain_notices")
        await steps.listed(*(f"{number:05}" for number in range(3_000)), source="plain", detail=False)
        counting = asyncio.create_task(ledger.audit())
        await steps.listed("late", source="plain", detail=False)
        assert (await ledger.counts())[0].listed == 3_001
        report = await counting
        assert report.listed in (3_000, 3_001)
        assert report.balanced

    async def test_an_audit_changes_nothing(self, ledger: SqlLedger, clock: FakeClock, path: Path) -> None:
        await filled(ledger, clock)
        files = (path, path.with_name("fyke.db-wal"))
        before = await asyncio.to_thread(contents, files)
        await ledger.audit({"i4711"})
        assert await asyncio.to_thread(contents, files) == before

    async def test_a_ledger_that_was_moved_away_is_not_audited(
        self, ledger: SqlLedger, damage: Callable[[str], Awaitable[None]]
    ) -> None:
        await damage("INSERT INTO meta VALUES ('moved_to', 'postgresql://elsewhere')")
        with pytest.raises(UsageError, match="moved to"):
            await ledger.audit()

    def test_no_statement_of_the_audit_reads_a_table_once_for_each_row_of_another(self, path: Path) -> None:
        connection = open_connection(path)
        paged = (audit.ITEMS, audit.LETTERS, audit.VERSIONS_ALONE, audit.REVISITS, audit.DUE)
        lists = (audit.ITEMS_OF_KEYS, audit.HEADS, audit.VERSIONS_OF_ITEMS, audit.ENDED)
        for statement in (audit.REFUSED_WRONG, audit.SIGHTINGS.format(after=">"), *paged, *lists):
            values = ("[1]",) * statement.count("?")
            found = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values[: 2 if "?2" in statement else None])
            plan = [row[3] for row in found if "json_each" not in row[3]]
            assert len([step for step in plan if step.startswith("SCAN")]) <= (statement == audit.REFUSED_WRONG), plan
            assert not any("AUTOMATIC" in step or "TEMP B-TREE" in step for step in plan), plan
        connection.close()

    def test_a_few_keys_are_forgotten_without_reading_all_sightings(self, path: Path) -> None:
        connection = open_connection(path)
        statement = f"EXPLAIN QUERY PLAN DELETE FROM sighting WHERE {SIGHTINGS}"
        plan = [row[3] for row in connection.execute(statement, ("notice", "[]"))]
        assert plan[0] == "SEARCH sighting USING PRIMARY KEY (listing_id=? AND key=?)", plan
        connection.close()

    def test_the_oldest_open_item_is_found_without_reading_all_open_ones(self, path: Path) -> None:
        connection = open_connection(path)
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {COUNTS}")]
        assert any("SEARCH i USING INDEX item_open (source_id=?)" in step for step in plan), plan
        assert sum("TEMP B-TREE" in step for step in plan) <= 1, plan  # the sources by name
        connection.close()


class TestRepairWithTheFrontier:
    """`fyke audit --repair`: the ledger mends itself, the reconciler brings the frontier in line."""

    async def test_a_task_deleted_behind_the_frontiers_back_is_named_and_offered_again(
        self, ledger: SqlLedger, clock: FakeClock, path: Path, damage: Callable[[str], Awaitable[None]]
    ) -> None:
        steps, database = Steps(ledger, clock), SqliteDatabase(path)
        frontier = SqlFrontier(database, clock, Random(1))
        await steps.source()
        lost, kept = await steps.listed("a", "b")
        await frontier.offer([lost, kept])
        clock.advance(60_000)
        assert (await auditor.audit(ledger, frontier)).findings == []
        await damage(f"DELETE FROM task WHERE key = '{lost.key}'")
        report = await auditor.audit(ledger, frontier)
        assert [(found.kind, found.key) for found in report.findings] == [("unqueued", "a")]
        assert (report.unqueued, report.balanced) == (1, True)
        mended, after = await auditor.repair(ledger, frontier)
        assert [(found.kind, found.key, found.mended) for found in mended] == [("unqueued", "a", True)]
        assert (after.unqueued, after.findings) == (0, [])
        assert await frontier.known([lost.key, kept.key]) == [1, 1]
        await database.close()

    async def test_a_task_whose_item_was_deleted_is_named_and_dropped(
        self, ledger: SqlLedger, clock: FakeClock, path: Path
    ) -> None:
        steps, database = Steps(ledger, clock), SqliteDatabase(path)
        frontier = SqlFrontier(database, clock, Random(1))
        await steps.source()
        (task,) = await steps.listed("a")
        await frontier.offer([task])
        await ledger.forget(ForgetFilter(key="a"))
        assert [found.kind for found in (await auditor.audit(ledger, frontier)).findings] == ["task_unknown"]
        mended, after = await auditor.repair(ledger, frontier)
        assert [(found.kind, found.mended) for found in mended] == [("task_unknown", True)]
        assert after.findings == []
        assert await frontier.known([task.key]) == [None]
        await database.close()
