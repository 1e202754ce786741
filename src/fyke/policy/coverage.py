"""One walk of one listing: which page comes next, and what the walk may claim at its end (P5).

Pure: the lister brings each page and what the ledger knows of its keys; `Walk` is the state, written with each page
as the checkpoint. A walk is `complete` only when it connected to what this listing showed before, or the first time
reached `start`, and a second look found that nothing slipped past; all else is a gap, and a suspicious walk covers
nothing. The first time is where nothing is covered; where it is and no anchor is left, nothing can connect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b

from msgspec import Struct, field
from msgspec.structs import replace

from fyke.model import Coverage, Entry, ListPage, PassEnd, PassState, Standing
from fyke.policy.hints import blank_doubt, end_doubt, says_enough
from fyke.policy.suspicion import Signs, count_refused, doubts_of, forget_page, measure, suspicion

DAY_MS = 86_400_000
MOST_LOOKS = 3
NO_ANCHORS = "nothing is left of what this listing showed before, so that no walk can meet it"
NOBODY_KNOWS = Standing(known=False, anchor=False)


class Step(StrEnum):
    NEXT = "next"  # the page that this one names
    AGAIN = "again"  # the same page once more, after a pause
    FIRST = "first"  # page one, for a second look
    END = "end"


class Rules(Struct, frozen=True):
    """What the source says about walks, with the run's moment put in. `since`: how far back the first walk goes, ms."""

    known: int
    lookback: int = 0
    all: bool = False
    start: str = "page"  # page | all | since
    since: int = 0
    max_pages: int = 100
    paged: bool = True
    rows_min: int | None = None
    coverage: dict[str, float] = {}


class Walk(Struct):
    """The state of a walk. A round is the walk itself (look 0) or one second look (1-3).

    Keys are kept for two rounds: at most `max_pages` pages of rows each.
    """

    look: int = 0
    page: int = 0  # pages of this round that were committed
    asked: int = 0  # the furthest page that any round asked for
    in_row: int = 0
    met: int = 0  # the page of this round on which it connected
    trail: list[str] = []  # the keys of this round in order, down to where it connected; pinned rows are not in it
    before: list[str] = []  # the trail of the round before
    pinned: list[str] = []
    signatures: dict[int, bytes] = {}
    earlier: dict[int, bytes] = {}  # the signatures of the round before
    last_keys: list[str] = []
    last_at: int | None = None
    floor: int | None = None
    pushed: bool = False  # a page of the lookback shows rows that may have come on top since
    again: bool = False
    blank_pages: int = 0  # in a row
    damaged: str = ""  # why this round proves nothing
    total: int = 0  # rows that the site says it has
    counted: int = 0  # rows of this round, each page's repeats of earlier pages left out
    whole: bool = True  # the round before reached its end
    moved: bool = False  # this look has a page that differs from the round before
    new: int = 0  # rows of this look that nobody knew
    slipped: bool = False  # some of them stand where they were not just added
    known_above: bool = False
    signs: Signs = field(default_factory=Signs)
    topped: bool = False
    newest_key: str | None = None
    newest_at: int | None = None
    oldest_key: str | None = None
    oldest_at: int | None = None


class Move(Struct, frozen=True):
    """What comes next; `end` is set when the step is END. `number` and `look`: which page of which round this was."""

    step: Step
    end: PassEnd | None = None
    number: int = 0
    look: int = 0


def needed_anchors(rules: Rules, coverage: Coverage) -> int:
    """Anchors in a row that connect: `known`, but never more than half of what the listing has ever shown.

    A short list can not show 40 known rows; half of them in a row is as good a tie as it can give.
    """
    return max(1, min(rules.known, (coverage.anchors + 1) // 2))


def advance(
    walk: Walk,
    page: ListPage,
    standing: Mapping[str, Standing],
    rules: Rules,
    coverage: Coverage,
    *,
    now: int,
    refused_new: int,
) -> Move:
    """Take one page into the walk and say what comes next.

    Args:
        standing: what the ledger knew of the page's keys before this page was written.
        refused_new: refused rows that no person has accepted.
    """
    number, look = walk.page + 1, walk.look
    rows = [entry for entry in page.entries if not entry.pinned]
    # Some sites show their pinned rows on every page, also on those past the end.
    no_rows = not rows and not page.refused and (not page.entries or _shown_pinned(walk, page))
    if no_rows:
        move = _blank(walk, page, rules, coverage)
    else:
        count_refused(walk.signs, refused_new)
        move = _rows(walk, page, rows, standing, rules, coverage, now)
    return replace(move, number=number, look=look)


def ended_by_status(walk: Walk, rules: Rules, coverage: Coverage) -> Move:
    """404 or 410 on a page after the first: the end of the pages."""
    walk.asked = max(walk.asked, walk.page + 1)
    return _ended(walk, rules, coverage)


def unchanged(walk: Walk) -> Move:
    """304 on page one: nothing has changed since the last complete walk."""
    note = "the list has not changed since the last complete walk"
    return Move(Step.END, PassEnd(state=PassState.COMPLETE, note=note))


def resumes(walk: Walk, entries: Sequence[Entry]) -> bool:
    """Whether the re-read page shares a row with what it showed before; else the walk starts at page one.

    Pinned rows stand on every page and prove nothing.
    """
    return not walk.last_keys or not {entry.key for entry in entries if not entry.pinned}.isdisjoint(walk.last_keys)


def step_back(walk: Walk) -> Walk:
    """The state with which the last committed page is read once more after a pause of the walk."""
    if walk.again:
        # A first blank answer was committed, but not counted as a page.
        walk.again = False
        return walk
    walk.blank_pages = max(walk.blank_pages - 1, 0)
    forget_page(walk.signs, walk.page)
    walk.page = max(walk.page - 1, 0)
    return walk


def restarted(walk: Walk) -> Walk:
    """The state with which a walk starts again at page one; rows that were refused stay refused."""
    return Walk(signs=Signs(most_refused=walk.signs.most_refused))


def _shown_pinned(walk: Walk, page: ListPage) -> bool:
    return walk.page > 0 and all(entry.key in walk.pinned for entry in page.entries)


def _rows(
    walk: Walk,
    page: ListPage,
    rows: Sequence[Entry],
    standing: Mapping[str, Standing],
    rules: Rules,
    coverage: Coverage,
    now: int,
) -> Move:
    if walk.blank_pages and not walk.damaged:
        walk.damaged = f"page {walk.page} came back blank and rows follow it"
    walk.again, walk.blank_pages = False, 0
    walk.page += 1
    walk.asked = max(walk.asked, walk.page)
    repeated = _repeats(walk, rows)
    if not walk.look and repeated is None:
        shown = {*walk.trail, *walk.pinned} if rules.coverage else set()
        usual, least = coverage.usual_rows, rules.coverage
        measure(walk.signs, page, walk.page, shown, usual_rows=usual, rows_min=rules.rows_min, coverage=least)
    _take_rows(walk, page, standing, rules, coverage, now)
    walk.last_keys = [entry.key for entry in rows][:500]
    if page.total_hint is not None:
        walk.total = page.total_hint
    if _far_enough(walk, rows, rules, coverage):
        return _conclude(walk, rules, coverage)
    if repeated is not None:
        doubt = f"page {walk.page} shows the same rows as page {repeated}"
        return _ended(walk, rules, coverage, "" if says_enough(page, walk.page, walk.counted, walk.total) else doubt)
    if page.next is None or not rules.paged or page.last_by_hint is True:
        return _ended(walk, rules, coverage, end_doubt(page, walk.page, walk.counted, walk.total))
    if walk.page < rules.max_pages:
        return Move(Step.NEXT)
    if walk.met and not rules.all:
        return _conclude(walk, rules, coverage)
    return _conclude(walk, rules, coverage, f"pages.max ({rules.max_pages}) was reached before the walk connected")


def _far_enough(walk: Walk, rows: Sequence[Entry], rules: Rules, coverage: Coverage) -> bool:
    """Whether this round need not read on: it connected, reached `start`, or shows that nothing has moved."""
    if walk.look and walk.whole and not walk.moved and walk.page >= max(walk.earlier, default=0):
        return True
    if rules.all:
        return False
    if coverage.anchors == 0:
        return _start_reached(rows, rules)
    return bool(walk.met) and (bool(walk.look) or _below_floor(walk, rows))


def _blank(walk: Walk, page: ListPage, rules: Rules, coverage: Coverage) -> Move:
    """A page without rows ends the list only if a second read and the next page are empty too (README 5)."""
    if not walk.again and walk.blank_pages == 0:
        walk.again = True
        walk.asked = max(walk.asked, walk.page + 1)
        return Move(Step.AGAIN)
    walk.again = False
    walk.blank_pages += 1
    walk.page += 1
    walk.asked = max(walk.asked, walk.page)
    if walk.page == 1 and not walk.look:
        walk.signs.blank_first = coverage.usual_rows > 0
    has_next = page.next is not None and rules.paged and page.last_by_hint is not True
    if walk.blank_pages == 1 and has_next:
        return Move(Step.NEXT)
    said = (page, walk.page, walk.counted, walk.total)
    return _ended(walk, rules, coverage, end_doubt(*said) or blank_doubt(*said))


def _repeats(walk: Walk, rows: Sequence[Entry]) -> int | None:
    """The number of an earlier page of this round that showed just these rows."""
    if not rows:
        return None
    signature = blake2b("\n".join(entry.key for entry in rows).encode("utf-8", "replace"), digest_size=8).digest()
    earlier = next((n for n, known in walk.signatures.items() if known == signature and n != walk.page), None)
    walk.signatures[walk.page] = signature
    walk.moved = walk.moved or signature != walk.earlier.get(walk.page)
    return earlier


def _take_rows(
    walk: Walk,
    page: ListPage,
    standing: Mapping[str, Standing],
    rules: Rules,
    coverage: Coverage,
    now: int,
) -> None:
    shown, needed = {*walk.trail, *walk.pinned}, needed_anchors(rules, coverage)
    walk.counted += len(page.refused) + sum(entry.key not in shown for entry in page.entries)
    for entry in page.entries:
        if entry.key in shown:
            continue
        shown.add(entry.key)
        if entry.pinned:
            walk.pinned.append(entry.key)
            continue
        _edge(walk, entry, now)
        known = standing.get(entry.key, NOBODY_KNOWS)
        if walk.met and not rules.all:
            walk.pushed = walk.pushed or (walk.page > walk.met and not known.anchor)
            continue
        walk.trail.append(entry.key)
        if walk.look:
            _look_at(walk, known)
        walk.in_row = walk.in_row + 1 if known.anchor else 0
        if walk.in_row >= needed and not walk.met:
            walk.met = walk.page
            walk.floor = walk.last_at - rules.lookback if rules.lookback and walk.last_at is not None else None
    # A page of nothing but new rows may have hidden some of them behind it.
    walk.slipped = walk.slipped or (walk.new > 0 and not walk.known_above)


def _look_at(walk: Walk, known: Standing) -> None:
    """New rows on top came since; a new row below known ones was there and slipped past."""
    if known.known:
        walk.known_above = True
        return
    walk.new += 1
    walk.slipped = walk.slipped or walk.known_above


def _edge(walk: Walk, entry: Entry, now: int) -> None:
    """A date after now + 1 day is a mistake of the site and never becomes an edge."""
    at = entry.published_at
    if at is not None and at > now + DAY_MS:
        return
    if not walk.topped:
        walk.topped, walk.newest_key = True, entry.key
    if at is not None:
        walk.last_at = at
        walk.newest_at = at if walk.newest_at is None else max(walk.newest_at, at)
    # Rows after a lost page lie beyond the hole.
    if walk.look or (walk.damaged and walk.oldest_key is not None):
        return
    walk.oldest_key = entry.key
    if at is not None:
        walk.oldest_at = at if walk.oldest_at is None else min(walk.oldest_at, at)


def _start_reached(rows: Sequence[Entry], rules: Rules) -> bool:
    if rules.start == "page":
        return True
    dated = [entry.published_at for entry in rows if entry.published_at is not None]
    return rules.start == "since" and bool(dated) and max(dated) < rules.since


def _below_floor(walk: Walk, rows: Sequence[Entry]) -> bool:
    """Whether the walk has read `lookback` further than where it connected; undated rows cannot tell and do not
    hold it.
    """
    dated = [entry.published_at for entry in rows if entry.published_at is not None]
    return walk.floor is None or not dated or dated[-1] <= walk.floor


def _ended(walk: Walk, rules: Rules, coverage: Coverage, doubt: str = "") -> Move:
    """The site shows no further page. `doubt`: what says that there should be more."""
    if walk.signs.entries == 0:
        if coverage.usual_rows:
            return _end(walk, PassState.SUSPICIOUS, f"the list has no entries; usual are {coverage.usual_rows}")
        return _finish(walk, rules, coverage, gap=doubt, note="the list is empty")
    if walk.met and not rules.all:
        return _conclude(walk, rules, coverage)
    # The whole list was read, and half of it in a row is as good a tie as it can give.
    tied = walk.in_row >= max(1, (len(walk.trail) + 1) // 2)
    if not doubt and coverage.anchors and not tied and not rules.all:
        doubt = "the pages ended before the walk met what this listing showed before"
    return _conclude(walk, rules, coverage, doubt)


def _conclude(walk: Walk, rules: Rules, coverage: Coverage, problem: str = "") -> Move:
    """A round is over. `problem`: why it does not prove that the list was read down to what was covered before.

    Rows move while we read: one that is taken off the list moves those below it to pages that were read already. So a
    walk of several pages is repeated until a look shows the rows of the round before in their order, and nothing new.
    """
    problem = problem or walk.damaged
    if walk.look == 0:
        # One page is one moment, and what it shows has no place to slip to.
        page = walk.met if walk.met and not rules.all and not walk.pushed else walk.asked
        return _finish(walk, rules, coverage, gap=problem) if problem or page <= 1 else _begin_look(walk)
    kept = set(walk.before)
    steady = walk.whole and walk.new == 0 and [key for key in walk.trail if key in kept] == walk.before
    if problem or not steady:
        if walk.look < MOST_LOOKS:
            return _begin_look(walk, whole=not problem)
        if not problem and walk.slipped:
            problem = f"rows still moved during look {walk.look}: some may have slipped past it"
    return _finish(walk, rules, coverage, gap=problem)


def _begin_look(walk: Walk, *, whole: bool = True) -> Move:
    walk.before, walk.trail, walk.earlier, walk.signatures = walk.trail, [], walk.signatures, {}
    walk.look += 1
    walk.page = walk.in_row = walk.met = walk.blank_pages = walk.counted = walk.new = walk.signs.refused = 0
    walk.again = walk.moved = walk.slipped = walk.known_above = walk.topped = False
    walk.damaged, walk.whole = "", whole
    return Move(Step.FIRST)


def _finish(walk: Walk, rules: Rules, coverage: Coverage, *, gap: str = "", note: str = "") -> Move:
    """The checks come first: a suspicious walk covers nothing, whatever it connected to."""
    if coverage.stretches and not coverage.anchors and not rules.all and walk.signs.entries:
        gap = gap or NO_ANCHORS
    why = suspicion(walk.signs, usual_rows=coverage.usual_rows, rows_min=rules.rows_min, coverage=rules.coverage)
    if why:
        return _end(walk, PassState.SUSPICIOUS, why, connected=not gap)
    if gap:
        return _end(walk, PassState.GAP, gap)
    if not note and coverage.stretches == 0 and rules.start == "page" and rules.paged and not rules.all:
        note = "no `start` is given: the first walk read page one only"
    return _end(walk, PassState.COMPLETE, "", note, connected=True)


def _end(walk: Walk, state: PassState, reason: str, note: str = "", *, connected: bool = False) -> Move:
    end = PassEnd(
        state=state,
        reason=reason,
        note="; ".join(part for part in (note, doubts_of(walk.signs)) if part),
        newest_key=walk.newest_key,
        newest_at=walk.newest_at,
        oldest_key=walk.oldest_key,
        oldest_at=walk.oldest_at,
        first_page_rows=walk.signs.first_page_rows,
        connected=connected,
    )
    return Move(Step.END, end)
