"""Waiting for work without asking again and again: the scripts put a token on a list when work may have come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from fyke.errors import FykeError
from fyke.frontiers.redis.connection import BLOCK_S, Connection

SHORTEST_S: Final = 0.01


class Waker:
    """Waits on the lists of the pools that this handle leases from; one blocked connection a place that has lists.

    Who never leased is not woken, so that it takes no token from who does.
    """

    def __init__(self, connection: Connection, prefixes: Sequence[str]) -> None:
        self.pools: set[str] = set()
        self._connection = connection
        self._groups = [[prefix] for prefix in prefixes] if connection.address.kind == "cluster" else [list(prefixes)]
        self._waits: dict[int, asyncio.Task[None]] = {}

    async def wait(self, seconds: float) -> None:
        """Return when a token came, at the latest after `seconds`; also where the server is away."""
        if seconds < SHORTEST_S or not self.pools:
            await asyncio.sleep(seconds)
            return
        if len(self._groups) == 1:
            await self._block(self._groups[0], seconds)
            return
        # A wait that another shard's token ended goes on, and what it finds ends the next one.
        for number, group in enumerate(self._groups):
            if number not in self._waits:
                self._waits[number] = asyncio.create_task(self._block(group, BLOCK_S))
        await asyncio.wait(self._waits.values(), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self._waits = {number: task for number, task in self._waits.items() if not task.done()}

    async def _block(self, prefixes: Sequence[str], seconds: float) -> None:
        keys = [f"{prefix}wake:{pool}" for prefix in prefixes for pool in sorted(self.pools)]
        try:
            await self._connection.first_of(keys, seconds)
        except FykeError:
            # The lease that follows tells of the outage, and its caller waits longer and longer.
            await asyncio.sleep(seconds)

    async def close(self) -> None:
        for task in self._waits.values():
            task.cancel()
        for task in self._waits.values():
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._waits.clear()
