"""Moments that a person types: a length before now (7d), a date, or a date with a time; in the local zone."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

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


def day_or_moment(text: str, now: int, zone: tzinfo, option: str) -> tuple[int, int]:
    """As `moment_ms` in this zone, with the moment at its end: a date without a time ends with its day.

    Raises:
        UsageError: it is none.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        at = moment_ms(text, now, option)
        return at, at
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone)
    day = len(text.strip()) <= len("2026-01-31")
    return _ms(found), _ms(found + timedelta(days=1)) if day else _ms(found)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
