"""Dates and times as sites write them, into one form: ISO 8601 with its offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from types import MappingProxyType
from typing import Any, Final

AUTO: Final = "auto"
EPOCH_SECONDS: Final = "epoch_s"
EPOCH_MILLISECONDS: Final = "epoch_ms"
LONGEST: Final = 500

_MONTH_NAMES: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS: Final = MappingProxyType(
    {name: at for at, name in enumerate(_MONTH_NAMES, 1)}
    | {name[:3]: at for at, name in enumerate(_MONTH_NAMES, 1)}
    | {"sept": 9}
)
_HALVES: Final = MappingProxyType({"凌晨": "a", "早上": "a", "上午": "a", "中午": "p", "下午": "p", "晚上": "p"})
_CLOCK: Final = (
    r"(?:[T\s,]*(?:\S{2,3}\s)?(?P<noon>凌晨|早上|上午|中午|下午|晚上)?\s?(?P<hour>[01]?\d|2[0-4])"
    r"(?:[:：](?P<minute>[0-5]?\d)|[时点](?P<minutes>[0-5]?\d)?)(?:[:：分](?P<second>[0-5]?\d|60)"
    r"(?:[.,](?P<part>\d{1,9}))?)?[分秒]?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\b)?(?:\s*(?P<zone>Z\b|UTC\b|GMT\b|[+-]\d{2}:?\d{2}\b))?)?"
)
_NUMERIC: Final = re.compile(
    r"(?<!\d)(?P<year>(?:19|20|21)\d{2})\s?[-/.年]\s?(?P<month>\d{1,2})\s?[-/.月]\s?(?P<day>\d{1,2})(?!\d)\s?日?"
    + _CLOCK
)
_COMPACT: Final = re.compile(
    r"(?<!\d)(?P<year>(?:19|20|21)\d{2})(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])"
    r"(?:T?(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)(?P<second>[0-5]\d)?(?P<zone>Z)?)?(?!\d)"
)
_MONTH: Final = r"(?P<month>[A-Za-z]{3,9})\.?"
_DAY_FIRST: Final = re.compile(r"(?<!\d)(?P<day>\d{1,2})[\s-]" + _MONTH + r"[\s,-]+(?P<year>\d{4})" + _CLOCK)
_MONTH_FIRST: Final = re.compile(r"\b" + _MONTH + r"\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})" + _CLOCK)
_EPOCH: Final = re.compile(r"\d{10}|\d{13}")
CANONICAL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?[+-]\d\d:\d\d(?::\d\d)?")


def read_time(value: Any, formats: tuple[str, ...], zone: tzinfo) -> str | None:
    """The time in canonical form, or None where no format fits. A time without a zone is in `zone`."""
    found = _read(value, formats, zone)
    if found is None:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone)
    return found.isoformat()


def _read(value: Any, formats: tuple[str, ...], zone: tzinfo) -> datetime | None:
    text = str(value)[:LONGEST].strip()
    for form in formats:
        found = None
        if form == AUTO:
            found = guess(text, zone)
        elif form in (EPOCH_SECONDS, EPOCH_MILLISECONDS):
            found = from_epoch(text, 1 if form == EPOCH_SECONDS else 1_000, zone)
        else:
            try:
                found = datetime.strptime(text, form)
            except ValueError:
                continue
        if found is not None:
            return found
    return None


def from_epoch(text: str, unit: int, zone: tzinfo) -> datetime | None:
    try:
        whole, rest = divmod(int(text), unit)
        return (datetime.fromtimestamp(whole, UTC) + timedelta(microseconds=rest * 1_000)).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return None


def guess(text: str, zone: tzinfo) -> datetime | None:
    """The first date in `text`, year first or with the month's English name; digits alone are an epoch."""
    if _EPOCH.fullmatch(text):
        return from_epoch(text, 1 if len(text) == 10 else 1_000, zone)
    for pattern in (_NUMERIC, _DAY_FIRST, _MONTH_FIRST, _COMPACT):
        for match in pattern.finditer(text):
            found = _built(match.groupdict())
            if found is not None:
                return found
    return None


def _built(parts: dict[str, str | None]) -> datetime | None:
    month = parts["month"] or ""
    number = int(month) if month.isdigit() else _MONTHS.get(month.lower())
    if number is None:
        return None
    hour = int(parts.get("hour") or 0)
    half = (parts.get("half") or "").lower() or _HALVES.get(parts.get("noon") or "", "")
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    part = (parts.get("part") or "0")[:6].ljust(6, "0")
    try:
        found = datetime(
            int(parts["year"] or 0),
            number,
            int(parts["day"] or 0),
            hour % 24,
            int(parts.get("minute") or parts.get("minutes") or 0),
            min(59, int(parts.get("second") or 0)),
            int(part),
            tzinfo=_offset(parts.get("zone")),
        )
        # 24:00 is the midnight that ends the day.
        return found + timedelta(days=1) if hour == 24 else found
    except (ValueError, OverflowError):
        return None


def _offset(zone: str | None) -> tzinfo | None:
    if not zone:
        return None
    if zone[0] not in "+-":
        return UTC
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return timezone(timedelta(minutes=minutes if zone[0] == "+" else -minutes))


def epoch_ms(canonical: str) -> int | None:
    """Milliseconds since the epoch of a time in canonical form."""
    try:
        return int(datetime.fromisoformat(canonical).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None
