"""Events go to the log: what a person may want to know is seen also where no webhook is set."""

from __future__ import annotations

import logging

from fyke.ports import Ledger

log = logging.getLogger("fyke.events")

CURSOR = "log"
BATCH = 100
# Many of one kind at once (a site lost a hundred pages) are told by the first few and their number.
MOST_OF_A_KIND = 5


class Announcer:
    """Writes events to the log, once in a ledger's life as far as one process goes; two may both tell one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def run_once(self) -> int:
        """Tell what is new; returns how many events that were.

        Raises:
            TransientError: the ledger is away; they are told later.
        """
        after, total = await self._ledger.cursor(CURSOR), 0
        told: dict[tuple[str, str], int] = {}
        while events := await self._ledger.events(after, BATCH):
            for event in events:
                key = (event.kind, event.source_id)
                told[key] = told.get(key, 0) + 1
                if told[key] <= MOST_OF_A_KIND:
                    log.warning("%s: %s", event.kind, event.message)
            after = events[-1].id
            total += len(events)
            await self._ledger.cursor(CURSOR, after)
        for (kind, source_id), count in told.items():
            if count > MOST_OF_A_KIND:
                log.warning("%s: and %d more of source '%s'", kind, count - MOST_OF_A_KIND, source_id)
        return total
