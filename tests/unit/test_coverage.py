"""Hazards of reading a list that other people write (P5): each test is one way to say `complete` wrongly, or `gap`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from fyke.model import Coverage, Entry, ListPage, Outcome, PassEnd, PassState, RefusedEntry, Standing
from fyke.policy.coverage import (
    DAY_MS,
    MOST_LOOKS,
    Move,
    Rules,
    Step,
    Walk,
    advance,
    ended_by_status,
    needed_anchors,
    restarted,
    resumes,
    step_back,
    unchanged,
)

NOW = 1_800_000_000_000
HOUR = 3_600_000
MANY = Coverage(stretches=1, anchors=1_000, usual_rows=4)
FIRST = Coverage()


def rows(*keys: str, at: int | None = None, pinned: bool = False, **fields: Any) -> list[Entry]:
    return [Entry(n, key, dict(fields), b"", pinned=pinned, published_at=at) for n, key in enumerate(keys)]


def dated(**times: int | None) -> list[Entry]:
    return [Entry(n, key, {}, b"", published_at=at) for n, (key, at) in enumerate(times.items())]


def shows(
    entries: Sequence[Entry] = (),
    *,
    more: bool = True,
    last: bool | None = None,
    refused: int = 0,
    total: int | None = None,
) -> ListPage:
    return ListPage(
        Outcome.OK,
        entries=list(entries),
        refused=[RefusedEntry(n, "no link", "<li>", bytes([n])) for n in range(refused)],
        next={"page": "the one after"} if more else None,
        blank=not entries and not refused,
        last_by_hint=last,
        total_hint=total,
    )


class Reader:
    """Takes pages into a walk, with a ledger of two sets."""

    def __init__(self, rules: Rules, coverage: Coverage = MANY, *, anchors: str = "", known: str = "") -> None:
        self.rules, self.coverage, self.walk = rules, coverage, Walk()
        self.anchors = set(anchors.split())
        self.known = self.anchors | set(known.split())

    def read(self, page: ListPage, *, accepted: bool = False) -> Move:
        standing = {e.key: Standing(e.key in self.known, e.key in self.anchors) for e in page.entries}
        refused = 0 if accepted else len(page.refused)
        move = advance(self.walk, page, standing, self.rules, self.coverage, now=NOW, refused_new=refused)
        self.known |= {entry.key for entry in page.entries}
        self.walk = msgspec.json.decode(msgspec.json.encode(self.walk), type=Walk)
        return move

    def steps(self, *pages: ListPage) -> list[Step]:
        return [self.read(page).step for page in pages]

    def end(self, *pages: ListPage) -> PassEnd:
        """The end that the last page brings; the ones before it bring none."""
        for page in pages[:-1]:
            assert self.read(page).step is not Step.END
        end = self.read(pages[-1]).end
        assert end is not None
        return end


def keys(text: str) -> list[Entry]:
    return rows(*text.split())


# Connecting


def test_too_few_anchors_do_not_connect() -> None:
    reader = Reader(Rules(known=3), anchors="a b c")
    assert reader.steps(shows(keys("n1 n2 a b"))) == [Step.NEXT]
    assert not reader.walk.met


def test_anchors_on_page_one_connect_at_once_and_need_no_second_look() -> None:
    end = Reader(Rules(known=3), anchors="a b c").end(shows(keys("n1 a b c")))
    assert (end.state, end.reason, end.connected) == (PassState.COMPLETE, "", True)


def test_a_new_row_between_anchors_breaks_the_row() -> None:
    reader = Reader(Rules(known=3), anchors="a b c d")
    assert reader.steps(shows(keys("a b n c"))) == [Step.NEXT]
    assert reader.walk.in_row == 1


def test_a_known_item_that_is_no_anchor_never_ends_a_walk() -> None:
    reader = Reader(Rules(known=2), anchors="a", known="x y z w")
    assert reader.steps(shows(keys("n x y z")), shows(keys("a w"))) == [Step.NEXT, Step.NEXT]
    assert reader.walk.in_row == 0


def test_pinned_anchors_do_not_connect() -> None:
    reader = Reader(Rules(known=2), anchors="p q")
    assert reader.steps(shows([*rows("p", "q", pinned=True), *keys("n m")])) == [Step.NEXT]
    assert not reader.walk.met


def test_a_pinned_row_that_stands_in_its_own_place_too_counts_once() -> None:
    reader = Reader(Rules(known=2), anchors="p a")
    assert reader.steps(shows([*rows("p", pinned=True), *keys("n p a")])) == [Step.NEXT]
    assert reader.walk.in_row == 1


def test_rows_seen_on_an_earlier_page_of_the_walk_do_not_count_again() -> None:
    reader = Reader(Rules(known=3), anchors="a b c")
    assert reader.steps(shows(keys("n a b")), shows(keys("a b m"))) == [Step.NEXT, Step.NEXT]
    assert reader.walk.in_row == 0


def test_anchors_in_a_row_over_two_pages_connect_though_rows_came_in_between() -> None:
    reader = Reader(Rules(known=3), anchors="a b c")
    assert reader.steps(shows(keys("n a b")), shows(keys("b c d"))) == [Step.NEXT, Step.FIRST]


@pytest.mark.parametrize(
    ("known", "anchors", "needed"), [(40, 20, 10), (40, 1, 1), (40, 3, 2), (5, 1_000, 5), (1, 9, 1)]
)
def test_a_short_list_connects_with_half_of_what_it_has_shown(known: int, anchors: int, needed: int) -> None:
    assert needed_anchors(Rules(known=known), Coverage(anchors=anchors)) == needed


def test_a_list_shorter_than_known_connects_when_half_of_it_is_known() -> None:
    reader = Reader(Rules(known=40), anchors="a b c")
    assert reader.end(shows(keys("n1 n2 n3 a b c"), more=False)).state is PassState.COMPLETE
    end = Reader(Rules(known=40), anchors="a b").end(shows(keys("n1 n2 n3 a b"), more=False))
    assert end.state is PassState.GAP


def test_a_feed_that_rolled_past_us_is_a_gap() -> None:
    end = Reader(Rules(known=1, paged=False), anchors="old").end(shows(keys("n1 n2 n3")))
    assert end.state is PassState.GAP
    assert "before the walk met what this listing showed before" in end.reason
    assert (end.newest_key, end.oldest_key, end.connected) == ("n1", "n3", False)


# How far: lookback, connect: all, start


def test_lookback_is_read_further_than_where_the_walk_connected() -> None:
    reader = Reader(Rules(known=1, lookback=36 * HOUR), anchors="a b c")
    assert reader.steps(shows(dated(n=NOW, a=NOW - HOUR))) == [Step.NEXT]
    assert reader.steps(shows(dated(b=NOW - 36 * HOUR))) == [Step.NEXT]
    end = reader.end(shows(dated(c=NOW - 37 * HOUR)))
    assert end.state is PassState.COMPLETE
    assert (end.newest_at, end.oldest_at) == (NOW, NOW - 37 * HOUR)


@pytest.mark.parametrize("end_of_pages", ["no next", "404", "blank", "repeated", "max"])
def test_pages_that_end_inside_the_lookback_are_no_gap(end_of_pages: str) -> None:
    most = 2 if end_of_pages == "max" else 100
    reader = Reader(Rules(known=1, lookback=36 * HOUR, max_pages=most), anchors="a b")
    assert reader.steps(shows(dated(n=NOW, a=NOW))) == [Step.NEXT]
    page = shows(dated(b=NOW - HOUR), more=end_of_pages != "no next")
    move = reader.read(page)
    if end_of_pages == "404":
        move = ended_by_status(reader.walk, reader.rules, reader.coverage)
    if end_of_pages == "blank":
        assert reader.steps(shows(), shows()) == [Step.AGAIN, Step.NEXT]
        move = reader.read(shows(last=False))
    if end_of_pages == "repeated":
        move = reader.read(page)
    assert move.end is not None
    assert move.end.state is PassState.COMPLETE


def test_an_undated_row_where_the_walk_connects_does_not_void_the_lookback() -> None:
    reader = Reader(Rules(known=1, lookback=36 * HOUR), anchors="a b")
    assert reader.steps(shows(dated(n=NOW, a=None, b=NOW - HOUR))) == [Step.NEXT]


def test_one_old_row_among_new_ones_does_not_end_the_lookback() -> None:
    reader = Reader(Rules(known=1, lookback=36 * HOUR), anchors="a b c d")
    assert reader.steps(shows(dated(a=NOW, b=NOW - 900 * HOUR, c=NOW - HOUR))) == [Step.NEXT]


def test_new_rows_that_are_pushed_into_the_lookback_do_not_hide_those_above_them() -> None:
    # As anchors n2 and n1 would end the next walk above n0, which nobody has read.
    reader = Reader(Rules(known=1, lookback=36 * HOUR), anchors="a b")
    assert reader.steps(shows(dated(a=NOW))) == [Step.NEXT]
    assert reader.steps(shows(dated(n2=NOW, n1=NOW, b=NOW - 37 * HOUR))) == [Step.FIRST]


def test_a_list_without_dates_has_no_lookback() -> None:
    assert Reader(Rules(known=1, lookback=36 * HOUR), anchors="a").end(shows(keys("a b"))).state is PassState.COMPLETE


def test_connect_all_reads_on_past_its_anchors_to_the_end() -> None:
    reader = Reader(Rules(known=1, all=True), anchors="a b c d")
    assert reader.steps(shows(keys("a b")), shows(keys("n c")), shows(keys("d"), more=False)) == [
        *(Step.NEXT, Step.NEXT, Step.FIRST),
    ]


def test_connect_all_looks_through_the_whole_list_again() -> None:
    reader = Reader(Rules(known=1, all=True), anchors="a b c d")
    pages = shows(keys("a b")), shows(keys("n c")), shows(keys("d"), more=False)
    reader.steps(*pages)
    assert reader.end(*pages).state is PassState.COMPLETE


def test_connect_all_is_complete_without_any_anchor() -> None:
    assert Reader(Rules(known=1, all=True)).end(shows(keys("n m"), more=False)).state is PassState.COMPLETE


def test_without_start_the_first_walk_reads_page_one_and_says_so() -> None:
    end = Reader(Rules(known=40), FIRST).end(shows(keys("n m")))
    assert (end.state, end.note) == (PassState.COMPLETE, "no `start` is given: the first walk read page one only")


def test_a_list_of_one_page_does_not_ask_for_a_start() -> None:
    assert Reader(Rules(known=1, paged=False), FIRST).end(shows(keys("n m"))).note == ""


def test_a_first_walk_with_start_all_reads_to_the_end_of_the_list() -> None:
    reader = Reader(Rules(known=40, start="all"), FIRST)
    assert reader.steps(shows(keys("a b")), shows(keys("c"), more=False)) == [Step.NEXT, Step.FIRST]
    assert reader.end(shows(keys("a b")), shows(keys("c"), more=False)).state is PassState.COMPLETE


def test_a_first_walk_goes_back_to_start_and_not_to_the_first_old_row() -> None:
    reader = Reader(Rules(known=40, start="since", since=NOW - HOUR), FIRST)
    mixed, old = shows(dated(a=NOW, b=NOW - 9 * HOUR, c=NOW)), shows(dated(d=NOW - 2 * HOUR, e=NOW - 3 * HOUR))
    assert reader.steps(mixed, old) == [Step.NEXT, Step.FIRST]
    assert reader.end(mixed, old).state is PassState.COMPLETE


def test_a_page_without_dates_has_not_reached_start() -> None:
    reader = Reader(Rules(known=40, start="since", since=NOW - HOUR), FIRST)
    assert reader.steps(shows(keys("a b"))) == [Step.NEXT]


def test_without_start_a_listing_whose_anchors_are_gone_has_a_gap_and_no_first_walk() -> None:
    covered = Coverage(stretches=1, usual_rows=4)
    end = Reader(Rules(known=2), covered, known="n m").end(shows(keys("n m")))
    assert (end.state, end.newest_key, end.oldest_key, end.note) == (PassState.GAP, "n", "m", "")
    assert "no walk can meet it" in end.reason
    page = shows(keys("n m"), more=False)
    assert Reader(Rules(known=2), covered).end(page).state is PassState.GAP
    # Where the whole list is read each time, nothing has to be met.
    assert Reader(Rules(known=2, all=True), covered).end(page).state is PassState.COMPLETE


@pytest.mark.parametrize("start", ["all", "since"])
def test_a_walk_without_anchors_reads_back_to_start_and_looks_twice_before_it_says_gap(start: str) -> None:
    reader = Reader(Rules(known=2, start=start, since=NOW - HOUR), Coverage(stretches=2, open_holes=1, usual_rows=1))
    pages = shows(dated(b=NOW)), shows(dated(a=NOW - 2 * HOUR), more=start == "since")
    assert reader.steps(*pages) == [Step.NEXT, Step.FIRST]
    assert reader.end(*pages).state is PassState.GAP


def test_a_list_that_is_rightly_empty_has_no_gap_though_no_anchor_is_left() -> None:
    end = Reader(Rules(known=1), Coverage(stretches=1)).end(shows(more=False), shows(more=False))
    assert (end.state, end.note) == (PassState.COMPLETE, "the list is empty")


# Pages that are not what they seem


def test_a_page_that_is_blank_once_costs_one_more_read() -> None:
    reader = Reader(Rules(known=1), anchors="a")
    assert reader.steps(shows(keys("n")), shows(), shows(keys("m"))) == [Step.NEXT, Step.AGAIN, Step.NEXT]
    assert reader.steps(shows(keys("a"))) == [Step.FIRST]
    assert reader.end(shows(keys("n")), shows(keys("m")), shows(keys("a"))).state is PassState.COMPLETE


def test_a_blank_page_with_rows_behind_it_is_a_gap_though_the_walk_connects() -> None:
    end = Reader(Rules(known=1), anchors="a").end(shows(keys("n")), shows(), shows(), shows(keys("a")))
    assert (end.state, end.reason) == (PassState.GAP, "page 2 came back blank and rows follow it")


def test_a_walk_that_lost_a_page_still_reads_the_others_with_care() -> None:
    reader = Reader(Rules(known=1), anchors="a")
    reader.steps(shows(keys("n")), shows(), shows(), shows(keys("m")))
    assert reader.steps(shows(), shows(keys("k"))) == [Step.AGAIN, Step.NEXT]


def test_the_hole_of_a_lost_page_begins_above_it() -> None:
    pages = shows(dated(n=NOW, m=NOW - HOUR)), shows(), shows(), shows(dated(k=NOW - 3 * HOUR, a=NOW - 4 * HOUR))
    end = Reader(Rules(known=1), anchors="a").end(*pages)
    assert (end.oldest_key, end.oldest_at) == ("m", NOW - HOUR)


def test_two_blank_pages_end_a_list() -> None:
    reader = Reader(Rules(known=1, start="all"), FIRST)
    steps = reader.steps(shows(keys("a b")), shows(keys("c")), shows(), shows(), shows())
    assert steps == [Step.NEXT, Step.NEXT, Step.AGAIN, Step.NEXT, Step.FIRST]


def test_two_blank_pages_before_the_walk_connected_are_a_gap() -> None:
    end = Reader(Rules(known=1), anchors="a").end(shows(keys("n")), shows(), shows(), shows())
    assert end.state is PassState.GAP


@pytest.mark.parametrize("rules", [Rules(known=1, all=True), Rules(known=1, start="all")])
def test_a_blank_page_does_not_end_a_list_that_says_it_has_more(rules: Rules) -> None:
    end = Reader(rules, FIRST).end(shows(keys("a b")), shows(), shows(), shows(last=False))
    assert (end.state, end.reason) == (PassState.GAP, "page 3 is blank, and the site says that more pages follow")
    end = Reader(rules, FIRST).end(shows(keys("a b"), total=160), shows(), shows(), shows(total=0))
    assert (end.state, end.reason) == (
        *(PassState.GAP, "page 3 is blank after 2 rows, and the site says that it has 160"),
    )


def test_a_total_that_is_reached_does_not_stand_against_the_end() -> None:
    reader = Reader(Rules(known=1, start="all"), FIRST)
    pinned = rows("p", pinned=True)
    pages = shows([*pinned, *keys("a b")], total=5), shows([*pinned, *keys("b c d")], total=5), shows(), shows()
    reader.steps(*pages)
    assert reader.read(shows()).step is Step.FIRST


def test_the_next_page_is_asked_for_though_the_blank_one_is_the_last_allowed() -> None:
    reader = Reader(Rules(known=1, start="all", max_pages=2), FIRST)
    assert reader.steps(shows(keys("a")), shows(), shows(), shows()) == [Step.NEXT, Step.AGAIN, Step.NEXT, Step.FIRST]


def test_pages_that_show_nothing_but_the_pinned_rows_are_blank() -> None:
    reader, pinned = Reader(Rules(known=1, start="all"), FIRST), rows("p", "q", pinned=True)
    steps = reader.steps(shows([*pinned, *keys("a b")]), shows(pinned), shows(pinned), shows(pinned))
    assert steps == [Step.NEXT, Step.AGAIN, Step.NEXT, Step.FIRST]


def test_a_list_that_is_empty_where_it_had_rows_is_suspicious() -> None:
    end = Reader(Rules(known=1), anchors="a").end(shows(), shows(), shows())
    assert (end.state, end.reason) == (PassState.SUSPICIOUS, "the list has no entries; usual are 4")


def test_a_blank_page_one_is_suspicious_though_rows_follow() -> None:
    end = Reader(Rules(known=1), anchors="a").end(shows(), shows(), shows(keys("n a")))
    assert (end.state, end.reason) == (PassState.SUSPICIOUS, "page one came back blank; usual are 4 rows")


def test_a_list_that_never_had_rows_may_be_empty() -> None:
    end = Reader(Rules(known=1), FIRST).end(shows(more=False), shows(more=False))
    assert (end.state, end.note) == (PassState.COMPLETE, "the list is empty")


def test_a_page_that_repeats_an_earlier_one_is_a_gap() -> None:
    end = Reader(Rules(known=1), anchors="a").end(shows(keys("n m")), shows(keys("k l")), shows(keys("n m")))
    assert (end.state, end.reason) == (PassState.GAP, "page 3 shows the same rows as page 1")


def test_a_repeated_page_that_is_the_last_by_its_own_word_ends_the_list() -> None:
    reader = Reader(Rules(known=1, start="all"), FIRST)
    assert reader.steps(shows(keys("n m")), shows(keys("n m"), last=True)) == [Step.NEXT, Step.FIRST]


def test_404_after_page_one_ends_the_pages() -> None:
    for rules, coverage, state in (
        (Rules(known=1), MANY, PassState.GAP),
        (Rules(known=1, all=True), MANY, None),
        (Rules(known=1, start="all"), FIRST, None),
    ):
        reader = Reader(rules, coverage)
        reader.read(shows(keys("n m")))
        move = ended_by_status(reader.walk, rules, coverage)
        # A row may have moved from page two, which is gone, to page one, which was read before.
        assert (move.end.state if move.end else move.step) == (state or Step.FIRST)


def test_the_page_limit_is_a_gap() -> None:
    end = Reader(Rules(known=1, max_pages=2), anchors="a").end(shows(keys("n")), shows(keys("m")))
    assert (end.state, end.reason) == (PassState.GAP, "pages.max (2) was reached before the walk connected")


def test_a_list_of_just_as_many_pages_as_allowed_is_no_gap() -> None:
    reader = Reader(Rules(known=1, start="all", max_pages=2), FIRST)
    assert reader.steps(shows(keys("n")), shows(keys("m"), more=False)) == [Step.NEXT, Step.FIRST]


def test_a_list_that_is_not_changed_is_complete() -> None:
    end = unchanged(Walk()).end
    assert end is not None
    assert (end.state, end.newest_key) == (PassState.COMPLETE, None)


# Checks


def test_refused_rows_make_a_walk_suspicious_and_accepted_ones_do_not() -> None:
    end = Reader(Rules(known=1), anchors="a").end(shows(keys("n a"), refused=2))
    assert (end.state, end.reason, end.connected) == (PassState.SUSPICIOUS, "2 row(s) were refused", True)
    reader = Reader(Rules(known=1), anchors="a")
    accepted = reader.read(shows(keys("n a"), refused=2), accepted=True).end
    assert accepted is not None
    assert accepted.state is PassState.COMPLETE


def test_a_suspicious_walk_that_did_not_connect_would_be_a_gap_for_who_accepts_it() -> None:
    end = Reader(Rules(known=1), anchors="a").end(shows(keys("n"), refused=1, more=False))
    assert (end.state, end.connected) == (PassState.SUSPICIOUS, False)


def test_a_row_refused_in_the_second_look_only_is_not_passed_over() -> None:
    reader = Reader(Rules(known=1), anchors="a")
    reader.steps(shows(keys("n")), shows(keys("a")))
    end = reader.end(shows(keys("n"), refused=1), shows(keys("a")))
    assert (end.state, end.reason) == (PassState.SUSPICIOUS, "1 row(s) were refused")


def test_rows_refused_in_each_round_are_counted_once() -> None:
    reader = Reader(Rules(known=1), anchors="a")
    reader.steps(shows(keys("n"), refused=1), shows(keys("a"), refused=1))
    assert reader.end(shows(keys("n"), refused=1), shows(keys("a"), refused=1)).reason == "2 row(s) were refused"


def test_a_page_with_too_few_rows_is_suspicious_unless_it_is_the_last() -> None:
    rules = Rules(known=1, rows_min=2, start="all")
    end = Reader(rules, FIRST).end(*[shows(keys("a")), shows(keys("b c"), more=False)] * 2)
    assert (end.state, end.reason) == (PassState.SUSPICIOUS, "page 1 has fewer than 2 rows")
    end = Reader(rules, FIRST).end(*[shows(keys("b c")), shows(keys("a"), more=False)] * 2)
    assert end.state is PassState.COMPLETE


def test_page_one_with_too_few_rows_is_suspicious_where_it_used_to_have_enough() -> None:
    rules = Rules(known=1, rows_min=3)
    assert Reader(rules, anchors="a").end(shows(keys("n a"))).state is PassState.SUSPICIOUS
    small = Coverage(anchors=9, usual_rows=2)
    assert Reader(rules, small, anchors="a").end(shows(keys("n a"))).state is PassState.COMPLETE


def test_rows_that_a_person_accepted_as_refused_are_rows() -> None:
    reader = Reader(Rules(known=1, rows_min=3), anchors="a")
    end = reader.read(shows(keys("n a"), refused=1), accepted=True).end
    assert end is not None
    assert end.state is PassState.COMPLETE


def test_a_thin_page_that_says_it_is_not_the_last_is_suspicious() -> None:
    pages = [shows(keys("n m")), shows(keys("a"), last=False)] * 2
    assert Reader(Rules(known=1, rows_min=2), anchors="a").end(*pages).state is PassState.SUSPICIOUS


def test_a_thin_last_page_is_not_suspicious_because_it_was_read_again_or_repeated() -> None:
    rules = Rules(known=1, rows_min=2, start="all")
    reader = Reader(rules, FIRST)
    reader.steps(shows(keys("a b")), shows(keys("c")))
    reader.walk = step_back(reader.walk)
    reader.steps(shows(keys("c")), shows(keys("c")))
    assert not reader.walk.signs.thin_page


def test_a_field_that_vanished_from_the_rows_is_suspicious() -> None:
    rules = Rules(known=1, coverage={"buyer": 0.5})
    good, bad, bare = rows("n", buyer="x"), rows("m", "a", buyer=""), rows("k", buyer=[])
    end = Reader(rules, anchors="a").end(shows([*good, *bare, *bad]))
    assert end.state is PassState.SUSPICIOUS
    assert end.reason == "1 of 4 rows have 'buyer' (25%), at least 50% were to have it"
    half = shows([*rows("n", "m", buyer=0), *bad[1:], *rows("k")])
    assert Reader(rules, anchors="a").end(half).state is PassState.COMPLETE


def test_pinned_rows_on_every_page_are_measured_once() -> None:
    rules, pinned = Rules(known=1, coverage={"buyer": 0.5}), rows("p", pinned=True)
    page_one, page_two = [*pinned, *rows("n", buyer="x")], [*pinned, *rows("m", "a", buyer="")]
    end = Reader(rules, anchors="a").end(*[shows(page_one), shows(page_two)] * 2)
    assert end.reason.startswith("1 of 4 rows")


# Edges


def test_a_date_in_the_far_future_is_no_edge_and_one_of_tomorrow_is() -> None:
    for at, top in ((NOW + DAY_MS + 1, "a"), (NOW + DAY_MS, "n")):
        end = Reader(Rules(known=1), anchors="a").end(shows(dated(n=at, a=NOW)))
        assert (end.newest_key, end.newest_at) == (top, NOW if top == "a" else at)


def test_the_edges_are_of_unpinned_rows_and_of_the_last_look_at_the_top() -> None:
    reader = Reader(Rules(known=1), anchors="a")
    reader.steps(shows([*rows("p", at=NOW, pinned=True), *dated(n=NOW - 3)]), shows(dated(a=NOW - 9)))
    reader.steps(shows(dated(n2=NOW - 2, n=NOW - 3)), shows(dated(a=NOW - 9)))
    end = reader.end(shows(dated(n2=NOW - 2, n=NOW - 3)), shows(dated(a=NOW - 9)))
    assert (end.newest_key, end.newest_at, end.oldest_key, end.oldest_at) == ("n2", NOW - 2, "a", NOW - 9)


def test_the_look_ends_above_the_lookback_and_leaves_the_lower_edge_where_it_is() -> None:
    reader = Reader(Rules(known=1, lookback=HOUR), anchors="a b")
    reader.steps(shows(dated(n=NOW)), shows(dated(a=NOW - 1)), shows(dated(b=NOW - 2 * HOUR)))
    end = reader.end(shows(dated(n=NOW)), shows(dated(a=NOW - 1)))
    assert (end.oldest_key, end.oldest_at) == ("b", NOW - 2 * HOUR)


# The list moves while it is read


def looking(*pages: ListPage, anchors: str = "a b c") -> Reader:
    """A walk that has connected on its second page."""
    reader = Reader(Rules(known=2), anchors=anchors)
    assert reader.steps(*pages) == [Step.NEXT, Step.FIRST]
    return reader


def test_a_walk_of_several_pages_is_looked_at_once_more_though_nothing_moved() -> None:
    reader = looking(shows(keys("n1 n2")), shows(keys("a b")))
    first, second = reader.read(shows(keys("n1 n2"))), reader.read(shows(keys("a b")))
    assert (first.step, first.number, first.look) == (Step.NEXT, 1, 1)
    assert (second.step, second.number, second.look) == (Step.END, 2, 1)
    assert second.end is not None
    assert second.end.state is PassState.COMPLETE


def test_rows_added_while_the_list_was_read_are_found_by_the_look() -> None:
    reader = looking(shows(keys("n1 n2")), shows(keys("a b")))
    steps = reader.steps(shows(keys("m n1")), shows(keys("n2 a")), shows(keys("b c")))
    assert steps == [Step.NEXT, Step.NEXT, Step.FIRST]
    assert "m" in reader.known
    assert reader.end(shows(keys("m n1")), shows(keys("n2 a")), shows(keys("b c"))).state is PassState.COMPLETE


def test_a_row_that_slipped_to_a_page_already_read_is_found_by_the_look() -> None:
    # 20 rows a page: number 3 is taken off after page one was read, so that number 21 moves to page one.
    numbers = [f"r{n}" for n in range(1, 45)]
    left = [key for key in numbers if key != "r3"]
    reader = Reader(Rules(known=5), anchors=" ".join(numbers[30:]))
    assert reader.steps(shows(rows(*numbers[:20])), shows(rows(*left[20:40]))) == [Step.NEXT, Step.FIRST]
    assert "r21" not in reader.known
    look = shows(rows(*left[:20])), shows(rows(*left[20:40]))
    assert reader.steps(*look) == [Step.NEXT, Step.FIRST]
    assert "r21" in reader.known
    assert reader.end(*look).state is PassState.COMPLETE


def test_one_anchor_on_top_does_not_end_the_look_above_where_rows_slipped() -> None:
    reader = looking(shows(keys("a n1")), shows(keys("n3 b c")))
    assert reader.steps(shows(keys("a n2")), shows(keys("n3 b c"))) == [Step.NEXT, Step.FIRST]
    assert "n2" in reader.known


def test_a_row_that_slips_past_the_look_as_well_is_found_because_the_list_is_not_the_same() -> None:
    # n3 is on page two while page one is read, and on page one while page two is read: in both rounds.
    reader = looking(shows(keys("n1 n2")), shows(keys("n4 a b")))  # n1 is taken off in between
    assert reader.steps(shows(keys("n2 m")), shows(keys("n4 a b"))) == [Step.NEXT, Step.FIRST]
    reader = looking(shows(keys("n1 n2")), shows(keys("n4 a b")))  # n1, and then n2: nothing new is shown
    assert reader.steps(shows(keys("n2")), shows(keys("n4 a b"))) == [Step.NEXT, Step.FIRST]
    assert reader.steps(shows(keys("n3")), shows(keys("n4 a b"))) == [Step.NEXT, Step.FIRST]
    assert reader.end(shows(keys("n3")), shows(keys("n4 a b"))).state is PassState.COMPLETE


def test_the_row_behind_the_last_page_cannot_slip_to_it() -> None:
    reader = Reader(Rules(known=1, start="all"), FIRST)
    reader.steps(shows(keys("r1 r2")), shows(), shows())  # r1 is taken off, so that r3 moves to page one
    assert reader.steps(shows()) == [Step.FIRST]
    assert reader.steps(shows(keys("r2 r3"))) == [Step.NEXT]
    assert "r3" in reader.known


def test_a_look_at_a_list_that_did_not_move_does_not_read_past_its_end_again() -> None:
    reader = Reader(Rules(known=1, start="all"), FIRST)
    reader.steps(shows(keys("a b")), shows(keys("c")), shows(), shows(), shows())
    assert reader.steps(shows(keys("a b")), shows(keys("c"))) == [Step.NEXT, Step.END]


def test_rows_added_on_top_without_end_are_complete_after_three_looks() -> None:
    reader = looking(shows(keys("n0")), shows(keys("a b")))
    for look in range(1, MOST_LOOKS + 1):
        move = reader.read(shows(keys(f"n{look} n{look - 1}")))
        assert (move.step, move.look) == (Step.NEXT, look)
        move = reader.read(shows(keys("a b")))
        assert (move.step is Step.END) == (look == MOST_LOOKS)
    assert move.end is not None
    assert move.end.state is PassState.COMPLETE


@pytest.mark.parametrize("third", [["m1 n1", "a b"], ["x1 x2", "n1 a b"], ["n1 m1", "a b"], ["n1", "m1 a b"]], ids=str)
def test_rows_that_still_slip_during_the_third_look_are_a_gap(third: list[str]) -> None:
    reader = looking(shows(keys("n1")), shows(keys("a b")))
    for look in range(1, MOST_LOOKS):
        assert reader.steps(shows(keys(f"n1 s{look}")), shows(keys("a b"))) == [Step.NEXT, Step.FIRST]
    end = reader.end(*(shows(keys(text)) for text in third))
    on_top = third[0] == "m1 n1"
    assert end.state is (PassState.COMPLETE if on_top else PassState.GAP)
    assert end.reason == ("" if on_top else "rows still moved during look 3: some may have slipped past it")


def test_a_look_that_loses_a_page_is_made_again_and_proves_nothing() -> None:
    lost = shows(keys("n1 n2")), shows(), shows(), shows(keys("a b"))
    reader = looking(shows(keys("n1 n2")), shows(keys("a b")))
    assert reader.steps(*lost) == [Step.NEXT, Step.AGAIN, Step.NEXT, Step.FIRST]
    # The round before was not whole: that this one shows the same as it does not say that nothing moved.
    assert reader.steps(shows(keys("n1 n2")), shows(keys("a b"))) == [Step.NEXT, Step.FIRST]
    assert reader.end(shows(keys("n1 n2")), shows(keys("a b"))).state is PassState.COMPLETE
    reader = looking(shows(keys("n1 n2")), shows(keys("a b")))
    for _ in range(MOST_LOOKS - 1):
        reader.steps(*lost)
    end = reader.end(*lost)
    assert (end.state, end.reason) == (PassState.GAP, "page 2 came back blank and rows follow it")


def test_looks_that_do_not_meet_the_anchors_again_are_a_gap() -> None:
    reader = looking(shows(keys("n1 n2")), shows(keys("a b")))
    for _ in range(MOST_LOOKS - 1):
        assert reader.steps(shows(keys("n1 n2"), more=False)) == [Step.FIRST]
    assert reader.end(shows(keys("n1 n2"), more=False)).state is PassState.GAP


# Killed and resumed


def killed(reader: Reader) -> Reader:
    reader.walk = step_back(reader.walk)
    return reader


def resumed_on(reader: Reader, entries: Iterable[Entry]) -> bool:
    return resumes(killed(reader).walk, list(entries))


def test_a_walk_resumes_on_a_page_that_shares_a_row_and_on_no_other() -> None:
    for shown, goes_on in (("m2 m3", True), ("m3 m4", False), ("", False)):
        reader = Reader(Rules(known=2), anchors="a b")
        reader.steps(shows(keys("n1 n2")), shows(keys("m1 m2")))
        assert resumed_on(reader, keys(shown)) is goes_on


def test_a_shared_pinned_row_does_not_say_where_the_walk_was() -> None:
    reader, pinned = Reader(Rules(known=2), anchors="a b"), rows("p", pinned=True)
    reader.steps(shows([*pinned, *keys("n1 n2")]), shows([*pinned, *keys("m1 m2")]))
    assert not resumed_on(reader, [*pinned, *keys("m3 m4")])
    reader.walk = msgspec.structs.replace(reader.walk, last_keys=["m1", "m2"])
    assert not resumed_on(reader, [*rows("m2", pinned=True), *keys("m3 m4")])


def test_a_list_of_pinned_rows_only_is_not_blank_when_it_is_read_again() -> None:
    reader, pinned = Reader(Rules(known=1, start="all"), FIRST), shows(rows("p", pinned=True))
    assert reader.read(pinned).step is Step.NEXT
    assert killed(reader).read(pinned).step is Step.NEXT


def test_a_re_read_page_is_not_taken_for_a_repeated_one() -> None:
    reader = Reader(Rules(known=2), anchors="a b")
    reader.steps(shows(keys("n1 n2")), shows(keys("m1 m2")))
    move = killed(reader).read(shows(keys("m1 m2")))
    assert (move.step, move.number) == (Step.NEXT, 2)


def test_anchors_on_a_re_read_page_count_once() -> None:
    reader = Reader(Rules(known=3), anchors="a b c")
    reader.steps(shows(keys("n1 a b")))
    assert killed(reader).read(shows(keys("n1 a b"))).step is Step.NEXT
    assert reader.walk.in_row == 2


def test_a_walk_killed_at_its_end_ends_again() -> None:
    reader = Reader(Rules(known=1), anchors="a")
    assert reader.read(shows(keys("n a"))).step is Step.END
    assert killed(reader).read(shows(keys("n a"))).step is Step.END


def test_a_blank_page_read_again_after_a_kill_has_not_been_read_twice() -> None:
    reader = Reader(Rules(known=1), FIRST)
    assert reader.steps(shows(), shows()) == [Step.AGAIN, Step.NEXT]
    assert killed(reader).steps(shows(), shows(), shows()) == [Step.AGAIN, Step.NEXT, Step.END]
    reader = Reader(Rules(known=1, start="all"), FIRST)
    assert reader.steps(shows(rows("p", pinned=True)), shows()) == [Step.NEXT, Step.AGAIN]
    move = killed(reader).read(shows())
    assert (move.step, move.number) == (Step.AGAIN, 2)


def test_refused_rows_of_a_re_read_page_are_counted_once_and_outlive_a_new_beginning() -> None:
    reader = Reader(Rules(known=1), anchors="a")
    reader.steps(shows(keys("n"), refused=1))
    killed(reader).read(shows(keys("n"), refused=1))
    assert reader.walk.signs.most_refused == 1
    reader.walk = restarted(reader.walk)
    assert (reader.walk.page, reader.walk.trail) == (0, [])
    end = reader.end(shows(keys("a")))
    assert (end.state, end.reason) == (PassState.SUSPICIOUS, "1 row(s) were refused")
