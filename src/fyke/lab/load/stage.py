"""Where one round of a load test is played: throw-away servers, a site that records, a ledger, and Fyke's commands."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from fyke.app import Stores, apply_folder, open_stores, submitted_entries
from fyke.app.run import make_shelf
from fyke.errors import UsageError
from fyke.lab.crew import Crew, Member, drivers_missing
from fyke.lab.load.figures import Request
from fyke.lab.servers import PostgresServer, RedisServer
from fyke.lab.servers.redis import FLAVOURS
from fyke.pipeline.scheduler import Scheduler, open_by_hand
from fyke.pipeline.stages import Stages
from fyke.settings import load_settings

Backend = Literal["redis", "postgres", "sqlite"]
BACKENDS: Final[tuple[Backend, ...]] = get_args(Backend)
SOURCE_ID: Final = "load"
OFFERED_AT_ONCE: Final = 500
ALIVE_MS: Final = 60_000
HOST_CONCURRENCY: Final = 1_000
SETTINGS: Final = """\
ledger = "{ledger}"
frontier = "{frontier}"
[worker]
concurrency = {slots}
[log]
level = "warning"
"""
SOURCE: Final = """\
id: load
schedule: {{cron: ["0 0 1 1 *"]}}
fetch: {{politeness: {{delay: 0s, jitter: 0s, concurrency: {concurrency}}}, private_addresses: allow}}
listing:
  request: {{url: "{url}/list/index.html"}}
  rows: {{in: ul.list, css: "> li"}}
  fields: {{url: {{css: "a::attr(href)", then: [absolute_url]}}}}
  connect: all
identity: {{scope: load, key: {{field: url}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: "div#content"}}
      fields:
        title: {{css: h1, required: true}}
        buyer: {{css: "table.info tr:nth-child(1) td"}}
        body_text: {{css: "div#content"}}
store: {{table: load_rows}}
"""


class Servers:
    """The throw-away servers of a load test; each round has an empty database."""

    def __init__(self, folder: Path, backend: Backend) -> None:
        self._stack, self._folder, self._rounds = ExitStack(), folder, 0
        self.backend = backend
        self.redis: RedisServer | None = None
        self.postgres: PostgresServer | None = None
        if backend == "redis":
            flavour = next(each for each in FLAVOURS if not RedisServer.missing(each))
            self.redis = self._stack.enter_context(RedisServer(folder / "redis", flavour))
        if backend != "sqlite":
            version = next(each for each in (15, 18) if not PostgresServer.missing(each))
            self.postgres = self._stack.enter_context(PostgresServer(folder / "postgres", version))

    def addresses(self) -> tuple[str, str]:
        """Ledger and frontier of a new round."""
        self._rounds += 1
        if self.redis is not None:
            self.redis.ask("FLUSHALL")
        if self.postgres is not None:
            ledger = self.postgres.create_database(f"load_{self._rounds}")
        else:
            ledger = f"sqlite:///{self._folder / f'load-{self._rounds}.db'}"
        return ledger, self.redis.url if self.redis is not None else "sql"

    @property
    def pids(self) -> dict[str, int]:
        servers = {"redis": self.redis, "database": self.postgres}
        return {name: server.pid for name, server in servers.items() if server is not None}

    def close(self) -> None:
        self._stack.close()


def why_not(backend: Backend) -> str:
    """Why a load test on this back end cannot be played here; "" where it can."""
    servers = {"redis": (RedisServer, PostgresServer), "postgres": (PostgresServer,), "sqlite": ()}[backend]
    extras = {"redis": ("redis", "postgres"), "postgres": ("postgres",), "sqlite": ()}[backend]
    return drivers_missing(*extras) or "; ".join(reason for server in servers if (reason := server.missing()))


def pick_backend(wanted: Backend | None) -> Backend:
    """The one that is wanted; else what this machine can start: Redis and PostgreSQL, PostgreSQL, or one file.

    Raises:
        UsageError: the one that is wanted cannot be started here.
    """
    if wanted is None:
        return next(each for each in BACKENDS if not why_not(each))
    reason = why_not(wanted)
    if reason:
        raise UsageError(reason, field="--backend", hint="sqlite needs no server")
    return wanted


class Site:
    """The recording lab site, in a process of its own."""

    def __init__(self, folder: Path, items: int, latency_ms: float) -> None:
        config = {"items": items, "per_page": 50, "latency_ms": latency_ms, "robots": None}
        self._crew = Crew(folder, [Member("site", ["fyke.lab.load.site", json.dumps(config)])], log_to=folder)
        self._log = self._crew.log

    async def start(self) -> str:
        await asyncio.to_thread(self._crew.start)
        async with asyncio.timeout(30):
            # What it prints is its address, and only that, unless it failed.
            while not (text := self._crew.last_lines().strip()).startswith("http://"):
                self._crew.tend()
                await asyncio.sleep(0.05)
        self.url = text
        return text

    @property
    def pid(self) -> int:
        return self._crew.members[0].pid

    def details(self) -> list[str]:
        return [record["url"] for record in self._ask("/_truth")["records"].values()]

    def requests(self, since: float) -> list[Request]:
        return [
            Request(round(began - since, 4), round(ended - since, 4), path, status == 200)
            for began, ended, path, status in self._ask("/_requests")
        ]

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:  # loopback only
            return json.load(answer)

    def stop(self) -> None:
        self._crew.stop()


class Place(Struct, frozen=True):
    """What the workers of a round are started with."""

    stores: Stores
    folder: Path  # their working folder
    logs: Path
    variables: dict[str, str]

    def crew(self, workers: int) -> Crew:
        commands = {"scheduler": ["fyke", "scheduler"], "workers": ["fyke", "worker", "--processes", str(workers)]}
        members = [Member(name, command) for name, command in commands.items()]
        return Crew(self.folder, members, self.variables, log_to=self.logs)


@asynccontextmanager
async def lab_place(folder: Path, addresses: tuple[str, str], url: str, slots: int) -> AsyncIterator[Place]:
    """A folder as a user has it, with the lab site as its source."""
    (folder / "sources").mkdir(parents=True)
    ledger, frontier = addresses
    settings = SETTINGS.format(ledger=ledger, frontier=frontier, slots=slots)
    (folder / "fyke.toml").write_text(settings, encoding="utf-8")
    source = SOURCE.format(url=url, concurrency=HOST_CONCURRENCY)
    (folder / "sources" / "load.yaml").write_text(source, encoding="utf-8")
    loaded = load_settings(folder, {"FYKE_SOURCES": str(folder / "sources")})
    async with open_stores(loaded.settings) as stores:
        await apply_folder(stores, strict=True)
        yield Place(stores, folder, folder, {})


@asynccontextmanager
async def own_place(folder: Path, variables: Mapping[str, str], source_id: str, slots: int) -> AsyncIterator[Place]:
    """The user's own settings and source, politeness unchanged, on a ledger that is thrown away."""
    ledger = f"sqlite:///{folder / 'load.db'}"
    chosen = {**variables, "FYKE_LEDGER": ledger, "FYKE_FRONTIER": "sql", "FYKE_WORKER_CONCURRENCY": str(slots)}
    loaded = load_settings(Path.cwd(), chosen)
    async with open_stores(loaded.settings) as stores:
        await apply_folder(stores, [source_id], strict=True)
        yield Place(stores, Path.cwd(), folder, chosen)


async def submit_all(stores: Stores, urls: Sequence[str]) -> None:
    """Every address as an item that is due, as `fyke submit` does it."""
    (row,) = [row for row in await stores.ledger.sources() if row.source.id == SOURCE_ID]
    for start in range(0, len(urls), OFFERED_AT_ONCE):
        entries = submitted_entries(row, urls[start : start + OFFERED_AT_ONCE], {})
        written = await stores.ledger.submit(SOURCE_ID, entries)
        await stores.frontier.offer(written.due)


async def open_run(stores: Stores, source_id: str) -> None:
    """One run by hand, as `fyke run --once` opens it."""
    shelf = make_shelf(stores)
    scheduler = Scheduler(stores.ledger, stores.frontier, shelf, Stages())
    await open_by_hand(scheduler, stores.ledger, shelf, [source_id])


async def workers_alive(stores: Stores) -> int:
    rows = await stores.ledger.workers(since=await stores.ledger.now() - ALIVE_MS)
    return sum(row.pool == "text" for row in rows)


def visits(place: Place, since_ms: int) -> list[Request]:
    """The visits that an own source's round wrote, as the workers saw them."""
    with _reading(place.logs / "load.db") as connection:
        rows = connection.execute("SELECT started_at, ended_at, outcome FROM visit ORDER BY started_at").fetchall()
    return [
        Request((began - since_ms) / 1000, (ended - since_ms) / 1000, outcome, outcome in {"ok", "unchanged"})
        for began, ended, outcome in rows
    ]


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()
