"""Date windows of a listing, by which holes are filled and older entries are read (P5).

Pure. A window is [from, to) in ms. Days begin at midnight in the source's zone. The name of a window's listing is made
of its edges, so that who asks for it again reads it again and makes no second one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo

from fyke.model import Hole, Listing
from fyke.model.source import FILLING

DAY_MS = 86_400_000
SECOND_MS = 1_000
UNITS = (3_600_000, 60_000, SECOND_MS)
MOST_WINDOWS = 10_000
TRY_AGAIN_MS = 6 * 3_600_000
TRIED_FOR_MS = 7 * DAY_MS

Window = tuple[int, int]


class TooMany(ValueError):
    """More windows than one run may have."""


def window_listing(main: Listing, window: Window, zone: tzinfo) -> Listing:
    """The listing of one window of `main`; its values are those of the listing and the edges."""
    since, until = (datetime.fromtimestamp(at / SECOND_MS, zone) for at in window)
    name = f"{FILLING} {_edge_text(since)}/{_edge_text(until)} {main.name}"
    return Listing(name, {**main.values, "from": since.isoformat(), "to": until.isoformat()})


def window_of(listing: Listing) -> Window:
    """The window of a listing that `window_listing` has made."""
    since, until = (round(datetime.fromisoformat(listing.values[name]).timestamp() * SECOND_MS) for name in EDGES)
    return since, until


EDGES = ("from", "to")


def _edge_text(at: datetime) -> str:
    if (at.hour, at.minute, at.second, at.microsecond) == (0, 0, 0, 0):
        return at.date().isoformat()
    return at.isoformat()


def main_listing(listing: Listing) -> Listing:
    """The listing that the window is one of."""
    return Listing(listing.filled, {name: value for name, value in listing.values.items() if name not in EDGES})


def day_start(at: int, zone: tzinfo) -> int:
    """The midnight at or before this moment."""
    day = datetime.fromtimestamp(at / SECOND_MS, zone).date()
    return _midnight(datetime(day.year, day.month, day.day, tzinfo=zone))


def _midnight(day: datetime) -> int:
    # Where the clock is put forward at midnight the day begins at the first moment that it has.
    return round(day.timestamp() * SECOND_MS)


def split(window: Window, length: int, zone: tzinfo) -> list[Window]:
    """Cut a window into parts of at most `length` ms; parts of whole days begin and end at midnight.

    Raises:
        TooMany
    """
    since, until = window
    if since >= until:
        return []
    days = length // DAY_MS if length % DAY_MS == 0 else 0
    parts: list[Window] = []
    at = day_start(since, zone) if days else since
    while at < until:
        if len(parts) >= MOST_WINDOWS:
            raise TooMany(f"more than {MOST_WINDOWS:,} windows of this length")
        end = _days_later(at, days, zone) if days else min(at + length, until)
        parts.append((at, end))
        at = end
    return parts


def _days_later(at: int, days: int, zone: tzinfo) -> int:
    day = datetime.fromtimestamp(at / SECOND_MS, zone).date() + timedelta(days=days)
    return _midnight(datetime(day.year, day.month, day.day, tzinfo=zone))


def halves(window: Window, zone: tzinfo) -> tuple[Window, Window] | None:
    """The window in two, cut at midnight where it has one inside, else at a full hour, minute or second.

    None: it is shorter than two seconds.
    """
    since, until = window
    middle = since + (until - since) // 2
    for cut in (day_start(middle, zone), day_start(middle + DAY_MS, zone), *(middle - middle % unit for unit in UNITS)):
        if since < cut < until:
            return (since, cut), (cut, until)
    return None


def missing(wanted: Iterable[Window], walked: Iterable[Window]) -> list[Window]:
    """The windows that those which were walked do not cover."""
    whole = merged(walked)
    return [window for window in wanted if not within(window, whole)]


def merged(windows: Iterable[Window]) -> list[Window]:
    """The same moments in windows that do not touch each other."""
    found: list[Window] = []
    for since, until in sorted(windows):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return found


def within(window: Window, whole: Sequence[Window]) -> bool:
    """Whether one of `whole`, which is merged, holds all of the window."""
    return any(since <= window[0] and window[1] <= until for since, until in whole)


def hole_window(hole: Hole, start: int | None) -> Window | str:
    """The moments that a hole lies in, both edges in it; or why dates cannot tell.

    `start`: how far back the listing was to be read, for a hole that ends in nothing known.
    """
    older = start if hole.start else hole.older_at
    if hole.newer_at is None or (older is None and not hole.start):
        return "the entries at its edges have no date (`published`)"
    if older is None:
        return "nothing says how far back it goes: name the dates with --from and --to"
    # Both edges are asked for again: without them nothing shows that the windows meet what is covered.
    return (min(older, hole.newer_at), max(older, hole.newer_at) + SECOND_MS)


def whole_days(window: Window, zone: tzinfo) -> Window:
    """The window from midnight to midnight: a date without a time stands for all of its day."""
    return day_start(window[0], zone), _days_later(window[1] - 1, 1, zone)


def is_due(holes: Sequence[Hole], tried_at: int, now: int) -> bool:
    """Whether a run should try to fill these holes now: at once where one is new, and every 6 hours for a week."""
    if any(hole.found_at >= tried_at for hole in holes):
        return bool(holes)
    young = any(now - hole.found_at < TRIED_FOR_MS for hole in holes)
    return young and now - tried_at >= TRY_AGAIN_MS
