"""Coverage: what may be claimed of a listing, and what ends a walk (P5)."""

from __future__ import annotations

import pytest

from fyke.model import Coverage, DeadFilter, ForgetFilter, PassState
from fyke.testing.ledger_steps import DAY, Book, make_entry, make_source, refusal


class CoverageContract:
    async def test_a_listing_that_was_never_walked_has_no_coverage(self, book: Book) -> None:
        assert (await book.begin()).coverage == Coverage()

    async def test_a_complete_walk_joins_the_newest_stretch(self, book: Book) -> None:
        await book.walk("b", "a")
        assert await book.coverage() == (1, 0, 2, "b")
        await book.walk("c", "b")
        assert await book.coverage() == (1, 0, 3, "c")

    async def test_a_first_walk_that_did_not_reach_its_start_leaves_a_hole_below(self, book: Book) -> None:
        await book.walk("b", "a", state=PassState.GAP, reason="page 2 failed")
        assert await book.coverage() == (1, 1, 2, "b")
        (hole,) = await book.ledger.gaps()
        assert (hole.newer_key, hole.older_key, hole.reason) == ("a", None, "page 2 failed")

    async def test_a_gap_adds_a_hole_and_the_next_walk_joins_above_it(self, book: Book) -> None:
        await book.walk("b", "a")
        await book.walk("z", "y", state=PassState.GAP)
        assert await book.coverage() == (2, 1, 4, "z")
        (hole,) = await book.ledger.gaps()
        assert (hole.source_id, hole.listing, hole.newer_key, hole.older_key) == ("gov", "all", "y", "b")
        await book.walk("zz", "z")
        assert await book.coverage() == (2, 1, 5, "zz")

    @pytest.mark.parametrize("state", [PassState.SUSPICIOUS, PassState.FAILED, PassState.TIMED_OUT])
    async def test_a_walk_that_went_wrong_covers_nothing(self, book: Book, state: PassState) -> None:
        await book.walk("a", state=state)
        assert await book.coverage() == (0, 0, 0, None)
        await book.walk("b")
        assert await book.coverage() == (1, 0, 1, "b")
        await book.walk("c", state=state)
        assert await book.coverage() == (1, 0, 1, "b")

    async def test_what_a_broken_walk_showed_is_covered_by_the_next_good_one(self, book: Book) -> None:
        await book.walk("a", "b", state=PassState.FAILED)
        await book.walk("b", "a")
        assert await book.coverage() == (1, 0, 2, "b")

    async def test_an_accepted_walk_covers_what_a_later_one_has_shown_again(self, book: Book) -> None:
        await book.walk("a")
        lease = await book.begin()
        await book.show(lease, make_entry("c"), make_entry("b"), make_entry("a"))
        await book.end(lease, PassState.SUSPICIOUS, "c", "a", connected=True)
        row = await book.ledger.last_run("gov")
        assert row is not None
        # The later walk shows a row more and one less, and covers nothing.
        await book.walk("d", "c", state=PassState.FAILED)
        assert await book.ledger.accept_run(row.id, "looked at it") == 1
        lease = await book.begin()
        found = await book.ledger.recognise(lease.pass_id, ["a", "b", "c", "d"])
        assert [key for key, standing in sorted(found.items()) if standing.anchor] == ["a", "b", "c"]

    async def test_an_accepted_walk_does_not_cover_what_it_did_not_show(self, book: Book) -> None:
        await book.walk("x", state=PassState.FAILED)
        lease = await book.begin()
        await book.show(lease, make_entry("b"))
        await book.end(lease, PassState.SUSPICIOUS, "b", "b")
        row = await book.ledger.last_run("gov")
        assert row is not None
        await book.walk("x", "b", state=PassState.FAILED)
        await book.ledger.accept_run(row.id, "looked at it")
        lease = await book.begin()
        found = await book.ledger.recognise(lease.pass_id, ["b", "x"])
        assert (found["b"].anchor, found["x"].anchor) == (True, False)

    async def test_a_walk_without_any_key_makes_no_stretch(self, book: Book) -> None:
        # A stretch without anchors is one that no walk can meet.
        lease = await book.begin()
        await book.show(lease, refused=[refusal("x")])
        await book.end(lease)
        assert await book.coverage() == (0, 0, 0, None)

    async def test_an_item_known_for_another_reason_is_no_anchor(self, book: Book) -> None:
        await book.walk("a", listing="other")
        lease = await book.begin()
        await book.show(lease, make_entry("a"), make_entry("b"))
        found = await book.ledger.recognise(lease.pass_id, ["a", "b", "c"])
        assert {key: (how.known, how.anchor) for key, how in found.items()} == {
            "a": (True, False),
            "b": (True, False),
            "c": (False, False),
        }
        await book.end(lease, newest="b", oldest="a")
        lease = await book.begin()
        assert (await book.ledger.recognise(lease.pass_id, ["a"]))["a"].anchor
        assert lease.coverage.anchors == 2

    async def test_a_date_after_tomorrow_never_becomes_the_watermark(self, book: Book) -> None:
        tomorrow = book.clock.now() + DAY
        await book.walk("b", "a", newest_at=tomorrow, oldest_at=5)
        assert await book.coverage() == (1, 0, 2, "b")
        await book.walk("far", "b", newest_at=tomorrow + DAY, oldest_at=5)
        assert await book.coverage() == (1, 0, 3, "b")
        await book.walk("far", state=PassState.GAP, newest_at=tomorrow + DAY, oldest_at=tomorrow + DAY)
        assert (await book.coverage())[:2] == (2, 1)
        (hole,) = await book.ledger.gaps()
        assert (hole.newer_key, hole.newer_at) == (None, None)

    async def test_a_list_whose_newest_rows_were_withdrawn_does_not_lower_the_watermark(self, book: Book) -> None:
        await book.walk("b", "a", newest_at=2_000, oldest_at=1_000)
        await book.walk("a", newest_at=1_000, oldest_at=1_000)
        assert await book.coverage() == (1, 0, 2, "b")

    async def test_a_walk_that_was_shown_nothing_covers_nothing_new(self, book: Book) -> None:
        lease = await book.begin()
        await book.end(lease)
        assert await book.coverage() == (0, 0, 0, None)
        await book.walk("a")
        await book.end(await book.begin())
        assert await book.coverage() == (1, 0, 1, "a")

    @pytest.mark.parametrize("state", [PassState.GAP, PassState.SUSPICIOUS, PassState.FAILED, PassState.TIMED_OUT])
    async def test_validators_are_sent_only_after_a_complete_walk(self, book: Book, state: PassState) -> None:
        # CRASH-WINDOWS 33
        lease = await book.begin()
        await book.show(lease, make_entry("a"))
        await book.end(lease, state, "a", "a", etag='"1"', last_modified="Mon")
        lease = await book.begin()
        assert (lease.etag, lease.last_modified) == ("", "")
        await book.show(lease, make_entry("a"))
        await book.end(lease, PassState.COMPLETE, "a", "a", etag='"2"', last_modified="Tue")
        lease = await book.begin()
        assert (lease.etag, lease.last_modified) == ('"2"', "Tue")

    async def test_validators_outlive_an_answer_that_nothing_has_changed(self, book: Book) -> None:
        await book.walk("a", etag='"1"')
        await book.end(await book.begin())
        lease = await book.begin()
        assert lease.etag == '"1"'
        await book.show(lease, make_entry("a"))
        await book.end(lease, newest="a", oldest="a")
        # The page came without one: the old one would say "not modified" of another page.
        assert (await book.begin()).etag == ""

    @pytest.mark.parametrize("when", ["during the walk", "after it"])
    async def test_validators_of_a_page_that_other_rules_have_read_are_not_sent(self, book: Book, when: str) -> None:
        changed = make_source(text='{"id":"gov","v":2}', hash="text-2")
        lease = await book.begin()
        await book.show(lease, make_entry("a"))
        if when == "during the walk":
            await book.ledger.apply_source(changed)
        await book.end(lease, newest="a", oldest="a", etag='"1"', last_modified="Mon")
        if when == "after it":
            await book.ledger.apply_source(changed)
        lease = await book.begin()
        assert (lease.etag, lease.last_modified) == ("", "")
        await book.show(lease, make_entry("a"))
        await book.end(lease, newest="a", oldest="a", etag='"1"', last_modified="Mon")
        lease = await book.begin()
        assert (lease.etag, lease.last_modified) == ('"1"', "Mon")

    @pytest.mark.parametrize("when", ["during the walk", "after it"])
    async def test_what_was_forgotten_is_not_hidden_by_not_modified(self, book: Book, when: str) -> None:
        lease = await book.begin()
        await book.show(lease, make_entry("a"), make_entry("b"))
        if when == "during the walk":
            await book.ledger.forget(ForgetFilter(key="b"))
        await book.end(lease, newest="a", oldest="b", etag='"1"')
        if when == "after it":
            await book.walk("x", source="feed", etag='"feed"')
            await book.ledger.forget(ForgetFilter(key="b"), dry_run=True)
            assert (await book.begin()).etag == '"1"'
            await book.ledger.forget(ForgetFilter(key="b"))
            assert (await book.begin("feed")).etag == '"feed"', "another scope"
        lease = await book.begin()
        assert lease.etag == ""
        assert (await book.show(lease, make_entry("a"), make_entry("b"))).new == 1
        await book.end(lease, newest="a", oldest="b", etag='"1"')
        assert (await book.begin()).etag == '"1"'

    async def test_a_replayed_item_without_a_page_of_its_own_is_not_hidden_by_not_modified(self, book: Book) -> None:
        bad = {"title": "t", "lots": "three"}
        entries = [make_entry("a", direct=True), make_entry("b", direct=True, fields=bad, hash=b"bad")]
        await book.walk(*entries, source="feed", etag='"1"')
        await book.stored("x")
        assert (await book.begin("feed")).etag == '"1"'
        assert [letter.key for letter in await book.ledger.dead_letters(DeadFilter())] == ["b"]
        assert (await book.ledger.replay(DeadFilter(), dry_run=True))[0] == 1
        assert (await book.begin("feed")).etag == '"1"'
        assert (await book.ledger.replay(DeadFilter()))[0] == 1
        # It waits, open, for a list that shows it.
        assert (await book.begin("feed")).etag == ""

    async def test_the_usual_rows_are_those_of_the_last_good_page(self, book: Book) -> None:
        await book.walk("a", first_page_rows=20)
        await book.walk("a", first_page_rows=3, state=PassState.SUSPICIOUS)
        assert (await book.begin()).coverage.usual_rows == 20
        await book.walk("a", first_page_rows=25)
        assert (await book.begin()).coverage.usual_rows == 25

    async def test_listings_of_one_source_have_each_their_own_coverage(self, book: Book) -> None:
        await book.walk("a", listing="one")
        await book.walk("b", listing="two", state=PassState.GAP)
        assert await book.coverage("one") == (1, 0, 1, "a")
        assert await book.coverage("two") == (1, 1, 1, "b")

    async def test_sources_of_one_scope_have_each_their_own_coverage(self, book: Book) -> None:
        await book.ledger.apply_source(make_source("second"))
        await book.walk("a")
        assert await book.coverage("all", "second") == (0, 0, 0, None)

    async def test_rows_that_a_person_accepted_come_with_the_lease(self, book: Book) -> None:
        lease = await book.begin()
        await book.show(lease, make_entry("a"), refused=[refusal("a bad row", 1)])
        await book.end(lease, PassState.SUSPICIOUS, "a", "a")
        await book.ledger.accept_run(lease.run_id, "the site has such rows")
        assert (await book.begin()).accepted_refusals == {refusal("a bad row").fingerprint}
