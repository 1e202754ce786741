"""`fyke run`: scheduler, reaper, reconciler, watch and alerts in one process, and a process for each worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TypeAlias

from msgspec import Struct

from fyke.errors import TransientError
from fyke.model import Event
from fyke.pipeline.announce import Announcer
from fyke.pipeline.children import Child, ending
from fyke.pipeline.loops import every, log
from fyke.pipeline.reaper import Reaper
from fyke.pipeline.reconciler import Reconciler
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.watch import Watch
from fyke.ports import Clock, Frontier, Ledger

RESTART_GRACE_S = 5.0
Round: TypeAlias = Callable[[], Awaitable[float | None]]


class SupervisorConfig(Struct, frozen=True):
    """`child_command`: starts one worker process. Times in seconds."""

    child_command: tuple[str, ...]
    processes: int = 1
    grace: float = 25.0
    reap_every: float = 10.0
    reconcile_every: float = 30.0
    reconcile_grace: float = 60.0


class Supervisor:
    """Runs until `stop`; a second stop kills the children at once."""

    def __init__(
        self,
        config: SupervisorConfig,
        ledger: Ledger,
        frontier: Frontier,
        scheduler: Scheduler,
        clock: Clock,
        random: Random,
        extra: Sequence[tuple[str, Round, float]] = (),
    ) -> None:
        self._config, self._ledger, self._frontier = config, ledger, frontier
        self._scheduler, self._clock, self._random, self._extra = scheduler, clock, random, extra
        self._reaper = Reaper(ledger, frontier)
        self._reconciler = Reconciler(ledger, frontier, grace_ms=int(config.reconcile_grace * 1000))
        self._watch = Watch(ledger, frontier, clock)
        self._announcer = Announcer(ledger)
        self._children = [Child(index, config.child_command, clock, self._died) for index in range(config.processes)]
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """First call: finish within the grace time. Second: at once."""
        if self._stop.is_set():
            for child in self._children:
                child.kill()
        self._stop.set()

    @property
    def restarts(self) -> int:
        return sum(child.restarts for child in self._children)

    async def run(self) -> None:
        rounds: list[tuple[str, Round, float]] = [
            ("scheduler", self._schedule, 5.0),
            ("reaper", self._reap, self._config.reap_every),
            ("reconciler", self._reconcile, self._config.reconcile_every),
            ("watch", self._look, 10.0),
            ("events", self._announce, 2.0),
            *self._extra,
        ]
        loops = [
            asyncio.create_task(every(name, call, wait, clock=self._clock, random=self._random, stop=self._stop))
            for name, call, wait in rounds
        ]
        running = [asyncio.create_task(child.run()) for child in self._children]
        await self._stop.wait()
        # A little more than the children's own grace, so that they end by themselves.
        await asyncio.gather(*(child.stop(self._config.grace + 5) for child in self._children))
        await asyncio.gather(*loops, *running)

    async def _schedule(self) -> float:
        return await self._scheduler.run_once() / 1000

    async def _reap(self) -> None:
        await self._reaper.run_once()

    async def _reconcile(self) -> None:
        await self._reconciler.run_once()

    async def _announce(self) -> None:
        await self._announcer.run_once()

    async def _look(self) -> None:
        if await self._watch.run_once():
            # A process that hangs hears no signal that it has to handle: the wait is short.
            await asyncio.gather(*(child.restart(RESTART_GRACE_S) for child in self._children))

    async def _died(self, index: int, code: int) -> None:
        text = f"worker process {index} ended ({ending(code)}) and is started again"
        try:
            await self._ledger.add_events([Event("worker_died", text, group=str(index))])
        except TransientError as error:
            log.warning("the event could not be written: %s", error)
