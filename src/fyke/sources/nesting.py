"""Markup that is built to hold a parser, told by its tags before it is parsed.

The parsers' work grows with the square of the nesting, of open formatting elements and of attributes: 200,000 nested
elements in a page of 2 MB take minutes. Such a page is a misfit.
"""

from __future__ import annotations

import re
from typing import Final

from fyke.sources.faults import Misfit

DEEPEST: Final = 10_000
MOST_OPEN_FORMATS: Final = 500
MOST_ATTRIBUTES: Final = 10_000

# Elements that close each other, and those without content, do not nest.
_FLAT: Final = frozenset(
    (
        *("p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup"),
        *("caption", "rp", "rt", "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr"),
    )
)
# `a` and `nobr` are not among them: each closes the one that is open before it.
_FORMATS: Final = frozenset(("b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"))
# Inside a cell no formatting element is open that was opened outside it.
_EDGES: Final = frozenset(("td", "th", "caption"))
_ANY_TAG: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)")
_FORMAT_TAG: Final = re.compile(r"<(?:[bBiIsSuU]|[bB][iI][gG]|[eE][mM]|[tT][tT]|[cC][oO]|[fF][oO]|[sS][mMtT])[\w\s>]")
_GIANT_TAG: Final = re.compile(r"<[a-zA-Z][^<>]{65536,}")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")


def check_nesting(html: str) -> None:
    """Raise a Misfit for a page that no parser should be given."""
    tags = html.count("<")
    if tags > DEEPEST or (tags > MOST_OPEN_FORMATS and len(_FORMAT_TAG.findall(html)) > MOST_OPEN_FORMATS):
        _check_tags(html)
    if len(html) > 65_536:
        for giant in _GIANT_TAG.finditer(html):
            if len(_QUOTED.sub("", giant[0]).split()) > MOST_ATTRIBUTES:
                raise Misfit(f"an element has more than {MOST_ATTRIBUTES:,} attributes")


def _check_tags(html: str) -> None:
    depth = formats = 0
    for tag in _ANY_TAG.finditer(html):
        name = tag[2].lower()
        step = -1 if tag[1] else 1
        if name in _FORMATS:
            formats = max(0, formats + step)
            if formats > MOST_OPEN_FORMATS:
                raise Misfit(f"more than {MOST_OPEN_FORMATS} formatting elements are open at once")
        elif name in _EDGES:
            formats = 0
        elif name not in _FLAT:
            depth = max(0, depth + step)
            if depth > DEEPEST:
                raise Misfit(f"elements are nested more than {DEEPEST:,} deep")
