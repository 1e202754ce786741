"""Ledger and frontier, compared both ways: due and not in the frontier → offer; in the frontier and not due → drop
(P2).

Everything in the frontier can be lost at any moment; this is what brings it back.
"""

from __future__ import annotations

import logging

from msgspec import Struct

from fyke.errors import TransientError
from fyke.pipeline.refill import BATCH, MARK, Prepare, Refill, offer_missing
from fyke.pipeline.watch import FULL_MARK
from fyke.ports import Frontier, Ledger

log = logging.getLogger("fyke.reconciler")

GRACE_MS = 60_000
LEFT_MS = 4_000


class Reconciled(Struct, frozen=True):
    offered: int
    dropped: int


class Reconciler:
    """One sweep at a time. `grace_ms`: younger work is still on its way and left alone; `prepare` as in `Refill`."""

    def __init__(
        self, ledger: Ledger, frontier: Frontier, grace_ms: int = GRACE_MS, prepare: Prepare | None = None
    ) -> None:
        self._ledger, self._frontier, self._grace = ledger, frontier, grace_ms
        self._refill = Refill(ledger, frontier, prepare)
        self._lost, self._noticed_at, self._marked_at = "", 0, 0
        self._away = self._full = self._back = False

    async def look(self) -> None:
        """Sweep at once where something was found lost, is not filled, or could not be offered for a while."""
        try:
            await self._notice()
            full = bool(await self._ledger.cursor(FULL_MARK))
        except TransientError:
            self._away = True
            raise
        # What was to be offered meanwhile waits in the ledger, and is no younger for that.
        self._back |= self._away or (self._full and not full)
        self._away, self._full = False, full
        if self._lost or self._back or await self._left():
            await self.run_once()

    async def _left(self) -> bool:
        """Whether a filling was begun and not ended for some seconds: a command that only looks leaves it to us."""
        if not await self._ledger.cursor(MARK):
            self._marked_at = 0
            return False
        now = await self._ledger.now()
        self._marked_at = self._marked_at or now
        return now - self._marked_at >= LEFT_MS

    async def _notice(self) -> None:
        """What was lost is remembered until a sweep has ended, for it is not told twice."""
        if not self._lost and (found := await self._frontier.damaged()):
            self._lost = found
            self._noticed_at = await self._ledger.now()

    async def run_once(self) -> Reconciled:
        """Offer what is missing and drop what is not wanted; safe beside any offer.

        Raises:
            TransientError
        """
        filled = await self._refill.finish()
        if filled is not None:
            self._back = False
            return Reconciled(filled, 0)
        await self._revisit()
        await self._notice()
        offered = await self._offer_missing(0 if self._lost or self._back else self._grace)
        self._back = False
        if self._lost:
            text = f"{self._lost}; {offered} task(s) were offered again"
            if offered:
                await self._refill.tell(text, offered, self._noticed_at)
            else:
                # Nothing was missing, or another process has offered it and tells so.
                log.info("%s", text)
            self._lost = ""
        dropped = await self._drop_unwanted()
        if offered or dropped:
            log.info("reconciled: %d offered, %d dropped", offered, dropped)
        return Reconciled(offered, dropped)

    async def _revisit(self) -> None:
        """What the calendar of a source wants visited again; a full batch is followed by the next."""
        while True:
            tasks = await self._ledger.revisit(BATCH)
            if tasks:
                await self._frontier.offer(tasks)
            if len(tasks) < BATCH:
                return

    async def _offer_missing(self, grace: int) -> int:
        return await offer_missing(self._ledger, self._frontier, grace)

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
