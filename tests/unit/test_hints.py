"""What a site says of its own length turns a doubtful end into a gap, and ends no walk."""

import pytest

from fyke.model import Coverage, Entry, ListPage, Outcome, PassState, Standing
from fyke.pipeline.walk_rules import mark_of, without_circle
from fyke.policy.coverage import Move, Rules, Step, Walk, advance
from fyke.policy.hints import CIRCLE, ITSELF

ALL = Rules(known=1, all=True)
NEW = Standing(known=False, anchor=False)


def entry(key: str) -> Entry:
    return Entry(0, key, {}, b"")


def page(*keys: str, **more: object) -> ListPage:
    found = ListPage(Outcome.OK, entries=[entry(key) for key in keys], next={"page": 9}, blank=not keys)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def walked(*pages: ListPage, rules: Rules = ALL) -> Move:
    walk, move = Walk(), Move(Step.NEXT)
    for one in pages:
        standing = {shown.key: NEW for shown in one.entries}
        move = advance(walk, one, standing, rules, Coverage(), now=0, refused_new=0)
    return move


def test_a_total_that_is_rounded_down_does_not_end_the_walk() -> None:
    # cninfo: 761 rows, 30 a page, and 25 pages by its own word.
    assert walked(page("b", last_hint=1, total_hint=1)).step is Step.NEXT
    assert walked(page("b", last_hint=1), page("a", last_hint=1)).step is Step.NEXT


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, PassState.GAP),
        ({"last_hint": 2}, PassState.GAP),
        ({"last_hint": 1}, PassState.COMPLETE),
        ({"total_hint": 2}, PassState.GAP),
        ({"total_hint": 1}, PassState.COMPLETE),
        ({"last_by_hint": True}, PassState.COMPLETE),
        ({"last_by_hint": False, "last_hint": 1}, PassState.GAP),
    ],
)
def test_a_page_that_repeats_one_is_a_gap_unless_the_site_says_that_the_list_ends_there(
    more: dict[str, object], state: PassState
) -> None:
    move = walked(page("a", **more), page("a", **more))
    if state is PassState.GAP:
        assert move.end is not None
        assert (move.end.state, "same rows as page 1" in move.end.reason) == (PassState.GAP, True)
    else:
        assert move.step is Step.FIRST  # two pages: the second look


@pytest.mark.parametrize(
    ("more", "said"),
    [({"last_hint": 3}, "page 3 is the last"), ({"last_by_hint": False}, "more pages"), ({"total_hint": 2}, "has 2")],
)
def test_a_blank_page_before_the_end_that_the_site_names_is_a_gap(more: dict[str, object], said: str) -> None:
    blank = page(**more)
    move = walked(page("a", **more), blank, blank, blank)
    assert move.end is not None
    assert (move.end.state, said in move.end.reason) == (PassState.GAP, True)


def test_pages_that_end_in_doubt_are_a_gap() -> None:
    move = walked(page("b"), page("a", next=None, doubt="the page names itself as the next one"))
    assert move.end is not None
    assert (move.end.state, move.end.reason) == (PassState.GAP, "the page names itself as the next one")


@pytest.mark.parametrize("doubt", [ITSELF, CIRCLE])
@pytest.mark.parametrize(
    ("more", "gap"),
    [
        ({}, True),
        ({"total_hint": 2}, False),
        ({"total_hint": 3}, True),
        ({"last_hint": 2}, False),
        ({"last_hint": 3}, True),
        ({"last_by_hint": True}, False),
        ({"last_by_hint": False, "total_hint": 2}, True),
    ],
)
def test_a_last_page_that_links_back_is_the_end_where_the_site_says_that_it_is_the_last(
    doubt: str, more: dict[str, object], gap: bool
) -> None:
    move = walked(page("b"), page("a", next=None, doubt=doubt, **more))
    if gap:
        assert move.end is not None
        assert (move.end.state, move.end.reason) == (PassState.GAP, doubt)
    else:
        assert move.step is Step.FIRST  # two pages: the second look


def test_a_page_that_lacks_what_the_next_one_needs_is_no_end_whatever_the_site_says() -> None:
    move = walked(page("b"), page("a", next=None, doubt="the page has no 'state'", total_hint=2, last_by_hint=True))
    assert move.end is not None
    assert move.end.state is PassState.GAP


@pytest.mark.parametrize(("hint", "kept"), [(True, True), (False, None), (None, None)])
def test_a_circle_leaves_what_the_site_says_of_its_last_page(hint: bool | None, kept: bool | None) -> None:
    shown = page("a", next={"url": "https://site.example/1"}, last_by_hint=hint)
    without_circle(shown, {mark for mark in [mark_of(shown.next)] if mark})
    assert (shown.next, shown.last_by_hint, shown.doubt) == (None, kept, CIRCLE)


def test_a_doubt_about_what_follows_does_not_undo_that_a_walk_has_connected() -> None:
    rules, coverage = Rules(known=1, lookback=10**9), Coverage(stretches=1, anchors=1, usual_rows=1)
    shown = page("a", next=None, doubt="a circle")
    standing = {"a": Standing(known=True, anchor=True)}
    move = advance(Walk(), shown, standing, rules, coverage, now=0, refused_new=0)
    assert move.end is not None
    assert move.end.state is PassState.COMPLETE
