"""Which validators of a list page may be sent back to its site.

Pure. Keeps P5: "not modified" ends a walk as complete, so a validator is kept only where it cannot hide a change.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

# RFC 9110 8.8.2.2: seconds are coarse and clocks differ, so that a list may change after it was read and keep its time.
SETTLED_MS = 60_000


def keepable_last_modified(last_modified: str, date: str | None, read_at: int) -> str:
    """The Last-Modified to keep, "" where the page may change once more under the same time.

    Args:
        date: the answer's Date, by the same clock as Last-Modified.
        read_at: ms, when the answer was asked for; counts where Date is missing or no date.
    """
    modified = _time(last_modified)
    if modified is None:
        return ""
    told = _time(date or "")
    return last_modified if (read_at if told is None else told) - modified >= SETTLED_MS else ""


def _time(text: str) -> int | None:
    try:
        found = parsedate_to_datetime(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
