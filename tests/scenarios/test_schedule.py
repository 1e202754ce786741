"""SCENARIOS 3 (one machine's part), 4 and 22: slots, late runs, overlaps, limits; real ledger, moved clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger
from fyke.model import PassEnd, PassState, RunState
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.stages import Stages
from fyke.ports import SourceSchedule
from fyke.testing.clock import FakeClock
from tests.crash.site import SOURCE_ID, PlayedSource


def at(text: str) -> int:
    """ms of a time in Shanghai."""
    return int(datetime.fromisoformat(f"{text}+08:00").timestamp() * 1000)


class Setting(Struct):
    clock: FakeClock
    ledger: SqlLedger
    frontier: SqlFrontier
    source: Any

    def scheduler(self, stages: Stages | None = None) -> Scheduler:
        shelf = SourceShelf(self.ledger, lambda _: self.source)
        return Scheduler(self.ledger, self.frontier, shelf, stages or Stages())

    async def runs(self) -> list[Any]:
        found = await self.ledger.runs(SOURCE_ID, limit=200)
        return sorted(found, key=lambda run: run.slot)

    async def end_running(self) -> None:
        for run in await self.ledger.running():
            for row in run.passes:
                lease = await self.ledger.start_pass(row.id, "w")
                assert lease is not None
                await self.ledger.end_pass(row.id, lease.fence, PassEnd(PassState.COMPLETE))


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    clock = FakeClock(at("2026-11-29 07:00:00"))
    database = SqliteDatabase(tmp_path / "ledger.db")
    ledger = SqlLedger(database, clock)
    await ledger.migrate()
    source = PlayedSource()
    source.schedule = SourceSchedule(cron=("0 8 * * *",))
    await ledger.apply_source(source.resolved)
    yield Setting(clock, ledger, SqlFrontier(database, clock, Random(1), lease_ms=30_000), source)
    await database.close()


async def test_a_day_missed_by_five_minutes_runs_once_and_says_how_late(setting: Setting) -> None:
    """All schedulers are down from 07:59:50 to 08:05:00: one run with planned time 08:00."""
    setting.clock.set(at("2026-11-29 07:59:50"))
    await setting.scheduler().run_once()
    assert await setting.runs() == []
    setting.clock.set(at("2026-11-29 08:05:00"))
    await setting.scheduler().run_once()
    await setting.scheduler().run_once()
    (run,) = await setting.runs()
    assert (run.slot, run.covers_from, run.started_at - run.slot) == (at("2026-11-29 08:00:00"), None, 300_000)
    (event,) = [event for event in await setting.ledger.events() if event.kind == "missed"]
    assert (event.source_id, event.data["late_ms"]) == (SOURCE_ID, 300_000)


async def test_each_missed_minute_is_covered_by_one_run(setting: Setting) -> None:
    setting.source.schedule = SourceSchedule(cron=("* * * * *",))
    setting.clock.set(at("2026-11-29 07:59:50"))
    await setting.scheduler().run_once()
    await setting.end_running()
    setting.clock.set(at("2026-11-29 08:05:00"))
    await setting.scheduler().run_once()
    run = (await setting.runs())[-1]
    assert (run.slot, run.covers_from) == (at("2026-11-29 08:05:00"), at("2026-11-29 08:00:00"))


async def test_after_a_late_run_the_next_slot_is_the_plans(setting: Setting) -> None:
    setting.clock.set(at("2026-11-29 11:00:00"))
    await setting.scheduler().run_once()
    await setting.end_running()
    setting.clock.set(at("2026-11-30 07:59:59"))
    await setting.scheduler().run_once()
    assert len(await setting.runs()) == 1
    setting.clock.set(at("2026-11-30 08:00:00"))
    await setting.scheduler().run_once()
    assert [run.slot for run in await setting.runs()] == [at("2026-11-29 08:00:00"), at("2026-11-30 08:00:00")]


async def test_a_slot_due_while_a_run_is_going_is_skipped_and_recorded(setting: Setting) -> None:
    await setting.frontier.stats()
    setting.clock.set(at("2026-11-29 08:00:00"))
    setting.source.schedule = SourceSchedule(cron=("0 8 * * *",), limit=100 * 3_600_000)
    await setting.scheduler().run_once()
    setting.clock.set(at("2026-11-30 08:00:00"))
    await setting.scheduler().run_once()
    first, second = await setting.runs()
    assert (first.state, second.state) == (RunState.RUNNING, RunState.SKIPPED)
    assert "still going" in second.reason


async def test_a_queued_slot_starts_when_the_run_before_has_ended(setting: Setting) -> None:
    setting.source.schedule = SourceSchedule(cron=("0 8 * * *",), overlap="queue", limit=100 * 3_600_000)
    setting.clock.set(at("2026-11-29 08:00:00"))
    await setting.scheduler().run_once()
    setting.clock.set(at("2026-11-30 08:00:00"))
    await setting.scheduler().run_once()
    assert len(await setting.runs()) == 1
    await setting.end_running()
    await setting.scheduler().run_once()
    assert [run.state for run in await setting.runs()] == [RunState.COMPLETE, RunState.RUNNING]


async def test_a_cancelled_run_is_timed_out_and_its_slot_stays_taken(setting: Setting) -> None:
    setting.source.schedule = SourceSchedule(cron=("0 8 * * *",), overlap="cancel", limit=100 * 3_600_000)
    setting.clock.set(at("2026-11-29 08:00:00"))
    await setting.scheduler().run_once()
    setting.clock.set(at("2026-11-30 08:00:00"))
    await setting.scheduler().run_once()
    assert [run.state for run in await setting.runs()] == [RunState.TIMED_OUT, RunState.RUNNING]


async def test_a_late_run_is_dropped_and_counted_where_the_source_says_so(setting: Setting) -> None:
    setting.source.schedule = SourceSchedule(cron=("0 8 * * *",), late="skip")
    setting.clock.set(at("2026-11-29 08:05:00"))
    stages = Stages()
    await setting.scheduler(stages).run_once()
    (run,) = await setting.runs()
    assert run.state is RunState.SKIPPED
    assert "300 s late" in run.reason
    # As the source wanted it: that is no failure.
    assert stages.snapshot()["trigger"] == {"in": 1, "out": 0, "failed": 0}


async def test_slots_skipped_one_after_the_other_leave_two_rows_and_the_next_run_comes_in_time(
    setting: Setting,
) -> None:
    setting.source.schedule = SourceSchedule(cron=("*/10 * * * *",), late="skip")
    setting.clock.set(at("2026-11-29 08:05:00"))
    for _ in range(6):
        await setting.scheduler().run_once()
        setting.clock.advance(600_000)
    before, last = await setting.runs()
    assert {before.state, last.state} == {RunState.SKIPPED}
    assert (last.slot, before.covers_from) == (at("2026-11-29 08:50:00"), at("2026-11-29 07:10:00"))
    assert before.reason.endswith("(5 slots in a row)")
    setting.clock.set(at("2026-11-29 09:00:00"))
    await setting.scheduler().run_once()
    assert [run.state for run in await setting.runs()][2:] == [RunState.RUNNING]


async def test_a_run_over_its_limit_ends_and_the_next_slot_starts(setting: Setting) -> None:
    setting.source.schedule = SourceSchedule(cron=("0 * * * *",), limit=600_000)
    setting.clock.set(at("2026-11-29 08:00:00"))
    await setting.scheduler().run_once()
    setting.clock.set(at("2026-11-29 08:10:01"))
    await setting.scheduler().run_once()
    setting.clock.set(at("2026-11-29 09:00:00"))
    await setting.scheduler().run_once()
    assert [run.state for run in await setting.runs()] == [RunState.TIMED_OUT, RunState.RUNNING]


async def test_four_schedulers_take_each_slot_once(setting: Setting) -> None:
    setting.source.schedule = SourceSchedule(cron=("*/2 * * * * *",), limit=1_000)
    begun = at("2026-11-29 08:00:00")
    setting.clock.set(begun)
    # Only slots after the source was applied are its own: 07:00 was.
    schedulers = [setting.scheduler() for _ in range(4)]
    for second in range(0, 60, 2):
        setting.clock.set(begun + second * 1000)
        for number, scheduler in enumerate(schedulers):
            # One is paused for a while and comes back, as in SCENARIOS 3.
            if not (number == 0 and 20 <= second <= 40):
                await scheduler.run_once()
        await setting.end_running()
    slots = [run.slot for run in await setting.runs()]
    assert slots == [begun + second * 1000 for second in range(0, 60, 2)]


async def test_a_source_that_was_just_applied_takes_no_slot_of_before(setting: Setting) -> None:
    setting.clock.set(at("2026-11-29 12:00:00"))
    late = PlayedSource()
    late.resolved = replace(late.resolved, id="late", scope="late", table="late_rows")
    late.schedule = SourceSchedule(cron=("0 8 * * *",))
    await setting.ledger.apply_source(late.resolved)
    setting.source = late
    shelf = SourceShelf(setting.ledger, lambda _: late)
    await Scheduler(setting.ledger, setting.frontier, shelf, Stages()).run_once()
    assert await setting.ledger.runs("late") == []
