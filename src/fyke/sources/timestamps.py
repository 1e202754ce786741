"""Dates and times as sites write them, into one form: ISO 8601 with its offset.

What can be a day or a month (03/04/2025) is read only where the source says which comes first.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from fyke.sources.months import month_number
from fyke.sources.nearby import from_moment, is_past, latest_day, years_of

AUTO: Final = "auto"
DAY_FIRST: Final = "day_first"
MONTH_FIRST: Final = "month_first"
EPOCH_SECONDS: Final = "epoch_s"
EPOCH_MILLISECONDS: Final = "epoch_ms"
LONGEST: Final = 500

_HALVES: Final = MappingProxyType({"凌晨": "a", "早上": "a", "上午": "a", "中午": "p", "下午": "p", "晚上": "p"})
_CLOCK: Final = (
    r"(?:[T\s,]*(?:\S{2,3}\s)?(?P<noon>凌晨|早上|上午|中午|下午|晚上)?\s?(?P<hour>[01]?\d|2[0-4])"
    r"(?:[:：](?P<minute>[0-5]?\d)|[时点](?P<minutes>[0-5]?\d)?)(?:[:：分](?P<second>[0-5]?\d|60)"
    r"(?:[.,](?P<part>\d{1,9}))?)?[分秒]?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\b)?"
    r"(?:\s*(?P<zone>Z\b|(?:UTC|GMT)?[+-]\d{1,2}(?::?\d{2})?\b|UTC\b|GMT\b|E[SD]T\b|CDT\b|[MP][SD]T\b|CEST\b|CET\b|JST\b|KST\b))?)?"
)
_NUMERIC: Final = re.compile(
    r"(?<!\d)(?P<year>(?:19|20|21)\d{2})\s?[-/.年]\s?(?P<month>\d{1,2})\s?[-/.月]\s?(?P<day>\d{1,2})(?!\d)\s?日?"
    + _CLOCK
)
_COMPACT: Final = re.compile(
    r"(?<!\d)(?P<year>(?:19|20|21)\d{2})(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])"
    r"(?:T?(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)(?P<second>[0-5]\d)?(?P<zone>Z)?)?(?!\d)"
)
_MONTH: Final = r"(?P<month>[A-Za-zäéûç]{3,10})\.?"
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|º|\.)?"
_NAMED_DAY_FIRST: Final = re.compile(
    rf"(?<!\d){_DAY}[\s-]*(?:de\s|of\s)?\s*{_MONTH}(?:\s+de)?[\s,-]+(?P<year>\d{{4}})(?!\d)" + _CLOCK
)
_NAMED_MONTH_FIRST: Final = re.compile(rf"\b{_MONTH}\s+{_DAY},?\s+(?P<year>\d{{4}})(?!\d)" + _CLOCK)
# Day and month in figures, the year last: 24.09.2018, 24/09/2018, 09/24/2018.
_YEAR_LAST: Final = re.compile(
    r"(?<![\d/.-])(?P<first>\d{1,2})(?P<mark>[/.-])(?P<second_>\d{1,2})(?P=mark)(?P<year>(?:19|20|21)\d{2})(?!\d)"
    + _CLOCK
)
# Without a year. Figures alone must be all there is: 06-27 17:52.
_YEARLESS: Final = (
    re.compile(r"(?<![\d年])(?P<month>\d{1,2})\s?月\s?(?P<day>\d{1,2})\s?日?" + _CLOCK),
    re.compile(rf"\b{_MONTH}\s+{_DAY}(?![\d:])(?!,?\s+\d{{4}})" + _CLOCK),
    re.compile(rf"(?<![\d:]){_DAY}[\s-]*(?:de\s|of\s)?\s*{_MONTH}(?!\w)(?![\s,-]+\d{{4}})" + _CLOCK),
)
_YEARLESS_FIGURES: Final = re.compile(
    r"[\[(【（]?\s*(?P<month>\d{1,2})\s?(?P<mark>[-/.])\s?(?P<day>\d{1,2})" + _CLOCK + r"\s*[\])】）]?"
)
_YEAR_FORMS: Final = re.compile(r"%[-#]?[YyGcxs]|%D|%F")
_FORM_PART: Final = re.compile(r"(%.)", re.DOTALL)
_PLAIN_FORMS: Final = MappingProxyType(
    {
        "%Y": r"(?P<year>\d{4})",
        "%m": r"(?P<month>\d\d)",
        "%d": r"(?P<day>\d\d)",
        "%H": r"(?P<hour>\d\d)",
        "%M": r"(?P<minute>\d\d)",
        "%S": r"(?P<second>\d\d)",
    }
)
_TIME_NAMES: Final = ("hour", "minute", "second")
_PLAIN_SETS: Final = tuple(sorted(tuple(_PLAIN_FORMS)[:count]) for count in (3, 5, 6))
# Of these, and so long, what is read at once is what strptime reads.
_ISO_FORMS: Final = MappingProxyType(
    {"%Y-%m-%d": 10} | {f"%Y-%m-%d{mark}%H:%M": 16 for mark in " T"} | {f"%Y-%m-%d{mark}%H:%M:%S": 19 for mark in " T"}
)
_DAY_FORMS: Final = re.compile(r"%[-#]?[djmbBaAuw]")
# Names that mean one offset only. CST is that of China and of Chicago.
_ZONES: Final = MappingProxyType(
    {"EST": -5, "EDT": -4, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
    | {"CET": 1, "CEST": 2, "JST": 9, "KST": 9}
)
_EPOCH: Final = re.compile(r"\d{10}|\d{13}")
CANONICAL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?[+-]\d\d:\d\d(?::\d\d)?")


def read_time(value: Any, formats: tuple[str, ...], zone: tzinfo, at: datetime | None = None) -> str | None:
    """The time in canonical form, or None where no format fits. A time without a zone is in `zone`.

    `at` is the page's moment, from which it may tell times (3小时前) and dates without a year, else none.
    """
    text = str(value)[:LONGEST].strip()
    here = None if at is None else at.astimezone(zone)
    for form in formats:
        found = _read(text, form, zone, here)
        if found is not None:
            break
    else:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone)
    return found.isoformat()


def _read(text: str, form: str, zone: tzinfo, here: datetime | None) -> datetime | None:
    if form in (AUTO, DAY_FIRST, MONTH_FIRST):
        found = guess(text, zone, form)
        return found if found is not None or here is None else _from_page(text, here, form)
    if form in (EPOCH_SECONDS, EPOCH_MILLISECONDS):
        return from_epoch(text, 1 if form == EPOCH_SECONDS else 1_000, zone)
    if _in_iso(text, form):
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    plain = _plain_form(form)
    if plain is None and not _YEAR_FORMS.search(form):
        return None if here is None else _without_year(text, form, here)
    match = plain.match(text) if plain is not None else None
    try:
        if match is not None and match.lastindex is not None:
            year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
            more = [int(match[name]) for name in _TIME_NAMES[: match.lastindex - 3]]
            hour, minute, second = (*more, 0, 0, 0)[:3]
            # Made in its zone: to be put there later takes as long as all of this.
            return datetime(year, month, day, hour, minute, second, tzinfo=zone)
        return datetime.strptime(text, form)
    except ValueError:
        return None


def _in_iso(text: str, form: str) -> bool:
    """Whether the signs between the figures stand where ISO 8601 has them, and the format has them there, too."""
    length = _ISO_FORMS.get(form)
    if length is None or len(text) != length or text[4] != "-" or text[7] != "-":
        return False
    return length == 10 or (text[10] == form[8] and text[13] == ":" and text[16:17] in ("", ":"))


@lru_cache(maxsize=64)
def _plain_form(form: str) -> re.Pattern[str] | None:
    """A format of figures with their zeros, such as %Y-%m-%d %H:%M, as a pattern: strptime takes ten times as long."""
    parts = _FORM_PART.split(form)
    names = parts[1::2]
    if sorted(names) not in _PLAIN_SETS:
        return None
    parts[::2] = [re.escape(part) for part in parts[::2]]
    parts[1::2] = [_PLAIN_FORMS[name] for name in names]
    return re.compile("".join(parts) + r"\Z", re.ASCII)


def _without_year(text: str, form: str, here: datetime) -> datetime | None:
    """A format without a year would be of 1900."""
    if not _DAY_FORMS.search(form):
        form, text = f"%Y-%m-%d {form}", f"{here:%Y-%m-%d} {text}"
        try:
            found = datetime.strptime(text, form)
        except ValueError:
            return None
        return latest_day(_aware(found, here), here)
    for year in years_of(here):
        try:
            found = datetime.strptime(f"{year:04d} {text}", f"%Y {form}")
        except ValueError:
            continue
        if is_past(_aware(found, here), here):
            return found
    return None


def _aware(found: datetime, here: datetime) -> datetime:
    return found if found.tzinfo is not None else found.replace(tzinfo=here.tzinfo)


def _from_page(text: str, here: datetime, form: str) -> datetime | None:
    found = from_moment(text, here)
    if found is not None:
        return found
    figures = _YEARLESS_FIGURES.fullmatch(text)
    if figures is not None:
        parts = figures.groupdict()
        if parts["mark"] == "." and len(f"{parts['month']}{parts['day']}") < 4:
            return None
        if form == DAY_FIRST or (form == AUTO and parts["mark"] == "." and int(parts["month"] or 0) > 12):
            parts["month"], parts["day"] = parts["day"], parts["month"]
        return _last(parts, here)
    for pattern in _YEARLESS:
        for match in pattern.finditer(text):
            found = _last(match.groupdict(), here)
            if found is not None:
                return found
    return None


def _last(parts: dict[str, str | None], here: datetime) -> datetime | None:
    """The latest year's date that the page can have shown."""
    for year in years_of(here):
        found = _built(parts | {"year": str(year)})
        if found is not None and is_past(_aware(found, here), here):
            return found
    return None


def from_epoch(text: str, unit: int, zone: tzinfo) -> datetime | None:
    try:
        whole, rest = divmod(int(text), unit)
        return (datetime.fromtimestamp(whole, UTC) + timedelta(microseconds=rest * 1_000)).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return None


def guess(text: str, zone: tzinfo, form: str = AUTO) -> datetime | None:
    """The first date in `text`, year first or with the month's name; digits alone are an epoch."""
    if _EPOCH.fullmatch(text):
        return from_epoch(text, 1 if len(text) == 10 else 1_000, zone)
    for pattern in (_NUMERIC, _NAMED_DAY_FIRST, _NAMED_MONTH_FIRST, _COMPACT):
        for match in pattern.finditer(text):
            found = _built(match.groupdict())
            if found is not None:
                return found
    for match in _YEAR_LAST.finditer(text):
        found = _built(_ordered(match.groupdict(), form))
        if found is not None:
            return found
    return None


def _ordered(parts: dict[str, str | None], form: str) -> dict[str, str | None]:
    """Which of two figures is the day. Full stops stand between day and month only where the day comes first."""
    first, second = parts["first"] or "", parts["second_"] or ""
    if form == AUTO and parts["mark"] == ".":
        form = DAY_FIRST
    if form == AUTO and (int(first) > 12) != (int(second) > 12):
        form = DAY_FIRST if int(first) > 12 else MONTH_FIRST
    if form == AUTO and first != second:
        return parts | {"day": "0", "month": "0"}
    day, month = (second, first) if form == MONTH_FIRST else (first, second)
    return parts | {"day": day, "month": month}


def _built(parts: dict[str, str | None]) -> datetime | None:
    month = parts["month"] or ""
    number = int(month) if month.isdigit() else month_number(month)
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
    if zone in _ZONES:
        return timezone(timedelta(hours=_ZONES[zone]))
    sign = zone.removeprefix("UTC").removeprefix("GMT")
    if not sign or sign == "Z":
        return UTC
    digits = sign[1:].replace(":", "")
    hours, minutes = (digits, "0") if len(digits) <= 2 else (digits[:-2], digits[-2:])
    length = int(hours) * 60 + int(minutes)
    return timezone(timedelta(minutes=length if sign[0] == "+" else -length))


def epoch_ms(canonical: str) -> int | None:
    """Milliseconds since the epoch of a time in canonical form."""
    try:
        return int(datetime.fromisoformat(canonical).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None
