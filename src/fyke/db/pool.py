"""A bounded pool of connections that heals itself: what broke is closed, what is missing is opened when asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class Pool:
    """At most `limit` connections; the last one given back is the first one taken, so that idle ones stay idle."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        terminate: Callable[[Any], None],
        is_open: Callable[[Any], bool],
        limit: int,
    ) -> None:
        self._connect, self._terminate, self._is_open = connect, terminate, is_open
        self._free = asyncio.Semaphore(limit)
        self._idle: list[Any] = []
        self._closed = False

    async def take(self) -> Any:
        """A connection; give it back or drop it. Waits for its turn, first come, first served."""
        await self._free.acquire()
        try:
            while self._idle:
                found = self._idle.pop()
                if self._is_open(found):
                    return found
                self._terminate(found)
            if self._closed:
                raise RuntimeError("the database is closed")
            return await self._connect()
        except BaseException:
            self._free.release()
            raise

    def give(self, connection: Any) -> None:
        if self._closed:
            self._terminate(connection)
        else:
            self._idle.append(connection)
        self._free.release()

    def drop(self, connection: Any) -> None:
        """Close one that cannot be used again."""
        self._terminate(connection)
        self._free.release()

    def forget_idle(self) -> None:
        """Close all that wait here: when one is lost, most often all are."""
        while self._idle:
            self._terminate(self._idle.pop())

    def close(self) -> None:
        self._closed = True
        self.forget_idle()
