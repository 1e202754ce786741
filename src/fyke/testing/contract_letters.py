"""Contract of dead letters, and of items closed by hand: nothing leaves the dead but into `open` or `ignored` (P2)."""

from __future__ import annotations

import pytest

from fyke.errors import UsageError
from fyke.model import DeadFilter, ItemState, Outcome, PassState
from fyke.ports import Ledger
from fyke.testing.desk_setting import DeskSetting, assert_balanced, count_of, state_of
from fyke.testing.desk_steps import Steps, url_of

ALL = DeadFilter()


class LetterContract(DeskSetting):
    """Dead letters and what ends them."""

    async def test_a_replayed_item_is_open_again_with_a_new_generation(self, ledger: Ledger, steps: Steps) -> None:
        (task,) = await steps.listed("a")
        await steps.visit([task], Outcome.NOT_FOUND, ItemState.DEAD, reason="HTTP 404")
        number, tasks = await ledger.replay(ALL)
        assert number == 1
        assert [(found.ref, found.generation, found.starts) for found in tasks] == [(task.ref, task.generation + 1, 0)]
        assert await ledger.dead_letters(ALL) == []
        assert await ledger.still_due([(task.ref, task.generation)]) == [None], "the old task is worth nothing now"
        await steps.visit(tasks)
        assert await state_of(ledger, "a") == "stored"
        await assert_balanced(ledger)

    async def test_a_replay_tried_dry_changes_nothing(self, ledger: Ledger, steps: Steps) -> None:
        await steps.died("a", "b")
        assert await ledger.replay(ALL, dry_run=True) == (2, [])
        assert len(await ledger.dead_letters(ALL)) == 2
        assert await state_of(ledger, "a") == "dead"

    async def test_a_replay_of_a_paused_source_offers_nothing_and_opens_all(self, ledger: Ledger, steps: Steps) -> None:
        await steps.died("a")
        await ledger.pause_source("ggzy", "maintenance")
        assert await ledger.replay(ALL) == (1, [])
        assert await state_of(ledger, "a") == "open"

    async def test_letters_are_chosen_by_source_outcome_part_of_reason_and_key(
        self, ledger: Ledger, steps: Steps
    ) -> None:
        await steps.source("other", scope="other")
        await steps.died("a", "b")
        await steps.died("c", outcome=Outcome.ERROR, reason="step 'budget' failed: division by zero")
        await steps.visit(await steps.listed("a", source="other"), Outcome.NOT_FOUND, ItemState.DEAD, reason="HTTP 404")

        async def keys(**which: str) -> list[tuple[str, str]]:
            return sorted((row.source_id, row.key) for row in await ledger.dead_letters(DeadFilter(**which)))

        assert await keys() == [("ggzy", "a"), ("ggzy", "b"), ("ggzy", "c"), ("other", "a")]
        assert await keys(source_id="other") == [("other", "a")]
        assert await keys(reason="not_found") == [("ggzy", "a"), ("ggzy", "b"), ("other", "a")]
        assert await keys(reason="DIVISION") == [("ggzy", "c")]
        assert await keys(key="a", scope="notice") == [("ggzy", "a")]
        assert await keys(source_id="unknown") == []
        assert (await ledger.replay(DeadFilter(reason="error")))[0] == 1
        assert await keys(source_id="ggzy") == [("ggzy", "a"), ("ggzy", "b")]

    async def test_a_letter_says_what_a_person_needs(self, ledger: Ledger, steps: Steps) -> None:
        await steps.died("a")
        (letter,) = await ledger.dead_letters(ALL)
        assert (letter.source_id, letter.scope, letter.key, letter.url) == ("ggzy", "notice", "a", url_of("a"))
        assert (letter.outcome, letter.reason, letter.worker) == ("not_found", "HTTP 404", "w1")
        assert letter.attempts == 1
        assert letter.entry == {"title": "公告 a"}
        assert letter.evidence["status"] == 404
        assert letter.first_at < letter.died_at

    async def test_dropped_letters_become_ignored_items_with_the_reason(self, ledger: Ledger, steps: Steps) -> None:
        await steps.died("a", "b")
        assert await ledger.drop_dead(ALL, "withdrawn", dry_run=True) == 2
        assert await state_of(ledger, "a") == "dead"
        assert await ledger.drop_dead(DeadFilter(key="a"), "withdrawn by the site") == 1
        assert await state_of(ledger, "a") == "ignored"
        assert await state_of(ledger, "b") == "dead"
        found = await ledger.explain("notice", "a")
        assert found is not None
        assert any("withdrawn by the site" in text for _, text in found.lines)
        counts = await count_of(ledger)
        assert (counts.dead, counts.ignored) == (1, 1)
        await assert_balanced(ledger)

    async def test_a_dropped_item_stays_ignored_when_it_is_listed_again(self, ledger: Ledger, steps: Steps) -> None:
        await steps.died("a")
        await ledger.drop_dead(ALL, "withdrawn")
        assert await steps.listed("a") == []
        assert await state_of(ledger, "a") == "ignored"

    async def test_a_blank_reason_is_refused(self, ledger: Ledger, steps: Steps) -> None:
        await steps.died("a")
        run, _ = await steps.walk((), state=PassState.SUSPICIOUS)
        for order in (
            ledger.drop_dead(ALL, " "),
            ledger.ignore("notice", "a", ""),
            ledger.accept_run(run, "\t"),
            ledger.close_gap(1, ""),
        ):
            with pytest.raises(UsageError, match="reason"):
                await order
        assert await state_of(ledger, "a") == "dead"

    async def test_an_item_is_ignored_by_hand_from_every_state(self, ledger: Ledger, steps: Steps) -> None:
        await steps.stored("stored")
        await steps.died("dead")
        await steps.listed("open")
        await ledger.pause_source("ggzy", "maintenance")
        for key in ("open", "dead", "stored"):
            assert await ledger.ignore("notice", key, "of no use")
        assert await ledger.ignore("notice", "unknown", "of no use") is False
        assert [await state_of(ledger, key) for key in ("open", "dead", "stored")] == ["ignored", "ignored", "stored"]
        assert await ledger.dead_letters(ALL) == []
        assert await ledger.open_count() == 0
        counts = await count_of(ledger)
        assert (counts.stored, counts.dead, counts.ignored, counts.open) == (1, 0, 2, 0)
        await assert_balanced(ledger)

    async def test_an_ignored_revisit_is_not_due_and_its_item_stays_stored(self, ledger: Ledger, steps: Steps) -> None:
        await steps.stored("a")
        (task,) = await steps.listed("a", title="corrected")
        assert await ledger.ignore("notice", "a", "this correction is noise")
        assert await ledger.still_due([(task.ref, task.generation)]) == [None]
        assert await state_of(ledger, "a") == "stored"
