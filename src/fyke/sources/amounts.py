"""Numbers and sums of money as sites write them, into exact decimals as text. A true 0 stays 0.

A sum that is said twice (in figures and in characters, in 万元 and in 元) must be the same, or it is a doubt.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final

from fyke.sources.capitals import Sum, numeral, sums
from fyke.sources.faults import Doubt

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
        "PLN": ("PLN", "zł"),
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
# `1~2万元` is from one sum to another, and `50%` is a part of a sum.
_RANGE_BEFORE: Final = re.compile(
    rf"(?<![A-Za-z\d.,/\-])(?:\d+(?:[.,]\d+)*)\s?(?:亿|千万|百万|十万|万|千)?\s?(?:元|圆|{_ALL_MARKS})?\s?[-~–—至到]\s?$"
)
_RANGE_AFTER: Final = re.compile(r"\s?[-~–—至到]\s?(?=[^\s\d]{0,4}\d)")
_PERCENT: Final = re.compile(r"\s?[%‰]")
_FOLLOWING: Final = re.compile(rf"\s?(?P<number>{_NUMBER})\s?{_UNIT}")
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
# The sum and its unit alone, as a table's cell has it.
_CELL: Final = re.compile(r"([1-9]\d{0,14})(?:\.(\d{1,9}))? ?(亿|千万|百万|十万|万)?[元圆]", re.ASCII)
_DIGIT: Final = re.compile(r"\d")
# A number of 次, 人 or nothing in particular: 1.2万.
_COUNTED: Final = re.compile(
    r"\s?(?P<scale>亿|千万|百万|十万|万)(?=$|[^\w]|[次元圆人个条件户亩字阅看点平吨米册台套家+])"
)
_MEASURE: Final = (
    r"(?:个工作日|工作日|日历天|个月|标段|平方米|公里|万次|[个项家名人天日月年次条件份批台套包户期册页元米吨亩整])?"
)
_NUMERAL: Final = re.compile(
    rf"(?:[第约共]|合计|总计)?\s?(?P<number>[零〇一二三四五六七八九十百千万亿壹贰叁肆伍陆柒捌玖拾佰仟萬億两]+)\s?{_MEASURE}"
)
# What may stand between two writings of one sum.
_BETWEEN: Final = re.compile(
    r"(?:[\s()\[\]:,、;=¥元圆整正]|人民币|大写|小写|RMB|CNY|合计|总计|共计|金额|总价|即|计|为|是){0,30}"
)
_BRACKET: Final = re.compile(r"\s?(?:人民币)?\s?[(\[]\s?(?:即|合计?|小写|人民币|为|:|\s|¥|CNY|RMB){0,6}(?=[¥\d])")
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
    text = _normal(value)
    match = _FIRST.search(text)
    if match is None:
        return _in_characters(text)
    number = _decimal(match["number"], mark)
    scale = _COUNTED.match(text, match.end()) if number is not None else None
    return _scaled(number, scale["scale"] if scale else None)


def _in_characters(text: str) -> str | None:
    match = _NUMERAL.fullmatch(text.strip())
    number = numeral(match["number"]) if match else None
    return None if number is None else plain_number(number)


def read_money(value: Any, currency: str, mark: str = ".") -> str | None:
    """The sum in `value` in whole units of `currency`, as exact text.

    A number with a currency mark or a unit wins over one without. None where another currency stands beside it.

    Raises:
        Doubt: the sum is said twice, and the two differ.
    """
    if isinstance(value, (Decimal, int)) and not isinstance(value, bool):
        return read_number(value)
    cell = _CELL.fullmatch(value) if mark == "." and isinstance(value, str) else None
    if cell:
        return _shifted(cell[1], cell[2] or "", _SCALES[cell[3]] if cell[3] else 0)
    text = _normal(value)
    found = _figures(text, currency, mark) if _DIGIT.search(text) else None
    written = list(sums(text)) if currency == "CNY" else []
    if found is None:
        return plain_number(written[0].value) if written else None
    if found.foreign:
        return found.amount
    beside = next((one for one in written if _same_sum(text, found, one)), None)
    if beside is not None:
        return _agreed(text, found, beside)
    if written and not found.marked:
        # A bare number may be that of a lot; characters with 元 are money.
        return plain_number(written[0].value)
    return found.amount


@dataclass(frozen=True)
class _Figures:
    """A sum in figures and where it stands; `marked`: with a unit or a mark of its currency."""

    amount: str | None
    start: int
    end: int
    marked: bool = False
    foreign: bool = False


def _figures(text: str, currency: str, mark: str) -> _Figures | None:
    before = _UNIT_BEFORE.search(text) if "元" in text else None
    if before:
        amount = _scaled(_decimal(before["number"], mark), before["scale"])
        return _Figures(amount, before.start(), before.end(), marked=True)
    bare: _Figures | None = None
    own = _MARKS.get(currency, (currency,))
    for match in _MONEY.finditer(text):
        marks = [part.strip() for part in (match["before"], match["after"]) if part]
        if any(part not in own for part in marks):
            return _Figures(bare.amount if bare else None, *match.span(), foreign=True)
        amount = _scaled(_decimal(match["number"], mark), match["scale"])
        if marks or match["yuan"] or match["scale"]:
            if amount is None:
                return _Figures(None, *match.span(), marked=True)
            total, end = _with_rest(amount, text, match, mark)
            _refuse_range(text, match, end)
            said = _Figures(total, match.start(), end, marked=True)
            return _said_again(text, said, match, mark) if match["scale"] or match["yuan"] else said
        if bare is None and not _PERCENT.match(text, match.end()):
            # The first number counts, also where it cannot be read: the next one is another thing.
            bare = _Figures(amount, *match.span())
    return bare


def _refuse_range(text: str, match: re.Match[str], end: int) -> None:
    """Either end of `10万元至20万元` would be a sum that nobody said."""
    after = _RANGE_AFTER.match(text, end)
    upper = _MONEY.match(text, after.end()) if after else None
    second = upper is not None and (upper["before"] or upper["after"] or upper["yuan"] or upper["scale"])
    if second or _RANGE_BEFORE.search(text[max(0, match.start() - 40) : match.start()]):
        raise Doubt(f"the sum is a range: {text[max(0, match.start() - 20) : (upper.end() if upper else end)].strip()}")


def _said_again(text: str, found: _Figures, match: re.Match[str], mark: str) -> _Figures:
    """`56.98万元（569812元）` is one sum twice: the finer one counts, where the other is it rounded."""
    bracket = _BRACKET.match(text, found.end)
    again = _MONEY.match(text, bracket.end()) if bracket else None
    if again is None or not (again["yuan"] or again["scale"]) or (again["after"] or "").strip() not in ("", "人民币"):
        return found
    amount = _scaled(_decimal(again["number"], mark), again["scale"])
    if amount is None or found.amount is None:
        return found
    if match["scale"] and again["scale"] == match["scale"]:
        quantum = Decimal(0)
    else:
        quantum = max(_quantum(match, mark), _quantum(again, mark))
    first, second = Decimal(found.amount), Decimal(amount)
    if abs(first - second) * 2 > quantum:
        raise Doubt(f"the sum is said twice and differs: {found.amount} and {amount}")
    finer = amount if _quantum(again, mark) < _quantum(match, mark) else found.amount
    return _Figures(finer, found.start, again.end(), marked=True)


def _quantum(match: re.Match[str], mark: str) -> Decimal:
    """What the last digit of a number counts, in whole units."""
    number = _decimal(match["number"], mark) or Decimal(0)
    exponent = number.as_tuple().exponent
    places = exponent if isinstance(exponent, int) else 0
    return Decimal(1).scaleb(places + (_SCALES[match["scale"]] if match["scale"] else 0))


def _same_sum(text: str, figures: _Figures, written: Sum) -> bool:
    first, second = sorted(((figures.start, figures.end), (written.start, written.end)))
    return second[0] >= first[1] and _BETWEEN.fullmatch(text, first[1], second[0]) is not None


def _agreed(text: str, figures: _Figures, written: Sum) -> str | None:
    said = plain_number(written.value)
    if figures.amount is None or Decimal(figures.amount) == written.value:
        return figures.amount or said
    raise Doubt(
        f"the sum is said twice and differs: {figures.amount} in figures, {said} in characters"
        f" ({text[written.start : written.end]})"
    )


def _shifted(whole: str, part: str, places: int) -> str:
    digits = whole + part[:places].ljust(places, "0")
    return f"{digits}.{part[places:]}" if len(part) > places else digits


def _scaled(number: Decimal | None, scale: str | None) -> str | None:
    if number is None:
        return None
    return plain_number(number.scaleb(_SCALES[scale]) if scale else number)


def _with_rest(amount: str, text: str, match: re.Match[str], mark: str) -> tuple[str | None, int]:
    """`3亿5000万元` is one sum: parts that follow each other, each of a smaller unit, are added; and where it ends."""
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
    return plain_number(total), end
