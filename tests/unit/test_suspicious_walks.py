"""A suspicious walk says whether it had met the known rows, for a person who accepts it (P5)."""

from fyke.model import Coverage, Entry, ListPage, Outcome, PassEnd, PassState, RefusedEntry, Standing
from fyke.policy.coverage import Rules, Walk, advance

KNOWN = Coverage(stretches=1, anchors=2, usual_rows=2)
RULES = Rules(known=1)
REFUSED = RefusedEntry(9, "no link", "banner", b"f")


def end_of(keys: str, anchors: str = "", *, coverage: Coverage = KNOWN) -> PassEnd:
    page = ListPage(
        Outcome.OK,
        entries=[Entry(at, key, {}, b"") for at, key in enumerate(keys)],
        refused=[REFUSED],
    )
    standing = {key: Standing(known=True, anchor=True) for key in anchors}
    walk = Walk()
    move = advance(walk, page, standing, RULES, coverage, now=0, refused_new=1)
    while move.end is None:
        move = advance(walk, page, standing, RULES, coverage, now=0, refused_new=0)
    return move.end


def test_a_refused_row_does_not_hide_that_the_walk_met_what_was_known() -> None:
    found = end_of("xa", "a")
    assert (found.state, found.connected) == (PassState.SUSPICIOUS, True)


def test_a_walk_that_met_nothing_known_does_not_connect_by_being_accepted() -> None:
    found = end_of("xy")
    assert (found.state, found.connected) == (PassState.SUSPICIOUS, False)


def test_values_of_rows_that_were_left_out_for_a_doubt_are_told_at_the_end_of_the_walk() -> None:
    flags = [f"row {n}, field 'sum': said twice and differs: {'9' * 500}" for n in range(1, 6)]
    page = ListPage(Outcome.OK, entries=[Entry(0, "a", {}, b"")], flags=flags)
    end = advance(Walk(), page, {}, RULES, Coverage(), now=0, refused_new=0).end
    assert end is not None
    assert end.state is PassState.COMPLETE
    assert "5 doubtful value(s) left out: row 1, field 'sum'" in end.note
    assert "row 3" in end.note
    assert "row 4" not in end.note
    assert end.note.endswith(", …")
    assert len(end.note) < 800


def test_a_first_walk_reaches_its_start_whatever_was_refused() -> None:
    found = end_of("xy", coverage=Coverage())
    assert (found.state, found.connected) == (PassState.SUSPICIOUS, True)
