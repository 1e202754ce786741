"""Does the faults, drawn by a seed: each kind once, then in a new order, and so on; one at a time on each target."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from random import Random
from typing import TypeAlias

from fyke.lab.chaos.plan import FAULTS

# Does one fault, healed when it returns or is cancelled; `record` is called with its detail once it has begun.
Act: TypeAlias = Callable[[Callable[[str], None]], Awaitable[None]]


class Nemesis:
    """Every `every` seconds one of the faults, those that last on the side."""

    def __init__(
        self, random: Random, acts: Mapping[str, Act], every: float, record: Callable[[str, str], None]
    ) -> None:
        self._random, self._acts, self._every, self._record = random, acts, every, record
        self._going: dict[str, asyncio.Task[None]] = {}
        self._left: list[str] = []
        self._never = set(acts)

    async def run(self, seconds: float) -> None:
        """Returns when the time is over, each kind has come at least once and all faults are healed.

        Kinds that wait for their target (an outage lasts, and then rests) get the same time once more at most.

        Raises:
            Whatever a fault raised that could not be done or healed.
        """
        loop = asyncio.get_running_loop()
        end, next_at = loop.time() + seconds, loop.time() + self._every
        try:
            while next_at < (end + seconds if self._never else end):
                await asyncio.sleep(max(0.0, next_at - loop.time()))
                self._finish()
                self._start_one(self._acts if next_at < end else self._never)
                next_at += self._every
            await asyncio.sleep(max(0.0, max(end, next_at) - loop.time()))
        finally:
            for task in self._going.values():
                task.cancel()
            answers = await asyncio.gather(*self._going.values(), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer

    async def _do(self, name: str) -> None:
        await self._acts[name](lambda detail: self._record(name, detail))
        if FAULTS[name].rest:
            # After an outage all shall be able to come back before the next one.
            await asyncio.sleep(FAULTS[name].rest)

    def _finish(self) -> None:
        for target, task in list(self._going.items()):
            if task.done():
                del self._going[target]
                task.result()

    def _start_one(self, names: Collection[str]) -> None:
        """The next of these kinds whose target is free. What is busy keeps its turn; the others go on without it."""
        free = [name for name in self._acts if name in names and FAULTS[name].target not in self._going]
        if not any(name in free for name in self._left):
            self._left += [name for name in self._random.sample(free, len(free)) if name not in self._left]
        name = next((name for name in self._left if name in free), "")
        if name:
            self._left.remove(name)
            self._never.discard(name)
            self._going[FAULTS[name].target] = asyncio.create_task(self._do(name))
