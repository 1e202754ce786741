"""Contract of the audit: both sides are counted apart, and what is on one side only is named (P2).

The damage is done by SQL; everything before and after it by the ledger's own methods.
"""

from __future__ import annotations

from fyke.model import PassState
from fyke.ports import Ledger
from fyke.testing.clock import FakeClock
from fyke.testing.desk_setting import (
    Damage,
    DeskSetting,
    assert_balanced,
    count_of,
    everything,
    mend,
    pass_of,
)
from fyke.testing.desk_steps import Steps


class AuditContract(DeskSetting):
    async def test_both_sides_are_counted_from_different_tables(self, ledger: Ledger, steps: Steps) -> None:
        await everything(steps)
        report = await ledger.audit()
        assert report.findings == []
        assert (report.entries, report.new, report.known, report.refused) == (10, 7, 2, 1)
        assert (report.listed, report.stored, report.dead, report.ignored, report.open) == (7, 4, 1, 1, 1)
        assert (report.unaccounted, report.balanced) == (0, True)
        ggzy, plain = report.by_source["ggzy"], report.by_source["plain"]
        assert (ggzy.entries, ggzy.listed, ggzy.stored, ggzy.dead, ggzy.ignored, ggzy.open) == (8, 5, 2, 1, 1, 1)
        assert (plain.entries, plain.listed, plain.stored) == (2, 2, 2)

    async def test_it_says_how_far_it_is(self, ledger: Ledger, steps: Steps) -> None:
        await everything(steps)
        told: list[tuple[int, int]] = []
        await ledger.audit(None, lambda done, total: told.append((done, total)))
        assert told == sorted(told)
        assert told[-1] == (18, 18), "7 sightings, 4 rows, 7 items"

    async def test_an_empty_ledger_is_balanced(self, ledger: Ledger, steps: Steps) -> None:
        await assert_balanced(ledger)
        assert await mend(ledger) == []

    async def test_an_item_of_two_listings_is_listed_once(self, ledger: Ledger, steps: Steps) -> None:
        await steps.source("other")
        await steps.stored("a")
        await steps.listed("a", listing="second")
        await steps.listed("a", source="other")
        report = await ledger.audit()
        assert (report.listed, report.stored) == (1, 1)
        assert (report.by_source["ggzy"].listed, report.by_source["other"].listed) == (1, 0)

    async def test_a_row_without_item_whose_key_has_a_newer_item_is_left_to_a_person(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.stored("a")
        await damage("DELETE FROM item WHERE key = 'a'")
        await steps.listed("a")
        report = await ledger.audit()
        found = next(found for found in report.findings if found.kind == "row_without_item")
        assert not found.mendable
        assert "newer item" in found.message
        assert not (await ledger.audit()).balanced

    async def test_versions_whose_key_is_unknown_are_said_to_be_beyond_mending(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.stored("a")
        for statement in ("notices", "item", "sighting"):
            await damage(f"DELETE FROM {statement}")
        (found,) = [found for found in await mend(ledger) if found.kind == "version_without_item"]
        assert (found.mendable, found.mended) == (False, False)
        assert "cannot be mended" in found.message
        assert (await ledger.audit()).unaccounted == 1

    async def test_an_older_version_that_is_lost_is_named_and_cannot_be_mended(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.stored("a")
        await steps.visit(await steps.listed("a", title="corrected"), title="corrected")
        await damage("DELETE FROM version WHERE n = 1")
        report = await ledger.audit()
        found = next(found for found in report.findings if found.kind == "history_missing")
        assert (found.key, found.mendable) == ("a", False)
        assert report.balanced, "the item itself adds up"

    async def test_wrong_running_counts_are_named_and_counted_again(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await everything(steps)
        counts = await count_of(ledger)
        await damage("UPDATE tally SET stored = stored + 5, entries = 0")
        report = await ledger.audit()
        assert {(found.kind, found.source_id) for found in report.findings} == {
            ("tally_differs", "ggzy"),
            ("tally_differs", "plain"),
        }
        assert "stored 7, counted 2" in next(f.message for f in report.findings if f.source_id == "ggzy")
        assert report.balanced
        await ledger.repair(report)
        assert (await ledger.audit()).findings == []
        assert await count_of(ledger) == counts

    async def test_lost_refused_entries_are_counted_page_by_page(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        run, _ = await steps.walk(["a"], refused=["x", "y"], state=PassState.SUSPICIOUS)
        pass_id = await pass_of(ledger, run)
        await damage("DELETE FROM refused WHERE raw = 'x'")
        report = await ledger.audit()
        (found,) = report.findings
        assert (found.kind, found.key, found.mendable) == ("refused_missing", f"pass {pass_id}, page 1", False)
        assert (report.refused, report.unaccounted) == (1, 1)

    async def test_a_page_whose_counts_do_not_add_up_is_named(
        self, ledger: Ledger, steps: Steps, damage: Damage
    ) -> None:
        await steps.listed("a", "b")
        await damage("UPDATE page SET new = 1")
        report = await ledger.audit()
        assert "page_differs" in {found.kind for found in report.findings}
        assert report.unaccounted == 1

    async def test_a_due_item_that_the_frontier_does_not_know_is_unqueued_and_no_fault(
        self, ledger: Ledger, steps: Steps, clock: FakeClock
    ) -> None:
        first, second = await steps.listed("a", "b")
        keys = {first.key, second.key}
        assert (await ledger.audit(set())).unqueued == 0, "what is young is on its way"
        clock.advance(60_000)
        assert (await ledger.audit(keys)).unqueued == 0
        assert (await ledger.audit(None)).unqueued is None, "nobody asked the frontier"
        report = await ledger.audit({first.key})
        (found,) = report.findings
        assert (found.kind, found.key, report.unqueued) == ("unqueued", "b", 1)
        assert report.balanced
        await ledger.pause_source("ggzy", "maintenance")
        assert (await ledger.audit(set())).unqueued == 0, "nothing of a paused source is to be queued"

    async def test_a_task_of_an_item_that_is_not_there_is_named(self, ledger: Ledger, steps: Steps) -> None:
        (task,) = await steps.listed("a")
        report = await ledger.audit({task.key, "i987654321", "p1"})
        assert [(found.kind, found.key) for found in report.findings] == [("task_unknown", "item 987654321")]

    async def test_a_lost_page_is_missed_by_its_pass(self, ledger: Ledger, steps: Steps, damage: Damage) -> None:
        run, _ = await steps.walk(["a", "b"], ["c"])
        await damage("DELETE FROM page WHERE number = 2")
        report = await ledger.audit()
        found = next(found for found in report.findings if found.kind == "pass_differs")
        assert (found.key, found.mendable) == (f"pass {await pass_of(ledger, run)}", False)
        assert "3 entries, 2 on its pages" in found.message
        assert report.unaccounted == 1
