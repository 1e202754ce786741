"""Numbers and sums of money as sites write them, into exact decimals as text. A true 0 stays 0."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final

LONGEST: Final = 2_000
MOST_DIGITS: Final = 60

_NUMBER: Final = r"(?:(?<!\w)[+\-−]\s?)?(?:\d{1,3}(?:[ ,.'’\u202f]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?|[.,]\d+)(?![\d])"
_GROUPED: Final = MappingProxyType(
    {
        ",": re.compile(r"[+-]?\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d*)?"),
        ".": re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+(?:,\d*)?"),
    }
)
_FIRST: Final = re.compile(rf"(?<![\d.,A-Za-z])(?P<number>{_NUMBER})")
_MARKS: Final = MappingProxyType(
    {
        "CNY": ("CNY", "RMB", "人民币", "¥"),
        "USD": ("USD", "US$", "美元", "美金", "$"),
        "EUR": ("EUR", "欧元", "€"),
        "GBP": ("GBP", "英镑", "£"),
        "JPY": ("JPY", "日元", "日圆", "¥"),
        "HKD": ("HKD", "HK$", "港元", "港币"),
    }
)
_ALL_MARKS: Final = "|".join(
    re.escape(mark) for mark in sorted({m for marks in _MARKS.values() for m in marks}, key=lambda m: (-len(m), m))
)
_SCALES: Final = MappingProxyType({"亿": 8, "千万": 7, "百万": 6, "十万": 5, "万": 4, "千": 3, "百": 2})
# 千 and 百 alone also count kilograms and pages.
_UNIT: Final = r"(?P<scale>亿|千万|百万|十万|万|千(?=\s?[元圆])|百(?=\s?[元圆]))?\s?(?P<yuan>元|圆)?"
_MONEY: Final = re.compile(
    rf"(?P<before>(?:{_ALL_MARKS})\s?)?(?P<number>{_NUMBER})\s?[(（]?\s?{_UNIT}(?P<after>\s?(?:{_ALL_MARKS}))?"
)
_FOLLOWING: Final = re.compile(rf"\s?(?P<number>{_NUMBER})\s?{_UNIT}")
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
# The sum and its unit alone, as a table's cell has it.
_CELL: Final = re.compile(r"([1-9]\d{0,14})(?:\.(\d{1,9}))? ?(亿|千万|百万|十万|万)?[元圆]", re.ASCII)
_DIGIT: Final = re.compile(r"\d")
# The unit stands before the number: `金额（万元）：56.98`.
_UNIT_BEFORE: Final = re.compile(
    rf"[(（]\s?(?P<scale>亿|千万|百万|十万|万)?\s?元\s?[)）][^\d]{{0,8}}?(?P<number>{_NUMBER})"
)


def plain_number(value: Decimal) -> str | None:
    """The decimal in its shortest exact writing without an exponent; None for what is no number or absurdly long."""
    if not value.is_finite():
        return None
    if -20 < value.adjusted() < 20 and len(text := format(value, "f")) <= MOST_DIGITS // 2:
        return text[1:] if text.startswith("-") and not value else text
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) > MOST_DIGITS or abs(exponent) > MOST_DIGITS:
        return None
    text = format(value, "f")
    return text[1:] if text.startswith("-") and not value else text


def _decimal(text: str, mark: str) -> Decimal | None:
    if mark == "." and _PLAIN.fullmatch(text):
        return Decimal(text)
    text = re.sub(r"[\s'’\u202f]", "", text).replace("−", "-")
    thousands = "," if mark == "." else "."
    # Thousands come in threes; anything else read as one would be wrong by a factor.
    if thousands in text and not _GROUPED[thousands].fullmatch(text):
        return None
    text = text.replace(thousands, "").replace(mark, ".")
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _normal(value: Any) -> str:
    return unicodedata.normalize("NFKC", str(value)[:LONGEST]).replace("￥", "¥")


def read_number(value: Any, mark: str = ".") -> str | None:
    """The first number in `value` as exact text; `mark` is the decimal mark."""
    if isinstance(value, Decimal):
        return plain_number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return plain_number(Decimal(value))
    match = _FIRST.search(_normal(value))
    number = _decimal(match["number"], mark) if match else None
    return plain_number(number) if number is not None else None


def read_money(value: Any, currency: str, mark: str = ".") -> str | None:
    """The sum in `value` in whole units of `currency`, as exact text.

    A number with a currency mark or a unit wins over one without. None where another currency stands beside it.
    """
    if isinstance(value, (Decimal, int)) and not isinstance(value, bool):
        return read_number(value)
    cell = _CELL.fullmatch(value) if mark == "." and isinstance(value, str) else None
    if cell:
        return _shifted(cell[1], cell[2] or "", _SCALES[cell[3]] if cell[3] else 0)
    text = _normal(value)
    if not _DIGIT.search(text):
        return None
    before = _UNIT_BEFORE.search(text) if "元" in text else None
    if before:
        return _scaled(_decimal(before["number"], mark), before["scale"])
    bare: list[str | None] = []
    own = _MARKS.get(currency, (currency,))
    for match in _MONEY.finditer(text):
        marks = [part.strip() for part in (match["before"], match["after"]) if part]
        if any(part not in own for part in marks):
            return bare[0] if bare else None
        amount = _scaled(_decimal(match["number"], mark), match["scale"])
        if marks or match["yuan"] or match["scale"]:
            return None if amount is None else _with_rest(amount, text, match, mark)
        bare.append(amount)
    # The first number counts, also where it cannot be read: the next one is another thing.
    return bare[0] if bare else None


def _shifted(whole: str, part: str, places: int) -> str:
    digits = whole + part[:places].ljust(places, "0")
    return f"{digits}.{part[places:]}" if len(part) > places else digits


def _scaled(number: Decimal | None, scale: str | None) -> str | None:
    if number is None:
        return None
    return plain_number(number.scaleb(_SCALES[scale]) if scale else number)


def _with_rest(amount: str, text: str, match: re.Match[str], mark: str) -> str | None:
    """`3亿5000万元` is one sum: parts that follow each other, each of a smaller unit, are added."""
    total, scale, end = Decimal(amount), match["scale"], match.end()
    while scale and not match["yuan"]:
        following = _FOLLOWING.match(text, end)
        if following is None or not (following["scale"] or following["yuan"]):
            break
        if following["scale"] and _SCALES[following["scale"]] >= _SCALES[scale]:
            break
        part = _scaled(_decimal(following["number"], mark), following["scale"])
        if part is None:
            break
        total += Decimal(part)
        match, scale, end = following, following["scale"], following.end()
    return plain_number(total)
