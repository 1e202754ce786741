"""The sql frontier on SQLite keeps the contract, in one process and in two that share a file."""

import asyncio
import re
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from fyke.db.dialect import for_sqlite
from fyke.db.frontier_tables import create_frontier_tables
from fyke.db.migrate import upgrade
from fyke.db.sqlite import SqliteDatabase, open_connection
from fyke.db.sqlite_connection import SqliteConnection
from fyke.frontiers import sql_lanes as lanes
from fyke.frontiers import sql_places as places
from fyke.frontiers import sql_statements as sql
from fyke.frontiers.sql import SqlFrontier
from fyke.model import LanePolicy
from fyke.ports import Clock
from fyke.testing.clock import FakeClock
from fyke.testing.frontier_contract import FrontierContract
from fyke.testing.frontier_harness import LEASE, FrontierHarness, item, open_free, refs, take

ROOT = Path(__file__).resolve().parents[2]


class SqlHarness:
    """Each handle has a connection of its own to the file, as a process would."""

    movable = True

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path = path
        self.fake = FakeClock()
        self.clock: Clock = clock or self.fake
        self.databases: list[SqliteDatabase] = []

    async def open(self) -> SqlFrontier:
        database = SqliteDatabase(self.path)
        self.databases.append(database)
        await database.write(create_frontier_tables)
        return SqlFrontier(database, self.clock, Random(len(self.databases)), lease_ms=LEASE)

    def now(self) -> int:
        return self.clock.now()

    async def pass_time(self, ms: int) -> None:
        self.fake.advance(ms)

    def step(self, ms: int) -> None:
        self.fake.set(self.fake.now() + ms)

    async def close(self) -> None:
        for database in self.databases:
            await database.close()


class HostClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SqlHarness]:
    found = SqlHarness(tmp_path / "fyke.db")
    yield found
    await found.close()


class TestSqlFrontier(FrontierContract):
    def test_the_harness_fits(self, harness: SqlHarness) -> None:
        fits: FrontierHarness = harness
        assert fits.movable

    async def test_what_a_slow_commit_took_is_not_waited_for_again(
        self, harness: SqlHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else that start comes late, and the next one, whose commit is quick, too soon after it (P4)."""
        frontier = await harness.open()
        await frontier.configure([LanePolicy("slow", 1_000, 0, 5)])
        await frontier.offer([item(ref, "slow") for ref in (1, 2)])
        first, second = await take(frontier, 2)
        write = SqliteDatabase.write

        async def slow(database: SqliteDatabase, call: Any, *, durable: bool = True) -> Any:
            answer = await write(database, call, durable=durable)
            await harness.pass_time(200)
            return answer

        monkeypatch.setattr(SqliteDatabase, "write", slow)
        assert [one.wait_ms for one in await frontier.begin([first])] == [0]
        assert [one.wait_ms for one in await frontier.begin([second])] == [600]
        assert await frontier.permit(first, "slow", 5_000) == 1_400
        assert await frontier.permit(first, "slow", 1_000) > 1_000

    async def test_a_hold_keeps_its_length_where_the_clock_is_set_before_its_write_has_its_turn(
        self, harness: SqlHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        frontier = await harness.open()
        write = SqliteDatabase.write

        async def later(database: SqliteDatabase, call: Any, *, durable: bool = True) -> Any:
            harness.step(-59 * 60_000)
            return await write(database, call, durable=durable)

        monkeypatch.setattr(SqliteDatabase, "write", later)
        await frontier.hold("held", harness.now() + 2_000, "Retry-After")
        assert await frontier.held("held") == 2_000

    async def test_an_idle_frontier_writes_nothing(self, harness: SqlHarness) -> None:
        frontier = await harness.open()
        await frontier.configure([LanePolicy("slow", 60_000, 0, 2)])
        await frontier.offer([item(1, "slow"), item(2, "slow")])
        await frontier.begin(await take(frontier))
        await take(frontier)
        await harness.databases[0].read(lambda connection: None)
        commits = harness.databases[0].version
        for _ in range(20):
            await harness.pass_time(1_000)
            assert await take(frontier) == []
            await frontier.reap()
        # While the lease lasts, 3 s, each look of the reaper tells by a write whether its holder could renew it.
        assert harness.databases[0].version - commits <= 4

    async def test_rows_deleted_by_hand_block_no_lane(self, harness: SqlHarness) -> None:
        frontier = await harness.open()
        await open_free(frontier, "a", concurrency=2)
        await frontier.offer([item(ref, "a") for ref in range(6)])
        holder, lost = await take(frontier)
        await open_free(frontier, "other", concurrency=1)
        assert await frontier.permit(lost, "other") == 0
        await frontier.offer([item(9, "other")])
        rows = [(lost.task.key,), ("i2",), ("i3",)]
        await harness.databases[0].write(lambda c: c.executemany("DELETE FROM task WHERE key = ?", rows))
        await frontier.reap()
        assert sorted(refs(await take(frontier))) == [4, 9]
        assert await frontier.ack([holder]) == [True]
        assert refs(await take(frontier)) == [5]
        assert await take(frontier) == []
        stats = await frontier.stats()
        assert (stats.ready, stats.leased) == (0, 3)

    async def test_a_lease_that_is_too_long_for_whatever_reason_is_clamped(self, harness: SqlHarness) -> None:
        frontier = await harness.open()
        await open_free(frontier)
        await frontier.offer([item(1)])
        await take(frontier)
        await harness.databases[0].write(lambda connection: connection.execute("UPDATE task SET at = at + 99999999"))
        assert await frontier.reap() == []
        await harness.pass_time(LEASE)
        assert [one.task.ref for one in await frontier.reap()] == [1]

    async def test_a_busy_file_is_waited_for_and_nothing_is_done_twice(self, harness: SqlHarness) -> None:
        frontier = await harness.open()
        await open_free(frontier)
        await frontier.offer([item(1)])
        (delivery,) = await take(frontier)
        other = open_connection(harness.path)
        other.execute("BEGIN IMMEDIATE")
        begin = asyncio.create_task(frontier.begin([delivery]))
        await asyncio.sleep(0)
        assert not begin.done()
        other.execute("COMMIT")
        other.close()
        assert (await begin)[0].starts == 1


class TestWorkersOnTheHostsClock:
    async def test_four_workers_together_keep_the_gap_and_use_the_rate(self, tmp_path: Path) -> None:
        harness = SqlHarness(tmp_path / "fyke.db", HostClock())
        handles = [await harness.open() for _ in range(4)]
        await handles[0].configure([LanePolicy("a", gap=100, jitter=10, concurrency=4)])
        await handles[0].offer([item(ref, "a") for ref in range(20)])
        # Each start lies between the two: the transaction that decided it ran after one reading and before the other.
        starts: list[tuple[int, int]] = []

        async def work(number: int) -> None:
            frontier = handles[number]
            while len(starts) < 20:
                leased = await frontier.lease(2, LEASE, worker=f"w{number}")
                for delivery in leased.deliveries:
                    before = harness.now()
                    (started,) = await frontier.begin([delivery])
                    starts.append((before + started.wait_ms, harness.now() + started.wait_ms))
                    await asyncio.sleep(started.wait_ms / 1000)
                    await frontier.ack([delivery])
                if not leased.deliveries:
                    await frontier.wait(leased.wait_ms)

        await asyncio.gather(*(work(number) for number in range(4)))
        await harness.close()
        starts.sort()
        assert min(latest - earliest for (earliest, _), (_, latest) in pairwise(starts)) >= 90
        assert starts[-1][1] - starts[0][0] >= 19 * 90

    async def test_an_offer_wakes_a_worker_at_once(self, tmp_path: Path) -> None:
        harness = SqlHarness(tmp_path / "fyke.db", HostClock())
        frontier = await harness.open()
        await open_free(frontier)
        leased = await frontier.lease(1, LEASE, worker="w")
        waiting = asyncio.create_task(frontier.wait(leased.wait_ms))
        started = time.monotonic()
        await frontier.offer([item(1)])
        await waiting
        assert len(await take(frontier)) == 1
        assert time.monotonic() - started < 0.5
        await harness.close()


LEASE_AND_DIE = """
import asyncio, os, sys
from pathlib import Path
from random import Random
from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers.sql import SqlFrontier
from tests.contract.test_frontier_sql import HostClock

async def main():
    frontier = SqlFrontier(SqliteDatabase(Path(sys.argv[1])), HostClock(), Random(1))
    leased = await frontier.lease(3, 400, worker="child")
    await frontier.begin(leased.deliveries[:1])
    print(*(one.task.ref for one in leased.deliveries), flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_tasks_of_a_killed_process_are_found_again(tmp_path: Path) -> None:
    harness = SqlHarness(tmp_path / "fyke.db", HostClock())
    frontier = await harness.open()
    await open_free(frontier)
    await frontier.offer([item(ref) for ref in range(5)])
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LEASE_AND_DIE, str(harness.path)), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    output, _ = await child.communicate()
    assert (output.split(), child.returncode) == ([b"0", b"1", b"2"], -9)
    assert refs(await take(frontier, 1)) == [3]
    reaped = await frontier.reap()
    while len(reaped) < 3:
        leased = await frontier.lease(0, LEASE, worker="w")
        await frontier.wait(leased.wait_ms)
        reaped += await frontier.reap()
    assert [(one.task.ref, one.worker, one.begun, one.starts) for one in reaped] == [
        (0, "child", True, 1),
        (1, "child", False, 0),
        (2, "child", False, 0),
    ]
    assert refs(await take(frontier)) == [0, 1, 2, 4]
    await harness.close()


def schema(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE name LIKE 'task%' AND sql IS NOT NULL")
    return sorted((name, " ".join(text.split())) for name, text in rows)


def test_the_migration_makes_the_same_tables(tmp_path: Path) -> None:
    alone, ledger = open_connection(tmp_path / "alone.db"), open_connection(tmp_path / "ledger.db")
    create_frontier_tables(alone)
    ledger.execute("BEGIN IMMEDIATE")
    upgrade(ledger)
    ledger.execute("COMMIT")
    assert schema(ledger) == schema(alone)
    assert ledger.execute("SELECT id, epoch FROM task_meta").fetchall() == [(1, 0)]
    alone.close()
    ledger.close()


async def test_a_ledger_of_the_first_release_counts_on(tmp_path: Path) -> None:
    path = tmp_path / "fyke.db"
    connection = open_connection(path)
    upgrade(connection)
    # As the first release left it: no tables of later steps, one row for all counts.
    for name in ("revisit", "relation", "former_key"):
        connection.execute(f"DROP TABLE {name}")
    for name in ("acked", "buried", "last_lease_at"):
        connection.execute(f"ALTER TABLE task_lane DROP COLUMN {name}")
    connection.execute("UPDATE task_meta SET acked = 5, buried = 2, last_lease_at = 77")
    connection.execute("UPDATE meta SET value = '0002' WHERE name = 'schema'")
    connection.execute("UPDATE alembic_version SET version_num = '0002'")
    connection.execute("BEGIN IMMEDIATE")
    assert upgrade(connection)
    connection.execute("COMMIT")
    connection.close()
    harness = SqlHarness(path)
    frontier = await harness.open()
    stats = await frontier.stats()
    assert (stats.acked, stats.buried, stats.last_lease_at) == (5, 2, 77)
    await open_free(frontier)
    await frontier.offer([item(1), item(2)])
    one, other = await take(frontier)
    await frontier.ack([one])
    await frontier.bury([other])
    stats = await frontier.stats()
    assert (stats.acked, stats.buried, stats.last_lease_at) == (6, 3, harness.now())
    await harness.close()


@pytest.fixture(scope="module", params=[False, True], ids=["no statistics", "statistics"])
def filled(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    """2,000 tasks on 50 lanes, some of them leased."""
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=SqliteConnection)
    create_frontier_tables(connection)
    places.offer(connection, 1, [item(ref, f"lane{ref % 50}") for ref in range(2_000)])
    lanes.Grant(2, 40, LEASE, "w", "text", 7).run(connection)
    if request.param:
        connection.execute("ANALYZE")
    yield connection
    connection.close()


HOT = {
    **{f"next due {pool}": text for pool, text in sql.NEXT_DUE.items()},
    **{f"due lanes {pool}": text for pool, text in sql.DUE_LANES.items()},
    "lanes by name": sql.LANES_BY_NAME,
    "delayed due": sql.DELAYED_DUE,
    "promote": sql.PROMOTE,
    "heads": sql.HEADS,
    "take": sql.TAKE,
    "leased tasks": sql.LEASED_TASKS,
    "remove": sql.REMOVE,
    "retry": sql.RETRY,
    "release": sql.RELEASE,
    "extend": sql.EXTEND,
    "begin": sql.BEGIN,
    "reserve": sql.RESERVE,
    "live": sql.LIVE,
    "lane move": sql.LANE_MOVE,
    "lane finished": sql.LANE_FINISHED,
    "expired": sql.EXPIRED,
    "expired places": sql.EXPIRED_PLACES,
    "permits": sql.PERMITS,
    "end permits": sql.END_PERMITS,
    "places": sql.PLACES,
    "end place": sql.END_PLACE,
    "put back": sql.PUT_BACK,
    "keys": sql.KEYS,
    "known": sql.KNOWN,
    "view": sql.VIEW,
}


@pytest.mark.parametrize("name", HOT)
def test_no_hot_statement_reads_a_whole_table(filled: sqlite3.Connection, name: str) -> None:
    text = for_sqlite(HOT[name])
    values: Any = [0] * text.count("?")
    if ":" in text:
        values = dict.fromkeys(re.findall(r":(\w+)", text), 0)
    plan = [row[3] for row in filled.execute(f"EXPLAIN QUERY PLAN {text}", values)]
    whole = [step for step in plan if re.match(r"SCAN (task|task_lane|task_permit|task_place|t|p|l)\b", step)]
    # A partial index of one state, read from its first entry, is no scan of the table.
    allowed = [step for step in whole if re.search(r"USING (COVERING )?INDEX task_(delayed|leased)", step)]
    assert whole == allowed, plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


def test_the_lease_reads_the_index_of_its_state(filled: sqlite3.Connection) -> None:
    def plan(text: str, values: Any) -> str:
        return " | ".join(row[3] for row in filled.execute(f"EXPLAIN QUERY PLAN {for_sqlite(text)}", values))

    assert "task_ready (lane_id=? AND pool=?)" in plan(sql.HEADS, (1, "text", 5))
    assert "task_lane_text (best_text=? AND due_text<?)" in plan(sql.DUE_LANES["text"], (1, 1, 1))
    assert "task_delayed (at<?)" in plan(sql.DELAYED_DUE, (1, 1))
    assert "task_leased (at<?)" in plan(sql.EXPIRED, (1, 1))
    assert "task_key (key=?)" in plan(sql.LEASED_TASKS, ("[]",))
