"""Entries and time: what was read earlier never wins, and what died is listed into life within limits (P2, P3)."""

from __future__ import annotations

import pytest

from fyke.model import Committed, DeadFilter, ItemState, Outcome
from fyke.testing.ledger_steps import DAY, HOUR, LANE, MINUTE, SECOND, Book, failure, make_entry, make_result

MOVED = f"https://{LANE}/moved"


class TimesContract:
    async def test_an_open_item_is_not_set_back_by_a_page_that_was_read_before(self, book: Book) -> None:
        at = book.clock.now()
        (task,) = await book.listed(make_entry("a", "new"))
        lease = await book.begin()
        result = await book.show(lease, make_entry("a", "old", url=MOVED), read_at=at)
        assert (result.known, result.changed, result.due) == (1, 0, [task])
        (due,) = await book.ledger.still_due([(task.ref, 1)])
        assert due is not None
        assert (due.entry["title"], due.url) == ("new", f"https://{LANE}/a")
        assert (await book.look("a")).sightings[0]["last_pass"] == lease.pass_id

    async def test_a_page_read_in_between_does_not_undo_what_was_confirmed_later(self, book: Book) -> None:
        await book.stored("a")
        between = book.clock.now() + 1
        book.clock.advance(SECOND)
        await book.listed("a")
        lease = await book.begin()
        result = await book.show(lease, make_entry("a", "withdrawn title"), read_at=between)
        assert (result.changed, result.due) == (0, [])
        assert await book.state("a") == ("stored", 1, False)

    async def test_a_record_of_a_list_is_never_older_than_the_one_before(self, book: Book) -> None:
        await book.walk(make_entry("a", "new", direct=True), source="feed")
        lease = await book.begin("feed")
        early = await book.show(lease, make_entry("a", "old", direct=True), read_at=book.clock.now() - 10 * SECOND)
        assert early.changed == 0
        row = (await book.rows("feed"))["a"]
        assert (row["title"], row["_version"]) == ("new", 1)

    @pytest.mark.parametrize(
        ("outcome", "final"),
        [
            (Outcome.NOT_FOUND, ItemState.DEAD),
            (Outcome.GAVE_UP, ItemState.DEAD),
            (Outcome.ROBOTS, ItemState.IGNORED),
        ],
    )
    async def test_what_died_of_the_moment_opens_again_when_it_is_listed_again(
        self, book: Book, outcome: Outcome, final: ItemState
    ) -> None:
        (task,) = await book.listed("a")
        await book.commit(failure(task, outcome, None, costs=True), failure(task, outcome, final))
        (again,) = await book.listed(make_entry("a", url=MOVED))
        assert (again.ref, again.generation, again.starts) == (task.ref, 2, 0)
        assert await book.state("a") == ("open", 2, True)
        assert await book.ledger.dead_letters(DeadFilter()) == []
        (due,) = await book.ledger.still_due([(again.ref, 2)])
        assert due is not None
        assert due.url == MOVED
        await book.balanced()
        # The letter is closed, not gone.
        assert len((await book.look("a")).dead) == (final is ItemState.DEAD)

    async def test_a_dead_item_opens_again_at_most_once_a_day(self, book: Book) -> None:
        await self._die(book, (await book.listed("a"))[0].generation)
        opened = book.clock.now() + SECOND
        await self._die(book, (await book.listed("a"))[0].generation)
        book.clock.set(opened + DAY - SECOND - 1)
        assert await book.listed("a") == []
        assert (await book.state("a"))[0] == "dead"
        book.clock.set(opened + DAY - SECOND)
        assert len(await book.listed("a")) == 1

    async def test_a_dead_item_opens_again_at_most_seven_times(self, book: Book) -> None:
        opened = 0
        for _ in range(10):
            due = await book.listed("a")
            opened += len(due)
            if due:
                await self._die(book, due[0].generation)
            book.clock.advance(DAY)
        assert opened == 1 + 7
        assert await book.state("a") == ("dead", 8, False)
        assert len(await book.ledger.dead_letters(DeadFilter())) == 1
        await book.balanced()

    @pytest.mark.parametrize(
        ("outcome", "final"),
        [
            (Outcome.GONE, ItemState.DEAD),
            (Outcome.MISFIT, ItemState.DEAD),
            (Outcome.ROW_REFUSED, ItemState.DEAD),
            (Outcome.POLICY, ItemState.IGNORED),
        ],
    )
    async def test_what_died_for_good_stays_closed_and_keeps_the_newest_request(
        self, book: Book, outcome: Outcome, final: ItemState
    ) -> None:
        (task,) = await book.listed("a")
        await book.commit(failure(task, outcome, final))
        book.clock.advance(DAY)
        assert await book.listed(make_entry("a", "changed", url=MOVED)) == []
        found = await book.look("a")
        assert (found.state, found.generation, found.url) == (final, 1, MOVED)
        await book.balanced()

    async def test_an_item_closed_by_hand_is_not_opened_by_a_list(self, book: Book) -> None:
        await book.listed("a")
        await book.ledger.ignore("notice", "a", "not ours")
        book.clock.advance(DAY)
        assert await book.listed("a") == []

    async def test_a_late_result_of_before_does_not_close_what_opened_again(self, book: Book) -> None:
        # CRASH-WINDOWS 30
        (old,) = await book.listed("a")
        await book.commit(failure(old, Outcome.NOT_FOUND, ItemState.DEAD))
        (new,) = await book.listed("a")
        late = [failure(old, Outcome.GONE, ItemState.DEAD), failure(old, Outcome.NETWORK, None), make_result(old)]
        assert await book.commit(*late) == [Committed.LATE] * 3
        assert await book.state("a") == ("open", 2, True)
        assert await book.commit(make_result(new, {"title": "new"})) == [Committed.COMMITTED]
        assert await book.commit(make_result(old, {"title": "old"})) == [Committed.LATE]
        row = (await book.rows())["a"]
        assert (row["title"], row["_version"]) == ("new", 1)

    async def test_what_a_fast_clock_has_read_does_not_hide_later_changes(self, book: Book) -> None:
        now = book.clock.now()
        book.clock.set(now + 7 * DAY)
        await book.stored("a")
        book.clock.set(now)
        assert len(await book.listed(make_entry("a", "changed"))) == 1

    async def test_a_worker_whose_clock_is_ahead_reads_no_page_of_tomorrow(self, book: Book) -> None:
        await book.stored("a")
        lease = await book.begin()
        await book.show(lease, make_entry("a"), read_at=book.clock.now() + HOUR)
        assert len(await book.listed(make_entry("a", "changed"))) == 1

    async def test_a_renewed_item_starts_with_a_clean_slate(self, book: Book) -> None:
        (task,) = await book.listed("a")
        await book.commit(
            failure(task, Outcome.EMPTY, None, costs=True),
            failure(task, Outcome.NETWORK, None, started_at=2_000, ended_at=3_000, delay_ms=500),
        )
        (due,) = await book.ledger.still_due([(task.ref, 1)])
        assert due is not None
        assert (due.first_started_at, due.soft_failures, due.soft_ms) == (1_000, 1, 1_500)
        assert [found.starts for found in await book.due()] == [1]
        (task,) = await book.listed(make_entry("a", "changed"))
        assert task.starts == 0
        (due,) = await book.ledger.still_due([(task.ref, 2)])
        assert due is not None
        assert (due.first_started_at, due.soft_failures, due.soft_ms) == (None, 0, 0)

    async def test_pauses_do_not_count_as_time_that_an_item_was_tried(self, book: Book) -> None:
        await self._pause(book, HOUR)
        (task,) = await book.listed("a")
        await book.commit(failure(task, Outcome.NETWORK, None))
        await self._pause(book, 2 * HOUR)
        (due,) = await book.ledger.still_due([(task.ref, 1)])
        assert due is not None
        assert due.paused_ms == 2 * HOUR

    @staticmethod
    async def _die(book: Book, generation: int) -> None:
        found = await book.look("a")
        (due,) = await book.ledger.still_due([(found.item_id, generation)])
        assert due is not None
        (task,) = [task for task in await book.due() if task.ref == found.item_id]
        await book.commit(failure(task, Outcome.NOT_FOUND, ItemState.DEAD))

    @staticmethod
    async def _pause(book: Book, length: int) -> None:
        await book.ledger.pause_source("gov", "")
        book.clock.advance(length)
        await book.ledger.resume_source("gov")

    async def test_a_run_of_a_clock_that_was_ahead_ends_after_its_own_length(self, book: Book) -> None:
        # CRASH-WINDOWS 44
        now = book.clock.now()
        book.clock.set(now + HOUR)
        await book.open(limit_ms=MINUTE)
        book.clock.set(now)
        assert await book.ledger.expire_runs() == []
        book.clock.set(now + MINUTE)
        assert len(await book.ledger.expire_runs()) == 1
