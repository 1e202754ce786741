"""Visits on a calendar, relations and attachments: rows beside the item, in the record's transaction (P1, P3)."""

from __future__ import annotations

from typing import Any

from fyke.model import ForgetFilter, ItemState, Outcome, Relation, Result
from fyke.testing.ledger_steps import DAY, HOUR, Book, failure, make_entry, make_result, make_source

NUMBER = "JSZC-320000"


def corrects(kind: str = "corrects", shared: str = NUMBER) -> list[Relation]:
    return [Relation(kind, "number", shared)]


class CalendarContract:
    async def store(self, book: Book, key: str, **changes: Any) -> Result:
        (task,) = await book.listed(key)
        result = make_result(task, {"title": f"record of {key}"}, **changes)
        await book.commit(result)
        return result

    async def test_a_stored_item_is_visited_again_when_its_time_has_come_and_not_before(self, book: Book) -> None:
        await self.store(book, "a", revisit_at=book.clock.now() + 2 * HOUR)
        assert await book.ledger.revisit() == []
        assert (await book.look("a")).revisit_at is not None
        assert await book.ledger.open_count() == 0
        book.clock.advance(2 * HOUR)
        (task,) = await book.ledger.revisit()
        assert task.generation == 2
        assert await book.state("a") == ("stored", 2, True)
        assert [due.key for due in await book.due() if due.key == task.key] == [task.key]
        # One due moment is one visit, however many look.
        assert await book.ledger.revisit() == []
        await book.balanced()

    async def test_a_visit_says_when_the_next_one_is_and_makes_a_version_only_of_a_change(self, book: Book) -> None:
        await self.store(book, "a", revisit_at=book.clock.now() + HOUR)
        for at, title, versions in ((HOUR, "record of a", 1), (DAY, "changed", 2), (0, "changed", 2)):
            book.clock.advance(DAY)
            (task,) = await book.ledger.revisit()
            planned = book.clock.now() + at if at else 0
            await book.commit(make_result(task, {"title": title}, revisit_at=planned))
            found = await book.look("a")
            assert (len(found.versions), found.revisit_at, found.pending) == (versions, planned or None, False)
        book.clock.advance(DAY)
        assert await book.ledger.revisit() == []
        assert (await book.rows())["a"]["title"] == "changed"
        await book.balanced()

    async def test_a_visit_that_fails_leaves_the_record_and_the_calendar(self, book: Book) -> None:
        await self.store(book, "a", revisit_at=book.clock.now() + HOUR)
        book.clock.advance(HOUR)
        (task,) = await book.ledger.revisit()
        planned = book.clock.now() + DAY
        await book.commit(failure(task, Outcome.NOT_FOUND, ItemState.DEAD, revisit_at=planned))
        assert await book.state("a") == ("stored", 2, False)
        assert (await book.look("a")).revisit_at == planned
        await book.balanced()

    async def test_a_visit_whose_worker_knew_no_calendar_is_not_the_last(self, book: Book) -> None:
        await self.store(book, "a", revisit_at=book.clock.now() + HOUR)
        book.clock.advance(HOUR)
        (task,) = await book.ledger.revisit()
        await book.commit(failure(task, Outcome.ERROR, ItemState.DEAD))
        assert (await book.look("a")).revisit_at is not None
        book.clock.advance(30 * DAY)
        assert len(await book.ledger.revisit()) == 1

    async def test_nothing_of_a_paused_source_is_visited_again_until_it_goes_on(self, book: Book) -> None:
        await self.store(book, "a", revisit_at=book.clock.now() + HOUR)
        book.clock.advance(HOUR)
        await book.ledger.pause_source("gov", "")
        assert await book.ledger.revisit() == []
        await book.ledger.resume_source("gov")
        assert len(await book.ledger.revisit()) == 1

    async def test_an_item_that_is_due_already_gets_no_second_visit(self, book: Book) -> None:
        await self.store(book, "a", revisit_at=book.clock.now() + HOUR)
        book.clock.advance(HOUR)
        (task,) = await book.listed(make_entry("a", "changed"))
        assert await book.ledger.revisit() == []
        assert await book.state("a") == ("stored", 2, True)
        await book.commit(make_result(task, {"title": "changed"}, revisit_at=0))
        assert (await book.look("a")).revisit_at is None

    async def test_a_calendar_that_a_source_gains_plans_what_is_stored_and_nothing_else(self, book: Book) -> None:
        planned = book.clock.now() + 9 * DAY
        await self.store(book, "planned", revisit_at=planned)
        await self.store(book, "a")
        await self.store(book, "b")
        (dead,) = await book.listed("dead")
        await book.commit(failure(dead, Outcome.NOT_FOUND, ItemState.DEAD))
        await book.listed("open")
        await book.walk(make_entry("other", direct=True), source="feed")
        first, second = await self.plan(book, 2 * HOUR, limit=2)
        found = {key: (await book.look(key)).revisit_at for key in ("planned", "a", "b", "dead", "open")}
        assert found == {
            "planned": planned,
            "a": first + 2 * HOUR,
            "b": second + 2 * HOUR,
            "dead": None,
            "open": None,
        }
        assert (await book.look("other", "feed")).revisit_at is None
        # Once more changes nothing.
        assert await self.plan(book, DAY) == []
        book.clock.advance(3 * HOUR)
        assert len(await book.ledger.revisit()) == 2
        await book.balanced()

    async def plan(self, book: Book, age: int, limit: int = 5_000) -> list[int]:
        """Plan at this age; returns when each of the items was first listed."""
        opened: list[int] = []

        def when(opened_at: int) -> int:
            opened.append(opened_at)
            return opened_at + age

        after: int | None = 0
        while after is not None:
            after = await book.ledger.plan_visits("gov", when, after=after, limit=limit)
        return opened

    async def test_an_item_whose_calendar_is_over_is_not_planned(self, book: Book) -> None:
        await self.store(book, "a")
        after: int | None = 0
        while after is not None:
            after = await book.ledger.plan_visits("gov", lambda _: None, after=after)
        assert (await book.look("a")).revisit_at is None

    async def test_many_due_visits_come_in_batches_and_none_twice(self, book: Book) -> None:
        at = book.clock.now() + HOUR
        for key in "abcde":
            await self.store(book, key, revisit_at=at)
        book.clock.advance(HOUR)
        found = []
        while tasks := await book.ledger.revisit(2):
            assert len(tasks) <= 2
            found += tasks
        assert (len(found), len({task.key for task in found})) == (5, 5)

    async def test_a_correction_and_its_original_know_each_other_in_any_order(self, book: Book) -> None:
        await self.store(book, "late-correction", relations=corrects())
        await self.store(book, "original", relations=corrects(""))
        await self.store(book, "other", relations=corrects("", "another number"))
        for key, other, inverse in (("late-correction", "original", False), ("original", "late-correction", True)):
            (row,) = (await book.look(key)).relations
            assert (row["key"], row["kind"], row["inverse"]) == (other, "corrects", inverse)
        assert (await book.look("other")).relations == []

    async def test_a_later_version_says_anew_what_it_belongs_to(self, book: Book) -> None:
        await self.store(book, "original", relations=corrects(""))
        (task,) = await book.listed("a")
        await book.commit(make_result(task, {"title": "x"}, relations=corrects()))
        assert len((await book.look("a")).relations) == 1
        (task,) = await book.listed(make_entry("a", "changed"))
        await book.commit(make_result(task, {"title": "y"}, relations=[]))
        assert (await book.look("a")).relations == (await book.look("original")).relations == []

    async def test_entries_that_are_records_are_related_too(self, book: Book) -> None:
        await book.walk(
            make_entry("a", direct=True, relations=corrects()),
            make_entry("b", direct=True, relations=corrects("")),
            source="feed",
        )
        (row,) = (await book.look("a", "feed")).relations
        assert row["key"] == "b"

    async def test_attachments_are_items_of_their_own_and_shown_with_their_item(self, book: Book) -> None:
        files = make_source("gov.attachments", scope="notice/attachments", table="gov_procure_attachments")
        await book.ledger.apply_source(files)
        await self.store(book, "a")
        await self.store(book, "ab")
        entries = [make_entry("a/site.example/1.pdf"), make_entry("a/site.example/2.pdf")]
        for _ in range(2):
            await book.ledger.submit("gov.attachments", entries, listing="attachments")
        await book.ledger.submit("gov.attachments", [make_entry("ab/site.example/1.pdf")], listing="attachments")
        rows = (await book.look("a")).attachments
        assert [(row["key"], row["state"]) for row in rows] == [(entry.key, "open") for entry in entries]
        found = await book.look("a/site.example/1.pdf", "notice/attachments")
        assert [row["listing"] for row in found.sightings] == ["attachments"]
        assert (await book.count("gov.attachments")).listed == 3
        await book.balanced()

    async def test_forgetting_an_item_forgets_its_calendar_and_relations(self, book: Book) -> None:
        await self.store(book, "a", revisit_at=book.clock.now() + HOUR, relations=corrects())
        await self.store(book, "b", relations=corrects(""))
        counts = await book.ledger.forget(ForgetFilter(scope="notice", key="a"))
        assert (counts["revisit"], counts["relation"], counts["item"]) == (1, 1, 1)
        book.clock.advance(DAY)
        assert await book.ledger.revisit() == []
        assert (await book.look("b")).relations == []
