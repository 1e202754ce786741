"""One walk of one listing: which page comes next, and what the walk may claim at its end (P5).

Pure: the lister brings each page and what the ledger knows of its keys; `Walk` is the state, written with each page
as the checkpoint. A walk is `complete` only when it connected to what this listing showed before, or the first time
reached
`start`; all else is a gap, and a suspicious walk covers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b

import msgspec
from msgspec import Struct

from fyke.model import Coverage, Entry, ListPage, PassEnd, PassState, Standing

DAY_MS = 86_400_000
MOST_LOOKS = 3
MOST_FIRST_ANCHORS = 200


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
    """The state of a walk. Keys are kept for the whole walk: at most `max_pages` pages of rows."""

    page: int = 0  # pages of this look that were committed
    look: int = 0
    deepest: int = 0  # pages of look 0
    in_row: int = 0
    connected: bool = False
    floor: int | None = None
    again: bool = False
    blank_pages: int = 0
    damaged: str = ""
    shown: list[str] = []
    signatures: dict[int, bytes] = {}
    first_anchors: list[str] = []
    look_new: int = 0
    new_seen: int = 0
    refused: int = 0
    thin_page: int = 0  # a page with too few rows that is not the last one
    thin_last: int = 0
    filled: dict[str, list[int]] = {}  # field -> [with a value, rows]
    newest_key: str | None = None
    newest_at: int | None = None
    oldest_key: str | None = None
    oldest_at: int | None = None
    first_page_rows: int = 0
    entries: int = 0
    last_keys: list[str] = []


class Move(Struct, frozen=True):
    """What comes next; `end` is set when the step is END."""

    step: Step
    end: PassEnd | None = None


def encode(walk: Walk) -> bytes:
    return msgspec.json.encode(walk)


def decode(data: bytes) -> Walk:
    return msgspec.json.decode(data, type=Walk)


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
    """Take one page into the walk and say what comes next. `refused_new`: refused rows that no person has accepted."""
    has_next = page.next is not None and rules.paged and page.last_by_hint is not True
    if page.blank and not page.entries and not page.refused:
        return _blank(walk, page, rules, coverage, has_next=has_next)
    walk.again = False
    if walk.blank_pages and not walk.damaged:
        walk.damaged = f"page {walk.page} came back blank and rows follow it"
    walk.blank_pages = 0
    walk.page += 1
    rows = [entry for entry in page.entries if not entry.pinned]
    repeated = _repeats(walk, rows)
    walk.last_keys = [entry.key for entry in page.entries][:500]
    if walk.look:
        return _look(walk, rows, standing, rules, coverage, has_next=has_next)
    walk.deepest = walk.page
    walk.refused += refused_new
    _measure(walk, page, rules, coverage)
    _take_rows(walk, page, rows, standing, rules, coverage, now=now)
    if repeated is not None:
        if page.last_by_hint is True:
            return _end_of_list(walk, rules, coverage)
        return _finish(walk, rules, coverage, gap=f"page {walk.page} shows the same rows as page {repeated}")
    return _after_page(walk, rows, rules, coverage, has_next=has_next)


def _after_page(walk: Walk, rows: Sequence[Entry], rules: Rules, coverage: Coverage, *, has_next: bool) -> Move:
    if not rules.all:
        if coverage.anchors == 0 and _start_reached(walk, rows, rules):
            return _second_look(walk, rules, coverage)
        if walk.connected and _below_floor(walk, rows):
            return _second_look(walk, rules, coverage)
    if not has_next:
        return _end_of_list(walk, rules, coverage)
    if walk.page >= rules.max_pages:
        if walk.connected and not rules.all:
            return _second_look(walk, rules, coverage)
        return _finish(
            walk, rules, coverage, gap=f"pages.max ({rules.max_pages}) was reached before the walk connected"
        )
    return Move(Step.NEXT)


def ended_by_status(walk: Walk, rules: Rules, coverage: Coverage) -> Move:
    """404 or 410 on a page after the first: the end of the pages."""
    if walk.look:
        return _after_look(walk, rules, coverage)
    return _end_of_list(walk, rules, coverage)


def unchanged(walk: Walk) -> Move:
    """304 on page one: nothing has changed since the last complete walk."""
    return Move(
        Step.END, PassEnd(state=PassState.COMPLETE, note="the list has not changed since the last complete walk")
    )


def resumes(walk: Walk, keys: Sequence[str]) -> bool:
    """Whether the re-read page shares a key with what it showed before; else the walk starts at page one."""
    return not walk.last_keys or bool(set(walk.last_keys) & set(keys))


def step_back(walk: Walk) -> Walk:
    """The state with which the last committed page is read once more after a pause of the walk."""
    walk.page = max(walk.page - 1, 0)
    walk.signatures.pop(walk.page + 1, None)
    return walk


def _blank(walk: Walk, page: ListPage, rules: Rules, coverage: Coverage, *, has_next: bool) -> Move:
    if not walk.again and walk.blank_pages == 0:
        walk.again = True
        return Move(Step.AGAIN)
    walk.again = False
    walk.blank_pages += 1
    walk.page += 1
    if walk.blank_pages == 1 and has_next and walk.page < rules.max_pages:
        return Move(Step.NEXT)
    if page.last_by_hint is False:
        return _finish(
            walk, rules, coverage, gap=f"page {walk.page} is blank, and the site says that more pages follow"
        )
    if walk.look:
        return _after_look(walk, rules, coverage)
    return _end_of_list(walk, rules, coverage)


def _repeats(walk: Walk, rows: Sequence[Entry]) -> int | None:
    """The number of an earlier page of this look that showed just these rows."""
    if not rows:
        return None
    signature = blake2b("\n".join(entry.key for entry in rows).encode("utf-8", "replace"), digest_size=8).digest()
    earlier = next((n for n, known in walk.signatures.items() if known == signature and n != walk.page), None)
    walk.signatures[walk.page] = signature
    return earlier


def _measure(walk: Walk, page: ListPage, rules: Rules, coverage: Coverage) -> None:
    walk.entries += len(page.entries)
    if walk.page == 1:
        walk.first_page_rows = len(page.entries)
    if walk.thin_last and not walk.thin_page:
        walk.thin_page = walk.thin_last  # a page with rows follows it, so it was not the last one
    walk.thin_last = walk.page if rules.rows_min is not None and len(page.entries) < rules.rows_min else 0
    if walk.thin_last == 1 and coverage.usual_rows >= (rules.rows_min or 0):
        walk.thin_page = 1
    for name in rules.coverage:
        counts = walk.filled.setdefault(name, [0, 0])
        for entry in page.entries:
            if name in entry.fields:
                counts[0] += entry.fields[name] not in (None, "")
                counts[1] += 1


def _take_rows(
    walk: Walk,
    page: ListPage,
    rows: Sequence[Entry],
    standing: Mapping[str, Standing],
    rules: Rules,
    coverage: Coverage,
    *,
    now: int,
) -> None:
    shown, needed = set(walk.shown), needed_anchors(rules, coverage)
    for entry in page.entries:
        if entry.key in shown:
            continue
        shown.add(entry.key)
        walk.shown.append(entry.key)
        if entry.pinned:
            continue
        _edge(walk, entry, now)
        if not (known := standing.get(entry.key, Standing(known=False, anchor=False))).anchor:
            walk.new_seen += not known.known
            walk.in_row = 0
            continue
        walk.in_row += 1
        if not walk.connected and len(walk.first_anchors) < MOST_FIRST_ANCHORS:
            walk.first_anchors.append(entry.key)
        if walk.in_row >= needed and not walk.connected:
            walk.connected = True
            walk.floor = None if entry.published_at is None else entry.published_at - rules.lookback


def _edge(walk: Walk, entry: Entry, now: int) -> None:
    """A date after now + 1 day is a mistake of the site and never becomes an edge."""
    at = entry.published_at
    if at is not None and at > now + DAY_MS:
        return
    if walk.newest_key is None:
        walk.newest_key = entry.key
    walk.oldest_key = entry.key
    if at is not None:
        walk.newest_at = at if walk.newest_at is None else max(walk.newest_at, at)
        walk.oldest_at = at if walk.oldest_at is None else min(walk.oldest_at, at)


def _start_reached(walk: Walk, rows: Sequence[Entry], rules: Rules) -> bool:
    if rules.start == "page":
        return True
    dated = [entry.published_at for entry in rows if entry.published_at is not None]
    return rules.start == "since" and bool(dated) and max(dated) < rules.since


def _below_floor(walk: Walk, rows: Sequence[Entry]) -> bool:
    """Whether the walk has read `lookback` further than where it connected; undated rows cannot tell, so they do not
    hold it.
    """
    if walk.floor is None:
        return True
    dated = [entry.published_at for entry in rows if entry.published_at is not None]
    return not dated or min(dated) <= walk.floor


def _end_of_list(walk: Walk, rules: Rules, coverage: Coverage) -> Move:
    """The site shows no further page: complete for a first walk, for `connect: all` and for a walk that connected."""
    if walk.entries == 0:
        if coverage.usual_rows:
            return _end(walk, PassState.SUSPICIOUS, f"the list has no entries; usual are {coverage.usual_rows}")
        return _finish(walk, rules, coverage, note="the list is empty")
    if coverage.anchors and not walk.connected and not rules.all:
        return _finish(walk, rules, coverage, gap="the pages ended before the walk met what this listing showed before")
    return _second_look(walk, rules, coverage)


def _second_look(walk: Walk, rules: Rules, coverage: Coverage) -> Move:
    """Rows move while we read: page one again to this pass's first anchors. One page is one moment and needs no
    look.
    """
    if walk.deepest <= 1 or walk.damaged:
        return _finish(walk, rules, coverage)
    return _begin_look(walk)


def _begin_look(walk: Walk) -> Move:
    walk.look += 1
    walk.page, walk.look_new, walk.blank_pages, walk.again = 0, 0, 0, False
    walk.signatures = {}
    return Move(Step.FIRST)


def _look(
    walk: Walk,
    rows: Sequence[Entry],
    standing: Mapping[str, Standing],
    rules: Rules,
    coverage: Coverage,
    *,
    has_next: bool,
) -> Move:
    shown, anchors = set(walk.shown), set(walk.first_anchors)
    met = False
    for entry in rows:
        if entry.key not in shown:
            walk.shown.append(entry.key)
            walk.look_new += not standing.get(entry.key, Standing(known=False, anchor=False)).known
        met = met or entry.key in anchors
    if met or not has_next or walk.page >= walk.deepest:
        return _after_look(walk, rules, coverage)
    return Move(Step.NEXT)


def _after_look(walk: Walk, rules: Rules, coverage: Coverage) -> Move:
    if walk.look_new and walk.look < MOST_LOOKS:
        return _begin_look(walk)
    return _finish(walk, rules, coverage)


def _finish(walk: Walk, rules: Rules, coverage: Coverage, *, gap: str = "", note: str = "") -> Move:
    """The checks come first: a suspicious walk covers nothing, whatever it connected to."""
    if walk.refused:
        return _end(walk, PassState.SUSPICIOUS, f"{walk.refused} row(s) were refused")
    if walk.thin_page:
        return _end(walk, PassState.SUSPICIOUS, f"page {walk.thin_page} has fewer than {rules.rows_min} rows")
    for name, least in rules.coverage.items():
        filled, rows = walk.filled.get(name, [0, 0])
        if rows and filled / rows < least:
            share = f"{filled} of {rows} rows have '{name}' ({filled / rows:.0%}), at least {least:.0%} were to have it"
            return _end(walk, PassState.SUSPICIOUS, share)
    if gap or walk.damaged:
        return _end(walk, PassState.GAP, gap or walk.damaged)
    if not note and coverage.anchors == 0 and rules.start == "page" and rules.paged and not rules.all:
        note = "no `start` is given: the first walk read page one only"
    return _end(walk, PassState.COMPLETE, "", note)


def _end(walk: Walk, state: PassState, reason: str, note: str = "") -> Move:
    return Move(
        Step.END,
        PassEnd(
            state=state,
            reason=reason,
            note=note,
            newest_key=walk.newest_key,
            newest_at=walk.newest_at,
            oldest_key=walk.oldest_key,
            oldest_at=walk.oldest_at,
            first_page_rows=walk.first_page_rows,
        ),
    )
