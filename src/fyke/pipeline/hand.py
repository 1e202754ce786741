"""What a worker holds: deliveries in hand, their renewal, and giving them back.

Liveness is per task: only what is really being worked on is renewed, and a task that is lost stops its work (P3).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from fyke.errors import TransientError
from fyke.model import Delivery
from fyke.ports import Clock, Frontier

log = logging.getLogger("fyke.worker")

MOST_RENEWED = 500

AGAIN_S = 1.0


class Hand:
    """Deliveries that this worker owns, with the task that works on each (None: it waits for its commit)."""

    def __init__(self, frontier: Frontier, clock: Clock, lease_ms: int) -> None:
        self._frontier, self._clock, self._lease_ms = frontier, clock, lease_ms
        self._held: dict[str, tuple[Delivery, asyncio.Task[None] | None]] = {}
        self.lost = 0

    def __len__(self) -> int:
        return len(self._held)

    def take(self, delivery: Delivery, work: asyncio.Task[None] | None) -> None:
        self._held[delivery.task.key] = (delivery, work)

    def worked(self, delivery: Delivery) -> None:
        """Its work is done; it is renewed until its commit and acknowledgement."""
        if self._held.get(delivery.task.key, (None, None))[0] is delivery:
            self._held[delivery.task.key] = (delivery, None)

    def drop(self, delivery: Delivery) -> None:
        if self._held.get(delivery.task.key, (None, None))[0] is delivery:
            del self._held[delivery.task.key]

    @property
    def frontier_made(self) -> int:
        return self._frontier.made

    @property
    def working(self) -> list[asyncio.Task[None]]:
        return [work for _, work in self._held.values() if work is not None]

    async def renew(self) -> None:
        """Renew all leases at a third of their length, sooner after a failure; runs until it is cancelled."""
        wait = self._lease_ms / 3000
        while True:
            await self._clock.sleep(wait)
            wait = self._lease_ms / 3000
            held = [delivery for delivery, _ in self._held.values()]
            if not held:
                continue
            kept: list[bool] = []
            try:
                for start in range(0, len(held), MOST_RENEWED):
                    kept += await self._frontier.extend(held[start : start + MOST_RENEWED], self._lease_ms)
            except TransientError as error:
                log.warning("leases could not be renewed: %s", error)
                # Nobody reaps for one lease after the servers are back: until then it must have succeeded.
                wait = min(wait, AGAIN_S)
                continue
            lost = []
            for delivery, ours in zip(held, kept, strict=True):
                current, work = self._held.get(delivery.task.key, (None, None))
                # A result that waits for its commit goes on: the conditional update decides.
                if not ours and current is delivery and work is not None:
                    self.lost += 1
                    lost.append(delivery)
                    work.cancel()
            await self.free(lost)

    async def free(self, lost: Sequence[Delivery]) -> None:
        """Give back the places in their lanes that lost tasks keep until their requests have ended."""
        if lost:
            with contextlib.suppress(TransientError):
                await self._frontier.release(lost)

    async def give_back(self) -> int:
        """Stop all work and release what is left at no cost, so that others see it at once; returns how many."""
        works = self.working
        for work in works:
            work.cancel()
        if works:
            await asyncio.wait(works, timeout=5)
        left = [delivery for delivery, _ in self._held.values()]
        self._held.clear()
        with contextlib.suppress(TransientError):
            for start in range(0, len(left), 500):
                await self._frontier.release(left[start : start + 500])
        return len(left)
