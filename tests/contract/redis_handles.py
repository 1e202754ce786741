"""Handles on a Redis frontier for tests: on a clock that stands and is moved by hand, or on the server's own."""

from collections.abc import Mapping
from random import Random
from typing import Any

from redis import Redis, RedisCluster

from fyke.frontiers.redis import RedisFrontier
from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.scripts import Script, load_scripts
from fyke.testing.clock import FakeClock
from fyke.testing.frontier_harness import LEASE

# The scripts as they are, but for a clock that the test sets.
STANDING = load_scripts("tonumber(call('GET', P .. 'clock'))")
DAY = 86_400_000


class RedisHarness:
    """Each handle has connections of its own, as a process would. The server's clock stands and is moved by hand."""

    movable = True

    def __init__(self, url: str, *, shards: int = 1, scripts: Mapping[str, Script] = STANDING) -> None:
        self.url, self.shards, self.scripts = url, shards, scripts
        self.clock = FakeClock()
        self.caller: FakeClock | None = None
        self.opened: list[RedisFrontier] = []
        if url.startswith("redis+cluster://"):
            host, port = read_address(url).nodes[0]
            self.server: Any = RedisCluster(host=host, port=port, decode_responses=True)
        else:
            self.server = Redis.from_url(url, decode_responses=True)

    def key(self, name: str, shard: int = 0) -> str:
        return f"{{fyke:test:{shard}}}:{name}"

    def make(self) -> RedisFrontier:
        frontier = RedisFrontier(
            Connection(read_address(self.url)),
            namespace="test",
            shards=self.shards,
            lease_ms=LEASE,
            random=Random(len(self.opened)),
            clock=self.caller,
            scripts=self.scripts,
            monotonic=self.clock.monotonic,
        )
        self.opened.append(frontier)
        return frontier

    async def open(self) -> RedisFrontier:
        if not self.opened:
            # Made long ago: the lanes of a new frontier start one gap late.
            self.tell(self.clock.now() - DAY)
            await self.make().rebuild("", 0)
            self.tell(self.clock.now())
        frontier = self.make()
        await frontier.bind()
        return frontier

    def tell(self, now: int) -> None:
        for shard in range(self.shards):
            self.server.set(self.key("clock", shard), now)

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


def fields(server: Any, key: str) -> dict[str, str]:
    found: dict[str, str] = server.hgetall(key)
    return found
