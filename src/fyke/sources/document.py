"""One page, parsed when it is asked for and once per parser.

Bounded: what would hold a parser for minutes (deep nesting, endless open formatting, giant tags) is a misfit.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Final
from urllib.parse import urljoin

from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

from fyke.sources.faults import Misfit
from fyke.sources.feeds import FeedEntry, read_feed
from fyke.sources.labels import Labels
from fyke.sources.markup import sane

DEEPEST: Final = 10_000
MOST_OPEN_FORMATS: Final = 500
MOST_ATTRIBUTES: Final = 10_000
LONGEST_NUMBER: Final = 400

# Below so many tags no nesting can take long.
_FEW_TAGS: Final = 2_000
# Elements that close each other, and those without content, do not nest.
_FLAT: Final = frozenset(
    (
        *("p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup"),
        *("caption", "rp", "rt", "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr"),
    )
)
_FORMATS: Final = 500
MOST_ATTRIBUTES: Final = 10_000
LONGEST_NUMBER: Final = 400

# Below so many tags no nesting can take long.
_FEW_TAGS: Final = 2_000
# Elements that close each other, and those without content, do not nest.
_FLAT: Final = frozenset(
    (
        "p",
        "li",
        "dt",
        "dd",
        "tr",
        "td",
        "th",
        "thead",
        "tbody",
        "tfoot",
        "option",
        "optgroup",
        "colgroup",
        "caption",
        "rp",
        "rt",
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    )
)
_FORMATS: Final = frozenset(
    ("a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u")
)
_EDGES: Final = frozenset(("td", "th", "caption"))
_ANY_TAG: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)")
_GIANT_TAG: Final = re.compile(r"<[a-zA-Z][^<>]{65536,}")
_QUOTED: Final = re.compile(r"""[^"]*"|'[^']*'""")
_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]{0,200}\?>")


def check_nesting(html: str) -> None:
    """Raise a Misfit for markup that is built to hold a parser: its work grows with the square of the depth."""
    if html.count("<") > _FEW_TAGS:
        depth = deepest = formats = 0
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
                deepest = max(deepest, depth)
        if deepest > DEEPEST:
            raise Misfit(f"elements are nested more than {DEEPEST:,} deep")
    for giant in _GIANT_TAG.finditer(html):
        if len(_QUOTED.sub("", giant[0]).split()) > MOST_ATTRIBUTES:
            raise Misfit(f"an element has more than {MOST_ATTRIBUTES:,} attributes")


def read_number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"no number: {text[:50]}") from error


def read_json(text: str) -> Any:
    """JSON with exact decimals.

    Raises:
        Misfit: it is no JSON, or nested too deep, or holds a number of absurd length.
    """
    try:
        return json.loads(text.lstrip("\ufeff"), parse_float=read_number, parse_constant=lambda _: None)
    except RecursionError as error:
        raise Misfit("the JSON is nested too deep") from error
    except ValueError as error:
        raise Misfit(f"the answer is no JSON: {error}") from error


class Document:
    """The text of a response and what parsers make of it."""

    def __init__(self, text: str, url: str) -> None:
        self.text = sane(text)
        self.url = url
        self._labels: dict[int, Labels] = {}

    @cached_property
    def html(self) -> LexborHTMLParser:
        check_nesting(self.text)
        return LexborHTMLParser(self.text)

    @cached_property
    def tree(self) -> etree._Element:
        return parse_tree(self.text)

    @cached_property
    def json(self) -> Any:
        return read_json(self.text)

    @cached_property
    def feed(self) -> list[FeedEntry]:
        return read_feed(self.text, self.url)

    @cached_property
    def base(self) -> str:
        """What relative addresses are relative to: the page's own address, or its `<base href>`."""
        if "<base" in self.text or "<BASE" in self.text:
            element = self.html.css_first("base[href]")
            href = (element.attributes.get("href") or "").strip() if element else ""
            if href:
                try:
                    base = urljoin(self.url, href)
                except ValueError:
                    return self.url
                return base if base.startswith(("http://", "https://")) else self.url
        return self.url

    def labels(self, node: LexborNode | None) -> Labels:
        """The label/value pairs of a node, or of the whole page; read once."""
        key = node.mem_id if node is not None else 0
        found = self._labels.get(key)
        if found is None:
            root = node if node is not None else self.html.root
            found = self._labels[key] = Labels(root)
        return found


def parse_tree(html: str) -> etree._Element:
    """HTML for XPath.

    Raises:
        Misfit: nested so deep that the parser would leave parts out, or empty.
    """
    check_nesting(html)
    text = _DECLARATION.sub("", html).replace("\0", "\ufffd")
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True)
    root = etree.fromstring(text.encode(), parser) if text.strip() else None
    if root is None:
        raise Misfit("the page is empty")
    if any("depth" in entry.message.lower() for entry in parser.error_log):
        raise Misfit("elements are nested too deep for XPath")
    return root
