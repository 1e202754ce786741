"""What visits came to: the first result of a generation wins, everything else changes nothing (P2, P3)."""

from __future__ import annotations

import asyncio

import pytest

from fyke.model import Committed, DeadFilter, ItemState, Outcome
from fyke.ports import Ledger
from fyke.testing.ledger_steps import SECOND, Book, failure, make_entry, make_result


class CommitsContract:
    async def test_a_result_is_record_version_visit_and_count_at_once(self, book: Book) -> None:
        (task,) = await book.listed("a")
        result = make_result(task, {"title": "t"}, evidence={"status": 200})
        assert await book.ledger.commit([result]) == [(Committed.COMMITTED, "")]
        row = (await book.rows())["a"]
        now = book.clock.now()
        assert (row["title"], row["_version"], row["_first_at"], row["_updated_at"]) == ("t", 1, now, now)
        found = await book.look("a")
        assert (found.state, found.pending, len(found.versions), len(found.visits)) == (ItemState.STORED, False, 1, 1)
        assert found.visits[0]["evidence"] == {"status": 200}
        count = await book.count()
        assert (count.open, count.stored, count.versions) == (0, 1, 1)
        await book.balanced()

    async def test_a_commit_whose_answer_was_lost_is_repeated_and_counts_once(self, book: Book) -> None:
        # CRASH-WINDOWS 10
        (task,) = await book.listed("a")
        result = make_result(task)
        assert await book.commit(result) == [Committed.COMMITTED]
        assert await book.commit(result) == [Committed.LATE]
        count = await book.count()
        assert (count.open, count.stored, count.versions) == (0, 1, 1)
        assert len((await book.look("a")).visits) == 1
        # CRASH-WINDOWS 11 and 5: delivered again, the worker sees that it is closed.
        assert await book.ledger.still_due([(task.ref, task.generation)]) == [None]

    async def test_of_two_results_in_one_batch_the_first_wins(self, book: Book) -> None:
        first, second = await book.listed("a", "b")
        answers = await book.commit(
            make_result(second, {"title": "b"}),
            make_result(first, {"title": "wins"}),
            make_result(first, {"title": "loses"}),
            failure(second, Outcome.NOT_FOUND, ItemState.DEAD),
        )
        assert answers == [Committed.COMMITTED, Committed.COMMITTED, Committed.LATE, Committed.LATE]
        assert (await book.rows())["a"]["title"] == "wins"
        await book.balanced()

    async def test_two_owners_of_one_task_that_commit_at_once_write_it_once(self, book: Book, other: Ledger) -> None:
        # CRASH-WINDOWS 9
        tasks = await book.listed(*(f"k{number}" for number in range(10)))
        second = Book(other, book.clock)
        answers = await asyncio.gather(
            *(owner.commit(*(make_result(task, {"title": str(owner)}) for task in tasks)) for owner in (book, second))
        )
        assert sorted(a for pair in zip(*answers, strict=True) for a in pair) == (
            [Committed.COMMITTED] * 10 + [Committed.LATE] * 10
        )
        assert {row["_version"] for row in (await book.rows()).values()} == {1}
        await book.balanced()

    async def test_an_older_generation_never_writes_over_a_newer_one(self, book: Book) -> None:
        # CRASH-WINDOWS 30
        (old,) = await book.listed("a")
        (new,) = await book.listed(make_entry("a", "changed"))
        answers = await book.commit(make_result(old, {"title": "old"}), make_result(new, {"title": "new"}))
        assert answers == [Committed.LATE, Committed.COMMITTED]
        assert await book.commit(make_result(old, {"title": "old"})) == [Committed.LATE]
        row = (await book.rows())["a"]
        assert (row["title"], row["_version"]) == ("new", 1)

    async def test_a_generation_that_was_never_offered_is_late_too(self, book: Book) -> None:
        (task,) = await book.listed("a")
        assert await book.commit(make_result(task, generation=2), make_result(task, item_id=99)) == [
            Committed.LATE,
            Committed.LATE,
        ]
        assert await book.state("a") == ("open", 1, True)

    async def test_the_same_content_makes_no_second_version(self, book: Book) -> None:
        await book.stored("a", {"title": "same"})
        first = (await book.rows())["a"]
        (task,) = await book.listed(make_entry("a", "changed in the list only"))
        assert await book.commit(make_result(task, {"title": "same"})) == [Committed.COMMITTED]
        assert (await book.rows())["a"] == first
        found = await book.look("a")
        assert (len(found.versions), len(found.visits), found.pending) == (1, 2, False)
        await book.balanced()

    async def test_changed_content_is_the_next_version_and_the_first_time_stays(self, book: Book) -> None:
        await book.stored("a", {"title": "v1"})
        first = (await book.rows())["a"]
        (task,) = await book.listed(make_entry("a", "changed"))
        await book.commit(make_result(task, {"title": "v2"}))
        row = (await book.rows())["a"]
        assert (row["_version"], row["_first_at"]) == (2, first["_first_at"])
        assert row["_updated_at"] > first["_updated_at"]
        assert [version["n"] for version in (await book.look("a")).versions] == [1, 2]
        await book.balanced()

    async def test_an_unchanged_page_leaves_the_record(self, book: Book) -> None:
        await book.stored("a", {"title": "v1"})
        (task,) = await book.listed(make_entry("a", "changed"))
        assert await book.commit(failure(task, Outcome.UNCHANGED, ItemState.STORED)) == [Committed.COMMITTED]
        assert await book.state("a") == ("stored", 2, False)
        assert (await book.rows())["a"]["_version"] == 1
        await book.balanced()

    async def test_an_item_is_not_stored_without_a_record(self, book: Book) -> None:
        (task,) = await book.listed("a")
        ((answer, message),) = await book.ledger.commit([failure(task, Outcome.UNCHANGED, ItemState.STORED)])
        assert (answer, message != "") == (Committed.REJECTED, True)
        assert (await book.state("a"))[0] == "dead"
        await book.balanced()

    async def test_an_entry_that_moved_on_during_the_visit_is_visited_again(self, book: Book) -> None:
        (task,) = await book.listed("a")
        assert await book.commit(make_result(task, entry_hash=b"read from another entry")) == [Committed.COMMITTED]
        assert await book.state("a") == ("stored", 2, True)
        (again,) = [found for found in await book.due() if found.ref == task.ref]
        entry_hash = make_entry("a").hash
        assert await book.commit(make_result(again, entry_hash=entry_hash)) == [Committed.COMMITTED]
        assert await book.state("a") == ("stored", 2, False)
        await book.balanced()

    async def test_failed_attempts_keep_the_item_due_and_are_kept_as_visits(self, book: Book) -> None:
        (task,) = await book.listed("a")
        first = failure(task, Outcome.EMPTY, None, costs=True, reason="nothing there", started_at=5_000, ended_at=5_100)
        second = failure(task, Outcome.NETWORK, None, started_at=6_000, ended_at=6_250, delay_ms=2_000)
        assert await book.commit(first, second) == [Committed.COMMITTED] * 2
        assert await book.state("a") == ("open", 1, True)
        (due,) = await book.ledger.still_due([(task.ref, 1)])
        assert due is not None
        assert (due.first_started_at, due.soft_failures, due.soft_ms) == (5_000, 1, 2_250)
        assert [found.starts for found in await book.due()] == [1]
        visits = (await book.look("a")).visits
        assert [(visit["outcome"], visit["final"]) for visit in visits] == [("empty", None), ("network", None)]
        assert visits[0]["reason"] == "nothing there"

    async def test_a_failed_attempt_that_is_told_twice_counts_once(self, book: Book) -> None:
        (task,) = await book.listed("a")
        attempt = failure(task, Outcome.EMPTY, None, costs=True)
        assert await book.commit(attempt) == [Committed.COMMITTED]
        assert await book.commit(attempt) == [Committed.COMMITTED]
        assert [found.starts for found in await book.due()] == [1]
        assert len((await book.look("a")).visits) == 1

    async def test_an_item_that_dies_leaves_a_letter_that_says_all(self, book: Book) -> None:
        # SCENARIOS 14
        (task,) = await book.listed("a")
        await book.commit(failure(task, Outcome.NOT_FOUND, None, costs=True, started_at=5_000))
        book.clock.advance(SECOND)
        last = failure(
            task, Outcome.NOT_FOUND, ItemState.DEAD, reason="HTTP 404", starts=3, evidence={"status": 404}, worker="w7"
        )
        assert await book.commit(last) == [Committed.COMMITTED]
        (letter,) = await book.ledger.dead_letters(DeadFilter())
        assert (letter.key, letter.scope, letter.source_id, letter.outcome) == ("a", "notice", "gov", "not_found")
        assert (letter.reason, letter.attempts, letter.worker, letter.first_at) == ("HTTP 404", 3, "w7", 5_000)
        assert (letter.died_at, letter.evidence) == (book.clock.now(), {"status": 404})
        assert letter.entry == {"title": "公告 a"}
        assert await book.state("a") == ("dead", 1, False)
        (event,) = await book.told("dead")
        assert (event.source_id, event.data["key"]) == ("gov", "a")
        count = await book.count()
        assert (count.open, count.dead) == (0, 1)
        await book.balanced()

    async def test_an_ignored_item_has_its_reason_and_no_letter(self, book: Book) -> None:
        (task,) = await book.listed("a")
        await book.commit(failure(task, Outcome.ROBOTS, ItemState.IGNORED, reason="robots.txt"))
        assert await book.state("a") == ("ignored", 1, False)
        assert await book.ledger.dead_letters(DeadFilter()) == []
        count = await book.count()
        assert (count.open, count.ignored) == (0, 1)
        await book.balanced()

    @pytest.mark.parametrize(
        ("outcome", "final"), [(Outcome.NOT_FOUND, ItemState.DEAD), (Outcome.ROBOTS, ItemState.IGNORED)]
    )
    async def test_a_stored_item_whose_revisit_fails_stays_stored(
        self, book: Book, outcome: Outcome, final: ItemState
    ) -> None:
        await book.stored("a", {"title": "v1"})
        (task,) = await book.listed(make_entry("a", "changed"))
        await book.commit(failure(task, outcome, final, reason="because"))
        assert await book.state("a") == ("stored", 2, False)
        assert (await book.rows())["a"]["title"] == "v1"
        found = await book.look("a")
        assert (found.visits[-1]["outcome"], found.visits[-1]["reason"], found.dead) == (outcome.value, "because", [])
        assert len(await book.told("dead")) == (final is ItemState.DEAD)
        await book.balanced()

    async def test_what_died_is_replayed_as_a_new_generation(self, book: Book) -> None:
        # SCENARIOS 14
        (old,) = await book.listed("a")
        await book.commit(failure(old, Outcome.MISFIT, ItemState.DEAD))
        number, (task,) = await book.ledger.replay(DeadFilter())
        assert (number, task.generation) == (1, 2)
        assert await book.commit(make_result(old)) == [Committed.LATE]
        assert await book.commit(make_result(task)) == [Committed.COMMITTED]
        assert len(await book.rows()) == 1
        await book.balanced()
