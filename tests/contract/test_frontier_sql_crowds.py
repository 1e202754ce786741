"""Many processes on one sql frontier: nothing is lost, nothing is done twice, and no lock's trouble reaches anybody."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from fyke.app.stores import SystemClock
from fyke.db.connection import Connection
from fyke.db.server import ServerClock
from fyke.errors import LeaseLost, TransientError
from fyke.frontiers.sql import SqlFrontier
from fyke.model import Delivery, LanePolicy, Retry
from fyke.testing.frontier_harness import item, open_free, refs, take
from tests.frontiers import FrontierDatabases, connect, empty
from tests.model.test_frontier_model import COUNTED, HIDDEN, LOOSE
from tests.servers import DATABASES

LEASE = 400


class Crowd:
    """Handles with connections of their own, as processes have them, on the server's own clock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.databases: list[Any] = []

    async def open(self) -> SqlFrontier:
        database = connect(self.url)
        if not self.databases:
            await database.write(empty)
        self.databases.append(database)
        clock = ServerClock(database, SystemClock())
        return SqlFrontier(database, clock, Random(len(self.databases)), lease_ms=LEASE)

    async def wrong_counters(self) -> list[object]:
        def look(connection: Connection) -> list[object]:
            return [row for text in (COUNTED, HIDDEN, LOOSE) for row in connection.execute(text)]

        return await self.databases[0].read(look)  # type: ignore[no-any-return]

    async def close(self) -> None:
        for database in self.databases:
            await database.close()


@pytest_asyncio.fixture(params=DATABASES)
async def crowd(request: pytest.FixtureRequest, frontier_databases: FrontierDatabases) -> AsyncIterator[Crowd]:
    found = Crowd(await frontier_databases.url(request.param))
    yield found
    await found.close()


class Stress:
    """Offerers that race for the same keys, workers that do all that workers do, and reapers."""

    def __init__(self, lanes: int, tasks: int) -> None:
        self.lanes, self.tasks = lanes, tasks
        self.offered = 0
        self.acked: Counter[str] = Counter()
        self.offerers = 2
        self.deadline = time.monotonic() + 90

    @property
    def over(self) -> bool:
        assert time.monotonic() < self.deadline, f"{self.offered} offered, {self.acked.total()} acknowledged"
        return self.offerers == 0 and self.acked.total() >= self.offered

    async def offer(self, frontier: SqlFrontier, seed: int) -> None:
        random = Random(seed)
        for first in range(0, self.tasks, 40):
            # Shuffled, and the same of both: whoever comes second finds them live, or finished.
            tasks = [item(ref, f"lane{ref % self.lanes}") for ref in range(first, first + 40)]
            random.shuffle(tasks)
            new = await frontier.offer(tasks)
            self.offered += new
        self.offerers -= 1

    async def work(self, frontier: SqlFrontier, number: int) -> None:
        random = Random(number)
        while not self.over:
            leased = await frontier.lease(random.randint(1, 30), LEASE, worker=f"w{number}")
            if not leased.deliveries:
                await frontier.wait(min(leased.wait_ms, 50))
                continue
            some = leased.deliveries[: random.randint(1, 3)]
            await frontier.begin(some)
            # On a busy machine a lease may have run out.
            with contextlib.suppress(LeaseLost):
                await frontier.permit(some[0], f"lane{random.randrange(self.lanes)}", 0)
            await frontier.extend(leased.deliveries, LEASE)
            await self.end(frontier, leased.deliveries, random)

    async def end(self, frontier: SqlFrontier, deliveries: list[Delivery], random: Random) -> None:
        share: dict[str, list[Delivery]] = {"ack": [], "retry": [], "release": [], "abandon": []}
        for delivery in deliveries:
            (how,) = random.choices(("ack", "retry", "release", "abandon"), (70, 10, 15, 5))
            share[how].append(delivery)
        if share["ack"]:
            done = await frontier.ack(share["ack"])
            self.acked.update(one.task.key for one, mine in zip(share["ack"], done, strict=True) if mine)
        if share["retry"]:
            await frontier.retry([Retry(one, random.randint(0, 30), "again", counted=True) for one in share["retry"]])
        if share["release"]:
            await frontier.release(share["release"])

    async def reap(self, frontier: SqlFrontier) -> None:
        while not self.over:
            await frontier.reap(50)
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("lanes", [3, 40])
async def test_all_that_is_offered_is_acknowledged_once_whatever_offerers_workers_and_reapers_do(
    crowd: Crowd, lanes: int
) -> None:
    stress = Stress(lanes, 600)
    first = await crowd.open()
    await first.configure([LanePolicy(f"lane{n}", 0, 0, 6) for n in range(lanes)])
    offerers = [stress.offer(await crowd.open(), 7 + n) for n in range(2)]
    workers = [stress.work(await crowd.open(), n) for n in range(4)]
    reapers = [stress.reap(await crowd.open()) for _ in range(2)]
    await asyncio.gather(*offerers, *workers, *reapers)
    assert stress.offered >= stress.tasks
    assert stress.acked.total() == stress.offered
    assert set(stress.acked) == {f"i{ref}" for ref in range(stress.tasks)}
    stats = await first.stats()
    assert (stats.ready, stats.delayed, stats.leased, stats.acked) == (0, 0, 0, stress.offered)
    assert await crowd.wrong_counters() == []
    assert await first.keys() == []


async def test_of_ten_processes_one_gets_the_orphaned_task_each_of_a_hundred_times(crowd: Crowd) -> None:
    handles = [await crowd.open() for _ in range(10)]
    await open_free(handles[0])
    await handles[0].offer([item(1)])
    for turn in range(100):
        found = await asyncio.gather(
            *(take(handle, 5, worker=f"w{n}", duration=20) for n, handle in enumerate(handles))
        )
        taken = [deliveries for deliveries in found if deliveries]
        assert [refs(deliveries) for deliveries in taken] == [[1]], f"turn {turn}"
        reaped: list[Any] = []
        while not reaped:
            reaped = [
                one for tasks in await asyncio.gather(*(handle.reap() for handle in handles[:2])) for one in tasks
            ]
        assert [one.task.ref for one in reaped] == [1]


@pytest.mark.serial
async def test_four_processes_together_keep_the_gap_and_use_the_rate(crowd: Crowd) -> None:
    handles = [await crowd.open() for _ in range(4)]
    await handles[0].configure([LanePolicy("a", gap=100, jitter=10, concurrency=4)])
    await handles[0].offer([item(ref, "a") for ref in range(40)])
    now = crowd.databases[0].now
    # Each start lies between the two: the transaction that decided it ran after one reading and before the other.
    starts: list[tuple[int, int]] = []

    async def work(number: int) -> None:
        frontier = handles[number]
        while len(starts) < 40:
            leased = await frontier.lease(2, 3_000, worker=f"w{number}")
            for delivery in leased.deliveries:
                before = now()
                (started,) = await frontier.begin([delivery])
                starts.append((before + started.wait_ms, now() + started.wait_ms))
                await asyncio.sleep(started.wait_ms / 1000)
                await frontier.ack([delivery])
            if not leased.deliveries:
                await frontier.wait(leased.wait_ms)

    await asyncio.gather(*(work(number) for number in range(4)))
    starts.sort()
    # Two hosts' readings of the server's clock may differ by what a reply takes.
    assert min(latest - earliest for (earliest, _), (_, latest) in pairwise(starts)) >= 88
    assert 39 * 90 <= starts[-1][1] - starts[0][0] <= 39 * 200


async def test_an_offer_wakes_a_worker_of_another_process(crowd: Crowd) -> None:
    worker, other = await crowd.open(), await crowd.open()
    await open_free(other)
    leased = await worker.lease(5, LEASE, worker="w")
    assert (leased.deliveries, leased.wait_ms) == ([], 1_000)
    waiting = asyncio.create_task(worker.wait(leased.wait_ms))
    await asyncio.sleep(0.1)
    started = time.monotonic()
    await other.offer([item(1)])
    await waiting
    assert refs(await take(worker)) == [1]
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
async def test_nobody_reaps_for_one_lease_after_the_database_was_away(
    kind: str, own_postgres: Callable[..., Any], own_maria: Callable[..., Any]
) -> None:
    server = own_postgres() if kind == "postgres" else own_maria()
    database = connect(server.create_database("away"))
    await database.upgrade()
    crowd = Crowd(server.url_of("away"))
    reaper, worker = await crowd.open(), await crowd.open()
    await open_free(worker)
    await worker.offer([item(1), item(2)])
    alive, dead = await take(worker, 2)
    # Leases do not wait for the disk, so a kill may take the last ones; this write carries them there.
    await database.write(lambda connection: connection.execute("CREATE TABLE on_disk (n integer)"))
    server.kill()
    with pytest.raises(TransientError):
        await reaper.reap()
    await asyncio.sleep(LEASE / 1000)
    server.start()
    # Its lease has run out, and it lives: it renews before anybody takes it away.
    assert await reaper.reap() == []
    assert await worker.extend([alive], 60_000) == [True]
    reaped: list[Any] = []
    while not reaped:
        await asyncio.sleep(0.05)
        reaped = await reaper.reap()
    assert [one.task for one in reaped] == [dead.task]
    await database.close()
    await crowd.close()
