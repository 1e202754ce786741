"""Date windows: together they are the whole time, each part once; halves are the whole; a hole knows what it needs."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.model import Hole, Listing
from fyke.policy.windows import (
    DAY_MS,
    MOST_WINDOWS,
    TRIED_FOR_MS,
    TRY_AGAIN_MS,
    TooMany,
    halves,
    hole_window,
    is_due,
    main_listing,
    merged,
    missing,
    split,
    whole_days,
    window_listing,
    window_of,
    within,
)

HOUR = 3_600_000
MAIN = Listing("section=a", {"section": "a"})
ZONES = st.sampled_from([UTC, ZoneInfo("Asia/Shanghai"), ZoneInfo("Europe/Berlin"), ZoneInfo("America/Sao_Paulo")])
MOMENTS = st.integers(0, 60 * 365 * DAY_MS // 1000).map(lambda second: second * 1000)
LENGTHS = st.one_of(st.integers(1, 40).map(lambda days: days * DAY_MS), st.integers(HOUR, 3 * DAY_MS))


@given(since=MOMENTS, span=st.integers(1, 90 * DAY_MS), length=LENGTHS, zone=ZONES)
def test_the_parts_are_the_whole_time_and_each_moment_is_in_one(
    since: int, span: int, length: int, zone: ZoneInfo
) -> None:
    parts = split((since, since + span), length, zone)
    assert all(begin < end for begin, end in parts)
    assert all(end == begin for (_, end), (begin, _) in pairwise(parts))
    assert parts[0][0] <= since
    assert parts[-1][1] >= since + span
    if length % DAY_MS == 0:
        for begin, _ in parts:
            assert (
                datetime.fromtimestamp(begin / 1000, zone).date()
                != datetime.fromtimestamp((begin - 1) / 1000, zone).date()
            )


@given(since=MOMENTS, span=st.integers(1, 40 * DAY_MS), zone=ZONES)
def test_halves_are_the_whole_and_end_at_seconds(since: int, span: int, zone: ZoneInfo) -> None:
    window = (since, since + span)
    for _ in range(80):
        found = halves(window, zone)
        if found is None:
            break
        (begin, middle), (cut, end) = found
        assert (begin, cut, end) == (window[0], middle, window[1])
        assert begin < middle < end
        window = found[0]
    assert window[1] - window[0] < 2_000


@given(window=st.tuples(MOMENTS, st.integers(1_000, 40 * DAY_MS)), zone=ZONES)
def test_a_window_is_found_again_in_its_listing(window: tuple[int, int], zone: ZoneInfo) -> None:
    span = (window[0], window[0] + window[1] // 1000 * 1000)
    listing = window_listing(MAIN, span, zone)
    assert (window_of(listing), main_listing(listing), listing.filled) == (span, MAIN, MAIN.name)
    assert not listing.discovers


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=12))
def test_what_is_missing_is_what_no_walked_window_has(pairs: list[tuple[int, int]]) -> None:
    walked = [(since, since + length) for since, length in pairs]
    whole = {moment for since, until in walked for moment in range(since, until)}
    wanted = [(moment, moment + 3) for moment in range(0, 55, 3)]
    assert missing(wanted, walked) == [span for span in wanted if not set(range(*span)) <= whole]
    assert {moment for since, until in merged(walked) for moment in range(since, until)} == whole


def test_a_day_is_as_long_as_the_clocks_say() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    long_day = datetime(2025, 10, 26, tzinfo=berlin)
    (only,) = split((int(long_day.timestamp() * 1000), int(long_day.timestamp() * 1000) + 1), DAY_MS, berlin)
    assert only[1] - only[0] == 25 * HOUR


def test_names_tell_days_and_moments() -> None:
    day, zone = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp() * 1000), UTC
    assert window_listing(MAIN, (day, day + DAY_MS), zone).name == "fill 2025-01-01/2025-01-02 section=a"
    half = window_listing(MAIN, (day, day + DAY_MS // 2), zone)
    assert half.name == "fill 2025-01-01/2025-01-01T12:00:00+00:00 section=a"
    assert half.values == {
        "section": "a",
        "from": "2025-01-01T00:00:00+00:00",
        "to": "2025-01-01T12:00:00+00:00",
    }


def test_too_many_windows_are_refused() -> None:
    with pytest.raises(TooMany):
        split((0, (MOST_WINDOWS + 1) * HOUR), HOUR, UTC)
    assert split((5, 5), HOUR, UTC) == []


def hole(newer: int | None = 9 * DAY_MS, older: int | None = 2 * DAY_MS + HOUR, *, start: bool = False) -> Hole:
    return Hole(1, MAIN, newer, older, start, 10 * DAY_MS)


def test_a_hole_is_asked_for_with_both_its_edges() -> None:
    found = hole_window(hole(), None)
    assert found == (2 * DAY_MS + HOUR, 9 * DAY_MS + 1_000)
    assert whole_days((2 * DAY_MS + HOUR, 9 * DAY_MS + 1_000), UTC) == (2 * DAY_MS, 10 * DAY_MS)
    # Rows in no order: the newer edge may bear the older date.
    assert hole_window(hole(DAY_MS, 2 * DAY_MS), None) == (DAY_MS, 2 * DAY_MS + 1_000)
    assert hole_window(hole(older=None, start=True), DAY_MS) == (DAY_MS, 9 * DAY_MS + 1_000)


def test_a_hole_without_dates_says_why_it_cannot_be_filled() -> None:
    assert "no date" in str(hole_window(hole(newer=None), None))
    assert "no date" in str(hole_window(hole(older=None), None))
    assert "--from" in str(hole_window(hole(older=None, start=True), None))


def test_holes_are_tried_at_once_and_then_every_six_hours_for_a_week() -> None:
    found = [hole()]
    at = found[0].found_at
    assert is_due(found, 0, at)
    assert not is_due([], 0, at)
    tried = at + 1
    assert not is_due(found, tried, tried + TRY_AGAIN_MS - 1)
    assert is_due(found, tried, tried + TRY_AGAIN_MS)
    assert not is_due(found, at + TRIED_FOR_MS, at + TRIED_FOR_MS + TRY_AGAIN_MS)


def test_within_needs_one_whole_window() -> None:
    assert within((2, 5), [(0, 3), (4, 9), (1, 6)])
    assert not within((2, 5), [(0, 3), (4, 9)])
