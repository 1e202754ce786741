"""A country: hosts of a network, servers that they reach, a site; and what a test asks of all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fyke.app.stores import open_database
from fyke.lab.servers import MariaServer, PostgresServer, RedisServer
from fyke.lab.site import SiteConfig
from fyke.testing.effects import install_effect_log
from tests.e2e.town import open_town
from tests.hosts.country import Country, Make
from tests.hosts.network import DATABASE, REDIS, SITE, Network, let_hosts_in, postgres_options


@pytest.fixture
def network() -> Iterator[Network]:
    if reason := Network.missing():
        pytest.skip(reason)
    with Network() as found:
        yield found


@pytest.fixture
async def country(
    network: Network,
    tmp_path: Path,
    own_redis: Callable[..., RedisServer],
    own_postgres: Callable[..., PostgresServer],
    own_maria: Callable[..., MariaServer],
) -> AsyncIterator[Make]:
    """`await country(pair, config)`: "redis and postgres", "sql on postgres" or "sql on mariadb"."""
    async with AsyncExitStack() as stack:

        async def make(pair: str, config: SiteConfig, *, cron: str = "0 8 1 1 *", concurrency: int = 4) -> Country:
            database: PostgresServer | MariaServer
            if "mariadb" in pair:
                database = own_maria(options={"bind-address": "0.0.0.0"})
            else:
                database = own_postgres(options=postgres_options(tmp_path))
            let_hosts_in(database)
            frontier = "sql"
            if "redis" in pair:
                redis = own_redis(options={"bind": f"127.0.0.1 {REDIS}", "protected-mode": "no"})
                frontier = redis.url.replace("127.0.0.1", REDIS)
            ledger = database.url.replace("127.0.0.1", DATABASE)
            folder = tmp_path / "town"
            folder.mkdir()
            town = await open_town(
                stack, folder, ledger, frontier, config, concurrency=concurrency, host=SITE, cron=cron
            )
            async with open_database(town.settings) as opened:
                await opened.write(lambda connection: install_effect_log(connection, "notices"))
            return Country(town, network)

        yield make
