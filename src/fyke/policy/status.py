"""HTTP status → outcome, and what Retry-After asks for. The rows of DESIGN 3; pure."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from fyke.model import Outcome

LONGEST_RETRY_AFTER = 24 * 3_600_000

_SINGLE = {
    304: Outcome.UNCHANGED,
    401: Outcome.LOGIN,
    403: Outcome.BLOCKED,
    404: Outcome.NOT_FOUND,
    407: Outcome.PROXY,
    408: Outcome.UNAVAILABLE,
    410: Outcome.GONE,
    412: Outcome.BLOCKED,
    425: Outcome.UNAVAILABLE,
    429: Outcome.UNAVAILABLE,
    999: Outcome.BLOCKED,
}


def outcome_of_status(status: int) -> Outcome:
    """ok for any 2xx but 206 (a part that nobody asked for); error for what no client should get to see."""
    if status == 200:
        return Outcome.OK
    single = _SINGLE.get(status)
    if single is not None:
        return single
    if 200 <= status <= 299 and status != 206:
        return Outcome.OK
    if 400 <= status <= 499:
        return Outcome.REFUSED
    if 500 <= status <= 599:
        return Outcome.UNAVAILABLE
    return Outcome.ERROR


def retry_after(value: str | None, now: int, cap: int = LONGEST_RETRY_AFTER) -> int | None:
    """How long to wait in ms, at most `cap`; None where the header names no time to come.

    Args:
        value: the header: seconds or a date.
        now: ms since the epoch.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        # No number of more digits is below the cap, and reading it would take long.
        wait = int(text) * 1_000 if len(text) < 12 else cap
    else:
        try:
            wait = int(parsedate_to_datetime(text).timestamp() * 1_000) - now
        except (ValueError, OverflowError, OSError, TypeError, IndexError):
            return None
    return min(wait, cap) if wait > 0 else None
