"""A small world for crash-point enumeration: every call of the pipeline to ledger, frontier and fetcher is counted
by name.

One life of the world is one process: real ledger and frontier on one SQLite file, the real worker, lister, collector,
scheduler, reaper and reconciler. Only the network is played, and time runs faster. A fault is put at one call (or two);
"death" ends the whole life there, and the next one starts from what is on the disk.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from fyke.db.sqlite import SqliteDatabase
from fyke.errors import TransientError
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sqlite import SqliteLedger
from fyke.model import LanePolicy
from fyke.pipeline import once
from fyke.pipeline.once import OnceParts, OnceReport, run_once
from fyke.pipeline.requests import Sender
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.stages import Stages
from fyke.pipeline.worker import Worker, WorkerConfig
from fyke.policy.outcome import Limits
from tests.crash.site import SOURCE_ID, PlayedFetcher, PlayedRobots, PlayedSite, make_source

SPEED = 100
LEASE_MS = 3_000
LIMITS = Limits(attempts=3, attempt_delays=(300, 600), backoff_base=200, hold_first=1_000)


class Fault(StrEnum):
    DIE_BEFORE = "die before"
    DIE_AFTER = "die after"
    NO_EFFECT = "error, no effect"
    LOST_REPLY = "effect, but error"
    TWICE = "done twice"
    LATE = "delayed past the lease"


class Died(BaseException):
    """The process is gone."""


class FastClock:
    """`SPEED` times as fast as the real one; `jump` lets a lease run out at once."""

    def __init__(self) -> None:
        self._began, self._jumped = time.monotonic(), 0.0
        self._base = 1_790_000_000_000

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * SPEED + self._jumped

    def now(self) -> int:
        return self._base + int(self.monotonic() * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SPEED)

    def jump(self, milliseconds: int) -> None:
        self._jumped += milliseconds / 1000


Point: TypeAlias = tuple[str, int]
"""A call: its name, and the how-manieth of that name it is in a life."""


class Calls:
    """The counting, shared by all proxies of a life. Background services are not counted: they run by time."""

    def __init__(self, clock: FastClock, plan: Mapping[Point, Fault]) -> None:
        self.clock, self.plan = clock, dict(plan)
        self.counts: Counter[str] = Counter()
        self.dead = asyncio.Event()
        self.hit: list[tuple[Point, Fault]] = []

    async def make(self, name: str, call: Callable[[], Any]) -> Any:
        if self.dead.is_set():
            raise Died
        self.counts[name] += 1
        point = (name, self.counts[name])
        fault = self.plan.pop(point, None)
        if fault is None:
            return await call()
        self.hit.append((point, fault))
        if fault is Fault.DIE_BEFORE:
            self._die()
        if fault is Fault.NO_EFFECT:
            raise TransientError(f"played: {name} was refused")
        answer = await call()
        if fault is Fault.TWICE:
            answer = await call()
        if fault is Fault.DIE_AFTER:
            self._die()
        if fault is Fault.LOST_REPLY:
            raise TransientError(f"played: the reply of {name} was lost")
        if fault is Fault.LATE:
            # The caller was paused; meanwhile its leases ran out and another one may have taken over.
            self.clock.jump(LEASE_MS * 2)
            await asyncio.sleep(0.02)
        return answer

    def _die(self) -> None:
        self.dead.set()
        raise Died


UNCOUNTED = frozenset(
    {"beat", "counts", "open_count", "runs", "close", "wait", "extend", "add_events", "identity", "rebuild"}
    | {"reap", "pause_reaping", "due", "due_keys", "known", "keys", "drop", "expire_runs", "now"}
)


class Proxy:
    """Passes every call on, through the counting. A call that comes after a death is not made."""

    def __init__(self, name: str, target: Any, calls: Calls) -> None:
        self._name, self._target, self._calls = name, target, calls

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._target, attribute)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def through(*args: Any, **kwargs: Any) -> Any:
            if attribute in UNCOUNTED:
                if self._calls.dead.is_set():
                    raise Died
                if attribute == "wait":
                    return await found(max(1, args[0] // SPEED))
                return await found(*args, **kwargs)
            return await self._calls.make(f"{self._name}.{attribute}", lambda: found(*args, **kwargs))

        return through


class World:
    """Keeps the disk and the site between lives."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock, self.site = path, FastClock(), PlayedSite()
        self.fetches: Counter[str] = Counter()
        self.lives = 0
        self.calls: Calls = Calls(self.clock, {})
        self.hit: list[tuple[Point, Fault]] = []

    async def prepare(self) -> None:
        """Tables, the source, and the triggers that log each write of a row."""
        database = SqliteDatabase(self.path)
        ledger = SqliteLedger(database, self.clock)
        await ledger.migrate()
        source = make_source()
        await ledger.apply_source(source.resolved)
        await database.write(_install_triggers)
        await database.close()

    async def live(self, plan: Mapping[Point, Fault] | None = None) -> OnceReport | None:
        """One process: `run --once`; None if it died on the way."""
        self.lives += 1
        database = SqliteDatabase(self.path)
        calls = self.calls = Calls(self.clock, plan or {})
        ledger: Any = Proxy("ledger", SqliteLedger(database, self.clock), calls)
        frontier: Any = Proxy(
            "frontier", SqlFrontier(database, self.clock, Random(self.lives), lease_ms=LEASE_MS), calls
        )
        fetcher: Any = Proxy("fetcher", PlayedFetcher(self.site, self.clock, self.fetches), calls)
        running = asyncio.create_task(self._run(ledger, frontier, fetcher))
        dying = asyncio.create_task(calls.dead.wait())
        try:
            await asyncio.wait([running, dying], return_when=asyncio.FIRST_COMPLETED)
            if calls.dead.is_set():
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                return None
            try:
                return await running
            except TransientError:
                # Before any work began the command may give up: it says so, and the next one starts anew.
                return None
        finally:
            self.hit += calls.hit
            dying.cancel()
            await asyncio.gather(running, dying, return_exceptions=True)
            await database.close()

    async def _run(self, ledger: Any, frontier: Any, fetcher: Any) -> OnceReport:
        await frontier.rebuild(*await ledger.identity())
        await frontier.configure([LanePolicy("site.example", gap=0, jitter=0, concurrency=4)])
        source, stages, random = make_source(), Stages(), Random(self.lives)
        shelf = SourceShelf(ledger, lambda _: source)
        sender = Sender(frontier, fetcher, PlayedRobots(), self.clock)
        config = WorkerConfig(f"w{self.lives}", "here", 1, "test", slots=3, lease=LEASE_MS, grace=2_000)
        worker = Worker(config, ledger, sender, shelf, self.clock, random, LIMITS, stages)
        parts = OnceParts(
            ledger=ledger,
            frontier=frontier,
            shelf=shelf,
            scheduler=Scheduler(ledger, frontier, shelf, stages),
            worker=worker,
            clock=self.clock,
            random=random,
            wait=600_000,
            reap_s=1.0,
        )
        return await run_once(parts, [SOURCE_ID], asyncio.Event())

    async def recover(self) -> OnceReport:
        """Lives without faults, after all leases ran out, until everything is settled."""
        self.clock.jump(LEASE_MS * 3)
        report = await self.live()
        assert report is not None
        return report


def _install_triggers(connection: Any) -> None:
    from fyke.testing.effects import install_effects

    install_effects(connection, "notices")


def shorten_looks() -> None:
    """`run --once` looks every 0.2 s whether it is done; here time is faster."""
    once.LOOK_S = 0.005
