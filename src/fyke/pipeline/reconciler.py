"""Ledger and frontier, compared both ways: due and not in the frontier → offer; in the frontier and not due → drop
(P2).

Everything in the frontier can be lost at any moment; this is what brings it back.
"""

from __future__ import annotations

import logging

from msgspec import Struct

from fyke.model import Task
from fyke.ports import Frontier, Ledger

log = logging.getLogger("fyke.reconciler")

BATCH = 1_000
GRACE_MS = 60_000


class Reconciled(Struct, frozen=True):
    offered: int
    dropped: int


class Reconciler:
    """One sweep at a time. `grace_ms`: younger work is still on its way and left alone."""

    def __init__(self, ledger: Ledger, frontier: Frontier, grace_ms: int = GRACE_MS) -> None:
        self._ledger, self._frontier, self._grace = ledger, frontier, grace_ms

    async def run_once(self) -> Reconciled:
        """Offer what is missing and drop what is not wanted; safe beside any offer.

        Raises:
            TransientError
        """
        emptied = await self._frontier.rebuild(*await self._ledger.identity())
        offered = await self._offer_missing(0 if emptied else self._grace)
        dropped = 0 if emptied else await self._drop_unwanted()
        if offered or dropped:
            log.info("reconciled: %d offered, %d dropped", offered, dropped)
        return Reconciled(offered, dropped)

    async def _offer_missing(self, grace: int) -> int:
        total, after = 0, None
        while True:
            tasks = await self._ledger.due(after=after, limit=BATCH, older_than_ms=grace)
            if not tasks:
                return total
            after = (tasks[-1].kind.value, tasks[-1].ref)
            live = await self._frontier.known([task.key for task in tasks])
            missing: list[Task] = [
                task
                for task, generation in zip(tasks, live, strict=True)
                if generation is None or generation < task.generation
            ]
            if missing:
                total += await self._frontier.offer(missing)

    async def _drop_unwanted(self) -> int:
        total, after = 0, ""
        while True:
            keys = await self._frontier.keys(after, BATCH)
            if not keys:
                return total
            after = keys[-1][0]
            pairs = [(key, generation) for key, generation, _ in keys]
            wanted = await self._ledger.due_keys(pairs)
            unwanted = [pair for pair, keep in zip(pairs, wanted, strict=True) if not keep]
            if unwanted:
                total += await self._frontier.drop(unwanted)
