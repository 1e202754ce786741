"""Where a chaos run takes place: its folder, the servers, the relays before them, the site in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from fyke.errors import UsageError
from fyke.lab.chaos.plan import POISON_SHARE, ChaosConfig, has_redis, is_plain, places
from fyke.lab.relay import Relay, open_relay
from fyke.lab.servers.maria import MariaServer
from fyke.lab.servers.postgres import PostgresServer
from fyke.lab.servers.process import LOOPBACK, free_port, start_guarded
from fyke.lab.servers.redis import RedisServer, pick_flavour

SOURCE_ID: Final = "chaos"
TABLE: Final = "notices"
ATTEMPTS: Final = 5
LEASE_S: Final = 4
PER_PAGE: Final = 50
SITE_START_S: Final = 30.0
SETTINGS: Final = """\
# The chaos run's settings: short waits, so that a death costs seconds. Everything else is as it comes.
lease = "{lease}s"
[worker]
concurrency = {concurrency}
grace = "2s"
[attempts]
limit = {attempts}
delays = ["500ms"]
[backoff]
first = "300ms"
longest = "3s"
[reap]
every = "1s"
[reconcile]
every = "2s"
grace = "3s"
[scheduler]
lease = "3s"
"""
SOURCE: Final = """\
id: chaos
title: the lab's announcement site
schedule: {{cron: ["* * * * *"], timezone: Asia/Shanghai}}
fetch:
  politeness: {{delay: 0s, jitter: 0s, concurrency: {slots}}}
  timeout: {{connect: 2s, read: 5s, total: 10s}}
  private_addresses: allow
listing:
  request: {{url: "{url}/list/{{page}}"}}
  pages: {{number: {{first: index.html, then: "index_{{n}}.html", from: 2}}, max: 10000}}
  rows: {{in: ul.list, css: "> li"}}
  fields:
    url: {{css: "a::attr(href)", then: [absolute_url]}}
    title: {{css: "a::attr(title)"}}
    published: {{css: em, then: [{{datetime: "%Y-%m-%d %H:%M"}}]}}
  connect: {{known: 20}}
  start: all
identity: {{scope: chaos, key: {{field: url, then: [{{regex: '_(\\d+)\\.html'}}]}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: "div#content", min_chars: 20}}
      fields:
        title: {{css: h1, required: true}}
        buyer: {{label: 采购单位}}
        budget: {{label: 预算金额, then: [{{money: CNY}}]}}
store: {{table: notices}}
"""


class Site:
    """The lab site behind HTTP."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self._session = url, session

    async def truth(self) -> dict[str, Any]:
        return await self._ask("GET", "/_truth")

    async def hits(self) -> dict[str, Any]:
        return await self._ask("GET", "/_hits")

    async def control(self, **changes: Any) -> None:
        await self._ask("POST", "/_control", changes)

    async def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        async with self._session.request(method, self.url + path, json=body) as response:
            answer: dict[str, Any] = json.loads(await response.read())
            if response.status != 200:
                raise UsageError(f"the lab site refused {path}: {answer.get('error')}")
            return answer


class Arena:
    """What there is. A relay is there where the connections of that server can pass one; `redis` and `database` are
    servers of ours.
    """

    def __init__(self, config: ChaosConfig) -> None:
        self.config = config
        self.folder = config.folder
        self.redis: RedisServer | None = None
        self.database: PostgresServer | MariaServer | None = None
        self.redis_relay: Relay | None = None
        self.database_relay: Relay | None = None
        self.redis_url = config.redis_url
        self.database_url = config.database_url
        # On a server of yours beside whatever else is there; nothing but these keys is touched.
        self.namespace = f"chaos{os.getpid()}x{config.seed}" if config.redis_url else "fyke"
        self.site: Site

    @property
    def relays(self) -> list[Relay]:
        return [relay for relay in (self.redis_relay, self.database_relay) if relay is not None]

    def variables(self, *, relayed: bool) -> dict[str, str]:
        """The environment of a process that collects; the addresses stand nowhere else, for they may hold passwords."""
        redis, database = self.redis_url, self.database_url
        if relayed and self.redis_relay is not None:
            redis = self.redis_relay.through(redis)
        if relayed and self.database_relay is not None:
            database = self.database_relay.through(database)
        own = {name: value for name, value in os.environ.items() if not name.startswith("FYKE_")}
        return {
            **own,
            "FYKE_LEDGER": database or f"sqlite:///{self.folder / 'fyke.db'}",
            "FYKE_FRONTIER": redis or "sql",
            "FYKE_REDIS_NAMESPACE": self.namespace,
            "FYKE_SOURCES": str(self.folder / "sources"),
        }


@asynccontextmanager
async def open_arena(config: ChaosConfig, faults: tuple[str, ...]) -> AsyncIterator[Arena]:
    """Start what is needed; all of it ends with this, and with this process."""
    arena = Arena(config)
    async with AsyncExitStack() as stack:
        await _start_servers(arena, stack)
        if arena.redis_url and is_plain(config.redis_url):
            arena.redis_relay = await stack.enter_async_context(await _relay_to(arena.redis_url, 6379))
        if arena.database_url:
            port = 5432 if arena.database_url.startswith("postgres") else 3306
            arena.database_relay = await stack.enter_async_context(await _relay_to(arena.database_url, port))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        arena.site = await _start_site(arena, faults, stack, session)
        settings = SETTINGS.format(lease=LEASE_S, concurrency=config.concurrency, attempts=ATTEMPTS)
        (config.folder / "fyke.toml").write_text(settings, encoding="utf-8")
        (config.folder / "sources").mkdir()
        source = SOURCE.format(url=arena.site.url, slots=places(config))
        (config.folder / "sources" / "chaos.yaml").write_text(source, encoding="utf-8")
        yield arena


async def _start_servers(arena: Arena, stack: AsyncExitStack) -> None:
    config = arena.config
    if has_redis(config) and not config.redis_url:
        flavour = pick_flavour()
        if flavour is None:
            raise UsageError(f"no Redis can be started: {RedisServer.missing()}", hint="--frontier sql needs none")
        arena.redis = RedisServer(config.folder / "redis", flavour, fsync=True)
    if config.ledger != "sqlite" and not config.database_url:
        kind: type[PostgresServer | MariaServer] = PostgresServer if config.ledger == "postgres" else MariaServer
        if kind.missing():
            raise UsageError(f"no database can be started: {kind.missing()}", hint="--ledger sqlite needs none")
        arena.database = _database(config)
    for server in (arena.redis, arena.database):
        if server is not None:
            stack.callback(server.kill)
            await asyncio.to_thread(server.start)
    arena.redis_url = config.redis_url or (arena.redis.url if arena.redis else "")
    arena.database_url = config.database_url or (arena.database.url if arena.database else "")


def _database(config: ChaosConfig) -> PostgresServer | MariaServer:
    if config.ledger == "mariadb":
        return MariaServer(config.folder / "mariadb")
    version = next((each for each in (15, 18) if not PostgresServer.missing(each)), 15)
    return PostgresServer(config.folder / "postgres", version)


async def _relay_to(url: str, port: int) -> Relay:
    parts = urlsplit(url)
    return await open_relay(parts.port or port, parts.hostname or LOOPBACK)


async def _start_site(
    arena: Arena, faults: tuple[str, ...], stack: AsyncExitStack, session: aiohttp.ClientSession
) -> Site:
    config, log = arena.config, arena.folder / "site.log"
    port = free_port()
    poison = round(config.items * POISON_SHARE) if "poison" in faults else 0
    flags = {
        **{"port": port, "items": first_items(config), "seed": config.seed, "latency-ms": config.latency_ms},
        **{"per-page": PER_PAGE, "detail-size": 1_500, "poison": poison, "arrivals-kept": 200_000 + 40 * config.items},
    }
    command = [sys.executable, "-m", "fyke", "lab", "site", *(f"--{name}={value}" for name, value in flags.items())]
    with log.open("ab") as written:
        guard, _ = start_guarded(command, log_to=written.fileno(), folder=arena.folder)
    stack.callback(_end, guard)
    site = Site(f"http://{LOOPBACK}:{port}", session)
    async with asyncio.timeout(SITE_START_S):
        while True:
            try:
                await site.hits()
                return site
            except aiohttp.ClientError as error:
                if guard.poll() is not None:
                    raise UsageError("the lab site did not start", file=str(log)) from error
                await asyncio.sleep(0.05)


def first_items(config: ChaosConfig) -> int:
    """Four of five stand on the list from the start; the rest is published while the faults go on."""
    return config.items - config.items // 5


def _end(guard: subprocess.Popen[bytes]) -> None:
    # Its guard kills the program when this pipe closes.
    for pipe in (guard.stdin, guard.stdout):
        if pipe is not None:
            pipe.close()
    guard.wait()
