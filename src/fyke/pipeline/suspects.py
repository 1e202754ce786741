"""Tasks that a worker died with: the one that kills workers must take none along that only was beside it (P2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fyke.model import Delivery


class Suspects:
    """Who may be worked on beside whom. A suspect is a task of which a start ended with a death.

    Those whose last start it is go alone among the suspects, the others beside each other; each until its result is
    written. Tasks that no death is known of go on beside all of them.

    Args:
        attempts: starts that a task has.
        written: returns when the result of a delivery cannot be lost any more.
    """

    def __init__(self, attempts: int, written: Callable[[Delivery], Awaitable[None]]) -> None:
        self._attempts, self._written = attempts, written
        self._turn, self._left, self._beside = asyncio.Lock(), asyncio.Event(), 0

    @asynccontextmanager
    async def place(self, delivery: Delivery, spent: int) -> AsyncIterator[None]:
        """Where this delivery is worked on; `spent`: starts of it that ended with an outcome."""
        if delivery.starts <= spent:
            yield
        elif delivery.starts + 1 >= self._attempts:
            async with self._turn:
                while self._beside:
                    self._left.clear()
                    await self._left.wait()
                yield
                await self._written(delivery)
        else:
            async with self._turn:
                self._beside += 1
            try:
                yield
                await self._written(delivery)
            finally:
                self._beside -= 1
                self._left.set()
