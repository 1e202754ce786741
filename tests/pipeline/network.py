"""Several hosts on virtual time, and processes that collect from them with a real ledger, frontier and robots.txt.

Only the network is played; what it logs is what a host would have got.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fyke.app.sources import configure_lanes
from fyke.fetchers.robots import RobotsRules
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger
from fyke.model import Delivery, FetchPolicy, Fields, LanePolicy, Listing, ListPage, Request, Response, Task, TaskKind
from fyke.pipeline.heart import WorkerConfig
from fyke.pipeline.once import OnceParts, OnceReport, run_once
from fyke.pipeline.pace import Pace
from fyke.pipeline.requests import Sender
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.stages import Stages
from fyke.pipeline.worker import Worker
from fyke.policy.outcome import Limits
from fyke.ports import Clock, Gate, Robots
from tests.crash.site import PlayedSource
from tests.crash.virtual import TimedDatabase, VirtualClock

SITE = "site.example"
SECONDS = 0.2
Answer = tuple[int, Mapping[str, str], str]
DETAIL: Answer = (200, {}, json.dumps({"title": "t", "body": "b"}))
FREE = LanePolicy(SITE, gap=0, jitter=0, concurrency=4)


def anywhere(gap: int) -> LanePolicy:
    """A source's pace for any host that it does not name."""
    return LanePolicy("*", gap=gap, jitter=0, concurrency=2)


def list_page(*keys: str, more: bool = False) -> Answer:
    return 200, {}, json.dumps({"rows": [{"key": key, "title": key} for key in keys], "more": more})


class PlayedNetwork:
    """`ports.Fetcher`; a redirect asks the gate and goes on. `robots`: host → its robots.txt; the others have none.

    `log`: (seconds, address) of each request, robots.txt left out.
    """

    def __init__(self, clock: Clock, answer: Callable[[str], Answer], robots: Mapping[str, str] | None = None) -> None:
        self.answer, self.log = answer, list[tuple[float, str]]()
        self._clock, self._robots = clock, dict(robots or {})

    async def fetch(self, request: Request, policy: FetchPolicy, gate: Gate) -> Response:
        url = request.url
        while True:
            started = self._clock.now()
            status, headers, text = self._ask(url)
            await self._clock.sleep(SECONDS)
            if status != 302:
                return Response(url, status, dict(headers), text.encode(), text, started_at=started)
            url = headers["location"]
            await gate.admit(url)

    def _ask(self, url: str) -> Answer:
        host, _, path = url.removeprefix("http://").partition("/")
        if path == "robots.txt":
            return (200, {}, self._robots[host]) if host in self._robots else (404, {}, "")
        self.log.append((round(self._clock.monotonic(), 3), url))
        return self.answer(url)

    async def close(self) -> None:
        return None

    def starts(self, host: str) -> list[float]:
        """When the host was asked for a page."""
        return [at for at, url in self.log if url.startswith(f"http://{host}/")]

    def least_gap(self, host: str) -> float:
        starts = self.starts(host)
        assert len(starts) > 2
        return min(round(later - earlier, 3) for earlier, later in pairwise(starts))


class HostSource(PlayedSource):
    """Details are on `hosts`, one hop each; `lanes`: what the source says of its hosts' pace."""

    def __init__(self, *hosts: str, lanes: tuple[LanePolicy, ...] = (FREE,), name: str = "played") -> None:
        super().__init__(tuple("detail" for _ in hosts))
        self._hosts = hosts
        text = json.dumps([name, hosts, [lane.gap for lane in lanes]])
        self.resolved = replace(
            PlayedSource.resolved, id=name, scope=name, table=name, text=text, hash=text, lanes=lanes
        )

    def read_page(self, listing: Listing, response: Response, cursor: dict[str, Any] | None) -> ListPage:
        page = super().read_page(listing, response, cursor)
        for entry in page.entries:
            entry.url, entry.lane = f"http://{self._hosts[0]}/detail/{entry.key}", self._hosts[0]
        return page

    def detail_request(self, step: int, fields: Fields) -> Request:
        return Request(f"http://{self._hosts[step]}/detail/{fields['key']}")


class Office(Struct):
    """One process that collects."""

    clock: VirtualClock
    ledger: SqlLedger
    frontier: SqlFrontier
    sender: Sender
    scheduler: Scheduler
    parts: OnceParts

    async def apply(self, *sources: HostSource) -> None:
        for source in sources:
            await self.ledger.apply_source(source.resolved)
        await self.configure()

    async def configure(self) -> None:
        """What every command does that sets the lanes."""
        stores: Any = SimpleNamespace(ledger=self.ledger, frontier=self.frontier, settings=SimpleNamespace(lanes={}))
        await configure_lanes(stores)

    async def collect(self, *ids: str) -> OnceReport:
        return await run_once(self.parts, ids or ("played",), asyncio.Event())

    async def deliveries(self, lane: str, number: int) -> list[Delivery]:
        """So many tasks of a lane that is free."""
        await self.frontier.configure([LanePolicy(lane, gap=0, jitter=0, concurrency=8)])
        await self.frontier.offer([Task(TaskKind.ITEM, n, 1, lane) for n in range(1, number + 1)])
        return (await self.frontier.lease(number, 600_000, worker="w")).deliveries


@asynccontextmanager
async def office(
    path: Path,
    clock: VirtualClock,
    network: PlayedNetwork,
    *sources: PlayedSource,
    number: int = 1,
    wait: int = 600_000,
    robots: Robots | None = None,
) -> AsyncIterator[Office]:
    """A process on the ledger at `path`, which is made where there is none. `wait`: how long it collects, in ms."""
    database, random, stages = TimedDatabase(path), Random(number), Stages()
    ledger = SqlLedger(database, clock)
    await ledger.migrate()
    frontier = SqlFrontier(database, clock, random, lease_ms=30_000)
    by_text = {source.resolved.text: source for source in sources}
    shelf = SourceShelf(ledger, lambda text: by_text[text])
    rules = robots or RobotsRules(ledger, network, clock)
    sender = Sender(frontier, network, rules, clock, Pace(frontier, clock))
    config = WorkerConfig(f"w{number}", "here", number, "test")
    worker = Worker(config, ledger, sender, shelf, clock, random, Limits(), stages)
    scheduler = Scheduler(ledger, frontier, shelf, stages)
    parts = OnceParts(ledger, frontier, shelf, scheduler, worker, clock, random, wait)
    try:
        yield Office(clock, ledger, frontier, sender, scheduler, parts)
    finally:
        await database.close()
