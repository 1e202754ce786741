"""A small world for crash-point enumeration: every call of the pipeline to ledger, frontier and fetcher is counted
by name.

One life of the world is one process: real ledger and frontier, the real worker, lister, collector, scheduler, reaper
and reconciler. Only the network and the time are played. A fault is put at one call (or two); "death" ends the whole
life there, and the next one starts from what is on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

from msgspec import Struct

from fyke.app.sources import restore_lanes
from fyke.errors import TransientError
from fyke.model import LanePolicy
from fyke.pipeline.heart import WorkerConfig
from fyke.pipeline.once import OnceParts, OnceReport, run_once
from fyke.pipeline.pace import Pace
from fyke.pipeline.requests import Sender
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.stages import Stages
from fyke.pipeline.worker import Worker
from fyke.policy.outcome import Limits
from tests.crash.calls import Calls, Events, Fault, Point, Proxy, Step
from tests.crash.places import FilePlace, Place, Stores, fill
from tests.crash.site import HOST, SOURCE_ID, PlayedFetcher, PlayedRobots, PlayedSite, PlayedSource
from tests.crash.virtual import VirtualClock

__all__ = ["LANE", "LEASE_MS", "Fault", "Point", "Process", "World", "prepare", "until_death"]

T = TypeVar("T")
LANE = HOST.removeprefix("http://")
LEASE_MS = 9_000
LIMITS = Limits(attempts=3, attempt_delays=(4_000, 8_000), backoff_base=1_000, hold_first=10_000)


class Process(Struct):
    """The parts of one process, through proxies."""

    number: int
    calls: Calls
    stores: Stores
    ledger: Any
    frontier: Any
    worker: Worker
    scheduler: Scheduler
    shelf: SourceShelf
    sender: Sender


class World:
    """Keeps the disk and the site between lives."""

    def __init__(self, place: Place | Path, source: PlayedSource | None = None) -> None:
        self.place: Place = FilePlace(place) if isinstance(place, Path) else place
        self.clock = VirtualClock()
        self.source = source or PlayedSource()
        self.site = PlayedSite()
        self.fetches: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.trace: list[Step] = []
        self.slots, self.lease, self.grace = 3, LEASE_MS, 2_000
        self.wait = 3_600_000
        self.meanwhile = self.another_does_the_work

    @property
    def hit(self) -> list[tuple[Point, Fault]]:
        return [hit for process in self.processes for hit in process.calls.hit]

    @asynccontextmanager
    async def process(self, plan: Mapping[Point, Fault] | None = None, *, made: bool = True) -> AsyncIterator[Process]:
        """The parts of a new process; what is left of it at the end is thrown away.

        `made`: it finds a frontier that is the ledger's. `run` sees to that by itself.
        """
        number, place = len(self.processes) + 1, self.place
        random = Random(number)
        place.expect((plan or {}).values())
        stores = await place.open(self.clock, random, self.lease)
        if made:
            await stores.frontier.rebuild(*await stores.ledger.identity())
        calls = Calls(plan or {}, Events(self.meanwhile, place.damage, place.changed, self.trace), number)
        ledger: Any = Proxy("ledger", stores.ledger, calls)
        frontier: Any = Proxy("frontier", stores.frontier, calls)
        fetcher: Any = Proxy("fetcher", PlayedFetcher(self.site, self.clock, self.fetches, calls.die), calls)
        stages, shelf = Stages(), SourceShelf(ledger, lambda _: self.source)
        sender = Sender(frontier, fetcher, PlayedRobots(), self.clock, Pace(frontier, self.clock))
        config = WorkerConfig(
            f"w{number}",
            "here",
            number,
            "test",
            slots=self.slots,
            lease=self.lease,
            grace=self.grace,
            blocks_to_pause=3,
        )
        worker = Worker(config, ledger, sender, shelf, self.clock, random, LIMITS, stages)
        scheduler = Scheduler(ledger, frontier, shelf, stages)
        process = Process(number, calls, stores, ledger, frontier, worker, scheduler, shelf, sender)
        self.processes.append(process)
        try:
            yield process
        finally:
            await stores.close()

    async def live(self, plan: Mapping[Point, Fault] | None = None) -> OnceReport | None:
        """One process: `run --once`; None if it died or gave up on the way."""
        async with self.process(plan, made=False) as process:
            return await until_death(process.calls, self.run(process))

    async def run(self, process: Process) -> OnceReport:
        """What `fyke run --once` does in a process."""
        await process.frontier.rebuild(*await process.ledger.identity())
        await self.configure(process)
        parts = OnceParts(
            ledger=process.ledger,
            frontier=process.frontier,
            shelf=process.shelf,
            scheduler=process.scheduler,
            worker=process.worker,
            clock=self.clock,
            random=Random(process.number),
            wait=self.wait,
            reap_s=5.0,
            prepare=lambda: restore_lanes(self.shop(process)),
        )
        return await run_once(parts, [SOURCE_ID], asyncio.Event())

    async def configure(self, process: Process) -> None:
        await process.frontier.configure([LanePolicy(LANE, gap=0, jitter=0, concurrency=4)])

    def shop(self, process: Process) -> Any:
        """What `app` has of a process' stores."""
        settings = SimpleNamespace(lanes={})
        return SimpleNamespace(ledger=process.ledger, frontier=process.frontier, settings=settings, clock=self.clock)

    async def another_does_the_work(self) -> None:
        self.clock.jump(self.lease * 2)
        await self.live()

    async def recover(self) -> OnceReport:
        """A life without faults, after all leases ran out, until everything is settled."""
        self.clock.jump(self.lease * 3)
        report = await self.live()
        assert report is not None
        return report


async def prepare(path: Path, source: PlayedSource | None = None) -> None:
    """A file with the tables, the source, and the triggers that log each write of a row."""
    stores = await FilePlace(path).open(VirtualClock(), Random(1), LEASE_MS)
    await fill(stores.database, stores.ledger, (source or PlayedSource()).resolved)
    await stores.close()


async def until_death(calls: Calls, running: Awaitable[T]) -> T | None:
    """What a process comes to; None where a call was its death, or where it gave up before any work began."""
    task, dying = asyncio.ensure_future(running), asyncio.create_task(calls.dead.wait())
    try:
        await asyncio.wait([task, dying], return_when=asyncio.FIRST_COMPLETED)
        if calls.dead.is_set():
            return None
        # The command may give up where its servers are away at its start or its end: it says so.
        with contextlib.suppress(TransientError):
            return await task
        return None
    finally:
        for one in (task, dying):
            one.cancel()
        await asyncio.gather(task, dying, return_exceptions=True)
