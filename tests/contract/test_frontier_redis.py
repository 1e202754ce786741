"""The Redis frontier keeps the contract on four servers."""

from collections.abc import AsyncIterator, Callable
from random import Random

import pytest
import pytest_asyncio
from redis import Redis

from fyke.frontiers.redis import RedisFrontier
from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.scripts import Script, load_scripts
from fyke.lab.servers.redis import FLAVOURS, Flavour
from fyke.testing.clock import FakeClock
from fyke.testing.frontier_contract import FrontierContract
from fyke.testing.frontier_harness import LEASE, FrontierHarness
from tests.servers import *  # noqa: F403

# The scripts as they are, but for a clock that the test sets.
STANDING_CLOCK = "tonumber(call('GET', P .. 'clock'))"


@pytest.fixture(scope="session")
def scripts() -> dict[str, Script]:
    return load_scripts(STANDING_CLOCK)


class RedisHarness:
    """Each handle has connections of its own, as a process would. The servers' clock stands and is moved by hand."""

    movable = True

    def __init__(self, url: str, scripts: dict[str, Script], shards: int = 1) -> None:
        self.url, self.scripts, self.shards = url, scripts, shards
        self.clock = FakeClock()
        self.server = Redis.from_url(url)
        self.opened: list[RedisFrontier] = []

    def make(self) -> RedisFrontier:
        frontier = RedisFrontier(
            Connection(read_address(self.url)),
            namespace="test",
            shards=self.shards,
            lease_ms=LEASE,
            random=Random(len(self.opened)),
            scripts=self.scripts,
            monotonic=self.clock.monotonic,
        )
        self.opened.append(frontier)
        return frontier

    async def open(self) -> RedisFrontier:
        if not self.opened:
            # Made long ago: the lanes of a new frontier start one gap late.
            self.tell(self.clock.now() - 86_400_000)
            await self.make().rebuild("", 0)
            self.tell(self.clock.now())
        frontier = self.make()
        await frontier.bind()
        return frontier

    def tell(self, now: int) -> None:
        for shard in range(self.shards):
            self.server.set(f"{{fyke:test:{shard}}}:clock", now)

    def now(self) -> int:
        return self.clock.now()

    async def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.tell(self.clock.now())

    def step(self, ms: int) -> None:
        self.clock.set(self.clock.now() + ms)
        self.tell(self.clock.now())

    async def close(self) -> None:
        for frontier in self.opened:
            await frontier.close()
        self.server.close()


@pytest.fixture(params=FLAVOURS)
def url(request: pytest.FixtureRequest, fresh_redis: Callable[..., str]) -> str:
    flavour: Flavour = request.param
    return fresh_redis(flavour)


@pytest_asyncio.fixture
async def harness(url: str, scripts: dict[str, Script]) -> AsyncIterator[RedisHarness]:
    found = RedisHarness(url, scripts)
    yield found
    await found.close()


class TestRedisFrontier(FrontierContract):
    def test_the_harness_fits(self, harness: RedisHarness) -> None:
        fits: FrontierHarness = harness
        assert fits.movable
