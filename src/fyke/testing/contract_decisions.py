"""Contract of a person's decisions about runs and holes: what is accepted covers, what is closed is no gap (P5)."""

from __future__ import annotations

import pytest

from fyke.errors import UsageError
from fyke.model import Listing, NewRun, PassEnd, PassLease, PassState, RunState
from fyke.ports import Ledger
from fyke.testing.clock import FakeClock
from fyke.testing.desk_setting import DeskSetting, count_of
from fyke.testing.desk_steps import Steps


async def looked(steps: Steps) -> PassLease:
    """A new walk of the listing, ended as failed: it leaves nothing but what it was told."""
    steps.clock.advance(60_000)
    run = await steps.ledger.open_run(
        NewRun("ggzy", steps.clock.now(), [Listing("main")], ["notices.example"], trigger="hand")
    )
    lease = await steps.ledger.start_pass(run.tasks[0].ref, "w1")
    assert lease is not None
    await steps.ledger.end_pass(lease.pass_id, lease.fence, PassEnd(PassState.FAILED, "only looked"))
    return lease


class DecisionContract(DeskSetting):
    """Counts, runs that are accepted, holes that are closed."""

    async def test_counts_are_those_of_the_source_and_say_since_when_it_waits(
        self, ledger: Ledger, steps: Steps, clock: FakeClock
    ) -> None:
        await steps.stored("a", "b")
        await steps.died("c")
        (first,) = await steps.listed("d", refused=["a row without a link"])
        opened = clock.now()
        await steps.listed("e", "d")
        counts = await count_of(ledger)
        assert (counts.entries, counts.refused, counts.listed) == (7, 1, 5)
        assert (counts.stored, counts.dead, counts.ignored, counts.open, counts.versions) == (2, 1, 0, 2, 2)
        assert counts.oldest_open_at == opened
        assert counts.last_run is not None
        assert (counts.last_run.entries, counts.last_run.new, counts.last_run.known) == (2, 1, 1)
        await steps.visit([first])
        later = (await count_of(ledger)).oldest_open_at
        assert later is not None
        assert later > opened

    async def test_runs_come_newest_first_and_of_one_source_where_asked(self, ledger: Ledger, steps: Steps) -> None:
        await steps.source("other", scope="other")
        first, _ = await steps.walk(["a"])
        second, _ = await steps.walk(["a"], source="other")
        third, _ = await steps.walk(["a", "b"])
        assert [run.id for run in await ledger.runs()] == [third, second, first]
        assert [run.id for run in await ledger.runs("ggzy")] == [third, first]
        assert [run.id for run in await ledger.runs(limit=1)] == [third]

    async def test_an_accepted_run_covers_and_its_refused_rows_trouble_no_later_pass(
        self, ledger: Ledger, steps: Steps, clock: FakeClock
    ) -> None:
        await steps.walk(["a", "b"])
        run, _ = await steps.walk(["c", "a"], refused=["banner"], state=PassState.SUSPICIOUS, connected=True)
        before = await looked(steps)
        assert before.coverage.watermark_key == "a"
        assert before.accepted_refusals == frozenset()
        accepted_at = clock.now()
        assert await ledger.accept_run(run, "the banner is no notice") == 1
        after = await looked(steps)
        assert after.coverage.watermark_key == "c"
        assert after.coverage.open_holes == 0
        assert len(after.accepted_refusals) == 1
        found = next(row for row in await ledger.runs() if row.id == run)
        assert (found.state, found.accepted_at) == (RunState.COMPLETE, accepted_at)
        assert await ledger.accept_run(run, "once more") == 0, "there is nothing left to accept"

    async def test_an_accepted_walk_that_met_nothing_known_leaves_a_hole(self, ledger: Ledger, steps: Steps) -> None:
        await steps.walk(["a", "b"])
        run, _ = await steps.walk(["x", "y"], state=PassState.SUSPICIOUS)
        assert await ledger.accept_run(run, "the site was rebuilt") == 1
        (gap,) = await ledger.gaps()
        assert (gap.newer_key, gap.older_key) == ("y", "a")
        assert next(row for row in await ledger.runs() if row.id == run).state is RunState.GAP

    async def test_an_accepted_empty_list_is_complete_and_usual_from_then_on(
        self, ledger: Ledger, steps: Steps
    ) -> None:
        await steps.walk(["a", "b"])
        run, _ = await steps.walk((), state=PassState.SUSPICIOUS)
        assert (await looked(steps)).coverage.usual_rows == 2
        assert await ledger.accept_run(run, "nothing is on offer in August") == 1
        assert (await looked(steps)).coverage.usual_rows == 0
        assert next(row for row in await ledger.runs() if row.id == run).state is RunState.COMPLETE
        assert await ledger.gaps() == []

    async def test_a_run_that_does_not_exist_cannot_be_accepted(self, ledger: Ledger, steps: Steps) -> None:
        with pytest.raises(UsageError, match="no run 4711"):
            await ledger.accept_run(4711, "why not")

    async def test_a_hole_stays_until_a_person_closes_it(self, ledger: Ledger, steps: Steps, clock: FakeClock) -> None:
        await steps.walk(["a", "b"])
        await steps.walk(["x", "y"], state=PassState.GAP, reason="the pages ended")
        (gap,) = await ledger.gaps()
        assert (gap.source_id, gap.listing, gap.reason) == ("ggzy", "main", "the pages ended")
        assert (await ledger.audit()).open_holes == 1
        assert await ledger.close_gap(gap.id, "the site lost them")
        assert await ledger.close_gap(gap.id, "again") is False
        assert await ledger.gaps() == []
        assert (await ledger.audit()).open_holes == 0
        (closed,) = await ledger.gaps(closed=True)
        assert (closed.closed_reason, closed.closed_at) == ("the site lost them", clock.now())
        assert [event.kind for event in await ledger.events()] == ["gap"], "what was told stays on record"
