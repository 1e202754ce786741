"""Databases of sql frontiers on real servers: one of a kind per test process, emptied by whoever takes it."""

from typing import Any

import pytest

from fyke.db.address import parse_address
from fyke.db.connection import Connection
from tests.servers import Servers

TABLES = ("task_permit", "task_place", "task", "task_lane")


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


class FrontierDatabases:
    """Their addresses; the tables are made at the first call."""

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
def frontier_databases(servers: Servers) -> FrontierDatabases:
    return FrontierDatabases(servers)
