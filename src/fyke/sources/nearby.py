"""Times that a page tells from its own moment: 3小时前, yesterday 10:30, and dates without a year.

The moment is when the page was answered. Without it none of these is a time: nothing is guessed.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from fyke.sources.capitals import numeral

# A date without a year is the last one that is not after the page by more than this: clocks and zones differ.
AHEAD: Final = timedelta(days=1)
# As the year of a date that was not after the page: a leap day is found again within eight.
YEARS_BACK: Final = 9

_SECONDS: Final = MappingProxyType(
    {
        **dict.fromkeys(("秒", "second", "sec", "s"), 1),
        **dict.fromkeys(("分", "minute", "min", "m"), 60),
        **dict.fromkeys(("时", "hour", "hr", "h"), 3_600),
        **dict.fromkeys(("天", "日", "day", "d"), 86_400),
        **dict.fromkeys(("周", "week", "w"), 604_800),
    }
)
_MONTHS: Final = MappingProxyType({"月": 1, "month": 1, "年": 12, "year": 12})
_AGO: Final = re.compile(
    r"(?P<count>\d{1,4}|[一二两三四五六七八九十]{1,3}|半)\s?(?:个)?(?P<half>半)?"
    r"(?P<unit>秒|分|小?时|天|日|周|星期|礼拜|月|年)(?:钟|头)?\s?(?:之?前|以前)"
)
_ENGLISH: Final = re.compile(
    r"\b(?P<count>\d{1,4}|an?)\s?(?P<unit>second|sec|s|minute|min|m|hour|hr|h|day|d|week|w|month|year)s?\.?\s+ago\b",
    re.IGNORECASE,
)
_NOW: Final = re.compile(r"刚刚|刚才|\bjust now\b", re.IGNORECASE)
_DAYS: Final = MappingProxyType({"今天": 0, "昨天": 1, "前天": 2, "大前天": 3, "today": 0, "yesterday": 1})
_CLOCK: Final = r"(?P<hour>[01]?\d|2[0-3])[:：](?P<minute>[0-5]\d)(?:[:：](?P<second>[0-5]\d))?"
_DAY: Final = re.compile(
    rf"(?P<day>大前天|今天|昨天|前天|\btoday\b|\byesterday\b)(?:\s*(?:at|,)?\s*{_CLOCK})?", re.IGNORECASE
)
_TIME_ALONE: Final = re.compile(_CLOCK)


def from_moment(text: str, at: datetime) -> datetime | None:
    """The time that `text` tells from `at` (in the zone of the page): cut to the unit that it counts in."""
    if _NOW.search(text):
        return at.replace(second=0, microsecond=0)
    for pattern in (_AGO, _ENGLISH):
        match = pattern.search(text)
        if match:
            return _ago(match, at)
    match = _DAY.search(text)
    if match:
        day = at - timedelta(days=_DAYS[match["day"].lower()])
        return _at_clock(match, day)
    match = _TIME_ALONE.fullmatch(text)
    if match is None:
        return None
    return latest_day(_at_clock(match, at), at)


def latest_day(found: datetime, at: datetime) -> datetime:
    """A time of a day that is not told: shortly after midnight 23:55 is of the day before."""
    return found - timedelta(days=1) if found > at + timedelta(hours=1) else found


def _at_clock(match: re.Match[str], day: datetime) -> datetime:
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0)


def _ago(match: re.Match[str], at: datetime) -> datetime | None:
    unit = match["unit"].lower().removeprefix("小").replace("星期", "周").replace("礼拜", "周")
    parts = match.groupdict()
    count = _count(match["count"]) + (0.5 if parts.get("half") else 0)
    try:
        if unit in _MONTHS:
            return _months_before(at, round(count * _MONTHS[unit]))
        size = _SECONDS[unit]
        found = at - timedelta(seconds=count * size)
    except OverflowError:
        return None
    if size >= 86_400:
        return found.replace(hour=0, minute=0, second=0, microsecond=0)
    if size == 3_600 and count == int(count):
        return found.replace(minute=0, second=0, microsecond=0)
    return found.replace(second=found.second if size == 1 else 0, microsecond=0)


def _count(text: str) -> float:
    if text == "半":
        return 0.5
    if text.lower() in ("a", "an"):
        return 1
    return int(text) if text.isdigit() else float(numeral(text) or 0)


def _months_before(at: datetime, months: int) -> datetime | None:
    year, month = divmod(at.year * 12 + at.month - 1 - months, 12)
    for day in range(at.day, 27, -1):
        try:
            return at.replace(year=year, month=month + 1, day=day, hour=0, minute=0, second=0, microsecond=0)
        except ValueError:
            continue
    try:
        return at.replace(year=year, month=month + 1, day=min(at.day, 28), hour=0, minute=0, second=0, microsecond=0)
    except ValueError:
        return None


def years_of(at: datetime) -> range:
    """The years that a date without one may be of, the latest first; one of them has its leap day."""
    return range(at.year + 1, at.year - YEARS_BACK, -1)


def is_past(found: datetime, at: datetime) -> bool:
    """Whether a page of `at` can have shown it."""
    return found <= at + AHEAD
