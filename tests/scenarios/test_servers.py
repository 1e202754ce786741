"""What Redis does to a cluster of real processes: it is gone, frozen, killed; a reply of it never arrives.

SCENARIOS 2, 7 and 23, on Redis and PostgreSQL.
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fyke.frontiers.redis.scripts import load_scripts
from fyke.lab.servers import PostgresServer, RedisServer
from fyke.model import RunRow
from tests.scenarios.playing import LEASE_S, Playing, playing, until

pytestmark = [pytest.mark.serial, pytest.mark.skipif(sys.platform == "win32", reason="stops by signal")]

# From the moment at which Redis takes commands again.
BACK_AT_WORK_S = 10
REAP_S = 1
MINUTE = 60_000
# The key of an item's task, and its token after it, as the script packs them.
TASK_IN_REPLY = re.compile(rb"i(\d+)[\xa0-\xbf]\d{13}-\d")

Start = Callable[..., Any]


@pytest.fixture
def cluster(tmp_path: Path, backend_missing: Callable[[str], NoReturn]) -> Start:
    for kind in (RedisServer, PostgresServer):
        if reason := kind.missing():
            backend_missing(reason)

    @asynccontextmanager
    async def start(**values: Any) -> AsyncIterator[Playing]:
        async with playing(tmp_path, frontier="redis", ledger="postgres", **values) as play:
            yield play

    return start


async def outage(cluster: Start, seconds: float, items: int, *, frozen: bool) -> list[RunRow]:
    """Redis is away for a while amid the work; the runs of the whole time."""
    async with cluster(items=items, concurrency=4, latency_ms=400) as play:
        await until(lambda: all_here(play), 60)
        await play.open_run()
        await until(lambda: reached(play, "detail", 30), 60)
        before = play.pids()
        if frozen:
            play.redis.freeze()
        else:
            await asyncio.to_thread(play.redis.stop)
        await asyncio.sleep(seconds)
        if frozen:
            play.redis.thaw()
        else:
            await asyncio.to_thread(play.redis.start)
        back = await play.now()
        await until(lambda: all_work(play, back), BACK_AT_WORK_S)
        assert play.pids() == before
        verdict = await play.settle()
        assert verdict.good, (verdict, play.said())
        assert verdict.stored == items - items // 5
        runs: list[RunRow] = await play.runs()
        return runs


async def all_here(play: Playing) -> bool:
    """Each worker has its child, and each has said that it lives."""
    rows = await play.ask("SELECT count(*) FROM worker WHERE pool = 'text'")
    return rows == [(play.config.workers,)] and all(len(pids) == 2 for pids in play.pids("worker").values())


async def reached(play: Playing, kind: str, hits: int) -> bool:
    return await play.hits(kind) >= hits


async def all_work(play: Playing, since: int) -> bool:
    return len(await play.workers_since(since)) == play.config.workers


async def test_all_workers_go_on_within_10_s_after_redis_was_gone(cluster: Start) -> None:
    await outage(cluster, 8, 300, frozen=False)


@pytest.mark.crash_long
async def test_all_workers_go_on_within_10_s_after_redis_was_frozen(cluster: Start) -> None:
    await outage(cluster, 8, 300, frozen=True)


@pytest.mark.crash_long
@pytest.mark.parametrize(("seconds", "frozen"), [(60, False), (30, True)], ids=["gone for 60 s", "frozen for 30 s"])
async def test_a_long_outage_of_redis_stops_nobody_and_no_slot_is_missed(
    cluster: Start, seconds: float, frozen: bool
) -> None:
    runs = [run for run in await outage(cluster, seconds, 1_500, frozen=frozen) if run.trigger == "cron"]
    slots = sorted(run.slot for run in runs)
    assert slots == sorted(set(slots))
    covered = [slot for run in runs for slot in range(run.covers_from or run.slot, run.slot + 1, MINUTE)]
    assert sorted(covered) == list(range(min(covered), max(covered) + 1, MINUTE))


async def test_two_tasks_of_a_reply_that_never_arrived_are_done_after_their_lease(cluster: Start) -> None:
    lease = load_scripts()["lease"].sha.encode()
    async with cluster(items=40, workers=1, concurrency=3, latency_ms=200) as play:
        await until(lambda: all_here(play), 60)
        before = play.pids()
        swallowed = play.arena.redis_relay.swallow(
            lambda request, reply: lease in request and len(TASK_IN_REPLY.findall(reply)) == 2
        )
        await play.open_run()
        reply = await asyncio.wait_for(swallowed, 30)
        at = await play.now()
        ids = [int(found) for found in TASK_IN_REPLY.findall(reply)]
        assert {f"i{item}" for item in ids} <= set(held(play.redis))
        verdict = await play.settle(before)
        assert verdict.good, (verdict, play.said())
        visits = await play.ask(f"SELECT item_id, started_at FROM visit WHERE item_id IN ({ids[0]}, {ids[1]})")
        assert sorted(item for item, _ in visits) == sorted(ids)
        # A lease that nobody renews, one look for such leases, and the worker's own wait for tasks.
        assert max(started for _, started in visits) - at <= (LEASE_S + REAP_S + 2) * 1000
        assert held(play.redis) == []


def held(redis: RedisServer) -> list[str]:
    """The keys of the tasks in hand: each is an entry of a pool's stream."""
    streams = redis.ask("KEYS", "*:s:*")
    return [fields[1] for stream in streams for _, fields in redis.ask("XRANGE", stream, "-", "+")]


async def killed_while_enqueueing(cluster: Start, items: int, latency_ms: float) -> None:
    async with cluster(items=items * 5 // 4, latency_ms=latency_ms) as play:
        await until(lambda: all_here(play), 60)
        await play.open_run()
        pages = items // 50
        for number in range(1, 4):
            await until(lambda number=number: reached(play, "list", pages * number // 4), 120)  # type: ignore[misc]
            await asyncio.to_thread(play.redis.kill)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(play.redis.start)
        verdict = await play.settle()
        assert verdict.good, (verdict, play.said())
        assert (verdict.stored, verdict.unaccounted) == (items, 0)


@pytest.mark.crash_long
async def test_redis_killed_three_times_while_enqueueing_loses_nothing(cluster: Start) -> None:
    await killed_while_enqueueing(cluster, 1_000, 100)


@pytest.mark.crash_long
async def test_redis_killed_three_times_while_5000_are_enqueued_loses_nothing(cluster: Start) -> None:
    await killed_while_enqueueing(cluster, 5_000, 20)
