"""A clock that tests move by hand, so that nothing waits."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class FakeClock:
    """`ports.Clock` whose time moves by `advance` and `set` alone. Sleepers wake when their time has come."""

    def __init__(self, now: int = 1_760_000_000_000) -> None:
        self._now, self._monotonic = now, 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._order), future))
        await future

    def advance(self, milliseconds: int) -> None:
        """Let time pass: both clocks move, and sleepers that are due wake in order."""
        self._now += milliseconds
        self._monotonic += milliseconds / 1000
        while self._sleepers and self._sleepers[0][0] <= self._monotonic + 1e-9:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)

    def set(self, now: int) -> None:
        """Set the wall clock, forward or back, as a person or NTP does: nobody wakes by it."""
        self._now = now

    @property
    def sleeping(self) -> int:
        """How many wait in `sleep`."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def next_wake(self) -> float | None:
        """Seconds until the first sleeper is due; None where nobody sleeps."""
        waiting = [due for due, _, future in self._sleepers if not future.done()]
        return max(0.0, min(waiting) - self._monotonic) if waiting else None
