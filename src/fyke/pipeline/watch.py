"""What nobody would notice: tasks that wait while none starts, and a frontier that takes nothing new."""

from __future__ import annotations

import logging

from fyke.model import Event
from fyke.ports import Clock, Frontier, Ledger

log = logging.getLogger("fyke.supervisor")

STALLED_AFTER_MS = 120_000
ASIDE = "aside"
FULL_MARK = "frontier_full"
FULL = "the frontier's memory is full (maxmemory of Redis)"
FULL_HINT = "raise maxmemory, or let the workers empty the backlog"
ROOM_AGAIN = 0.95
ONE_STATE_MS = 10_000


class Watch:
    """Tells once per stall. `stalled_after_ms`: tasks were waiting that long, could go, and none started.

    `tell` False: no event is written, for those that only restart their own workers.
    """

    def __init__(
        self,
        ledger: Ledger,
        frontier: Frontier,
        clock: Clock,
        stalled_after_ms: int = STALLED_AFTER_MS,
        *,
        tell: bool = True,
    ) -> None:
        self._ledger, self._frontier, self._clock, self._limit = ledger, frontier, clock, stalled_after_ms
        self._waiting_since: float | None = None
        self._told, self._tell = False, tell
        self._last_lease: int | None = None

    async def run_once(self) -> bool:
        """True when a stall is found anew: the caller restarts the workers."""
        stats = await self._frontier.stats()
        now = await self._ledger.now()
        if self._tell and stats.aside:
            await self._tell_aside(stats.aside, now)
        if self._tell:
            await self._tell_memory(stats.memory, now)
        # What is in hand is being worked on, and may take all slots or a lane's only place for long: leases that nobody
        # renews are the reaper's.
        could_go = not stats.leased and any(
            lane.ready and max(lane.next_at, lane.hold_until) <= now for lane in stats.lanes
        )
        moved = stats.last_lease_at != self._last_lease
        self._last_lease = stats.last_lease_at
        if not could_go or moved:
            self._waiting_since, self._told = None, False
            return False
        if self._waiting_since is None:
            self._waiting_since = self._clock.monotonic()
        waited = (self._clock.monotonic() - self._waiting_since) * 1000
        if waited < self._limit or self._told:
            return False
        self._told = True
        text = (
            f"{stats.ready} task(s) are waiting and none has started for {int(waited / 1000)} s; workers are restarted"
        )
        if self._tell:
            await self._ledger.add_events([Event("stalled", text, at=now, data={"ready": stats.ready})])
        else:
            log.warning("%s", text)
        return True

    async def _tell_memory(self, share: float, now: int) -> None:
        """One event when the server begins to refuse what is new, and one when it has room again."""
        told = await self._ledger.cursor(FULL_MARK)
        if share >= 1 and not told:
            text = f"{FULL}: nothing new is offered until it has room, and nothing is lost; {FULL_HINT}"
            await self._note_memory(Event("frontier_full", text, group="full", at=now), 1)
        elif share < ROOM_AGAIN and told:
            text = "the frontier's memory has room again: what waited in the ledger is offered now"
            await self._note_memory(Event("frontier_full", text, group="room", at=now), 0)

    async def _note_memory(self, event: Event, mark: int) -> None:
        # While Redis refuses writes no scheduler has the lead for sure, and several may look.
        await self._ledger.add_events([event], apart_ms=ONE_STATE_MS)
        await self._ledger.cursor(FULL_MARK, mark)

    async def _tell_aside(self, aside: int, now: int) -> None:
        """Tasks of another release: told when there are more of them than before."""
        told = await self._ledger.cursor(ASIDE)
        if aside <= told:
            return
        await self._ledger.cursor(ASIDE, aside)
        text = f"{aside} task(s) in the frontier are of a release that this one cannot read: kept aside, offered anew"
        await self._ledger.add_events([Event("aside", text, group=ASIDE, at=now, data={"aside": aside})])
