"""Date windows: runs that fill go beside the others, cover nothing, and close a hole only where both sides meet."""

from __future__ import annotations

from datetime import UTC

from fyke.model import Listing, NewRun, PassEnd, PassLease, PassState
from fyke.policy.windows import window_listing
from fyke.testing.ledger_steps import DAY, LANE, Book, make_entry

MAIN = Listing("all")


class WindowsContract:
    async def test_a_run_that_fills_goes_beside_the_planned_one_and_waits_behind_it(self, book: Book) -> None:
        planned = await book.open("gov")
        book.clock.advance(1)
        (first,) = await _begin(book, (0, DAY))
        again = await book.ledger.open_run(_run(book, (0, DAY)))
        assert (again.created, again.run_id) == (False, first.run_id)
        assert {run.trigger for run in await book.ledger.running("gov")} == {"cron", "fill"}
        due = await book.ledger.due(after=None, limit=10, older_than_ms=0)
        assert [task.priority for task in due] == [planned.tasks[0].priority, 2]

    async def test_what_a_window_shows_covers_nothing_and_moves_no_watermark(self, book: Book) -> None:
        await book.walk("b", "a")
        (lease,) = await _begin(book, (0, DAY))
        assert (await book.show(lease, make_entry("z"), make_entry("b"), low=True)).new == 1
        await book.end(lease, PassState.COMPLETE, "z", "b")
        assert await book.coverage() == (1, 0, 2, "b")

    async def test_a_windows_gap_makes_no_hole(self, book: Book) -> None:
        (lease,) = await _begin(book, (0, DAY))
        await book.show(lease, make_entry("z"))
        await book.end(lease, PassState.GAP, "z", "z", reason="too long")
        assert await book.ledger.gaps(closed=True) == []

    async def test_new_items_of_a_window_wait_behind_those_of_lists(self, book: Book) -> None:
        (lease,) = await _begin(book, (0, DAY))
        (old,) = (await book.show(lease, make_entry("old"), low=True)).due
        (new,) = await book.listed("new")
        assert (old.priority, new.priority) == (2, 1)

    async def test_rows_that_are_put_aside_leave_known_items_as_they_are(self, book: Book) -> None:
        await book.stored("a")
        (waiting,) = await book.listed("b")
        (lease,) = await _begin(book, (0, DAY))
        rows = [make_entry("a", title="cut …"), make_entry("b", title="cut …"), make_entry("c")]
        result = await book.show(lease, *rows, aside=True, low=True)
        assert (result.new, result.known, result.changed) == (1, 2, 0)
        assert await book.state("a") == ("stored", 1, False)
        # What waits is offered once more, as it was listed.
        assert (waiting.ref, waiting.generation) in [(task.ref, task.generation) for task in result.due]
        assert await book.state("b") == ("open", 1, True)

    async def test_a_window_in_halves_has_shown_nothing_itself(self, book: Book) -> None:
        await _hole(book)
        (lease,) = await _begin(book, (0, 2 * DAY))
        halves = [window_listing(MAIN, part, UTC) for part in ((0, DAY), (DAY, 2 * DAY))]
        end = PassEnd(PassState.COMPLETE, note="read as two halves")
        tasks = await book.ledger.spread(lease.pass_id, lease.fence, end, halves, [LANE, LANE])
        assert tasks is not None
        assert len(tasks) == 2
        assert (await book.ledger.holes("gov")).walked == []
        for task in tasks:
            await book.end(await book.start(task))
        found = await book.ledger.holes("gov")
        assert [(since, until) for _, since, until, _ in found.walked] == [(0, DAY), (DAY, 2 * DAY)]
        assert (found.going, found.tried_at > 0) == (None, True)

    async def test_a_hole_is_closed_where_its_windows_show_rows_of_both_its_sides(self, book: Book) -> None:
        await _hole(book)
        (hole,) = (await book.ledger.holes("gov")).holes
        assert (hole.listing, hole.start) == (MAIN, False)
        names = [window_listing(MAIN, (0, DAY), UTC).name]
        for shown, missing in ((["x"], "newer"), (["y", "x"], "older"), (["y", "x", "b"], "")):
            (lease,) = await _begin(book, (0, DAY))
            await book.show(lease, *map(make_entry, shown))
            await book.end(lease)
            why = await book.ledger.fill_hole(hole.id, names, "filled")
            assert (missing in why, bool(why)) == (True, bool(missing))
            book.clock.advance(1_000)
        (gap,) = await book.ledger.gaps(closed=True)
        assert (gap.closed_reason, (await book.ledger.holes("gov")).holes) == ("filled", [])
        assert await book.ledger.fill_hole(hole.id, names, "filled") == ""
        assert await book.coverage() == (2, 0, 4, "z")

    async def test_a_hole_below_all_that_is_covered_has_one_side(self, book: Book) -> None:
        await book.walk("b", "a", state=PassState.GAP)
        (hole,) = (await book.ledger.holes("gov")).holes
        assert hole.start
        (lease,) = await _begin(book, (0, DAY))
        await book.show(lease, make_entry("a"), make_entry("older"))
        await book.end(lease)
        names = [window_listing(MAIN, (0, DAY), UTC).name]
        assert await book.ledger.fill_hole(hole.id, names, "filled") == ""

    async def test_windows_that_were_walked_before_a_hole_was_found_say_nothing_of_it(self, book: Book) -> None:
        (lease,) = await _begin(book, (0, DAY))
        await book.end(lease)
        book.clock.advance(1_000)
        await _hole(book)
        assert (await book.ledger.holes("gov")).walked == []
        assert [listing.name for listing in await book.ledger.listings("gov")] == ["all"]


async def _hole(book: Book) -> None:
    await book.walk("b", "a")
    await book.walk("z", "y", state=PassState.GAP)
    book.clock.advance(1_000)


def _run(book: Book, *windows: tuple[int, int]) -> NewRun:
    listings = [window_listing(MAIN, window, UTC) for window in windows]
    return NewRun("gov", book.clock.now() + 1, listings, [LANE] * len(listings), trigger="fill")


async def _begin(book: Book, *windows: tuple[int, int]) -> list[PassLease]:
    opened = await book.ledger.open_run(_run(book, *windows))
    assert opened.created
    return [await book.start(task) for task in opened.tasks]
