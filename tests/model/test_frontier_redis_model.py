"""The Redis frontier behaves as the model does, and its places hold what its leases say and nothing else."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from redis import Redis

from fyke.frontiers.redis import RedisFrontier
from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.mending import Mended
from fyke.testing.clock import FakeClock
from fyke.testing.frontier_model import LEASE, FrontierMachine
from tests.contract.redis_handles import DAY, STANDING

SWEEP_EVERY = 4


class ServerClock(FakeClock):
    """Tells the server the time whenever it moves."""

    def __init__(self, server: Redis) -> None:
        super().__init__()
        self._server = server
        self.tell()

    def tell(self, earlier: int = 0) -> None:
        self._server.set("{fyke:model:0}:clock", self.now() - earlier)

    def advance(self, milliseconds: int) -> None:
        super().advance(milliseconds)
        self.tell()


class RedisFrontierMachine(FrontierMachine):
    url = ""

    async def open(self) -> RedisFrontier:
        self.server = Redis.from_url(self.url, decode_responses=True)
        self.server.flushall()
        clock = ServerClock(self.server)
        self.clock, self.model.now, self.steps = clock, clock.now, 0
        # Made long ago: the lanes of a new frontier start one gap late.
        clock.tell(DAY)
        maker = self.make()
        await maker.rebuild("", 0)
        await maker.close()
        clock.tell()
        frontier = self.make()
        await frontier.bind()
        return frontier

    def make(self) -> RedisFrontier:
        return RedisFrontier(
            Connection(read_address(self.url)),
            namespace="model",
            shards=1,
            lease_ms=LEASE,
            random=Random(1),
            scripts=STANDING,
            monotonic=self.clock.monotonic,
        )

    async def check_inside(self) -> None:
        self.steps += 1
        assert isinstance(self.frontier, RedisFrontier)
        if self.steps % SWEEP_EVERY == 0:
            assert await self.frontier.mend() == Mended()
            assert await self.frontier.damaged() == ""

    def teardown(self) -> None:
        super().teardown()
        self.server.close()


@pytest.mark.parametrize("flavour", ["valkey-9", pytest.param("redis-6.2", marks=pytest.mark.crash_long)])
def test_the_redis_frontier_is_the_model(fresh_redis: Callable[..., str], flavour: str) -> None:
    class Machine(RedisFrontierMachine):
        url = fresh_redis(flavour)

    # The same cases each time: a failure on a machine that nobody watches must be one on mine.
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=40,
            derandomize=True,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
