"""Numbers in Chinese characters, of everyday writing (三百二十) and of cheques (叁佰贰拾元整), into exact decimals.

What can be read in two ways (两百五: 250 or 205?) is not read: a sum is never wrong by a factor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Final, NamedTuple

LONGEST: Final = 60

_DIGITS: Final = "零一二三四五六七八九"
_PLAIN: Final = str.maketrans(
    "〇○Ｏ壹弌贰貳弍两兩叁參叄弎肆伍陆陸柒捌玖拾佰仟萬億圆圓",
    "零零零一一二二二二二三三三三四五六六七八九十百千万亿元元",
)
_CHARS: Final = "零〇○一二三四五六七八九十百千万亿壹弌贰貳弍两兩叁參叄弎肆伍陆陸柒捌玖拾佰仟萬億"
_LEAF: Final = re.compile(
    r"(?P<before>零*)(?:(?P<thousands>[一二三四五六七八九])千)?(?P<gap1>零*)(?:(?P<hundreds>[一二三四五六七八九])百)?"
    r"(?P<gap2>零*)(?:(?P<tens>[一二三四五六七八九])?(?P<ten>十))?(?P<gap3>零*)(?P<ones>[一二三四五六七八九])?零*"
)
_GROUPS: Final = (("亿", 10**8), ("万", 10**4))
_DIGIT: Final = "[零〇一二三四五六七八九壹贰貳叁參肆伍陆陸柒捌玖]"
_SMALL: Final = rf"零?(?:(?P<jiao>{_DIGIT})\s?角)?\s?零?(?:(?P<fen>{_DIGIT})\s?分)?(?:\s?[整正])?"
_SUM: Final = re.compile(rf"(?P<whole>[{_CHARS}][{_CHARS}\s]{{0,{LONGEST}}})(?:[元圆圓]\s?{_SMALL})")
_CENTS: Final = re.compile(rf"(?:(?P<jiao>{_DIGIT})角零?(?:(?P<fen>{_DIGIT})分)?|(?P<only>{_DIGIT})分)[整正]")
# Without 元 only where a word before says that it is money.
_NAMED: Final = re.compile(
    rf"(?:人民币|大写)[)）：:\s]{{0,3}}(?P<whole>[{_CHARS}]{{2,{LONGEST}}})(?![{_CHARS}\d元圆圓])"
)
_MARK: Final = re.compile(rf"[{_CHARS}]\s?[元圆圓角分]|(?:人民币|大写)[)）：:\s]{{0,3}}[{_CHARS}]")


class Sum(NamedTuple):
    """A sum in characters and where it stands in the text."""

    start: int
    end: int
    value: Decimal


def numeral(text: str) -> Decimal | None:
    """The whole number that these characters are; None for what is none, or is one in two ways."""
    plain = "".join(text.split()).translate(_PLAIN)
    if not plain or len(plain) > LONGEST:
        return None
    if all(char in _DIGITS for char in plain):
        # 二〇二四: digit by digit.
        return Decimal("".join(str(_DIGITS.index(char)) for char in plain))
    found = _grouped(plain)
    return None if found is None else Decimal(found)


def _grouped(text: str) -> int | None:
    for name, size in _GROUPS:
        left, mark, right = text.rpartition(name)
        if not mark:
            continue
        if name in left:
            return None
        high = _grouped(left) if left else None
        low = _grouped(right) if right.strip("零") else 0
        # 三万五 is 35,000 when spoken, and 30,005 on a cheque whose writer forgot the 零.
        if not high or low is None or low >= size or (len(right) == 1 and low):
            return None
        return high * size + low
    return _leaf(text)


def _leaf(text: str) -> int | None:
    match = _LEAF.fullmatch(text)
    if match is None:
        return None
    part = match.groupdict()
    thousands, hundreds, ones = (
        _DIGITS.index(part[name]) if part[name] else 0 for name in ("thousands", "hundreds", "ones")
    )
    tens = (_DIGITS.index(part["tens"]) if part["tens"] else 1) if part["ten"] else 0
    alone = (thousands or hundreds) and not tens and ones
    if alone and not (part["gap1"] or part["gap2"] or part["gap3"]):
        return None
    return thousands * 1_000 + hundreds * 100 + tens * 10 + ones


def sums(text: str) -> Iterator[Sum]:
    """The sums in characters, in order: 贰佰万元整, 三千元, 人民币伍拾万, 伍角整."""
    if not _MARK.search(text):
        return
    found = []
    for pattern in (_SUM, _NAMED, _CENTS):
        for match in pattern.finditer(text):
            value = _value(match)
            if value is not None:
                found.append(Sum(match.start(), match.end(), value))
    found.sort()
    inside = {later for earlier, later in pairwise(found) if later.start < earlier.end}
    yield from (each for each in found if each not in inside)


def _value(match: re.Match[str]) -> Decimal | None:
    part = match.groupdict()
    whole = numeral(part["whole"]) if part.get("whole") else Decimal(0)
    if whole is None:
        return None
    cents = 10 * _digit(part.get("jiao")) + _digit(part.get("fen") or part.get("only"))
    return whole + Decimal(cents).scaleb(-2) if cents else whole


def _digit(char: str | None) -> int:
    return _DIGITS.index(char.translate(_PLAIN)) if char else 0
