"""The Redis frontier under damage: what a person, an outage or a full memory does to its keys loses no task (P2)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from fyke.errors import TransientError
from fyke.frontiers.redis import RedisFrontier
from fyke.frontiers.redis.mending import Mended
from fyke.frontiers.redis.scripts import Script
from fyke.lab.servers.redis import FLAVOURS, Flavour
from fyke.model import Delivery, LanePolicy, Retry, Task
from fyke.testing.clock import FakeClock
from fyke.testing.frontier_harness import LEASE, item, open_free, refs, take, take_one
from tests.contract.redis_handles import RedisHarness


@pytest_asyncio.fixture(params=FLAVOURS)
async def harness(request: pytest.FixtureRequest, fresh_redis: Callable[..., str]) -> AsyncIterator[RedisHarness]:
    flavour: Flavour = request.param
    found = RedisHarness(fresh_redis(flavour))
    yield found
    await found.close()


@pytest_asyncio.fixture
async def frontier(harness: RedisHarness) -> RedisFrontier:
    return await harness.open()


# What stays of a frontier without tasks.
KEPT = {"meta", "clock", "pol", "nxt", "st", "s:text", "s:render", "wake:text", "wake:render", "parked"}


def pending(harness: RedisHarness, pool: str = "text") -> dict[str, str]:
    """Who holds what, as XPENDING tells: key → worker."""
    stream = harness.key(f"s:{pool}")
    found = {}
    for one in harness.server.xpending_range(stream, "w", "-", "+", 1_000):
        ((_, entry),) = harness.server.xrange(stream, one["message_id"], one["message_id"])
        found[entry["k"]] = one["consumer"]
    return found


async def offer_missing(frontier: RedisFrontier, tasks: list[Task]) -> int:
    """What the reconciler does with what is due."""
    live = await frontier.known([task.key for task in tasks])
    missing = [task for task, generation in zip(tasks, live, strict=True) if generation is None]
    return await frontier.offer(missing)


async def test_scripts_that_were_flushed_are_loaded_again(frontier: RedisFrontier, harness: RedisHarness) -> None:
    await open_free(frontier)
    await frontier.offer([item(1)])
    harness.server.script_flush()
    delivery = await take_one(frontier)
    harness.server.script_flush()
    assert await frontier.ack([delivery]) == [True]


async def test_fifty_producers_with_the_same_thousand_ids_make_each_task_once(
    frontier: RedisFrontier, harness: RedisHarness
) -> None:
    handles = [frontier, await harness.open()]
    await open_free(frontier)

    async def produce(number: int) -> int:
        order = Random(number).sample(range(1_000), 1_000)
        calls = (order[start : start + 100] for start in range(0, 1_000, 100))
        return sum([await handles[number % 2].offer([item(ref) for ref in call]) for call in calls])

    assert sum(await asyncio.gather(*(produce(number) for number in range(50)))) == 1_000
    assert harness.server.zcard(harness.key("r:text:free")) == harness.server.hlen(harness.key("t")) == 1_000
    assert sorted(refs(await take(frontier))) == list(range(1_000))


class TestTheStream:
    @pytest.mark.parametrize("how", ["set back", "made again at 0", "made again at its end", "gone", "stream deleted"])
    async def test_a_damaged_group_gives_nobody_the_tasks_of_another(
        self, frontier: RedisFrontier, harness: RedisHarness, how: str
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(ref) for ref in range(12)])
        held = await take(frontier, 5, worker="first")
        stream = harness.key("s:text")
        if how == "set back":
            harness.server.xgroup_setid(stream, "w", "0")
        elif how == "stream deleted":
            harness.server.delete(stream)
        else:
            harness.server.xgroup_destroy(stream, "w")
            if how != "gone":
                harness.server.xgroup_create(stream, "w", "0" if how.endswith("0") else "$")
        more = await take(frontier, 3, worker="second")
        assert refs(more) == [5, 6, 7]
        expected = {f"i{ref}": "second" for ref in (5, 6, 7)}
        if how not in ("stream deleted", "made again at its end"):
            expected |= {f"i{ref}": "first" for ref in range(5)}
        assert pending(harness) == expected
        # The leases are what they were, whatever the list of them says.
        assert await frontier.extend([*held, *more], LEASE) == [True] * 8
        assert await frontier.ack([*held, *more]) == [True] * 8
        assert refs(await take(frontier)) == [8, 9, 10, 11]

    async def test_the_reaper_gives_undelivered_entries_back_to_their_holders(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(ref) for ref in range(3)])
        held = await take(frontier, worker="holder")
        harness.server.xadd(harness.key("s:text"), {"k": "i99"})
        harness.server.xgroup_destroy(harness.key("s:text"), "w")
        assert await frontier.reap() == []
        assert pending(harness) == {f"i{ref}": "holder" for ref in range(3)}
        assert harness.server.xlen(harness.key("s:text")) == 3
        assert await frontier.ack(held) == [True] * 3

    async def test_a_group_past_the_end_of_the_stream_delivers_all_the_same(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        harness.server.xgroup_setid(harness.key("s:text"), "w", "9999999999999-0")
        delivery = await take_one(frontier, worker="holder")
        assert pending(harness) == {"i1": "holder"}
        assert await frontier.ack([delivery]) == [True]

    async def test_finished_tasks_do_not_come_back_when_the_group_is_set_back(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(ref) for ref in range(100)])
        await frontier.ack(await take(frontier))
        harness.server.xgroup_setid(harness.key("s:text"), "w", "0")
        assert await take(frontier) == []
        await frontier.reap()
        assert harness.server.xlen(harness.key("s:text")) == 0
        assert pending(harness) == {}

    async def test_a_trimmed_stream_is_restored_and_no_task_in_hand_is_lost(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(ref) for ref in range(5)])
        held = await take(frontier, worker="holder")
        harness.server.xtrim(harness.key("s:text"), maxlen=2, approximate=False)
        assert await frontier.mend() == Mended(restored=3)
        assert pending(harness) == {f"i{ref}": "holder" for ref in range(5)}
        assert await frontier.mend() == Mended()
        assert await frontier.ack(held) == [True] * 5

    async def test_a_worker_of_long_ago_leaves_no_name_and_one_with_a_task_keeps_it(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2)])
        await frontier.ack([await take_one(frontier, worker="gone")])
        await take_one(frontier, worker="busy")
        text = harness.scripts["verify"].text
        impatient = text.replace("consumer[6] > 3600000", "consumer[6] >= 0")
        assert impatient != text
        sha = hashlib.sha1(impatient.encode(), usedforsecurity=False).hexdigest()
        harness.scripts = {**harness.scripts, "verify": Script("verify", impatient, sha)}
        await (await harness.open()).mend()
        names = {one["name"] for one in harness.server.xinfo_consumers(harness.key("s:text"), "w")}
        assert names == {"busy"}


class TestEverythingLost:
    async def test_an_emptied_server_is_noticed_and_made_again_once(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        other = await harness.open()
        await open_free(frontier)
        await frontier.rebuild("ledger", 1)
        assert not await other.rebuild("ledger", 1)
        tasks = [item(ref) for ref in range(10)]
        await other.offer(tasks)
        await harness.pass_time(5_000)
        held = await take(frontier, 4)
        await frontier.damaged()
        assert await frontier.damaged() == ""
        harness.server.flushall()
        harness.tell(harness.now())
        for call in (frontier.offer(tasks), frontier.ack(held), frontier.lease(1, LEASE, worker="w"), frontier.stats()):
            with pytest.raises(TransientError, match="is empty"):
                await call
        assert "everything" in await frontier.damaged()
        made = await asyncio.gather(*(handle.rebuild("ledger", 1) for handle in (frontier, other)))
        assert sorted(made) == [False, True]
        assert await offer_missing(frontier, tasks) == 10
        # What was in hand when it was lost is nobody's now, and finished once more at the most.
        assert await frontier.ack(held) == [False] * 4
        await open_free(frontier)
        assert len(await take(other)) == 10

    async def test_a_handle_of_another_process_goes_on_after_a_new_epoch(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await frontier.rebuild("ledger", 1)
        other = await harness.open()
        await other.stats()
        assert await frontier.rebuild("ledger", 2)
        with pytest.raises(TransientError, match="new epoch"):
            await other.offer([item(1)])
        assert await other.offer([item(1)]) == 1
        assert "made again" in await other.damaged()

    async def test_writes_that_are_gone_are_noticed(self, frontier: RedisFrontier, harness: RedisHarness) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        assert await frontier.damaged() == ""
        # As after a restart that lost the last seconds, or a fail-over to a replica that lagged.
        before = int(harness.server.hget(harness.key("meta"), "tick"))
        harness.server.hset(harness.key("meta"), "tick", before - 3)
        await frontier.stats()
        assert "went back: " in await frontier.damaged()
        assert await frontier.damaged() == ""

    async def test_a_frontier_of_another_ledger_is_not_worked_on(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await frontier.rebuild("ledger", 1)
        other = await harness.open()
        await other.rebuild("another", 1)
        with pytest.raises(TransientError, match="belongs to another ledger"):
            await frontier.offer([item(1)])


class TestPlaces:
    @pytest.mark.parametrize(
        "gone", ["r:text:free", "due:text:1", "delay", "l", "ends", "slots:free", "t", "att", "pol"]
    )
    async def test_whatever_is_deleted_every_task_is_found_again(
        self, frontier: RedisFrontier, harness: RedisHarness, gone: str
    ) -> None:
        await open_free(frontier)
        tasks = [item(ref) for ref in range(9)]
        await frontier.offer(tasks)
        held = await take(frontier, 6)
        await frontier.retry([Retry(one, 1_000, "again", counted=False) for one in held[:3]])
        assert harness.server.delete(harness.key(gone)) == 1
        await offer_missing(frontier, tasks)
        await open_free(frontier)
        await harness.pass_time(LEASE)
        await frontier.reap()
        found = await take(frontier)
        assert sorted(refs(found)) == list(range(9))
        assert await frontier.ack(found) == [True] * 9
        await harness.pass_time(LEASE)
        await frontier.reap()
        await frontier.mend()
        assert left_over(harness.server) <= KEPT

    async def test_a_lane_that_no_lease_would_look_at_is_shown_again(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await open_free(frontier)
        tasks = [item(ref) for ref in range(3)]
        for heal in ("offer", "mend"):
            await offer_missing(frontier, tasks)
            harness.server.delete(harness.key("due:text:1"))
            assert await take(frontier) == []
            if heal == "offer":
                assert await frontier.known(["i0", "i1", "i2"]) == [None] * 3
                assert await frontier.offer(tasks) == 0
            else:
                assert (await frontier.mend()).requeued > 0
            assert await frontier.known(["i0", "i1", "i2"]) == [1] * 3
            assert await frontier.ack(await take(frontier)) == [True] * 3

    async def test_a_task_in_two_places_is_leased_once(self, frontier: RedisFrontier, harness: RedisHarness) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        held = await take_one(frontier)
        harness.server.zadd(harness.key("r:text:free"), {"i1": 1})
        harness.server.zadd(harness.key("due:text:0"), {"free": 0})
        assert await take(frontier) == []
        assert await frontier.ack([held]) == [True]

    async def test_a_place_without_a_lease_blocks_its_lane_until_its_deadline_only(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await open_free(frontier, "narrow", concurrency=1)
        await frontier.offer([item(1, "narrow"), item(2, "narrow")])
        await take_one(frontier)
        harness.server.delete(harness.key("l"), harness.key("ends"))
        assert await take(frontier) == []
        # Nobody tells when it ends, so the lane is looked at again by itself.
        await harness.pass_time(LEASE)
        assert refs(await take(frontier)) == [2]

    async def test_what_another_release_wrote_is_set_aside_whole(
        self, frontier: RedisFrontier, harness: RedisHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2)])
        foreign = harness.server.hget(harness.key("t"), "i1") + "\nnew field"
        harness.server.hset(harness.key("t"), "i1", foreign)
        assert refs(await take(frontier)) == [2]
        assert (await frontier.stats()).aside == 1
        assert harness.server.hget(harness.key("aside"), "i1") == foreign
        assert await offer_missing(frontier, [item(1)]) == 1
        assert refs(await take(frontier)) == [1]


class Damage:
    """Random work with stale tokens and doubled calls, and now and then somebody who deletes things."""

    def __init__(self, harness: RedisHarness, handles: list[RedisFrontier], seed: int) -> None:
        self.harness, self.handles, self.random = harness, handles, Random(seed)
        self.open = {ref: item(ref, f"lane{ref % 5}", pool="render" if ref % 7 == 0 else "text") for ref in range(60)}
        self.held: list[Delivery] = []

    async def step(self) -> None:
        random, frontier = self.random, self.random.choice(self.handles)
        some = random.sample(self.held, min(len(self.held), random.randint(1, 4)))
        action = random.randrange(10)
        if action == 0:
            await frontier.offer(random.sample(list(self.open.values()), min(len(self.open), 20)))
        elif action <= 3:
            pool, worker = random.choice(["text", "text", "render"]), f"w{random.randrange(3)}"
            self.held += (await frontier.lease(random.randint(1, 8), LEASE, worker=worker, pool=pool)).deliveries
        elif action == 4:
            await frontier.begin(some)
        elif action == 5:
            await frontier.extend(some, LEASE)
        elif action == 6:
            await frontier.retry([Retry(one, random.choice([0, 500, 4_000]), "again", counted=False) for one in some])
        elif action == 7:
            await frontier.release(some)
        elif action == 8:
            await self.finish(frontier, some)
        else:
            await frontier.reap()
            await self.harness.pass_time(random.choice([0, 100, 1_000, LEASE]))

    async def finish(self, frontier: RedisFrontier, deliveries: list[Delivery]) -> None:
        """The ledger has it before the frontier hears of it, and a reply may be lost: it is said twice then."""
        for one in deliveries:
            self.open.pop(one.task.ref, None)
        for _ in range(self.random.randint(1, 2)):
            await frontier.ack(deliveries)

    def harm(self) -> None:
        server, key, random = self.harness.server, self.harness.key, self.random
        stream = key(random.choice(["s:text", "s:render"]))
        kind = random.randrange(7)
        if kind == 0:
            server.delete(stream)
        elif kind == 1:
            server.xtrim(stream, maxlen=1, approximate=False)
        elif kind == 2 and server.exists(stream):
            server.xgroup_destroy(stream, "w")
        elif kind == 3:
            server.delete(key(f"r:text:lane{random.randrange(5)}"), key(f"slots:lane{random.randrange(5)}"))
        elif kind == 4:
            server.delete(key(random.choice(["l", "ends", "delay", "t", "att", "per", "pe", "parked"])))
        elif kind == 5:
            server.delete(key(f"due:text:{random.randrange(3)}"), key("nxt"))
        else:
            for name in ("t", "l"):
                for one in list(server.hkeys(key(name)))[:3]:
                    server.hdel(key(name), one)

    async def drain(self) -> None:
        """What reconciler, reaper and a worker do, until nothing is open; a stuck task ends the test."""
        frontier = self.handles[0]
        for _ in range(80):
            if not self.open:
                return
            await offer_missing(frontier, list(self.open.values()))
            await frontier.reap()
            for pool in ("text", "render"):
                leased = await frontier.lease(10, LEASE, worker="last", pool=pool)
                await self.finish(frontier, leased.deliveries)
            await self.harness.pass_time(1_000)
        pytest.fail(f"never finished: {sorted(self.open)}")


@pytest.mark.parametrize(("seed", "harms"), [(0, 0), *((seed, 6) for seed in range(1, 6))])
async def test_every_open_task_finishes_whatever_was_damaged(
    frontier: RedisFrontier, harness: RedisHarness, seed: int, harms: int
) -> None:
    handles = [frontier, await harness.open()]
    policies = [(0, 0, 1), (0, 0, 3), (200, 50, 2), (0, 0, 10), (1_000, 0, 1)]
    await frontier.configure([LanePolicy(f"lane{n}", *policy) for n, policy in enumerate(policies)])
    played = Damage(harness, handles, seed)
    for turn in range(100):
        if harms and turn % (100 // harms) == 5:
            played.harm()
        await played.step()
    await played.drain()
    for handle in handles:
        await handle.ack(played.held)
    for _ in range(3):
        await harness.pass_time(10_000)
        await frontier.reap()
    await frontier.mend()
    await frontier.drop([(key, generation) for key, generation, _ in await frontier.keys()])
    stats = await frontier.stats()
    assert (stats.ready, stats.delayed, stats.leased) == (0, 0, 0)
    # A hint to a lane without tasks goes with the next lease that looks at it.
    assert {name for name in left_over(harness.server) if not name.startswith("due:")} <= KEPT


def left_over(server: Any) -> set[str]:
    return {key.partition("}:")[2] for key in server.keys("{fyke:test:0}:*")}


@pytest.mark.parametrize("apart", [-5_400_000, 5_400_000])
async def test_times_are_the_callers_where_the_servers_clock_is_another(
    frontier: RedisFrontier, harness: RedisHarness, apart: int
) -> None:
    harness.caller = FakeClock(harness.now() + apart)
    caller = await harness.open()
    now = harness.now() + apart
    await open_free(frontier, "held", "free")
    await caller.offer([item(1, "held"), item(2), item(3)])
    await caller.hold("held", now + 20_000, "Retry-After")
    assert await caller.held("held") == 20_000
    held, other = await take(caller)
    assert (held.deadline, held.start_at) == (now + LEASE, now)
    await caller.retry([Retry(other, 60_000, "later", counted=False)])
    view = await caller.view(other.task.key)
    assert view is not None
    assert view.at == now + 60_000
    assert await frontier.known(["i1"]) == [1]
    view = await caller.view("i1")
    assert view is not None
    assert view.lane_hold_until == now + 20_000
    stats = await caller.stats()
    assert (stats.oldest_ready_at, stats.last_lease_at) == (now, now)
    assert [lane.hold_until for lane in stats.lanes if lane.lane == "held"] == [now + 20_000]
    await harness.pass_time(19_999)
    assert await take(caller) == []
    await harness.pass_time(1)
    assert refs(await take(caller)) == [1]
