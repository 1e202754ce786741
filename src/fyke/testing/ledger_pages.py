"""List pages: every entry becomes one item, whoever shows it and however often (P1, P2)."""

from __future__ import annotations

import asyncio

import pytest

from fyke.model import Committed, ItemState, Outcome, TaskKind
from fyke.ports import Ledger
from fyke.testing.ledger_steps import LANE, SECOND, Book, failure, make_entry, make_result, make_source, refusal


class PagesContract:
    async def test_each_entry_is_an_open_item_before_anybody_is_told_of_it(self, book: Book) -> None:
        lease = await book.begin()
        result = await book.show(lease, make_entry("b"), make_entry("a"))
        assert (result.accepted, result.new, result.known, result.refused) == (True, 2, 0, 0)
        assert {(task.kind, task.generation, task.lane, task.source_hash) for task in result.due} == {
            (TaskKind.ITEM, 1, LANE, "text-of-gov")
        }
        assert await book.state("a") == ("open", 1, True)
        # CRASH-WINDOWS 3: killed before the offer, both are found again.
        due = [task for task in await book.due() if task.kind is TaskKind.ITEM]
        assert sorted(due, key=lambda task: task.ref) == sorted(result.due, key=lambda task: task.ref)
        await book.balanced()

    async def test_a_page_whose_answer_was_lost_is_written_again_and_adds_nothing(self, book: Book) -> None:
        # CRASH-WINDOWS 2
        lease = await book.begin()
        first = await book.show(lease, make_entry("a"), make_entry("b"))
        again = await book.show(lease, make_entry("a"), make_entry("b"))
        assert (again.new, again.known, again.changed) == (0, 2, 0)
        assert again.due == first.due
        count = await book.count()
        assert (count.listed, count.open, count.entries) == (2, 2, 4)
        await book.balanced()

    async def test_a_key_twice_on_one_page_is_one_item_and_counts_as_known(self, book: Book) -> None:
        lease = await book.begin()
        twice = [make_entry("a", "first"), make_entry("b"), make_entry("a", "second")]
        result = await book.show(lease, *twice, refused=[refusal("x", 3)])
        assert (result.new, result.known, result.refused, len(result.due)) == (2, 1, 1, 2)
        (due, *_) = await book.ledger.still_due([(task.ref, 1) for task in result.due])
        assert due is not None
        assert due.entry["title"] == "first"
        await book.balanced()

    async def test_entries_are_new_known_and_refused_in_each_pass(self, book: Book) -> None:
        await book.walk("a", "b")
        lease = await book.begin()
        await book.show(lease, make_entry("b"), make_entry("c"), refused=[refusal("x", 2), refusal("y", 3)])
        await book.show(lease, make_entry("d"), number=2)
        await book.end(lease)
        row = await book.ledger.last_run("gov")
        assert row is not None
        assert (row.entries, row.new, row.known, row.refused) == (5, 2, 1, 2)
        assert (row.passes[0].pages, row.passes[0].entries) == (2, 5)
        count = await book.count()
        assert (count.entries, count.refused, count.listed) == (7, 2, 4)
        await book.balanced()

    async def test_two_listings_that_show_one_key_make_one_item(self, book: Book) -> None:
        await book.walk("a", listing="one")
        result = await book.walk("a", "b", listing="two")
        assert (result.new, result.known) == (1, 1)
        assert sorted(row["listing"] for row in (await book.look("a")).sightings) == ["one", "two"]
        await book.balanced()

    async def test_the_source_that_listed_a_key_first_owns_its_item(self, book: Book) -> None:
        await book.ledger.apply_source(make_source("second", hash="text-of-second"))
        await book.walk("a")
        result = await book.walk(make_entry("a", "another title"), "b", source="second")
        assert (result.new, result.known, [task.source_hash for task in result.due]) == (1, 1, ["text-of-second"])
        found = await book.look("a")
        assert (found.source_id, found.generation) == ("gov", 1)
        assert sorted(row["source"] for row in found.sightings) == ["gov", "second"]
        assert ((await book.count("gov")).listed, (await book.count("second")).listed) == (1, 1)
        await book.balanced()

    async def test_one_key_in_two_scopes_is_two_items(self, book: Book) -> None:
        await book.walk("a")
        await book.walk("a", source="feed")
        assert (await book.look("a", "notice")).item_id != (await book.look("a", "feed")).item_id

    async def test_keys_are_told_apart_byte_for_byte(self, book: Book) -> None:
        keys = ["x", "X", "é", "e\u0301", "ß", "ss", "a", "á", "😀", "😁", "1", "01", "ａ"]
        result = await book.walk(*keys)
        assert (result.new, result.known) == (len(keys), 0)
        assert len({(await book.look(key)).item_id for key in keys}) == len(keys)

    async def test_two_writers_that_list_one_key_at_once_make_one_item(self, book: Book, other: Ledger) -> None:
        keys = [f"k{number}" for number in range(20)]
        second = Book(other, book.clock)
        leases = await book.begin_all(*(f"list {number}" for number in range(6)))
        results = await asyncio.gather(
            *(
                (second if at % 2 else book).show(lease, *(make_entry(key) for key in (*keys[at:], *keys[:at])))
                for at, lease in enumerate(leases)
            )
        )
        assert sum(result.new for result in results) == 20
        assert sum(result.known for result in results) == 100
        await book.balanced()

    async def test_an_open_item_whose_entry_changed_is_due_anew_and_its_old_visit_is_late(self, book: Book) -> None:
        (old,) = await book.listed("a")
        (new,) = await book.listed(make_entry("a", "changed", url=f"https://{LANE}/new", lane="new.example"))
        assert (new.ref, new.generation, new.lane) == (old.ref, old.generation + 1, "new.example")
        (due,) = await book.ledger.still_due([(new.ref, new.generation)])
        assert due is not None
        assert (due.url, due.entry["title"], due.lane) == (f"https://{LANE}/new", "changed", "new.example")
        assert await book.commit(make_result(old)) == [Committed.LATE]
        assert await book.commit(make_result(new)) == [Committed.COMMITTED]
        await book.balanced()

    async def test_an_address_listed_anew_reaches_the_task_that_is_waiting(self, book: Book) -> None:
        (old,) = await book.listed("a")
        entry = make_entry("a")
        (task,) = await book.listed(make_entry("a", url=f"https://{LANE}/moved", hash=entry.hash))
        assert task == old
        (due,) = await book.ledger.still_due([(task.ref, task.generation)])
        assert due is not None
        assert due.url == f"https://{LANE}/moved"

    async def test_a_stored_item_whose_entry_changed_is_visited_again(self, book: Book) -> None:
        old = await book.stored("a", {"title": "v1"})
        assert await book.listed("a") == []
        (task,) = await book.listed(make_entry("a", "changed"))
        assert (task.ref, task.generation) == (old.ref, 2)
        assert await book.state("a") == ("stored", 2, True)
        assert await book.listed(make_entry("a", "changed")) == [task]
        assert await book.commit(make_result(task, {"title": "v2"})) == [Committed.COMMITTED]
        assert await book.state("a") == ("stored", 2, False)
        row = (await book.rows())["a"]
        assert (row["title"], row["_version"]) == ("v2", 2)
        await book.balanced()

    async def test_a_daily_list_fetches_only_what_is_new_or_changed(self, book: Book) -> None:
        # SCENARIOS 18
        first = await book.listed(*(f"k{number:02}" for number in range(20)))
        await book.commit(*(make_result(task) for task in first))
        entries = [make_entry(f"k{number:02}") for number in range(3, 23)]
        entries[0] = make_entry("k03", "corrected")
        due = await book.listed(*entries)
        assert len(due) == 4
        await book.commit(*(make_result(task, {"title": "second day"}) for task in due))
        rows = await book.rows()
        assert len(rows) == 23
        assert {key: row["_version"] for key, row in rows.items() if row["_version"] > 1} == {"k03": 2}
        await book.balanced()

    async def test_items_of_a_paused_source_are_listed_and_not_offered(self, book: Book) -> None:
        lease = await book.begin()
        await book.ledger.pause_source("gov", "")
        result = await book.show(lease, make_entry("a"))
        assert (result.accepted, result.new, result.due) == (True, 1, [])
        assert await book.due() == []
        await book.ledger.resume_source("gov")
        assert {task.kind for task in await book.due()} == {TaskKind.ITEM, TaskKind.PASS}

    @pytest.mark.parametrize("source", ["gov", "feed"])
    async def test_an_address_submitted_while_its_list_is_read_does_not_outrank_it(
        self, book: Book, source: str
    ) -> None:
        direct = source == "feed"
        lease = await book.begin(source)
        read_at = book.clock.now()
        book.clock.advance(SECOND)
        await book.ledger.submit(source, [make_entry("a", "by hand", direct=direct)])
        result = await book.show(lease, make_entry("a", "as listed", direct=direct), read_at=read_at)
        assert (result.new, result.known, result.changed) == (0, 1, 1)
        found = await book.look("a", "feed" if direct else "notice")
        if direct:
            assert (await book.rows("feed"))["a"]["title"] == "as listed"
        else:
            (due,) = await book.ledger.still_due([(found.item_id, found.generation)])
            assert due is not None
            assert due.entry["title"] == "as listed"
        await book.balanced()

    async def test_submitted_addresses_are_sightings_and_change_nothing_known(self, book: Book) -> None:
        await book.listed(make_entry("a", "from the list"))
        book.clock.advance(SECOND)
        result = await book.ledger.submit("gov", [make_entry("a", "by hand"), make_entry("b", "by hand")])
        assert (result.new, result.known, len(result.due)) == (1, 1, 2)
        found = await book.look("a")
        assert (found.generation, sorted(row["listing"] for row in found.sightings)) == (1, ["all", "submitted"])
        assert (await book.look("b")).sightings[0]["listing"] == "submitted"
        again = await book.ledger.submit("gov", [make_entry("b", "by hand")])
        assert (again.new, again.known) == (0, 1)
        await book.balanced()

    @pytest.mark.parametrize("outcome", [Outcome.NOT_FOUND, Outcome.ROBOTS])
    async def test_a_submitted_address_opens_nothing_that_was_closed(self, book: Book, outcome: Outcome) -> None:
        (task,) = await book.listed("a")
        final = ItemState.DEAD if outcome is Outcome.NOT_FOUND else ItemState.IGNORED
        await book.commit(failure(task, outcome, final))
        result = await book.ledger.submit("gov", [make_entry("a")])
        assert (result.known, result.due) == (1, [])
        assert (await book.state("a"))[0] == final.value

    async def test_nul_and_lone_surrogates_are_taken_out_of_entries(self, book: Book) -> None:
        lease = await book.begin()
        entry = make_entry("a", fields={"title": "a\x00b\ud800c", "x\x00": ["\udfff", "好"]})
        bad = refusal("x")
        bad.raw, bad.reason = "raw\x00\ud800", "why\x00"
        result = await book.show(lease, entry, refused=[bad])
        (due,) = await book.ledger.still_due([(task.ref, 1) for task in result.due])
        assert due is not None
        assert due.entry == {"title": "abc", "x": ["", "好"]}
