"""Which outcome a status is, and which waits a site may ask for (SCENARIOS 24)."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from fyke.model import Outcome
from fyke.policy.status import LONGEST_RETRY_AFTER, outcome_of_status, retry_after

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize(
    ("outcome", "statuses"),
    [
        (Outcome.OK, [200, 201, 203, 204]),
        (Outcome.UNCHANGED, [304]),
        (Outcome.UNAVAILABLE, [408, 425, 429, 500, 502, 503, 504, 521, 599]),
        (Outcome.BLOCKED, [403, 412, 999]),
        (Outcome.LOGIN, [401]),
        (Outcome.NOT_FOUND, [404]),
        (Outcome.GONE, [410]),
        (Outcome.PROXY, [407]),
        (Outcome.REFUSED, [400, 402, 405, 406, 409, 411, 413, 414, 418, 422, 451, 499]),
        (Outcome.ERROR, [206, 300, 301, 302, 303, 307, 308, 100, 0, 600, 1000]),
    ],
)
def test_each_status_has_one_outcome(outcome: Outcome, statuses: list[int]) -> None:
    assert {status: outcome_of_status(status) for status in statuses} == dict.fromkeys(statuses, outcome)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("7", 7_000),
        (" 120 ", 120_000),
        (format_datetime(datetime(2026, 1, 1, 0, 1, tzinfo=UTC), usegmt=True), 60_000),
        ("Thu, 01 Jan 2026 00:00:30 -0000", 30_000),
        ("Thursday, 01-Jan-26 00:02:00 GMT", 120_000),
        (str(10**9), LONGEST_RETRY_AFTER),
        ("9" * 5_000, LONGEST_RETRY_AFTER),
        ("Fri, 01 Jan 2038 00:00:00 GMT", LONGEST_RETRY_AFTER),
    ],
)
def test_a_wait_is_read_and_capped(value: str, wait: int) -> None:
    assert retry_after(value, NOW) == wait


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", "0", "-5", "1.5", "soon", "٧", "1e9", "\x00", "7, 9"),
        *("Thu, 01 Jan 2026 00:00:00 GMT", "Wed, 31 Dec 2025 23:59:59 GMT"),
        *("Thu, 99 Jan 2026 00:00:00 GMT", "Thu, 01 Jan 99999 00:00:00 GMT"),
    ],
)
def test_a_wait_that_is_past_or_unreadable_is_none(value: str | None) -> None:
    assert retry_after(value, NOW) is None


def test_the_cap_is_the_callers() -> None:
    assert retry_after("3600", NOW, cap=60_000) == 60_000
