"""The known filter on real servers: what it remembers, what it forgets, and that it never remembers too much."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from fyke.errors import TransientError
from fyke.frontiers.redis.known_filter import RedisKnownFilter
from fyke.lab.servers import RedisServer
from fyke.lab.servers.redis import ask
from fyke.policy.identity import mark_of
from fyke.testing.clock import FakeClock

SPACE = "ledger:1:77"
DAY = 86_400_000

Open = Callable[..., RedisKnownFilter]


def marks(count: int, of: str = "a") -> list[bytes]:
    return [mark_of(of, str(number)) for number in range(count)]


def voids(found: list[bytes]) -> list[bytes]:
    return [mark[:4] + mark_of("void", mark)[4:] for mark in found]


@pytest.fixture(params=["valkey-9", "redis-6.2"])
def url(request: pytest.FixtureRequest, fresh_redis: Callable[..., str]) -> str:
    return fresh_redis(request.param)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_760_000_000_000)  # October 2025


@pytest_asyncio.fixture
async def stack() -> Any:
    async with AsyncExitStack() as found:
        yield found


@pytest.fixture
def open_filter(url: str, clock: FakeClock, stack: AsyncExitStack) -> Open:
    def make(kind: str = "exact", at: str = url, **changes: Any) -> RedisKnownFilter:
        settings: dict[str, Any] = {"kind": kind, "namespace": "test", "planned": 10_000} | changes
        found = RedisKnownFilter.at(at, clock, **settings)
        stack.push_async_callback(found.close)
        return found

    return make


async def test_what_was_added_is_remembered_by_all_and_nothing_else(open_filter: Open) -> None:
    one, other = open_filter(), open_filter()
    known, new = marks(400), marks(100, "b")
    assert await one.add(SPACE, known, voids(known)) == 400
    assert await one.add(SPACE, known[:10], voids(known[:10])) == 400
    assert await other.hits(SPACE, known, voids(known)) == [True] * 400
    assert await other.hits(SPACE, new, voids(new)) == [False] * 100
    assert (await other.stats(SPACE)).marks == 400


async def test_a_void_counts_whether_it_comes_before_or_after_the_mark(open_filter: Open) -> None:
    exact = open_filter()
    before, after = marks(3), marks(3, "b")
    await exact.add(SPACE, before, voids(before))
    await exact.void(SPACE, voids(before) + voids(after))
    await exact.add(SPACE, before + after, voids(before + after))
    assert await exact.hits(SPACE, before + after, voids(before + after)) == [False] * 6


async def test_another_space_knows_nothing_and_its_buckets_are_taken_over(open_filter: Open, url: str) -> None:
    exact, found = open_filter(planned=300), marks(50)
    await exact.add(SPACE, found, voids(found))
    assert await exact.hits("ledger:1:78", found, voids(found)) == [False] * 50
    assert await exact.add("ledger:1:78", found[:5], voids(found[:5])) == 5
    assert await exact.hits(SPACE, found, voids(found)) == [False] * 50
    assert await exact.hits("ledger:1:78", found[:6], voids(found[:6])) == [True] * 5 + [False]


@pytest.mark.parametrize("kind", ["exact", "bloom"])
async def test_marks_live_on_while_they_are_met_and_end_with_their_months(
    open_filter: Open, clock: FakeClock, kind: str
) -> None:
    known_filter = open_filter(kind, months=2)
    met, unmet = marks(5), marks(5, "b")
    await known_filter.add(SPACE, met + unmet, voids(met + unmet))
    clock.advance(31 * DAY)
    assert await known_filter.hits(SPACE, met, voids(met)) == [True] * 5
    clock.advance(31 * DAY)
    assert await known_filter.hits(SPACE, met + unmet, voids(met + unmet)) == [True] * 5 + [False] * 5


async def test_a_void_outlives_each_mark_that_it_makes_void(open_filter: Open, clock: FakeClock) -> None:
    """Marks of one month, met in the next; voided in it; another machine's clock is a month behind or ahead."""
    exact, found = open_filter(months=3), marks(1)
    await exact.add(SPACE, found, voids(found))
    clock.advance(31 * DAY)
    assert await exact.hits(SPACE, found, voids(found)) == [True]
    await exact.void(SPACE, voids(found))
    for days in (0, -31, 62):
        clock.advance(days * DAY)
        await exact.add(SPACE, found, voids(found))
        assert await exact.hits(SPACE, found, voids(found)) == [False]


async def test_every_key_ends_by_itself(open_filter: Open, url: str) -> None:
    for kind in ("exact", "bloom"):
        known_filter = open_filter(kind)
        await known_filter.add(SPACE, marks(20), voids(marks(20)))
        await known_filter.void(SPACE, voids(marks(2)))
    keys = ask(url, "KEYS", "*")
    assert len(keys) > 20
    assert all(0 < ask(url, "TTL", key) <= 62 * 86_400 for key in keys)


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_an_exact_filter_remembers_nothing_after_a_restart(
    own_redis: Callable[..., RedisServer], open_filter: Open, how: str
) -> None:
    """What it was told last may be lost, and nobody can say what that was."""
    server, found = own_redis(), marks(20)
    exact, bloom = open_filter(at=server.url), open_filter("bloom", at=server.url)
    await exact.add(SPACE, found, voids(found))
    await bloom.add(SPACE, found)
    getattr(server, how)()
    with pytest.raises(TransientError):
        await exact.hits(SPACE, found, voids(found))
    server.start()
    assert await _soon(lambda: exact.hits(SPACE, found, voids(found))) == [False] * 20
    assert await _soon(lambda: bloom.hits(SPACE, found)) == [True] * 20
    assert await exact.add(SPACE, found[:3], voids(found[:3])) <= 20
    assert await exact.hits(SPACE, found[:4], voids(found[:4])) == [True] * 3 + [False]


async def test_a_bloom_filter_is_wrong_about_as_often_as_was_set(open_filter: Open) -> None:
    planned = 20_000
    bloom = open_filter("bloom", planned=planned, error_rate=0.01, months=1)
    known, new = marks(planned), marks(20_000, "b")
    for start in range(0, planned, 500):
        await bloom.add(SPACE, known[start : start + 500])
    wrong = 0
    for start in range(0, len(new), 500):
        assert all(await bloom.hits(SPACE, known[start : start + 500]))
        wrong += sum(await bloom.hits(SPACE, new[start : start + 500]))
    # 200 are expected; five standard deviations are 70.
    assert 130 < wrong < 270
    assert abs((await bloom.stats(SPACE)).marks - planned) < planned // 50


async def test_a_mark_takes_about_nine_bytes(open_filter: Open, url: str) -> None:
    planned = 60_000
    exact, found = open_filter(planned=planned), marks(planned)
    for start in range(0, planned, 500):
        await exact.add(SPACE, found[start : start + 500], voids(found[start : start + 500]))
    used = sum(ask(url, "MEMORY", "USAGE", key) for key in ask(url, "KEYS", "*"))
    assert used / planned < 10


async def _soon(call: Callable[[], Awaitable[list[bool]]]) -> list[bool]:
    """A server that has just started may still be reading its file."""
    for _ in range(50):
        try:
            return await call()
        except TransientError:
            await asyncio.sleep(0.1)
    return await call()
