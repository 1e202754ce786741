"""The sql frontier on PostgreSQL and MariaDB keeps the contract that it keeps in a SQLite file."""

import asyncio
import re
from collections.abc import AsyncIterator, Collection
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from fyke.db.connection import Connection, listed
from fyke.frontiers import sql as sql_frontier
from fyke.frontiers import sql_statements as sql
from fyke.frontiers.sql import SqlFrontier
from fyke.model import Retry
from fyke.testing.clock import FakeClock
from fyke.testing.frontier_contract import FrontierContract
from fyke.testing.frontier_harness import LEASE, FrontierHarness, item, open_free, refs, take
from tests.frontiers import FrontierDatabases, connect, empty
from tests.model.test_frontier_model import COUNTED, HIDDEN, LOOSE
from tests.servers import DATABASES


class MovedClock(FakeClock):
    """Leases that meet locked lanes wait some real milliseconds for them."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ServerHarness:
    """Each handle has connections of its own, as a process would. Time is moved by hand: it is the frontier's."""

    movable = True

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = MovedClock()
        self.databases: list[Any] = []

    async def open(self) -> SqlFrontier:
        database = connect(self.url)
        if not self.databases:
            await database.write(empty)
        self.databases.append(database)
        return SqlFrontier(database, self.clock, Random(len(self.databases)), lease_ms=LEASE)

    def now(self) -> int:
        return self.clock.now()

    async def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)

    def step(self, ms: int) -> None:
        self.clock.set(self.clock.now() + ms)

    async def close(self) -> None:
        for database in self.databases:
            await database.close()


@pytest_asyncio.fixture(params=DATABASES)
async def harness(
    request: pytest.FixtureRequest, frontier_databases: FrontierDatabases
) -> AsyncIterator[ServerHarness]:
    found = ServerHarness(await frontier_databases.url(request.param))
    yield found
    await found.close()


class TestSqlFrontierOnServers(FrontierContract):
    def test_the_harness_fits(self, harness: ServerHarness) -> None:
        fits: FrontierHarness = harness
        assert fits.movable

    async def test_a_full_frontier_is_emptied_in_steps_that_a_server_has_time_for(
        self, harness: ServerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sql_frontier, "EMPTIED_AT_ONCE", 70)
        frontier, other = await harness.open(), await harness.open()
        await open_free(frontier, "a", "b", "c")
        await frontier.rebuild("ledger", 1)
        await frontier.offer([item(ref, "abc"[ref % 3]) for ref in range(400)])
        held = await take(frontier, 20)
        await frontier.permit(held[0], "c")
        emptied = await asyncio.gather(frontier.rebuild("ledger", 2), other.rebuild("ledger", 2))
        assert sorted(emptied) == [False, True]
        stats = await frontier.stats()
        assert (stats.ready, stats.delayed, stats.leased, await frontier.keys()) == (0, 0, 0, [])
        await other.offer([item(1, "c")])
        assert refs(await take(frontier)) == [1]
        assert await harness.databases[0].read(counters) == []
        assert await frontier.ack(held) == [False] * 20


def counters(connection: Connection) -> list[Any]:
    """Lanes whose counters are not those of their rows."""
    return [row for text in (COUNTED, HIDDEN, LOOSE) for row in connection.execute(text)]


def plan(connection: Connection, text: str, values: Any) -> list[str]:
    """The steps that read a whole table."""
    if connection.dialect == "postgres":
        steps = [row[0].strip() for row in connection.execute(f"EXPLAIN {text}", values)]
        return [step for step in steps if re.search(r"Seq Scan on task(?!_meta)|Sort", step)]
    rows = connection.execute(f"EXPLAIN {text}", values).fetchall()
    found = [row for row in rows if row[3] == "ALL" or "filesort" in (row[-1] or "")]
    return [str(row) for row in found if row[2] != "task_meta"]


KEYS, SEQS = listed(["i1", "i7"]), listed([1, 7])
NAMES, TIME = listed(["lane1", "lane7"]), 1_760_000_000_000
HOT: dict[str, tuple[str, Any]] = {
    "next due": (sql.NEXT_DUE["text"], {"now": TIME}),
    "lanes by name": (sql.LANES_BY_NAME, (NAMES,)),
    "due lanes": (sql.DUE_LANES["text"], (1, TIME, 5)),
    "heads of several lanes": (sql.heads_of(4), (1, "text", 3) * 4),
    "delayed due": (sql.DELAYED_DUE, (TIME, 5)),
    "take": (sql.TAKE, (1, 1, 1, "w", SEQS)),
    "leased tasks": (sql.LEASED_TASKS, (KEYS,)),
    "begin": (sql.BEGIN, (1, 1, 1)),
    "reserve": (sql.RESERVE, (1, 1, 1)),
    "remove": (sql.REMOVE, (SEQS,)),
    "live": (sql.LIVE, (KEYS,)),
    "known": (sql.KNOWN, (KEYS,)),
    "keys": (sql.KEYS, ("i5", 10)),
    "view": (sql.VIEW, ("i5",)),
    "expired": (sql.EXPIRED, (TIME, 10)),
    "permits": (sql.PERMITS, (KEYS,)),
    "places": (sql.PLACES, (KEYS,)),
}


READ = ("next due", "known", "keys", "view")


async def test_no_hot_statement_reads_a_whole_table(harness: ServerHarness) -> None:
    frontier = await harness.open()
    await open_free(frontier, *(f"lane{n}" for n in range(400)))
    for first in range(0, 6_000, 1_000):
        await frontier.offer([item(ref, f"lane{ref % 400}") for ref in range(first, first + 1_000)])
    held = await take(frontier, 300)
    await frontier.retry([Retry(one, 60_000, "later", counted=True) for one in held[:100]])
    for one in held[100:140]:
        await frontier.permit(one, "lane0")

    def analyze(connection: Connection) -> None:
        for table in ("task", "task_lane", "task_permit", "task_place"):
            connection.execute(f"ANALYZE {'TABLE ' if connection.dialect == 'mysql' else ''}{table}")

    def look(connection: Connection, names: Collection[str]) -> dict[str, list[str]]:
        found = {name: plan(connection, *HOT[name]) for name in names}
        return {name: steps for name, steps in found.items() if steps}

    database = harness.databases[0]
    await database.write(analyze)
    assert await database.write(lambda connection: look(connection, HOT.keys() - READ)) == {}
    assert await database.read(lambda connection: look(connection, READ)) == {}
