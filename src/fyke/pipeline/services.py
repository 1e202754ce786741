"""The loops that serve all workers: planning slots, keeping the frontier right. Any number of processes have them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TypeAlias

from fyke.pipeline.announce import Announcer
from fyke.pipeline.lead import Lead
from fyke.pipeline.loops import every
from fyke.pipeline.reaper import Reaper
from fyke.pipeline.reconciler import Reconciler
from fyke.pipeline.refill import Refill
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.watch import Watch
from fyke.ports import Clock

Call: TypeAlias = Callable[[], Awaitable[float | None]]
Round: TypeAlias = tuple[str, Call, float]
"""Name, what is done, and seconds until it is done again."""

END_S = 10.0
REFILL_S = 2.0
SHARE = 9
LONGEST_S = 900.0


class Services:
    """Runs rounds side by side until `stop`. An outage ends none of them."""

    def __init__(self, rounds: Sequence[Round], clock: Clock, random: Random) -> None:
        self._rounds, self._clock, self._random = rounds, clock, random
        self._stop = asyncio.Event()

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        """Raises LedgerClosed where nothing that is done here is of use any more."""
        loops = [
            asyncio.create_task(every(name, call, wait, clock=self._clock, random=self._random, stop=self._stop))
            for name, call, wait in self._rounds
        ]
        stopping = asyncio.create_task(self._stop.wait())
        try:
            ended, _ = await asyncio.wait([stopping, *loops], return_when=asyncio.FIRST_COMPLETED)
            self._stop.set()
            # What waits for a server that does not answer is left: it is safe to repeat.
            await asyncio.wait(loops, timeout=END_S)
        finally:
            for task in (stopping, *loops):
                task.cancel()
            await asyncio.gather(stopping, *loops, return_exceptions=True)
        for task in ended:
            task.result()


def led(lead: Lead | None, rounds: Sequence[Round]) -> list[Round]:
    """The same rounds, left out while another process has the lead: what all of them did would be done doubly."""
    if lead is None:
        return list(rounds)

    def leading(call: Call) -> Call:
        async def only_then() -> float | None:
            return await call() if await lead.mine() else None

        return only_then

    return [(name, leading(call), wait) for name, call, wait in rounds]


def planning(scheduler: Scheduler, lead: Lead | None) -> list[Round]:
    """Slots become runs. A scheduler that is told to end frees its lead by `Lead.give_up`."""

    async def plan() -> float:
        return await scheduler.run_once() / 1000

    rounds: list[Round] = [("scheduler", plan, 5.0)]
    if lead is not None:
        rounds.insert(0, ("lead", lead.look, 1.0))
    return rounds


def keeping(reaper: Reaper, every_s: float) -> list[Round]:
    """Leases that ran out are put back."""

    async def reap() -> None:
        await reaper.run_once()

    return [("reaper", reap, every_s)]


def reconciling(reconciler: Reconciler, every_s: float, clock: Clock) -> list[Round]:
    """Ledger and frontier are compared, both ways, and at once where something was found lost."""

    async def reconcile() -> float:
        began = clock.monotonic()
        await reconciler.run_once()
        # With a million tasks a sweep takes a minute: it must not become all that the servers do.
        return max(every_s, min(SHARE * (clock.monotonic() - began), LONGEST_S))

    return [("reconciler", reconcile, every_s), ("losses", reconciler.look, REFILL_S)]


def refilling(refill: Refill) -> list[Round]:
    """A frontier that lost its content is filled at once."""

    async def look() -> None:
        await refill.look()

    return [("frontier", look, REFILL_S)]


def watching(watch: Watch, on_stall: Callable[[], Awaitable[None]] | None = None) -> list[Round]:
    """Stalls are told, and `on_stall` is called."""

    async def look() -> None:
        if await watch.run_once() and on_stall is not None:
            await on_stall()

    return [("watch", look, 10.0)]


def announcing(announcer: Announcer) -> list[Round]:
    """Events go to the log."""

    async def announce() -> None:
        await announcer.run_once()

    return [("events", announce, 2.0)]
