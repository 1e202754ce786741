"""Moments that a person types: a length before now (7d), a date, or a date with a time; in the local zone."""

from __future__ import annotations

from datetime import datetime

from fyke.errors import UsageError
from fyke.policy.units import parse_duration


def moment_ms(text: str, now: int, option: str) -> int:
    """The moment in ms since 1970.

    Raises:
        UsageError: it is none.
    """
    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text.strip())
        return int(found.astimezone().timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is no moment", field=option, hint="write 7d, 2026-01-31 or 2026-01-31T08:00+08:00"
        ) from error
