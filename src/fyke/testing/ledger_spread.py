"""Listings that are found: the pass that found them ends as theirs begin, once (P1, P5)."""

from __future__ import annotations

from fyke.model import Listing, PassEnd, PassState, RunState
from fyke.testing.ledger_steps import LANE, Book


class SpreadContract:
    async def test_a_pass_that_finds_listings_ends_as_its_run_gets_their_passes(self, book: Book) -> None:
        lease = await book.start((await book.open("gov", "each.discover")).tasks[0])
        found = [Listing("channel=b", {"channel": "b"}), Listing("channel=a", {"channel": "a"})]
        end = PassEnd(PassState.COMPLETE, note="2 found", first_page_rows=2)
        assert await book.ledger.spread(lease.pass_id, lease.fence + 1, end, found, [LANE, LANE]) is None
        tasks = await book.ledger.spread(lease.pass_id, lease.fence, end, found, [LANE, "other.example"])
        assert tasks is not None
        assert [task.lane for task in tasks] == ["other.example", LANE]
        assert await book.due() == tasks
        # An unknown outcome is asked for by doing it again: the pass has ended, nothing comes twice.
        assert await book.ledger.spread(lease.pass_id, lease.fence, end, found, [LANE, LANE]) is None
        leases = [await book.start(task) for task in tasks]
        assert [each.listing for each in leases] == [found[1], found[0]]
        assert await book.end(leases[0]) is None
        assert await book.end(leases[1], PassState.GAP, reason="for the test") is RunState.GAP
        (run,) = await book.ledger.runs("gov")
        assert {row.listing: row.state for row in run.passes} == {
            "each.discover": PassState.COMPLETE,
            "channel=a": PassState.COMPLETE,
            "channel=b": PassState.GAP,
        }

    async def test_a_listing_that_the_run_has_already_is_not_walked_twice(self, book: Book) -> None:
        run = await book.open("gov", "each.discover:city=bj", "each.discover:city=sh")
        first, second = [await book.start(task) for task in run.tasks]
        end = PassEnd(PassState.COMPLETE)
        one = await book.ledger.spread(first.pass_id, first.fence, end, [Listing("main")], [LANE])
        both = await book.ledger.spread(
            second.pass_id, second.fence, end, [Listing("main"), Listing("more")], [LANE] * 2
        )
        assert one is not None
        assert both is not None
        (row,) = await book.ledger.runs("gov")
        assert sorted(each.listing for each in row.passes) == [
            "each.discover:city=bj",
            "each.discover:city=sh",
            "main",
            "more",
        ]
