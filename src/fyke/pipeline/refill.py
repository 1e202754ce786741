"""A frontier that lost its content is filled from the ledger at once, by whoever notices it first (P2).

A mark in the ledger tells that a filling is not finished, so that one that dies is finished by the next reconciler.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from fyke.model import Event, Task
from fyke.ports import Frontier, Ledger

log = logging.getLogger("fyke.reconciler")

BATCH: Final = 1_000
MARK: Final = "refill"
ONE_LOSS_MS: Final = 10_000
Prepare = Callable[[], Awaitable[None]]


class Refill:
    """`prepare` sets lanes and holds, before any task can be leased from them (P4)."""

    def __init__(self, ledger: Ledger, frontier: Frontier, prepare: Prepare | None = None) -> None:
        self._ledger, self._frontier, self._prepare = ledger, frontier, prepare

    async def mark(self) -> bool:
        """Whether the frontier had lost its content, or belonged to another ledger: it is empty now, and marked so.

        Raises:
            TransientError
        """
        if not await self._frontier.rebuild(*await self._ledger.identity()):
            return False
        await self._ledger.cursor(MARK, 1)
        return True

    async def look(self) -> int | None:
        """Fill the frontier if this process finds that it lost its content; the number offered, else None."""
        return await self.fill() if await self.mark() else None

    async def finish(self) -> int | None:
        """As `look`, and finish what another process began and did not end."""
        return await self.fill() if await self.mark() or await self._ledger.cursor(MARK) else None

    async def fill(self) -> int:
        """Set the lanes and offer all that is due, however young; returns how many tasks were offered."""
        noticed_at = await self._ledger.now()
        if self._prepare is not None:
            await self._prepare()
        offered = await offer_missing(self._ledger, self._frontier, 0)
        await self._ledger.cursor(MARK, 0)
        if offered:
            text = "the frontier was new or had lost its content"
            await self.tell(f"{text}; it was made again, and {offered} task(s) were offered", offered, noticed_at)
        return offered

    async def tell(self, text: str, offered: int, noticed_at: int) -> None:
        """Write the event of a loss: one, however many processes have noticed it and offered a part.

        Who noticed it when another one was just telling of it means the same loss, however long its own part took; a
        frontier that was made again since then was lost once more.
        """
        log.info("%s", text)
        now = await self._ledger.now()
        group = f"frontier {self._frontier.made}"
        event = Event("lost", text, group=group, at=now, data={"offered": offered})
        await self._ledger.add_events([event], apart_ms=max(0, now - noticed_at) + ONE_LOSS_MS)


async def offer_missing(ledger: Ledger, frontier: Frontier, grace_ms: int) -> int:
    """Offer what is due longer than the grace time and not live; returns how many that were."""
    total, after = 0, None
    while True:
        tasks = await ledger.due(after=after, limit=BATCH, older_than_ms=grace_ms)
        if not tasks:
            return total
        after = (tasks[-1].kind.value, tasks[-1].ref)
        live = await frontier.known([task.key for task in tasks])
        missing: list[Task] = [
            task
            for task, generation in zip(tasks, live, strict=True)
            if generation is None or generation < task.generation
        ]
        if missing:
            total += await frontier.offer(missing)
