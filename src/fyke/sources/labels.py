"""Labels and their values: pairs of table cells, definition lists, and `标签：值` in running text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from selectolax.lexbor import LexborNode

from fyke.sources.markup import INLINE_EDGE, lines_of_html, squeeze, text_of_html, text_of_node

MOST_CELLS: Final = 20_000
LONGEST_LABEL: Final = 60
LONGEST_TEXT: Final = 500_000

_UNITS: Final = "亿元|千万元|百万元|十万元|万元|元"
# `预算金额（万元）` is the label 预算金额, and 56.98 beside it are 万元.
_MEASURED: Final = re.compile(rf"(?P<label>.+)[（(](?:单位[：:]?)?(?:人民币)?(?P<unit>{_UNITS})(?:人民币)?[)）]")
_BARE_NUMBER: Final = re.compile(r"[¥￥]?\s*\d[\d,，.]*")

# A value ends at a bar, or where the next `label:` begins.
_VALUE: Final = (
    rf"[\s{INLINE_EDGE}]*(?:[（(][\s{INLINE_EDGE}]*(?:单位[：:]?)?(?:人民币)?(?P<unit>{_UNITS})(?:人民币)?[\s{INLINE_EDGE}]*[)）])?"
    rf"[\s{INLINE_EDGE}]*[：:][\s{INLINE_EDGE}]*(?P<value>.*?)"
    rf"(?=$|[|｜]|(?:\s|{INLINE_EDGE}\s*)[{INLINE_EDGE}\s]*[^\s：:|{INLINE_EDGE}]{{1,14}}[{INLINE_EDGE}\s]*：)"
)


def plain(label: str) -> str:
    """A label as it is compared: no blanks, no colon at its end."""
    return "".join(squeeze(label).split()).rstrip("：:")


def measured(label: str) -> tuple[str, str]:
    """A label without the unit in brackets at its end, and that unit; "" where it has none."""
    match = _MEASURED.fullmatch(label)
    return (match["label"], match["unit"]) if match else (label, "")


def in_unit(value: str, unit: str) -> str:
    """A bare number with the unit that its label says."""
    return f"{value}{unit}" if unit and _BARE_NUMBER.fullmatch(value.strip()) else value


class Labels:
    """The pairs of one node."""

    def __init__(self, root: LexborNode | None) -> None:
        self.root = root

    @cached_property
    def pairs(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for label, value in self._cells():
            name, unit = measured(label)
            found.setdefault(label, []).append(in_unit(value, unit))
            if unit:
                found.setdefault(name, []).append(in_unit(value, unit))
        return found

    @cached_property
    def lines(self) -> list[str]:
        return lines_of_html((self.root.html or "")[:LONGEST_TEXT]) if self.root is not None else []

    def value(self, names: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> str | None:
        """The first non-empty value: of table cells and lists, label by label, then of running text."""
        for name in names:
            for value in self.pairs.get(name, ()):
                if value:
                    return value
        for pattern in patterns:
            for line in self.lines:
                match = pattern.search(line)
                if match and (value := squeeze(match["value"].replace(INLINE_EDGE, ""))):
                    return in_unit(value, match["unit"] or "")
        return None

    def _cells(self) -> Iterator[tuple[str, str]]:
        if self.root is None:
            return
        for cell in self.root.css("th, td, dt")[:MOST_CELLS]:
            follower = cell.next
            while follower is not None and not follower.is_element_node:
                follower = follower.next
            if follower is None or follower.tag not in ("td", "dd"):
                continue
            html = cell.inner_html or ""
            # A label is short; a cell with a table inside is layout.
            if len(html) > 2_000 or "<td" in html:
                continue
            label = plain(text_of_html(html))
            if label and len(label) <= LONGEST_LABEL and not _in_head(cell):
                yield label, text_of_node(follower)


def _in_head(cell: LexborNode) -> bool:
    row = cell.parent
    return row is not None and row.parent is not None and row.parent.tag == "thead"


def label_pattern(name: str) -> re.Pattern[str]:
    """Finds `label：value` in a line, also with blanks inside the label."""
    inner = rf"[\s{INLINE_EDGE}]*".join(re.escape(char) for char in plain(name))
    return re.compile(rf"(?<![\w])(?:{inner}){_VALUE}")
