"""What is due: the frontier is rebuilt from these answers, so they miss nothing and want nothing closed (P2)."""

from __future__ import annotations

from fyke.model import ItemState, Outcome, TaskKind
from fyke.testing.ledger_steps import LANE, MINUTE, Book, failure, make_entry, make_result, make_source


class DueContract:
    async def test_all_that_is_due_comes_in_order_and_page_by_page(self, book: Book) -> None:
        lease, _ = await book.begin_all("all", "second")
        await book.show(lease, *(make_entry(f"k{number}") for number in range(7)))
        whole = await book.due()
        assert [task.key[0] for task in whole] == ["i"] * 7 + ["p"] * 2
        assert [(task.kind.value, task.ref) for task in whole] == sorted((t.kind.value, t.ref) for t in whole)
        found, after = [], None
        while part := await book.ledger.due(after=after, limit=2, older_than_ms=0):
            found += part
            after = (part[-1].kind.value, part[-1].ref)
        assert found == whole

    async def test_what_is_younger_than_the_grace_time_is_left_to_who_made_it(self, book: Book) -> None:
        # CRASH-WINDOWS 3 and 25
        lease = await book.begin()
        await book.show(lease, make_entry("a"))
        book.clock.advance(MINUTE - 1)
        assert await book.ledger.due(after=None, limit=10, older_than_ms=MINUTE) == []
        book.clock.advance(1)
        assert len(await book.ledger.due(after=None, limit=10, older_than_ms=MINUTE)) == 2
        await book.show(lease, make_entry("a", "changed"))
        (task,) = await book.ledger.due(after=None, limit=10, older_than_ms=MINUTE)
        assert task.kind is TaskKind.PASS

    async def test_what_a_fast_clock_has_written_is_due_after_it_was_set_back(self, book: Book) -> None:
        lease = await book.begin()
        await book.show(lease, make_entry("a"))
        book.clock.set(book.clock.now() - 60 * MINUTE)
        assert len(await book.ledger.due(after=None, limit=10, older_than_ms=MINUTE)) == 2

    async def test_a_task_is_still_due_at_exactly_its_generation(self, book: Book) -> None:
        (task,) = await book.listed("a")
        asked = [(task.ref, 2), (task.ref, 1), (99, 1), (task.ref, 0)]
        found = await book.ledger.still_due(asked)
        assert [due is not None for due in found] == [False, True, False, False]
        due = found[1]
        assert due is not None
        assert (due.scope, due.key, due.url, due.lane) == ("notice", "a", f"https://{LANE}/a", LANE)
        assert (due.source_id, due.source_hash, due.state) == ("gov", "text-of-gov", ItemState.OPEN)
        assert (due.entry, due.entry_hash) == ({"title": "公告 a"}, make_entry("a").hash)
        assert await book.ledger.still_due([]) == []

    async def test_nothing_of_a_paused_or_removed_source_is_due(self, book: Book) -> None:
        (task,) = await book.listed("a")
        for pause, resume in (
            (book.ledger.pause_source("gov", ""), book.ledger.resume_source("gov")),
            (book.ledger.remove_source("gov"), book.ledger.apply_source(make_source())),
        ):
            await pause
            assert await book.ledger.still_due([(task.ref, 1)]) == [None]
            assert await book.due() == []
            assert await book.ledger.due_keys([(task.key, 1)]) == [False]
            assert await book.ledger.open_count() == 0
            await resume
            assert await book.ledger.still_due([(task.ref, 1)]) != [None]
            assert await book.ledger.open_count() == 1

    async def test_the_ledger_wants_no_task_of_what_is_closed_or_moved_on(self, book: Book) -> None:
        lease = await book.begin()
        result = await book.show(lease, make_entry("a"), make_entry("b"), make_entry("c"), make_entry("d"))
        a, b, c, d = sorted(result.due, key=lambda task: task.ref)
        await book.commit(
            make_result(a),
            failure(b, Outcome.GONE, ItemState.DEAD),
            failure(c, Outcome.ROBOTS, ItemState.IGNORED),
            failure(d, Outcome.NETWORK, None),
        )
        key = f"p{lease.pass_id}"
        asked = [(a.key, 1), (b.key, 1), (c.key, 1), (d.key, 1), (d.key, 2), (key, 1), ("i99", 1), ("p99", 1)]
        assert await book.ledger.due_keys(asked) == [False, False, False, True, False, True, False, False]
        await book.end(lease)
        assert await book.ledger.due_keys([(key, 1)]) == [False]
        assert [task.key for task in await book.due()] == [d.key]

    async def test_open_work_is_counted_by_source(self, book: Book) -> None:
        await book.listed("a", "b")
        await book.begin("feed")
        assert await book.ledger.open_count() == 3
        assert await book.ledger.open_count(["gov"]) == 2
        assert await book.ledger.open_count(["feed", "gov"]) == 3
        assert await book.ledger.open_count([]) == 0

    async def test_a_revisit_counts_as_open_work(self, book: Book) -> None:
        await book.stored("a")
        assert await book.ledger.open_count() == 0
        await book.listed(make_entry("a", "changed"))
        assert await book.ledger.open_count() == 1
