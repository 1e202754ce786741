"""Leases that ran out go back to their lane: a task of a dead worker is always found again (P2)."""

from __future__ import annotations

import logging

from fyke.errors import TransientError
from fyke.model import Event
from fyke.ports import Frontier, Ledger

log = logging.getLogger("fyke.reaper")

BATCH = 100


class Reaper:
    """Reaps, and after an outage waits one lease: the holders are alive and could not renew."""

    def __init__(self, ledger: Ledger, frontier: Frontier) -> None:
        self._ledger, self._frontier, self._away = ledger, frontier, False

    async def run_once(self) -> int:
        """Put back what ran out; returns how many.

        Raises:
            TransientError: the servers are away; the next call but one waits a lease before it reaps.
        """
        try:
            if self._away:
                await self._frontier.pause_reaping()
                self._away = False
            total = 0
            while True:
                reaped = await self._frontier.reap(BATCH)
                total += len(reaped)
                workers = sorted({lease.worker for lease in reaped if lease.begun})
                if workers:
                    now = await self._ledger.now()
                    count = sum(lease.begun for lease in reaped)
                    text = f"{count} task(s) of {', '.join(workers)} were taken over: their leases ran out"
                    await self._ledger.add_events([Event("worker_died", text, group=workers[0], at=now)])
                if len(reaped) < BATCH:
                    return total
        except TransientError:
            self._away = True
            raise
