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

# A value ends at a bar, or where the next `label:` begins.
_VALUE: Final = (
    rf"[\s{INLINE_EDGE}]*[：:][\s{INLINE_EDGE}]*(.*?)"
    rf"(?=$|[|｜]|(?:\s|{INLINE_EDGE}\s*)[{INLINE_EDGE}\s]*[^\s：:|{INLINE_EDGE}]{{1,14}}[{INLINE_EDGE}\s]*：)"
)


def plain(label: str) -> str:
    """A label as it is compared: no blanks, no colon at its end."""
    return "".join(squeeze(label).split()).rstrip("：:")


class Labels:
    """The pairs of one node."""

    def __init__(self, root: LexborNode | None) -> None:
        self.root = root

    @cached_property
    def pairs(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for label, value in self._cells():
            found.setdefault(label, []).append(value)
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
                if match and (value := squeeze(match[1].replace(INLINE_EDGE, ""))):
                    return value
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
