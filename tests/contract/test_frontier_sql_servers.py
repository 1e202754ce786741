"""The sql frontier on PostgreSQL and MariaDB keeps the contract that it keeps in a SQLite file."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from fyke.db.address import parse_address
from fyke.db.connection import Connection
from fyke.frontiers.sql import SqlFrontier
from fyke.testing.clock import FakeClock
from fyke.testing.frontier_contract import FrontierContract
from fyke.testing.frontier_harness import LEASE, FrontierHarness
from tests.servers import DATABASES, Servers

TABLES = ("task_permit", "task_place", "task", "task_lane")


class MovedClock(FakeClock):
    """Leases that meet locked lanes wait some real milliseconds for them."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def connect(url: str) -> Any:
    """A database on a server, as one process has it."""
    address = parse_address(url)
    if address.scheme.startswith("postgres"):
        from fyke.db.postgres import PostgresDatabase

        return PostgresDatabase(address)
    from fyke.db.mysql import MysqlDatabase

    return MysqlDatabase(address)


def empty(connection: Connection) -> None:
    for table in TABLES:
        connection.execute(f"DELETE FROM {table}")
    connection.execute("UPDATE task_meta SET ledger_id = '', epoch = 0, clock_high = 0, acked = 0, buried = 0")


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


class Databases:
    """One database of a kind per test process."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._urls: dict[str, str] = {}

    async def url(self, kind: str) -> str:
        server = self._servers.database(kind)
        if kind not in self._urls:
            url = server.create_database("frontiers")
            database = connect(url)
            await database.upgrade()
            await database.close()
            self._urls[kind] = url
        return self._urls[kind]


@pytest.fixture(scope="session")
def databases(servers: Servers) -> Databases:
    return Databases(servers)


@pytest_asyncio.fixture(params=DATABASES)
async def harness(request: pytest.FixtureRequest, databases: Databases) -> AsyncIterator[ServerHarness]:
    found = ServerHarness(await databases.url(request.param))
    yield found
    await found.close()


class TestSqlFrontierOnServers(FrontierContract):
    def test_the_harness_fits(self, harness: ServerHarness) -> None:
        fits: FrontierHarness = harness
        assert fits.movable
