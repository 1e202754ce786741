"""A Last-Modified is kept only where the list cannot have changed again under the same second (P5)."""

from __future__ import annotations

import pytest

from fyke.policy.validators import keepable_last_modified

MODIFIED = "Mon, 01 Jan 2029 08:00:00 GMT"
AT = 1_861_948_800_000
MINUTE = 60_000


@pytest.mark.parametrize(
    ("date", "kept"),
    [
        ("Mon, 01 Jan 2029 08:00:00 GMT", False),
        ("Mon, 01 Jan 2029 08:00:59 GMT", False),
        ("Mon, 01 Jan 2029 08:01:00 GMT", True),
        ("Monday, 01-Jan-29 09:00:00 GMT", True),
        ("Mon, 01 Jan 2029 16:00:30 +0800", False),
        ("Mon, 01 Jan 2029 07:00:00 GMT", False),
    ],
)
def test_a_row_added_in_the_second_of_the_reading_is_not_hidden(date: str, kept: bool) -> None:
    # Our own clock does not count where the site tells its own.
    for read_at in (0, AT, AT + 100 * MINUTE):
        assert keepable_last_modified(MODIFIED, date, read_at) == (MODIFIED if kept else "")


@pytest.mark.parametrize("date", [None, "", "yesterday", "Mon, 99 Jan 2029 08:00:00 GMT"])
def test_without_a_date_the_time_of_the_reading_counts(date: str | None) -> None:
    assert keepable_last_modified(MODIFIED, date, AT + MINUTE) == MODIFIED
    assert keepable_last_modified(MODIFIED, date, AT + MINUTE - 1) == ""
    assert keepable_last_modified(MODIFIED, date, 0) == ""


@pytest.mark.parametrize("text", ["", "never", "0", "\x00", "Mon, 01 Jan 99999 08:00:00 GMT"])
def test_a_time_that_is_none_is_not_sent_back(text: str) -> None:
    assert keepable_last_modified(text, MODIFIED, AT + MINUTE) == ""
