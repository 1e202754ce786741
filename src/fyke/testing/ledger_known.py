"""What a ledger does for known filters: it ends their space, and refuses what they were wrong about (P2)."""

from __future__ import annotations

from fyke.model import ForgetFilter
from fyke.testing.ledger_steps import Book, make_entry, make_source


class KnownContract:
    async def test_a_page_that_skipped_entries_counts_them_in_the_space_that_is_current_and_in_no_other(
        self, book: Book
    ) -> None:
        await book.walk("a", "b")
        lease = await book.begin()
        assert (lease.space, lease.known_space) == ((await book.begin()).space, 0)
        await book.ledger.cursor("known_space", 77)
        lease = await book.begin()
        assert lease.known_space == 77
        for space in (0, 76):
            result = await book.show(lease, make_entry("c"), skipped=2, known_space=space)
            assert (result.misjudged, result.known_space) == (True, 77)
        result = await book.show(lease, make_entry("c"), skipped=2, known_space=77)
        assert (result.misjudged, result.new, result.known, result.known_space) == (False, 1, 2, 77)
        await book.balanced()

    async def test_a_change_that_no_filter_was_told_of_ends_the_space(self, book: Book) -> None:
        await book.walk("a", "b")
        a, b = make_entry("a", "another"), make_entry("b", "another")
        for number, (space, told, left) in enumerate([(77, {"a", "b"}, 77), (77, {"a"}, 0), (76, {"a", "b"}, 0)]):
            await book.ledger.cursor("known_space", 77)
            lease = await book.begin()
            shown = [make_entry(entry.key, f"title {number}") for entry in (a, b)]
            result = await book.show(lease, *shown, known_space=space, told=frozenset(told))
            assert (result.changed, result.known_space) == (2, left)
            assert await book.ledger.cursor("known_space") == left

    async def test_a_known_key_that_was_called_fresh_writes_nothing(self, book: Book) -> None:
        await book.walk("a", "b")
        lease = await book.begin()
        result = await book.show(lease, make_entry("a"), make_entry("c"), fresh=frozenset({"a", "c"}))
        assert (result.accepted, result.misjudged) == (True, True)
        assert await book.ledger.explain("notice", "c") is None
        result = await book.show(lease, make_entry("a"), make_entry("c"), fresh=frozenset({"c"}))
        assert (result.misjudged, result.new, result.known) == (False, 1, 1)
        await book.balanced()

    async def test_what_is_forgotten_ends_the_space(self, book: Book) -> None:
        await book.walk("a")
        await book.ledger.cursor("known_space", 77)
        await book.ledger.forget(ForgetFilter(scope="notice", key="a"))
        assert await book.ledger.cursor("known_space") == 0

    async def test_another_sources_entry_tells_nothing_of_an_items_content(self, book: Book) -> None:
        await book.ledger.apply_source(make_source("other"))
        await book.stored("a")
        lease = await book.begin()
        (own,) = (await book.ledger.recognise(lease.pass_id, ["a"])).values()
        assert (own.settled, own.hash) == (True, make_entry("a").hash)
        lease = await book.begin("other")
        (foreign,) = (await book.ledger.recognise(lease.pass_id, ["a"])).values()
        assert (foreign.known, foreign.settled, foreign.hash) == (True, True, b"")
