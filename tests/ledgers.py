"""Ledgers on real servers: one migrated database of a kind per test process, emptied before each test that asks."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from fyke.db.address import parse_address
from fyke.db.connection import Connection
from fyke.db.tables import METADATA
from fyke.db.typed import quoted
from fyke.ledgers.sql import SqlLedger
from fyke.ports import Clock
from fyke.testing.clock import FakeClock
from tests.servers import Servers

OpenDatabase: TypeAlias = Callable[[str], Awaitable[Any]]
EmptyLedger: TypeAlias = Callable[[str], Awaitable[str]]
KEPT = ("schema", "ledger_id", "epoch")


def connect(url: str, **settings: Any) -> Any:
    """A database on a server; close it."""
    address = parse_address(url)
    if address.scheme.startswith("postgres"):
        from fyke.db.postgres import PostgresDatabase

        return PostgresDatabase(address, **settings)
    from fyke.db.mysql import MysqlDatabase

    return MysqlDatabase(address, **settings)


def empty(connection: Connection) -> None:
    """Remove all that a test has left: typed tables, the log of their writings, the rows of the core tables."""
    for (name,) in connection.execute("SELECT name FROM typed_table").fetchall():
        connection.execute(f"DROP TABLE IF EXISTS {quoted(name)}")
    connection.execute("DROP TABLE IF EXISTS effect_log")
    for table in METADATA.tables:
        if table not in ("meta", "id_block"):
            connection.execute(f"DELETE FROM {quoted(table)}")
    connection.execute(f"DELETE FROM meta WHERE name NOT IN ({', '.join(map(repr, KEPT))})")
    connection.execute("UPDATE meta SET value = '1' WHERE name = 'epoch'")


class MigratedDatabases:
    """The addresses of what is migrated already."""

    def __init__(self, servers: Servers, clock: Clock) -> None:
        self._servers, self._clock = servers, clock
        self._urls: dict[str, str] = {}

    async def emptied(self, kind: str) -> str:
        """The address of an empty ledger on a server of `tests.servers.DATABASES`."""
        server = self._servers.database(kind)
        fresh = kind not in self._urls
        if fresh:
            self._urls[kind] = server.create_database("ledgers")
        database = connect(self._urls[kind])
        if fresh:
            await SqlLedger(database, self._clock).migrate()
        else:
            await database.write(empty)
        await database.close()
        return self._urls[kind]


@pytest.fixture(scope="session")
def migrated_databases(servers: Servers) -> MigratedDatabases:
    return MigratedDatabases(servers, FakeClock())


@pytest.fixture
def empty_ledger_url(migrated_databases: MigratedDatabases) -> EmptyLedger:
    """The address of an empty ledger on a server of a kind; the first asking of a test empties it."""
    urls: dict[str, str] = {}

    async def find(kind: str) -> str:
        if kind not in urls:
            urls[kind] = await migrated_databases.emptied(kind)
        return urls[kind]

    return find


@pytest.fixture
async def open_database(empty_ledger_url: EmptyLedger) -> AsyncIterator[OpenDatabase]:
    """Open that ledger's database, as often as a test has processes; all are closed after it."""
    async with AsyncExitStack() as stack:

        async def open_one(kind: str) -> Any:
            database = connect(await empty_ledger_url(kind))
            stack.push_async_callback(database.close)
            return database

        yield open_one
