"""Runs and passes: one slot is one run, an old walker changes nothing, a run ends by its worst pass (P1, P5)."""

from __future__ import annotations

import asyncio

import pytest

from fyke.errors import UsageError
from fyke.model import NewRun, PassEnd, PassState, RunState, TaskKind
from fyke.ports import Ledger
from fyke.testing.ledger_steps import DAY, HOUR, LANE, MINUTE, Book, make_entry, make_source


class RunsContract:
    async def test_schedulers_that_race_for_a_slot_open_one_run(self, book: Book, other: Ledger) -> None:
        # CRASH-WINDOWS 27
        second = Book(other, book.clock)
        found = await asyncio.gather(*(b.open("gov", "one", "two", slot=1_000) for b in (book, second) * 4))
        assert sorted(run.created for run in found) == [False] * 7 + [True]
        assert len({run.run_id for run in found}) == 1
        # The one who comes second may offer too: what a dead scheduler did not offer is offered now.
        assert {len(run.tasks) for run in found} == {2}

    async def test_two_who_start_a_source_by_hand_at_once_have_one_run(self, book: Book, other: Ledger) -> None:
        # Two runs of one source would take each other's rows away.
        second = Book(other, book.clock)
        found = await asyncio.gather(
            *(b.open("gov", slot=slot, trigger="hand") for slot, b in enumerate((book, second) * 4, 1_000))
        )
        assert sorted(run.created for run in found) == [False] * 7 + [True]
        assert len({(run.run_id, run.state, tuple(run.tasks)) for run in found}) == 1
        assert [run.id for run in await book.ledger.runs("gov")] == [found[0].run_id]

    async def test_a_slot_that_comes_while_a_run_is_going_is_not_taken_and_may_be_skipped(self, book: Book) -> None:
        going = await book.open(slot=1_000)
        refused = await book.open(slot=2_000)
        assert (refused.created, refused.run_id, refused.tasks) == (False, going.run_id, going.tasks)
        assert await book.ledger.last_cron_slot("gov") == 1_000
        skipped = await book.open(slot=2_000, skipped="the run before is still going")
        assert (skipped.created, skipped.state, skipped.tasks) == (True, RunState.SKIPPED, [])
        assert (await book.open("feed", slot=2_000)).created
        await book.end(await book.start(going.tasks[0]))
        assert (await book.open(slot=3_000)).created

    async def test_a_clock_that_was_ahead_does_not_stop_the_calendar(self, book: Book) -> None:
        now = book.clock.now()
        await book.open(slot=now - 1_000, skipped="for the test")
        book.clock.set(now + DAY)
        ahead = await book.open(slot=now + DAY, skipped="for the test")
        await book.ledger.apply_source(make_source("new", scope="new", table="new_rows"))
        book.clock.set(now)
        assert await book.ledger.last_cron_slot("gov") == now - 1_000
        assert {row.source.id: row.applied_at for row in await book.ledger.sources()}["new"] == now
        book.clock.advance(HOUR)
        assert {row.source.id: row.applied_at for row in await book.ledger.sources()}["new"] == now
        # When that time has come, its slot has been.
        book.clock.set(now + DAY)
        again = await book.open(slot=now + DAY)
        assert (again.created, again.run_id) == (False, ahead.run_id)
        assert await book.ledger.last_cron_slot("gov") == now + DAY

    async def test_a_scheduler_that_died_before_it_offered_leaves_a_pass_that_is_due(self, book: Book) -> None:
        # CRASH-WINDOWS 26
        run = await book.open("gov", "one", "two")
        assert await book.due() == run.tasks
        assert {task.kind for task in run.tasks} == {TaskKind.PASS}
        assert {task.lane for task in run.tasks} == {LANE}

    async def test_a_slot_of_one_source_is_free_for_another(self, book: Book) -> None:
        assert (await book.open("gov", slot=1_000)).created
        assert (await book.open("feed", slot=1_000)).created

    async def test_a_skipped_run_keeps_its_slot_and_has_ended(self, book: Book) -> None:
        run = await book.open(slot=1_000, skipped="the run before is still going")
        assert (run.created, run.state, run.tasks) == (True, RunState.SKIPPED, [])
        again = await book.open(slot=1_000)
        assert (again.created, again.state, again.tasks) == (False, RunState.SKIPPED, [])
        row = await book.ledger.last_run("gov")
        assert row is not None
        assert (row.reason, row.ended_at, row.passes) == ("the run before is still going", book.clock.now(), [])

    @pytest.mark.parametrize("how", ["paused", "removed"])
    async def test_no_run_of_a_source_that_is_not_active_begins(self, book: Book, how: str) -> None:
        if how == "paused":
            await book.ledger.pause_source("gov", "blocked")
        else:
            await book.ledger.remove_source("gov")
        run = await book.open()
        assert (run.state, run.tasks) == (RunState.SKIPPED, [])
        row = await book.ledger.last_run("gov")
        assert row is not None
        assert how in row.reason

    async def test_a_run_needs_a_lane_for_each_listing(self, book: Book) -> None:
        with pytest.raises(UsageError, match="'gov'"):
            await book.ledger.open_run(NewRun("gov", 1, [], []))
        with pytest.raises(UsageError, match="'gov'"):
            await book.open("gov", "one", "one")

    async def test_a_run_ends_with_its_last_pass_in_the_worst_state(self, book: Book) -> None:
        run = await book.open("gov", "one", "two", "three")
        leases = [await book.start(task) for task in run.tasks]
        assert await book.end(leases[0]) is None
        assert await book.end(leases[1], PassState.FAILED, reason="HTTP 404") is None
        assert [row.id for row in await book.ledger.running("gov")] == [run.run_id]
        assert await book.end(leases[2], PassState.GAP) is RunState.FAILED
        row = await book.ledger.last_run("gov")
        assert row is not None
        assert (row.state, row.reason, row.ended_at) == (RunState.FAILED, "HTTP 404", book.clock.now())
        assert [walk.state.value for walk in row.passes] == ["complete", "failed", "gap"]
        assert await book.ledger.running() == []

    async def test_the_worst_state_is_the_later_word(self, book: Book) -> None:
        for worse, better in [
            (PassState.FAILED, PassState.TIMED_OUT),
            (PassState.TIMED_OUT, PassState.SUSPICIOUS),
            (PassState.SUSPICIOUS, PassState.GAP),
            (PassState.GAP, PassState.COMPLETE),
        ]:
            book.clock.advance(1)
            run = await book.open("gov", "one", "two")
            await book.end(await book.start(run.tasks[0]), worse)
            assert await book.end(await book.start(run.tasks[1]), better) is RunState(worse.value)

    async def test_a_walker_that_was_paused_changes_nothing_once_another_has_begun(self, book: Book) -> None:
        # CRASH-WINDOWS 31
        old = await book.begin()
        new = await book.start((await book.due())[0])
        assert new.fence > old.fence
        assert not (await book.show(old, make_entry("a"))).accepted
        assert not await book.ledger.pass_failed(
            old.pass_id, old.fence, outcome="network", reason="", costs=True, evidence={}
        )
        assert await book.end(old) is None
        assert (await book.count()).listed == 0
        assert (await book.show(new, make_entry("a"))).accepted
        assert await book.end(new) is RunState.COMPLETE
        assert not (await book.show(old, make_entry("b"))).accepted
        assert not (await book.show(new, make_entry("b"))).accepted
        assert (await book.count()).listed == 1

    async def test_a_walk_killed_after_its_last_page_is_resumed_and_ends(self, book: Book) -> None:
        # CRASH-WINDOWS 1 and 32
        lease = await book.begin()
        assert (lease.checkpoint, lease.checkpoint_at) == (None, 0)
        await book.show(lease, make_entry("a"), checkpoint=b"after page 1")
        at = book.clock.now()
        book.clock.advance(MINUTE)
        (task,) = [task for task in await book.due() if task.kind is TaskKind.PASS]
        again = await book.start(task)
        assert (again.checkpoint, again.checkpoint_at, again.started_at) == (b"after page 1", at, lease.started_at)
        # A long walk writes its state with every few pages only: the one before stays.
        book.clock.advance(MINUTE)
        await book.show(again, make_entry("b"), checkpoint=b"")
        kept = await book.start(task)
        assert (kept.checkpoint, kept.checkpoint_at) == (b"after page 1", at)
        assert await book.end(kept, newest="a", oldest="a") is RunState.COMPLETE

    async def test_a_pass_that_has_ended_is_not_walked_again(self, book: Book) -> None:
        lease = await book.begin()
        await book.end(lease)
        assert await book.ledger.start_pass(lease.pass_id, "w2") is None
        assert await book.ledger.start_pass(999, "w2") is None
        assert await book.end(lease, PassState.FAILED) is None

    async def test_a_pass_of_a_paused_source_waits(self, book: Book) -> None:
        run = await book.open()
        await book.ledger.pause_source("gov", "")
        assert await book.ledger.start_pass(run.tasks[0].ref, "w1") is None
        assert await book.due() == []
        await book.ledger.resume_source("gov")
        assert await book.ledger.start_pass(run.tasks[0].ref, "w1") is not None

    async def test_a_run_over_its_limit_is_timed_out_and_its_walker_cut_off(self, book: Book) -> None:
        run = await book.open(limit_ms=MINUTE)
        lease = await book.start(run.tasks[0])
        assert lease.deadline == book.clock.now() + MINUTE
        book.clock.advance(MINUTE - 1)
        assert await book.ledger.expire_runs() == []
        book.clock.advance(1)
        (row,) = await book.ledger.expire_runs()
        assert (row.id, row.state, row.passes[0].state) == (run.run_id, RunState.TIMED_OUT, PassState.TIMED_OUT)
        assert await book.ledger.expire_runs() == []
        assert not (await book.show(lease, make_entry("a"))).accepted
        assert not (await book.open(slot=row.slot)).created
        assert len(await book.told("timed_out")) == 1

    async def test_a_cancelled_run_says_why(self, book: Book) -> None:
        run = await book.open("gov", "one", "two")
        await book.end(await book.start(run.tasks[0]))
        await book.ledger.cancel_run(run.run_id, "the next run is due")
        row = await book.ledger.last_run("gov")
        assert row is not None
        assert (row.state, row.reason) == (RunState.TIMED_OUT, "the next run is due")
        assert [walk.state for walk in row.passes] == [PassState.COMPLETE, PassState.TIMED_OUT]

    async def test_failed_attempts_of_a_walk_are_counted_by_what_they_cost(self, book: Book) -> None:
        lease = await book.begin()
        for costs in (True, False, False):
            assert await book.ledger.pass_failed(
                lease.pass_id, lease.fence, outcome="x", reason="\ud800", costs=costs, evidence={"status": 503}
            )
        (task,) = await book.due()
        assert task.starts == 1
        again = await book.start(task)
        assert (again.attempts, again.soft_failures) == (1, 2)
        await book.show(again, make_entry("a"))
        # A page that came ends the backoff, and not the count of what was spent.
        later = await book.start(task)
        assert (later.attempts, later.soft_failures) == (1, 0)

    async def test_the_last_run_is_the_one_with_the_latest_slot(self, book: Book) -> None:
        assert await book.ledger.last_run("gov") is None
        assert await book.ledger.last_cron_slot("gov") is None
        for slot, changes in (
            (3_000, {"covers_from": 1_000}),
            (2_000, {"trigger": "hand"}),
            (4_000, {"trigger": "hand"}),
        ):
            assert (await book.open(slot=slot, **changes)).created
            running = await book.ledger.running("gov")
            assert [run.slot for run in running] == [slot]
            await book.ledger.cancel_run(running[0].id, "the next one begins")
        row = await book.ledger.last_run("gov")
        assert row is not None
        assert (row.slot, row.trigger, row.covers_from) == (4_000, "hand", None)
        assert await book.ledger.last_cron_slot("gov") == 3_000
        assert {run.covers_from for run in await book.ledger.runs("gov")} == {1_000, None}

    async def test_no_slot_is_made_up_for_twice_by_schedulers_that_looked_before_each_other(self, book: Book) -> None:
        for slot in (3_000, 7_000):
            opened = await book.open(slot=slot, covers_from=slot - 1_000 if slot == 7_000 else None)
            assert opened.created
            await book.ledger.cancel_run(opened.run_id, "the next one begins")
        # Each would be right, had the other one not been there first.
        for slot, since in ((5_000, 2_000), (5_000, 3_000), (6_000, None), (8_000, 7_000)):
            assert not (await book.open(slot=slot, covers_from=since)).created
        assert (await book.open(slot=6_000, trigger="hand")).created
        assert sorted(run.slot for run in await book.ledger.runs("gov")) == [3_000, 6_000, 7_000]
        assert await book.ledger.last_cron_slot("gov") == 7_000

    async def test_what_a_person_should_know_of_a_walk_is_told_with_its_figures(self, book: Book) -> None:
        await book.walk("a", "b", first_page_rows=20)
        lease = await book.begin()
        await book.end(lease, PassState.SUSPICIOUS, reason="the list has no entries")
        (event,) = await book.told("suspicious")
        assert (event.source_id, event.data["listing"]) == ("gov", "all")
        assert (event.data["usual"], event.data["found"]) == (20, 0)
        for part in ("gov", "all", "20", "0", "the list has no entries"):
            assert part in event.message
        for state in (PassState.GAP, PassState.FAILED, PassState.COMPLETE):
            await book.end(await book.begin(), state, reason="because")
        assert [len(await book.told(kind)) for kind in ("gap", "failed", "complete")] == [1, 1, 0]

    async def test_an_end_whose_answer_was_lost_is_safe_to_repeat(self, book: Book) -> None:
        lease = await book.begin()
        end = PassEnd(PassState.GAP, "reason")
        assert await book.ledger.end_pass(lease.pass_id, lease.fence, end) is RunState.GAP
        assert await book.ledger.end_pass(lease.pass_id, lease.fence, end) is None
        assert len(await book.told("gap")) == 1
