"""Tasks that a worker died with: the one that kills workers must take none along that only was beside it (P2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fyke.model import Delivery

# Who may be beside whom: those of one kind, but nobody beside one that is ALONE.
SUSPECT, LAST, ALONE = 1, 2, 3


class Suspects:
    """Who may be worked on beside whom. A suspect is a task of which a start ended with a death.

    Where a task has one start left, a suspect beside it could cost it that one: so last starts and suspects are not
    worked on at the same time, and a suspect's last start has none of both beside it; each until its result is written.
    All other tasks go on beside all of them.

    Args:
        attempts: starts that a task has.
        written: returns when the result of a delivery cannot be lost any more.
    """

    def __init__(self, attempts: int, written: Callable[[Delivery], Awaitable[None]]) -> None:
        self._attempts, self._written = attempts, written
        self._turn, self._left = asyncio.Lock(), asyncio.Event()
        self._kind, self._count = 0, 0

    @asynccontextmanager
    async def place(self, delivery: Delivery, spent: int) -> AsyncIterator[None]:
        """Where this delivery is worked on; `spent`: starts of it that ended with an outcome."""
        suspect, last = delivery.starts > spent, 0 < delivery.starts >= self._attempts - 1
        if not (suspect or last):
            yield
            return
        kind = ALONE if suspect and last else SUSPECT if suspect else LAST
        async with self._turn:
            while self._count and (kind != self._kind or kind == ALONE):
                self._left.clear()
                await self._left.wait()
            self._kind, self._count = kind, self._count + 1
        try:
            yield
            await self._written(delivery)
        finally:
            self._count -= 1
            self._left.set()
