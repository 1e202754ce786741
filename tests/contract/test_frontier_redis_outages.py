"""The Redis frontier on the server's own clock: outages, a full memory, idle waits, what is refused at the start."""

import asyncio
import logging
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from zlib import crc32

import pytest
import pytest_asyncio

from fyke.errors import LeaseLost, TransientError, UsageError
from fyke.frontiers.redis import RedisFrontier
from fyke.frontiers.redis.checks import COMMANDS, examine
from fyke.frontiers.redis.scripts import load_scripts
from fyke.lab.relay import Relay
from fyke.lab.servers import RedisServer
from fyke.lab.servers.redis import FLAVOURS, Flavour, RedisCluster, RedisSentinel
from fyke.model import Retry
from fyke.testing.frontier_contract import FrontierContract
from fyke.testing.frontier_harness import LEASE, item, open_free, refs, take, take_one
from tests.contract.redis_handles import RedisHarness

OwnRedis = Callable[..., RedisServer]


@asynccontextmanager
async def opened(url: str, *, rebuild: bool = True, shards: int = 1) -> AsyncIterator[RedisFrontier]:
    frontier = await RedisFrontier.open(url, namespace="test", shards=shards, lease_ms=LEASE, random=Random(1))
    try:
        if rebuild:
            await frontier.rebuild("ledger", 1)
        yield frontier
    finally:
        await frontier.close()


async def until_it_works(call: Callable[[], Awaitable[object]], seconds: float = 10) -> None:
    """Repeat as callers do, and fail where it has not worked in time."""
    end = time.monotonic() + seconds
    while True:
        try:
            await call()
            return
        except TransientError:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(0.05)


# --- Waiting ---


async def test_an_idle_worker_waits_without_errors_or_new_connections_and_wakes_at_once(
    own_redis: OwnRedis, caplog: pytest.LogCaptureFixture
) -> None:
    server = own_redis("redis-7.0")
    async with opened(server.url) as frontier, opened(server.url) as producer:
        await open_free(frontier)

        async def idle() -> None:
            leased = await frontier.lease(1, LEASE, worker="w")
            await frontier.wait(leased.wait_ms)

        await idle()
        with caplog.at_level(logging.INFO):
            before = connections(server)
            for _ in range(3):
                await idle()
            # Counting them opens one.
            assert connections(server) == before + 1
        assert caplog.records == []
        waiting = asyncio.create_task(idle())
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await producer.offer([item(1)])
        await waiting
        assert refs(await take(frontier)) == [1]
        assert time.monotonic() - began < 1


def connections(server: RedisServer) -> int:
    text: str = server.ask("INFO", "stats")
    return int(text.partition("total_connections_received:")[2].split()[0])


async def test_who_never_leased_takes_no_wake_up_from_workers(fresh_redis: Callable[..., str]) -> None:
    async with opened(fresh_redis()) as frontier, opened(fresh_redis(), rebuild=True) as scheduler:
        await open_free(frontier)
        await take(frontier)
        await scheduler.offer([item(1)])
        await scheduler.wait(50)
        began = time.monotonic()
        await frontier.wait(1_000)
        assert time.monotonic() - began < 0.9


# --- Outages ---


def of_a_script(request: bytes, reply: bytes) -> bool:
    return b"EVAL" in request and not reply.startswith(b"-NOSCRIPT")


async def test_an_answer_that_was_lost_after_its_effect_is_no_second_task(fresh_redis: Callable[..., str]) -> None:
    url = fresh_redis()
    port = int(url.rpartition(":")[2].partition("/")[0])
    async with Relay(port) as relay:
        await relay.listen()
        async with opened(relay.through(url)) as frontier:
            await open_free(frontier)
            lost = relay.swallow(of_a_script, cut=True)
            with pytest.raises(TransientError):
                await frontier.offer([item(1), item(2)])
            assert lost.done()
            # The driver repeated nothing; the caller does, and learns that they are there.
            assert await frontier.offer([item(1), item(2)]) == 0
            lost = relay.swallow(of_a_script, cut=True)
            with pytest.raises(TransientError):
                await frontier.lease(2, 300, worker="w")
            assert (await frontier.stats()).leased == 2
            await asyncio.sleep(0.35)
            assert sorted(one.task.ref for one in await frontier.reap()) == [1, 2]
            held = await take(frontier)
            relay.swallow(of_a_script, cut=True)
            with pytest.raises(TransientError):
                await frontier.ack(held)
            assert await frontier.ack(held) == [False, False]
            stats = await frontier.stats()
            assert (stats.ready, stats.leased, stats.acked) == (0, 0, 2)


async def test_a_server_that_is_killed_comes_back_with_what_it_had(own_redis: OwnRedis) -> None:
    server = own_redis()
    async with opened(server.url) as frontier:
        await open_free(frontier)
        await frontier.offer([item(ref) for ref in range(5)])
        held = await take(frontier, 3)
        assert await frontier.damaged() == ""
        server.kill()
        with pytest.raises(TransientError, match="cannot be reached") as error:
            await frontier.ack(held)
        assert str(server.port) in str(error.value)
        await frontier.wait(10)
        server.start()
        await until_it_works(lambda: frontier.ack(held))
        assert refs(await take(frontier)) == [3, 4]
        assert "started again" in await frontier.damaged()
        assert await frontier.damaged() == ""


async def test_the_end_of_the_log_that_was_cut_off_is_noticed(own_redis: OwnRedis) -> None:
    server = own_redis()
    async with opened(server.url) as frontier:
        await open_free(frontier)
        tasks = [item(ref) for ref in range(50)]
        for task in tasks:
            await frontier.offer([task])
        server.kill()
        assert server.cut_tail(1_500) == 1_500
        server.start()
        await until_it_works(frontier.stats)
        assert "went back" in await frontier.damaged()
        live = await frontier.known([task.key for task in tasks])
        missing = [task for task, generation in zip(tasks, live, strict=True) if generation is None]
        assert 0 < len(missing) < 50
        assert await frontier.offer(missing) == len(missing)
        assert len(await take(frontier)) == 50


@pytest.mark.crash_long
async def test_a_frozen_server_is_noticed_and_what_was_sent_to_it_meanwhile_is_not_done_late(
    own_redis: OwnRedis,
) -> None:
    server = own_redis()
    async with opened(server.url) as frontier:
        await open_free(frontier)
        await frontier.offer([item(1)])
        held = await take(frontier)
        server.freeze()
        began = time.monotonic()
        with pytest.raises(TransientError, match="does not answer"):
            await frontier.ack(held)
        assert time.monotonic() - began < 15
        await asyncio.sleep(1)
        server.thaw()
        await until_it_works(frontier.stats)
        # The acknowledgement arrived 6 s late, and its sender has heard nothing of it: it is repeated.
        assert await frontier.known(["i1"]) == [1]
        # Nobody could renew a lease meanwhile, so nobody reaps.
        assert await frontier.reap() == []
        assert await frontier.ack(held) == [True]


async def test_a_full_memory_refuses_offers_whole_and_lets_everything_else_pass(
    own_redis: OwnRedis,
) -> None:
    for flavour in FLAVOURS:
        server = own_redis(flavour)
        async with opened(server.url) as frontier:
            await open_free(frontier, "a", "b", concurrency=50)
            used = int(server.ask("INFO", "memory").partition("used_memory:")[2].split()[0])
            server.ask("CONFIG", "SET", "maxmemory", used + 700_000)
            offered = 0
            full = ""
            while not full and offered < 100_000:
                try:
                    offered += await frontier.offer([item(offered + n, "ab"[n % 2]) for n in range(100)])
                except TransientError as error:
                    full = str(error)
            assert "memory is full" in full
            assert offered >= 100
            assert marks_and_entries(server) == (offered, offered)
            # Filled up to the brim, so that not even a short list could be written.
            server.ask("CONFIG", "SET", "maxmemory", used)
            first, second, third, fourth = await take(frontier, 4)
            assert [one.starts for one in await frontier.begin([first, second])] == [1, 1]
            assert await frontier.extend([first, second, third, fourth], LEASE) == [True] * 4
            assert await frontier.ack([first]) == [True]
            assert await frontier.retry([Retry(second, 60_000, "again", counted=True)]) == [True]
            assert await frontier.release([third]) == [True]
            assert await frontier.bury([fourth]) == [True]
            await frontier.hold("a", int(time.time() * 1000) + 60_000, "429")
            assert await frontier.reap() == []
            stats = await frontier.stats()
            assert (stats.ready + stats.delayed, stats.acked, stats.buried) == (offered - 2, 1, 1)
            assert stats.memory >= 1
            with pytest.raises(TransientError, match="memory is full"):
                await frontier.offer([item(200_000)])
            server.ask("CONFIG", "SET", "maxmemory", 0)
            assert await frontier.offer([item(200_000)]) == 1
            assert (await frontier.stats()).memory == 0, "there is no limit"


def marks_and_entries(server: RedisServer) -> tuple[int, int]:
    lanes = sum(server.ask("ZCARD", f"{{fyke:test:0}}:r:text:{lane}") for lane in "ab")
    return server.ask("HLEN", "{fyke:test:0}:t"), lanes


# --- The start ---


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_server_that_evicts_is_refused_with_the_setting(own_redis: OwnRedis, flavour: Flavour) -> None:
    server = own_redis(flavour, options={"maxmemory-policy": "allkeys-lru"})
    with pytest.raises(UsageError, match="maxmemory-policy is allkeys-lru") as error:
        async with opened(server.url):
            pass
    assert "noeviction" in str(error.value)


async def test_a_replica_is_refused(own_redis: OwnRedis) -> None:
    master, replica = own_redis(), own_redis()
    replica.ask("REPLICAOF", "127.0.0.1", master.port)
    with pytest.raises(UsageError, match="replica"):
        async with opened(replica.url):
            pass


async def test_a_server_that_went_away_is_no_mistake_of_a_person(own_redis: OwnRedis) -> None:
    server = own_redis()
    url = server.url
    server.stop()
    with pytest.raises(TransientError, match="cannot be reached"):
        async with opened(url):
            pass


async def test_the_number_of_shards_is_fixed_when_a_frontier_is_made(fresh_redis: Callable[..., str]) -> None:
    url = fresh_redis()
    async with opened(url, shards=2):
        pass
    with pytest.raises(UsageError, match="2 shard"):
        async with opened(url, shards=1):
            pass


async def test_a_password_is_in_no_error(own_redis: OwnRedis, caplog: pytest.LogCaptureFixture) -> None:
    server = own_redis(options={"requirepass": "S3cr3t-m4rk"})
    good = server.url.replace("redis://", "redis://:S3cr3t-m4rk@")
    for wrong in (server.url, server.url.replace("redis://", "redis://:S3cr3t-m4rk-not@")):
        with pytest.raises(UsageError, match="refuses us") as refused:
            async with opened(wrong):
                pass
        assert "S3cr3t" not in str(refused.value)
    async with opened(good) as frontier:
        await frontier.offer([item(1)])
        server.kill()
        with pytest.raises(TransientError) as away:
            await frontier.offer([item(2)])
        assert "S3cr3t" not in "".join(traceback.format_exception(away.value))
    assert "S3cr3t" not in caplog.text


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_sound_server_passes_all_checks_and_keeps_no_trace_of_them(
    fresh_redis: Callable[..., str], servers: object, flavour: Flavour
) -> None:
    url = fresh_redis(flavour)
    found = await examine(url, namespace="test", shards=1)
    assert {one.name: one.level for one in found} == dict.fromkeys(
        ("server", "role", "eviction", "memory", "persistence", "commands", "probe", "frontier"), "ok"
    )
    harness = RedisHarness(url)
    assert harness.server.keys("*") == []
    harness.server.close()


async def test_a_user_who_may_not_do_all_learns_which_commands_are_missing(own_redis: OwnRedis) -> None:
    server = own_redis("redis-6.2")
    rules = ["on", ">secret", "~{fyke:*", "+@all", "-@dangerous", "-@admin"]
    server.ask("ACL", "SETUSER", "few", *rules, "-xclaim", "-zmscore")
    server.ask("ACL", "SETUSER", "enough", *rules)
    found = {one.name: one for one in await examine(as_user(server, "few"), namespace="test", shards=1)}
    assert (found["commands"].level, found["commands"].text) == ("fail", "this user may not: zmscore, xclaim")
    assert "+zmscore +xclaim" in found["commands"].hint
    found = {one.name: one for one in await examine(as_user(server, "enough"), namespace="test", shards=1)}
    assert (found["server"].level, found["commands"].level, found["probe"].level) == ("warn", "ok", "ok")
    async with opened(as_user(server, "enough")) as frontier:
        await open_free(frontier)
        assert await frontier.offer([item(1)]) == 1
        assert await frontier.damaged() == ""
        server.ask("ACL", "SETUSER", "enough", "-xadd")
        with pytest.raises(TransientError):
            await take(frontier)
        server.ask("ACL", "SETUSER", "enough", "+xadd")
        assert refs(await take(frontier)) == [1]


def as_user(server: RedisServer, name: str) -> str:
    return server.url.replace("redis://", f"redis://{name}:secret@")


def test_each_command_of_a_script_is_checked() -> None:
    asked = {words[0] for words in COMMANDS}
    used = set()
    for script in load_scripts().values():
        for part in script.text.split("call('")[1:]:
            used.add(part.partition("'")[0])
    assert len(used) > 25
    # Scripts look keys through with names that they are given.
    assert used <= asked | {"HSCAN", "ZSCAN"}


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redsi://h", "not an address"),
        ("redis://h:99999", "cannot be read"),
        ("redis+sentinel://a:1,b:2", "names no master"),
        ("redis+cluster://a:1/3", "no such database"),
        ("redis://h/0?ssl_ca_certs=x", "unknown option"),
        ("rediss://h/0?ssl_ca_cert=x", "did you mean 'ssl_ca_certs'"),
    ],
)
async def test_an_address_that_cannot_be_read_says_what_is_wrong(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        async with opened(url.replace("://", "://:S3cr3t-m4rk@") if "@" not in url else url) as _:
            pass


# --- Several servers ---


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.mark.crash_long
class TestOnACluster(FrontierContract):
    @pytest_asyncio.fixture
    async def harness(self, cluster: RedisCluster) -> AsyncIterator[RedisHarness]:
        for node in cluster.nodes:
            node.ask("FLUSHALL")
        found = RedisHarness(cluster.url, shards=6)
        yield found
        await found.close()


@pytest.mark.crash_long
async def test_a_node_of_a_cluster_that_is_killed_comes_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        async with opened(cluster.url, shards=6) as frontier:
            lanes = [f"lane{number}" for number in range(24)]
            await open_free(frontier, *lanes)
            tasks = [item(ref, lanes[ref % 24]) for ref in range(96)]
            assert await frontier.offer(tasks) == 96
            assert {one.level for one in await examine(cluster.url, namespace="test", shards=6)} == {"ok"}
            cluster.nodes[1].kill()
            with pytest.raises(TransientError):
                await frontier.stats()
            cluster.nodes[1].start()
            await until_it_works(frontier.stats, 20)
            assert (await frontier.damaged()) != ""
            await until_it_works(lambda: frontier.offer(tasks), 20)
            found = await take(frontier)
            assert sorted(refs(found)) == list(range(96))
            waiting = asyncio.create_task(frontier.wait(1_000))
            assert all(await frontier.ack(found))
            await waiting
            await frontier.offer([item(100, "lane3")])
            began = time.monotonic()
            await frontier.wait(1_000)
            assert time.monotonic() - began < 0.9


@pytest.mark.crash_long
async def test_after_a_fail_over_the_new_master_is_found_and_every_task_finishes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with RedisSentinel(tmp_path_factory.mktemp("sentinel")) as servers:
        async with opened(servers.url) as frontier:
            await open_free(frontier)
            tasks = [item(ref) for ref in range(40)]
            await frontier.offer(tasks)
            held = await take(frontier, 10)
            await frontier.ack(held[:5])
            assert await frontier.damaged() == ""
            await asyncio.to_thread(servers.fail_over)
            await until_it_works(frontier.stats, 30)
            assert "another one took over" in await frontier.damaged()
            await until_it_works(lambda: frontier.extend(held[5:], LEASE))
            live = await frontier.known([task.key for task in tasks[5:]])
            missing = [task for task, found in zip(tasks[5:], live, strict=True) if found is None]
            await frontier.offer(missing)
            done = await frontier.ack(held[5:])
            rest = await take(frontier)
            assert done.count(True) + len(rest) >= 35
            assert all(await frontier.ack(rest))


@pytest.mark.parametrize("shards", [3])
async def test_a_permit_in_a_lane_of_another_shard_ends_with_its_lease(
    fresh_redis: Callable[..., str], shards: int
) -> None:
    url = fresh_redis()
    harness = RedisHarness(url, shards=shards)
    frontier = await harness.open()
    home = "alpha"
    names = [f"n{number}" for number in range(99)]
    abroad = next(name for name in names if crc32(name.encode()) % shards != crc32(home.encode()) % shards)
    await open_free(frontier, home, abroad, concurrency=1)
    await frontier.offer([item(1, home), item(2, abroad)])
    first, second = sorted(await take(frontier), key=lambda one: one.task.ref)
    assert await frontier.permit(first, abroad, 500) > 500
    await frontier.release([second])
    assert await frontier.permit(first, abroad, 500) == 0
    assert await take(frontier) == []
    await harness.pass_time(LEASE - 500)
    assert await frontier.extend([first], LEASE) == [True]
    await harness.pass_time(1_000)
    assert await take(frontier) == []
    assert await frontier.ack([first]) == [True]
    third = await take_one(frontier)
    assert third.task.ref == 2
    with pytest.raises(LeaseLost):
        await frontier.permit(first, abroad)
    await harness.close()


async def test_a_task_that_moves_to_a_lane_of_another_shard_is_live_once(fresh_redis: Callable[..., str]) -> None:
    harness = RedisHarness(fresh_redis(), shards=3)
    frontier = await harness.open()
    lanes = [f"n{number}" for number in range(12)]
    await open_free(frontier, *lanes)
    for generation in range(1, 13):
        assert await frontier.offer([item(1, lanes[generation - 1], generation=generation)]) == (generation == 1)
        assert await frontier.offer([item(1, lanes[generation - 2], generation=generation)]) == 0
        assert [key for key, _, _ in await frontier.keys()] == ["i1"]
        stats = await frontier.stats()
        assert stats.ready == 1
    assert [(one.task.generation, one.task.lane) for one in await take(frontier)] == [(12, "n11")]
    await harness.close()
