"""The Redis frontier keeps the contract on four servers, and in several shards."""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from fyke.lab.servers.redis import FLAVOURS, Flavour
from fyke.testing.frontier_contract import FrontierContract
from fyke.testing.frontier_harness import FrontierHarness
from tests.contract.redis_handles import RedisHarness


@pytest_asyncio.fixture(
    params=[*((flavour, 1) for flavour in FLAVOURS), ("valkey-9", 3)], ids=lambda p: f"{p[0]}-{p[1]}"
)
async def harness(request: pytest.FixtureRequest, fresh_redis: Callable[..., str]) -> AsyncIterator[RedisHarness]:
    flavour: Flavour
    flavour, shards = request.param
    found = RedisHarness(fresh_redis(flavour), shards=shards)
    yield found
    await found.close()


class TestRedisFrontier(FrontierContract):
    def test_the_harness_fits(self, harness: RedisHarness) -> None:
        fits: FrontierHarness = harness
        assert fits.movable
