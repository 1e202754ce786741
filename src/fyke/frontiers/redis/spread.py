"""Calls over several shards: split, and joined in the order that they were asked in.

A lane is in one shard only. Where a step between two shards is lost, a place ends with the deadline that it has (P4),
and a task that is nowhere is offered again from the ledger (P2).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from zlib import crc32

from fyke.errors import TransientError
from fyke.frontiers.redis.rows import check_batch
from fyke.frontiers.redis.shard import Shard
from fyke.model import Delivery, Task


class Shards:
    """All shards of a frontier, in their order."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self._list = list(shards)

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._list)

    def __len__(self) -> int:
        return len(self._list)

    def of(self, lane: str) -> Shard:
        return self._list[crc32(lane.encode()) % len(self._list)]

    def from_turn(self, turn: int) -> list[Shard]:
        """All of them, another one first each turn."""
        first = turn % len(self._list)
        return [*self._list[first:], *self._list[:first]]

    async def spread(
        self,
        name: str,
        deliveries: Sequence[Delivery],
        row: Callable[[Delivery], Any],
        arguments: Callable[[list[Any]], list[Any]],
        answers: Callable[[Any], list[Any]],
    ) -> list[Any]:
        """One call for each shard; the answers in the order of the deliveries."""
        check_batch(deliveries)
        parts: dict[Shard, list[int]] = {}
        for index, one in enumerate(deliveries):
            parts.setdefault(self.of(one.task.lane), []).append(index)
        calls = (shard.call(name, arguments([row(deliveries[at]) for at in places])) for shard, places in parts.items())
        joined: list[Any] = [None] * len(deliveries)
        for places, result in zip(parts.values(), await asyncio.gather(*calls), strict=True):
            for at, answer in zip(places, answers(result), strict=True):
                joined[at] = answer
        return joined

    async def end(
        self,
        name: str,
        deliveries: Sequence[Delivery],
        row: Callable[[Delivery], Any],
        arguments: Callable[[list[Any]], list[Any]],
        *,
        renewed: int = 0,
    ) -> list[bool]:
        """A fenced call; permits in other shards end with their lease, or are renewed with it."""
        abroad: list[tuple[str, str]] = []

        def answers(result: Any) -> list[Any]:
            ours, foreign = result
            abroad.extend(foreign)
            return list(ours)

        joined = await self.spread(name, deliveries, row, arguments, answers)
        places: dict[Shard, list[tuple[str, int]]] = {}
        for one, lane in abroad:
            places.setdefault(self.of(lane), []).append((one, renewed))
        for shard, rows in places.items():
            # What is done is done: without this call they end with the deadline that they have.
            with contextlib.suppress(TransientError):
                await shard.call("leave", rows)
        return joined

    async def not_elsewhere(self, wanted: dict[str, Task]) -> tuple[dict[str, Task], int]:
        """What is to be offered, and how many of it were live in another shard, which they left.

        Tasks that are live elsewhere at the same or a higher generation are not offered.
        """
        live: dict[str, list[tuple[int, Shard]]] = {}
        found = await asyncio.gather(*(shard.call("known", list(wanted)) for shard in self._list if wanted))
        for shard, generations in zip(self._list, found, strict=False):
            for key, generation in zip(wanted, generations, strict=True):
                if generation is not False:
                    live.setdefault(key, []).append((generation, shard))
        left: dict[Shard, list[tuple[str, int]]] = {}
        kept, moved = dict(wanted), set()
        for key, places in live.items():
            here = self.of(wanted[key].lane)
            for generation, shard in places:
                if shard is not here and generation >= wanted[key].generation:
                    kept.pop(key, None)
                elif shard is not here:
                    left.setdefault(shard, []).append((key, generation))
                    if all(other is not here for _, other in places):
                        moved.add(key)
        for shard, rows in left.items():
            await shard.call("drop", rows)
        return kept, len(moved & kept.keys())
