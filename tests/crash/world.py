"""A small world for crash-point enumeration: every call of the pipeline to ledger, frontier and fetcher is counted
by name.

One life of the world is one process: real ledger and frontier on one SQLite file, the real worker, lister, collector,
scheduler, reaper and reconciler. Only the network and the time are played. A fault is put at one call (or two); "death"
ends the whole life there, and the next one starts from what is on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from fyke.errors import FetchFailed, TransientError
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger
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
from fyke.testing.effects import install_effect_log
from tests.crash.site import HOST, SOURCE_ID, PlayedFetcher, PlayedRobots, PlayedSite, PlayedSource
from tests.crash.virtual import TimedDatabase, VirtualClock

LANE = HOST.removeprefix("http://")
LEASE_MS = 9_000
LIMITS = Limits(attempts=3, attempt_delays=(8_000, 16_000), backoff_base=1_000, hold_first=10_000)


class Fault(StrEnum):
    DIE_BEFORE = "die before"
    DIE_AFTER = "die after"
    NO_EFFECT = "error, no effect"
    LOST_REPLY = "effect, but error"
    TWICE = "done twice"
    STOP_BEFORE = "stopped past the lease before it"
    STOP_AFTER = "stopped past the lease after it"


class Died(BaseException):
    """The process is gone."""


T = TypeVar("T")
Point: TypeAlias = tuple[str, int]
"""A call: its name, and the how-manieth of that name it is in a life."""

NEVER_FAULTY = frozenset({"frontier.wait", "ledger.close", "frontier.close", "fetcher.close"})
"""They ask nobody and change nothing."""


class Calls:
    """The counting, shared by all proxies of a life. `meanwhile`: what others do while this one is stopped.

    `then`: what happens just before a call. `away`: ledger and frontier are.
    """

    def __init__(
        self, plan: Mapping[Point, Fault], meanwhile: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)
    ) -> None:
        self.plan, self._meanwhile = dict(plan), meanwhile
        self.counts: Counter[str] = Counter()
        self.dead, self._awake = asyncio.Event(), asyncio.Event()
        self._awake.set()
        self.hit: list[tuple[Point, Fault]] = []
        self.then: dict[Point, Callable[[], None]] = {}
        self.away, self.failed = False, 0

    async def make(self, name: str, call: Callable[[], Any]) -> Any:
        await self._run_on()
        self.counts[name] += 1
        point = (name, self.counts[name])
        fault = self.plan.pop(point, None)
        if fault is not None:
            self.hit.append((point, fault))
        self.then.pop(point, lambda: None)()
        if self.away and not name.startswith("fetcher."):
            raise self._error(name, "is away")
        if fault is Fault.DIE_BEFORE:
            self.die()
        if fault is Fault.NO_EFFECT:
            raise self._error(name, "was refused")
        if fault is Fault.STOP_BEFORE:
            await self._stop()
        try:
            answer = await call()
        except TransientError:
            self.failed += 1
            raise
        if fault is Fault.TWICE:
            answer = await call()
        if fault is Fault.DIE_AFTER:
            self.die()
        if fault is Fault.LOST_REPLY:
            raise self._error(name, "lost its reply")
        if fault is Fault.STOP_AFTER:
            await self._stop()
        await self._run_on()
        return answer

    def die(self) -> None:
        self.dead.set()
        raise Died

    async def _run_on(self) -> None:
        await self._awake.wait()
        if self.dead.is_set():
            raise Died

    async def _stop(self) -> None:
        """As SIGSTOP: no call of this life goes out or comes back until others are done."""
        self._awake.clear()
        await self._meanwhile()
        self._awake.set()

    @staticmethod
    def _error(name: str, what: str) -> Exception:
        if name.startswith("fetcher."):
            return FetchFailed("network", f"played: {name} {what}")
        return TransientError(f"played: {name} {what}")


class Proxy:
    """Passes every call on, through the counting. A call that comes after a death is not made."""

    def __init__(self, name: str, target: Any, calls: Calls) -> None:
        self._name, self._target, self._calls = name, target, calls

    def __getattr__(self, attribute: str) -> Any:
        found, name = getattr(self._target, attribute), f"{self._name}.{attribute}"
        if not asyncio.iscoroutinefunction(found) or name in NEVER_FAULTY:
            return found

        async def through(*args: Any, **kwargs: Any) -> Any:
            return await self._calls.make(name, lambda: found(*args, **kwargs))

        return through


class Process(Struct):
    """The parts of one process, through proxies."""

    number: int
    calls: Calls
    database: TimedDatabase
    ledger: Any
    frontier: Any
    worker: Worker
    scheduler: Scheduler
    shelf: SourceShelf
    sender: Sender


class World:
    """Keeps the disk and the site between lives."""

    def __init__(self, path: Path, source: PlayedSource | None = None) -> None:
        self.path, self.clock = path, VirtualClock()
        self.source = source or PlayedSource()
        self.site = PlayedSite()
        self.fetches: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.slots, self.lease, self.grace = 3, LEASE_MS, 2_000
        self.wait = 3_600_000
        self.meanwhile = self.another_does_the_work

    @property
    def hit(self) -> list[tuple[Point, Fault]]:
        return [hit for process in self.processes for hit in process.calls.hit]

    @asynccontextmanager
    async def process(self, plan: Mapping[Point, Fault] | None = None) -> AsyncIterator[Process]:
        """The parts of a new process; what is left of it at the end is thrown away."""
        number = len(self.processes) + 1
        database, calls, random = TimedDatabase(self.path), Calls(plan or {}, self.meanwhile), Random(number)
        ledger: Any = Proxy("ledger", SqlLedger(database, self.clock), calls)
        frontier: Any = Proxy("frontier", SqlFrontier(database, self.clock, random, lease_ms=self.lease), calls)
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
        process = Process(number, calls, database, ledger, frontier, worker, scheduler, shelf, sender)
        self.processes.append(process)
        try:
            yield process
        finally:
            await database.close()

    async def live(self, plan: Mapping[Point, Fault] | None = None) -> OnceReport | None:
        """One process: `run --once`; None if it died or gave up on the way."""
        async with self.process(plan) as process:
            return await until_death(process.calls, self.run(process))

    async def run(self, process: Process) -> OnceReport:
        """What `fyke run --once` does in a process."""
        await process.frontier.rebuild(*await process.ledger.identity())
        await process.frontier.configure([LanePolicy(LANE, gap=0, jitter=0, concurrency=4)])
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
        )
        return await run_once(parts, [SOURCE_ID], asyncio.Event())

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
    """Tables, the source, and the triggers that log each write of a row."""
    database, resolved = TimedDatabase(path), (source or PlayedSource()).resolved
    ledger = SqlLedger(database, VirtualClock())
    await ledger.migrate()
    await ledger.apply_source(resolved)
    await database.write(lambda connection: install_effect_log(connection, resolved.table))
    await database.close()


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
