"""Backpressure: walks of lists pause while too much waits, and go on when less does. Nothing is dropped (P2).

Whether they pause is a mark in the ledger, the same for all workers.
"""

from __future__ import annotations

import logging
from typing import Final

from fyke.errors import FykeError
from fyke.model import Event
from fyke.ports import Clock, Frontier, Ledger

log = logging.getLogger("fyke.lister")

MARK: Final = "backpressure"
LOOK_S: Final = 2.0
PAUSE_MS: Final = 5_000


class Paused(FykeError):
    """A walk waits until the backlog is smaller: give its task back for `wait_ms`, at no cost."""

    def __init__(self, text: str, wait_ms: int = PAUSE_MS) -> None:
        super().__init__(text)
        self.wait_ms = wait_ms


class Backlog:
    """What waits, looked at once in a while. `high`, `low`: waiting tasks from which on, and below which, it is so."""

    def __init__(self, ledger: Ledger, frontier: Frontier, clock: Clock, *, high: int, low: int) -> None:
        self._ledger, self._frontier, self._clock, self._high, self._low = ledger, frontier, clock, high, low
        self._looked_at = float("-inf")
        self._full, self._waiting = False, 0

    async def full(self, coming: int = 0) -> bool:
        """Whether walks pause now; `coming`: entries that are about to be added.

        Raises:
            TransientError
        """
        now = self._clock.monotonic()
        if now - self._looked_at >= LOOK_S:
            stats = await self._frontier.stats()
            self._waiting = stats.ready + stats.delayed
            self._full = bool(await self._ledger.cursor(MARK))
            self._looked_at = now
        full = self._waiting + coming >= (self._low if self._full else self._high)
        if full != self._full:
            self._full = full
            await self._ledger.cursor(MARK, int(full))
            await self._tell()
        return full

    @property
    def reason(self) -> str:
        return f"{self._waiting} tasks wait: lists are read on when fewer than {self._low} do (backpressure)"

    async def _tell(self) -> None:
        if not self._full:
            log.info("%d tasks wait: lists are read on", self._waiting)
            return
        log.warning("%s", self.reason)
        data = {"waiting": self._waiting, "high": self._high, "low": self._low}
        await self._ledger.add_events([Event("backpressure", self.reason, group=MARK, data=data)])
