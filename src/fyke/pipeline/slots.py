"""A worker's slots: how many are free, and waiting until some are."""

from __future__ import annotations

import asyncio
import contextlib


class Slots:
    """How many tasks are worked on at once; `few`: so many free ones are worth a lease of their own."""

    def __init__(self, count: int) -> None:
        self._count, self._active, self._wanted = count, 0, 1
        self.few = max(1, count // 2)
        self._room = asyncio.Event()

    @property
    def free(self) -> int:
        return self._count - self._active

    @property
    def idle(self) -> bool:
        return self._active == 0

    def take(self) -> None:
        self._active += 1

    def give(self) -> None:
        self._active -= 1
        if self.free >= self._wanted:
            self._room.set()

    def look(self) -> None:
        """Who waits for any slot looks again: something else has changed that it asks for."""
        if self._wanted == 1:
            self._room.set()

    def stop(self) -> None:
        self._room.set()

    async def wait(self, seconds: float, free: int = 1) -> None:
        """Until so many are free, at most so long."""
        self._wanted = free
        self._room.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._room.wait()
