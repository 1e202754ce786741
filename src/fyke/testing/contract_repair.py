"""Contract of the repair: what is lost or bent behind the ledger's back is named, and mended as far as can be (P2)."""

from __future__ import annotations

import pytest

from fyke.model import DeadFilter, ItemState, Listing, NewRun, Outcome, PassEnd, PassState
from fyke.ports import Ledger
from fyke.testing.desk_setting import (
    Damage,
    DeskSetting,
    assert_balanced,
    everything,
    id_of,
    mend,
    rows_of,
    state_of,
)
from fyke.testing.desk_steps import Steps, record_of, url_of

OF_A = "(SELECT id FROM item WHERE key = 'a')"

# Statement, and the finding that it must bring: each about key `a` alone.
LOSSES = {
    "item": ("DELETE FROM item WHERE key = 'a'", "item_missing"),
    "row": (f"DELETE FROM notices WHERE _item_id = {OF_A}", "row_missing"),
    "version": (f"DELETE FROM version WHERE item_id = {OF_A}", "version_missing"),
    "sighting": ("DELETE FROM sighting WHERE key = 'a'", "sighting_missing"),
    "title": ("UPDATE notices SET title = 'bent' WHERE _key = 'a'", "row_differs"),
    "digit": ("UPDATE notices SET budget = 569800 WHERE _key = 'a'", "row_differs"),
    "empty": ("UPDATE notices SET lots = NULL WHERE _key = 'a'", "row_differs"),
    "number": ("UPDATE notices SET _version = 7 WHERE _key = 'a'", "row_differs"),
    "key": ("UPDATE notices SET _key = 'b' WHERE _key = 'a'", "row_differs"),
    "owner": ("UPDATE sighting SET item_id = item_id + 1000 WHERE key = 'a'", "sighting_differs"),
    "state": ("UPDATE item SET state = 'open', pending = 1 WHERE key = 'a'", "not_marked_stored"),
    "ignored": ("UPDATE item SET state = 'ignored', reason = 'x' WHERE key = 'a'", "not_marked_stored"),
    "due": ("UPDATE item SET pending = 1 WHERE key = 'a'", "collected_pending"),
}


class RepairContract(DeskSetting):
    @pytest.mark.parametrize("loss", LOSSES)
    async def test_a_loss_is_named_and_mended(self, ledger: Ledger, steps: Steps, damage: Damage, loss: str) -> None:
        statement, kind = LOSSES[loss]
        await everything(steps)
        rows = await rows_of(ledger)
        item = await id_of(ledger, "a")
        await damage(statement)
        report = await ledger.audit()
        (finding,) = [found for found in report.findings if found.kind != "tally_differs"]
        assert (finding.kind, finding.source_id, finding.scope, finding.key) == (kind, "ggzy", "notice", "a")
        assert finding.item_id in (item, item + 1000)
        assert (report.unaccounted, report.balanced, finding.mendable) == (1, False, True)
        assert report.by_source["ggzy"].unaccounted == 1
        assert all(found.mended for found in await mend(ledger))
        await assert_balanced(ledger)
        assert await state_of(ledger, "a") == "stored"
        assert await rows_of(ledger) == rows, "the content is what it was"
        found = await ledger.explain("notice", "a")
        assert found is not None
        assert [version["content"] for version in found.versions] == [record_of("a")]

    async def test_a_lost_item_that_was_never_collected_is_collected(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        (task,) = await steps.listed("a")
        await damage("DELETE FROM item WHERE key = 'a'")
        assert next((found.kind, found.mended) for found in await mend(ledger)) == ("item_missing", True)
        (again,) = await ledger.due(after=None, limit=10, older_than_ms=0)
        assert (again.ref, again.lane) == (task.ref, "notices.example")
        (due,) = await ledger.still_due([(again.ref, again.generation)])
        assert due is not None
        assert (due.key, due.url) == ("a", url_of("a"))
        await steps.visit([again])
        await assert_balanced(ledger)

    async def test_a_lost_dead_item_is_dead_again_and_can_be_replayed(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.died("a")
        await damage("DELETE FROM item WHERE key = 'a'")
        await mend(ledger)
        await assert_balanced(ledger)
        found = await ledger.explain("notice", "a")
        assert found is not None
        assert (found.state, found.generation) == (ItemState.DEAD, 2)
        assert (await ledger.replay(DeadFilter()))[0] == 1

    async def test_an_item_lost_with_its_sighting_comes_back_from_its_row(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.stored("a", "b")
        await damage("DELETE FROM item WHERE key = 'a'")
        await damage("DELETE FROM sighting WHERE key = 'a'")
        report = await ledger.audit()
        assert [found.kind for found in report.findings][:1] == ["row_without_item"]
        assert report.unaccounted == 1
        await mend(ledger)
        await assert_balanced(ledger)
        assert await state_of(ledger, "a") == "stored"
        assert await steps.listed("a") != [], "the next listing asks whether it has changed"

    async def test_an_item_that_is_stored_with_neither_row_nor_version_is_collected_again(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        (task,) = await steps.listed("a")
        await steps.visit([task])
        await damage("DELETE FROM notices")
        await damage("DELETE FROM version")
        report = await ledger.audit()
        assert [found.kind for found in report.findings][:1] == ["stored_nothing"]
        assert report.stored == 0
        await ledger.repair(report)
        (again,) = await ledger.due(after=None, limit=10, older_than_ms=0)
        assert (again.ref, again.generation) == (task.ref, task.generation + 1)
        await assert_balanced(ledger)
        await steps.visit([again])
        await assert_balanced(ledger)
        assert [row["_version"] for row in await rows_of(ledger)] == [1]

    async def test_a_record_without_detail_page_is_rebuilt_from_its_entry(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await everything(steps)
        rows = await rows_of(ledger, "plain")
        await damage("DELETE FROM plain_notices WHERE _key = 'p'")
        await damage("DELETE FROM version WHERE item_id = (SELECT id FROM item WHERE key = 'p')")
        assert all(found.mended for found in await mend(ledger))
        await assert_balanced(ledger)
        assert [row["title"] for row in await rows_of(ledger, "plain")] == [row["title"] for row in rows]

    async def test_a_lost_dead_letter_is_written_again_from_the_visits(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.died("a")
        (letter,) = await ledger.dead_letters(DeadFilter())
        await damage("DELETE FROM dead")
        report = await ledger.audit()
        assert [(found.kind, found.key) for found in report.findings] == [("letter_missing", "a")]
        assert (report.dead, report.unaccounted) == (0, 1)
        await ledger.repair(report)
        (again,) = await ledger.dead_letters(DeadFilter())
        assert (again.outcome, again.reason, again.worker, again.attempts) == (
            *(letter.outcome, letter.reason, letter.worker, letter.attempts),
        )
        assert (again.first_at, again.died_at, again.evidence) == (letter.first_at, letter.died_at, letter.evidence)
        await assert_balanced(ledger)

    @pytest.mark.parametrize(
        "statement", ["UPDATE item SET state = 'open', pending = 1 WHERE key = 'a'", "DELETE FROM item", "both"]
    )
    async def test_a_letter_whose_item_is_not_dead_is_closed(
        self, ledger: Ledger, steps: Steps, damage: Damage, statement: str
    ) -> None:
        await steps.died("a")
        for step in ("DELETE FROM item", "DELETE FROM sighting") if statement == "both" else (statement,):
            await damage(step)
        assert (await ledger.audit()).unaccounted == 1
        await mend(ledger)
        await assert_balanced(ledger)

    async def test_an_open_item_that_would_never_be_handed_out_is_made_due(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.listed("a")
        await damage("UPDATE item SET pending = 0")
        (found,) = await mend(ledger)
        assert (found.kind, found.mended) == ("not_pending", True)
        assert len(await ledger.due(after=None, limit=10, older_than_ms=0)) == 1

    async def test_a_closed_item_that_would_be_handed_out_is_not_due(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.died("a")
        await damage("UPDATE item SET pending = 1")
        (found,) = await mend(ledger)
        assert (found.kind, found.mended) == ("pending_closed", True)
        assert await ledger.open_count() == 0
        await assert_balanced(ledger)

    async def test_an_orphan_put_in_by_hand_becomes_a_row(self, ledger: Ledger, steps: Steps, damage: Damage) -> None:
        """SCENARIOS 14: marked as known, with no row, no live task and no dead letter."""
        await steps.stored("a")
        await damage(
            "INSERT INTO item(id, source_id, scope, key, url, lane, pool, priority, entry, entry_hash, entry_at, state,"
            " pending, opened_at, due_at, closed_at, head_n)"
            f" SELECT id + 1000, source_id, scope, 'orphan', '{url_of('orphan')}', lane, pool, priority, entry,"
            " entry_hash, entry_at, 'stored', 0, opened_at, due_at, closed_at, 1 FROM item WHERE key = 'a'"
        )
        report = await ledger.audit()
        assert report.unaccounted == 1
        assert {found.key for found in report.findings if found.kind != "tally_differs"} == {"orphan"}
        await ledger.repair(report)
        (task,) = await ledger.due(after=None, limit=10, older_than_ms=0)
        await steps.visit([task])
        await assert_balanced(ledger)
        assert [row["_key"] for row in await rows_of(ledger)] == ["a", "orphan"]

    async def test_a_lost_head_falls_back_to_the_version_before_and_is_collected_again(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.stored("a")
        await steps.visit(await steps.listed("a", title="corrected"), title="corrected")
        await damage("DELETE FROM version WHERE n = 2")
        await damage("DELETE FROM notices")
        await mend(ledger)
        await assert_balanced(ledger)
        assert [(row["title"], row["_version"]) for row in await rows_of(ledger)] == [("公告 a", 1)]
        await steps.visit(await ledger.due(after=None, limit=10, older_than_ms=0), title="corrected")
        assert [(row["title"], row["_version"]) for row in await rows_of(ledger)] == [("corrected", 2)]
        await assert_balanced(ledger)

    async def test_what_only_its_list_can_bring_back_is_not_hidden_by_not_modified(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        async def sent() -> str:
            """The validator that a walk sends; its answer has one."""
            steps.clock.advance(1_000)
            run = await ledger.open_run(NewRun("plain", steps.clock.now(), [Listing("main")], ["notices.example"]))
            lease = await ledger.start_pass(run.tasks[0].ref, "w1")
            assert lease is not None
            await ledger.end_pass(lease.pass_id, lease.fence, PassEnd(PassState.COMPLETE, etag='"1"'))
            return lease.etag

        await steps.source("plain", detail=False, scope="plain", table="plain_notices")
        await steps.listed("a", source="plain", detail=False)
        assert [await sent(), await sent()] == ["", '"1"']
        for statement in ("DELETE FROM item", "DELETE FROM version", "DELETE FROM plain_notices"):
            await damage(statement)
        await mend(ledger)
        assert await state_of(ledger, "a", "plain") == "open"
        assert await sent() == ""
        await steps.listed("a", source="plain", detail=False)
        assert await state_of(ledger, "a", "plain") == "stored"
        await assert_balanced(ledger)

    async def test_a_mend_looks_again_before_it_changes_anything(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        (task,) = await steps.listed("a")
        await damage("UPDATE item SET pending = 0")
        report = await ledger.audit()
        await ledger.repair(report)
        await steps.visit([task], Outcome.NOT_FOUND, ItemState.DEAD)
        await ledger.repair(report)
        assert await ledger.open_count() == 0
        await assert_balanced(ledger)

    async def test_findings_have_a_limit_and_the_count_has_none(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.source("plain", detail=False, scope="plain", table="plain_notices")
        await steps.listed(*(f"{number:05}" for number in range(1_200)), source="plain", detail=False)
        await damage("DELETE FROM plain_notices")
        report = await ledger.audit()
        assert (len(report.findings), report.unaccounted) == (1_000, 1_200)
        await ledger.repair(report)
        assert (await ledger.audit()).unaccounted == 200
        await mend(ledger)
        await assert_balanced(ledger)
