"""Slots that are due become runs, and runs become listing tasks. Any number of schedulers: one slot is one run (P1).

UNIQUE(source, slot) in the ledger decides, by the server's clock; nothing here is needed for correctness.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from fyke.errors import TransientError, UsageError
from fyke.model import Event, NewRun, OpenedRun, RunRow, SourceRow
from fyke.pipeline.filling import look
from fyke.pipeline.lead import Lead
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.stages import Stages
from fyke.policy.cadence import due_slot, next_slots
from fyke.policy.politeness import lane_of
from fyke.ports import Frontier, Ledger, Source

log = logging.getLogger("fyke.scheduler")

LONGEST_SLEEP_MS = 5_000
STANDBY_MS = 400
LATE_IS_MS = 60_000
TOLD_LATE_MS = 240_000


class Scheduler:
    """Opens runs that are due and offers their listing tasks. `lead`: of several one plans at a time."""

    def __init__(
        self, ledger: Ledger, frontier: Frontier, shelf: SourceShelf, stages: Stages, lead: Lead | None = None
    ) -> None:
        self._ledger, self._frontier, self._shelf, self._stages = ledger, frontier, shelf, stages
        self._lead = lead
        self._unreadable: dict[str, str] = {}

    async def run_once(self) -> int:
        """Open what is due now and end what is over its limit; returns ms until the next look.

        Raises:
            TransientError: the ledger is away; the slots are taken late, none is lost.
        """
        if self._lead is not None and not await self._lead.mine():
            return STANDBY_MS
        for run in await self._ledger.expire_runs():
            log.warning("run %d of %s was over its limit", run.id, run.source_id)
        now = await self._ledger.now()
        wait = LONGEST_SLEEP_MS
        for row in await self._ledger.sources():
            if row.paused_at is None:
                wait = min(wait, await self._turn(row, now))
        return wait

    async def _turn(self, row: SourceRow, now: int) -> int:
        """One source's turn; returns ms until its next slot. A source that fails is told once and the others go on."""
        try:
            source = await self._readable(row, now)
            if source is not None:
                await look(self._ledger, self.offer, row.source.id, source)
            if source is None or not source.schedule.cron:
                return LONGEST_SLEEP_MS
            await self._take_due(row, source, now)
            upcoming = next_slots(source.schedule.cron, source.schedule.timezone, now, 1)
            return max(upcoming[0] - now, 10) if upcoming else LONGEST_SLEEP_MS
        except TransientError:
            raise
        except Exception as error:
            # Whatever a source's own code raises: the other sources have their slots, too.
            if await self._unscheduled(row, f"{type(error).__name__}: {error}", now):
                log.exception("source %s could not be scheduled", row.source.id)
            return LONGEST_SLEEP_MS

    async def _unscheduled(self, row: SourceRow, reason: str, now: int) -> bool:
        """Tell it once for each text of a source; whether this was the time."""
        if self._unreadable.get(row.source.id) == row.source.hash:
            return False
        self._unreadable[row.source.id] = row.source.hash
        text = f"source {row.source.id} cannot be used here: {reason}"
        await self._ledger.add_events([Event("missed", text, source_id=row.source.id, at=now)])
        return True

    async def _readable(self, row: SourceRow, now: int) -> Source | None:
        """A source whose text cannot be compiled here is told once, and the others go on."""
        try:
            return await self._shelf.get(row.source.id, row.source.hash)
        except UsageError as error:
            await self._unscheduled(row, str(error), now)
            return None

    async def _take_due(self, row: SourceRow, source: Source, now: int) -> None:
        schedule, source_id = source.schedule, row.source.id
        last = await self._ledger.last_cron_slot(source_id)
        after = max(last or 0, row.applied_at)
        due = due_slot(schedule.cron, schedule.timezone, after, now)
        if due is None or (self._lead is not None and not await self._lead.confirmed()):
            return
        skipped = ""
        if schedule.late == "skip" and due.late_ms > LATE_IS_MS:
            skipped = f"it was {due.late_ms // 1000} s late and the source says late: skip"
        running = await planned_runs(self._ledger, source_id)
        if running and not skipped:
            if schedule.overlap == "queue":
                return
            if schedule.overlap == "cancel":
                for run in running:
                    await self._ledger.cancel_run(run.id, "cancelled by the next slot (overlap: cancel)")
            else:
                skipped = f"run {running[0].id} was still going (overlap: skip)"
        opened = await self.open(source_id, source, due.slot, covers_from=due.covers_from, skipped=skipped)
        if opened.created and due.late_ms > TOLD_LATE_MS:
            text = f"source {source_id}: a planned run was missed and is {'skipped' if skipped else 'made up for'}"
            text += f", {due.late_ms // 60_000} min late"
            data = {"slot": due.slot, "covers_from": due.covers_from, "late_ms": due.late_ms}
            await self._ledger.add_events([Event("missed", text, source_id=source_id, at=now, data=data)])

    async def open(
        self,
        source_id: str,
        source: Source,
        slot: int,
        *,
        covers_from: int | None = None,
        trigger: str = "cron",
        skipped: str = "",
    ) -> OpenedRun:
        """Take one slot and offer its listings; safe to repeat. Where the offer fails the reconciler makes it good."""
        listings = source.listings()
        lanes = [lane_of(source.list_request(listing, None).url) for listing in listings]
        self._stages.add("trigger", took=1)
        opened = await self._ledger.open_run(
            NewRun(
                source_id=source_id,
                slot=slot,
                listings=listings,
                lanes=lanes,
                trigger=trigger,
                covers_from=covers_from,
                limit_ms=source.schedule.limit,
                skipped=skipped,
            )
        )
        await self.offer(opened)
        if opened.created:
            self._stages.add("trigger", gave=len(opened.tasks))
            due = datetime.fromtimestamp(slot // 1000, UTC).isoformat()
            log.info("run %d of %s: slot %s, %d listing(s) %s", opened.run_id, source_id, due, len(listings), skipped)
        return opened

    async def offer(self, opened: OpenedRun) -> None:
        if not opened.tasks:
            return
        try:
            await self._frontier.offer(opened.tasks)
        except TransientError as error:
            log.warning("listings of run %d are offered by the reconciler: %s", opened.run_id, error)


async def planned_runs(ledger: Ledger, source_id: str) -> list[RunRow]:
    """The runs that are going, but one that fills, which goes beside them."""
    return [run for run in await ledger.running(source_id) if run.trigger != "fill"]


async def open_by_hand(scheduler: Scheduler, ledger: Ledger, shelf: SourceShelf, ids: Sequence[str]) -> list[OpenedRun]:
    """A run per source with its start time as slot; a run that a dead process left is resumed, not doubled."""
    opened = []
    for source_id in ids:
        rows = {row.source.id: row for row in await ledger.sources()}
        source = await shelf.get(source_id, rows[source_id].source.hash)
        if source is None or not source.listings():
            continue
        if await planned_runs(ledger, source_id):
            log.info("source %s has a run in progress: it is resumed", source_id)
            continue
        opened.append(await scheduler.open(source_id, source, await ledger.now(), trigger="hand"))
    return opened
