"""The sql frontier on PostgreSQL and MariaDB keeps the contract that it keeps in a SQLite file."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from fyke.frontiers.sql import SqlFrontier
from fyke.testing.clock import FakeClock
from fyke.testing.frontier_contract import FrontierContract
from fyke.testing.frontier_harness import LEASE, FrontierHarness
from tests.frontiers import FrontierDatabases, connect, empty
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
