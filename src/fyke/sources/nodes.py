"""What a selector ends on (nodes of three parsers, JSON, text), and how each becomes text, HTML or a stored value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import tzinfo
from decimal import Decimal
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

from fyke.model import ColumnType
from fyke.sources.amounts import plain_number, read_number
from fyke.sources.document import Document, parse_tree
from fyke.sources.faults import Misfit
from fyke.sources.feeds import FeedEntry
from fyke.sources.markup import sane, squeeze, text_of_element, text_of_node
from fyke.sources.timestamps import AUTO, CANONICAL, read_time

Element = etree._Element

LONGEST_SEARCHED: Final = 1_000_000
DEEPEST_JSON: Final = 200
LARGEST_INTEGER: Final = 2**63 - 1
_AROUND: Final = MappingProxyType(
    {
        **dict.fromkeys(("tbody", "thead", "tfoot", "caption", "colgroup"), "<table>"),
        "tr": "<table><tbody>",
        **dict.fromkeys(("td", "th"), "<table><tbody><tr>"),
        **dict.fromkeys(("option", "optgroup"), "<select>"),
    }
)
# A number as `read_number` writes it.
_EXACT: Final = re.compile(r"(?:0|[1-9]\d{0,17})(?:\.\d{1,18})?", re.ASCII)
_TRUE: Final = frozenset(("true", "yes", "1", "是"))
_FALSE: Final = frozenset(("false", "no", "0", "否"))


class Context:
    """What selectors and steps may know of the page and row in hand."""

    __slots__ = ("document", "fields", "flags", "row", "values", "zone")

    def __init__(self, document: Document, zone: tzinfo, values: Mapping[str, str], fields: dict[str, Any]) -> None:
        self.document, self.zone, self.values, self.fields = document, zone, values, fields
        # The row being read; None stands for the whole page.
        self.row: Any = None
        # Doubts about values, for people.
        self.flags: list[str] = []


class StepContext:
    """What a python step gets besides the value."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def url(self) -> str:
        """The page's final address."""
        return self._context.document.url

    @property
    def text(self) -> str:
        """The page's text."""
        return self._context.document.text

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields read before this one: of the row, of earlier hops and of this page."""
        return MappingProxyType(self._context.fields)

    @property
    def listing(self) -> Mapping[str, str]:
        """The listing's values of `each`; empty on a detail page."""
        return MappingProxyType(dict(self._context.values))


# What a step is once it is made.
Run: TypeAlias = Callable[[Any, Context], Any]


def text_of(value: Any) -> str | None:
    """The text of whatever a selector ended on; None where it ended on nothing."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, LexborNode):
        return text_of_node(value)
    if isinstance(value, Element):
        return text_of_element(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return plain_number(value) or str(value)
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, FeedEntry):
        return squeeze(value.raw())
    return json.dumps(plain_json(value), ensure_ascii=False)


def html_of(value: Any) -> str | None:
    """The HTML of a node with its own tag; text as it is."""
    if isinstance(value, LexborNode):
        return value.html
    if isinstance(value, Element):
        return etree.tostring(value, method="html", encoding="unicode", with_tail=False)
    return text_of(value)


def raw_of(value: Any, document: Document) -> str:
    """What a person is shown of a row, and what `regex` reads: its source."""
    if value is None:
        return document.text
    if isinstance(value, FeedEntry):
        return value.raw()
    return html_of(value) or ""


def lexbor_of(value: Any, document: Document) -> LexborNode | None:
    """The node that CSS starts from. A row found by XPath is read once more by the parser of CSS."""
    if value is None:
        return document.html.root
    if isinstance(value, LexborNode):
        return value
    if document.reread is None or document.reread[0] is not value:
        html, tag = _outer_html(value)
        document.reread = (value, LexborHTMLParser(html).css_first(tag))
    found: LexborNode | None = document.reread[1]
    return found


def element_of(value: Any, document: Document) -> Element:
    """The element that XPath starts from. A row found by CSS is read once more by the parser of XPath."""
    if value is None:
        return document.tree
    if isinstance(value, Element):
        return value
    if document.reread is None or document.reread[0] is not value:
        html, tag = _outer_html(value)
        tree = parse_tree(html)
        document.reread = (value, next(tree.iter(tag), tree))
    found: Element = document.reread[1]
    return found


def _outer_html(value: Any) -> tuple[str, str]:
    """A page with the node alone, inside what its tag must stand in, and the tag."""
    html = html_of(value) or ""
    tag = (value.tag if isinstance(value, (LexborNode, Element)) else None) or "body"
    before = _AROUND.get(tag, "")
    return f"<!doctype html><html><body>{before}{html}", tag


def is_empty(value: Any) -> bool:
    """Whether a value counts as none: nothing, blank text, an empty list or mapping. 0 and false are values."""
    return value is None or (isinstance(value, (str, list, dict)) and not value)


def plain_json(value: Any, depth: int = 0) -> Any:
    """JSON as the ledger holds it: numbers that are no whole ones as floats (larger ones as text), texts that every
    database takes.

    Raises:
        Misfit: it is nested too deep.
    """
    if depth > DEEPEST_JSON:
        raise Misfit(f"a JSON value is nested more than {DEEPEST_JSON} deep")
    if isinstance(value, Decimal):
        found = float(value)
        return found if isfinite(found) else str(value)
    if isinstance(value, str):
        return sane(value)
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {sane(str(name)): plain_json(part, depth + 1) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(part, depth + 1) for part in value]
    return value if value is None or isinstance(value, (bool, int, float)) else text_of(value)


def stored_value(value: Any, kind: ColumnType, zone: tzinfo) -> Any:
    """The value in the one form that its column takes, or None where it has none. Doing it twice changes nothing."""
    if value is None:
        return None
    if kind is ColumnType.TEXT and isinstance(value, str):
        return sane(value.strip()) or None
    if kind is ColumnType.JSON:
        found = plain_json(value)
        return None if is_empty(found) else found
    if kind is ColumnType.BOOLEAN:
        return _boolean(value)
    if kind in (ColumnType.NUMBER, ColumnType.INTEGER):
        if kind is ColumnType.NUMBER and isinstance(value, str) and _EXACT.fullmatch(value):
            return value
        number = read_number(value if isinstance(value, (int, Decimal)) else text_of(value))
        if number is None or kind is ColumnType.NUMBER:
            return number
        whole = int(Decimal(number))
        return whole if whole == Decimal(number) and abs(whole) <= LARGEST_INTEGER else None
    if kind is ColumnType.DATETIME and isinstance(value, str) and CANONICAL.fullmatch(value):
        return value
    text = sane((text_of(value) or "").strip())
    if not text:
        return None
    if kind is ColumnType.DATETIME and not CANONICAL.fullmatch(text):
        return read_time(text, (AUTO,), zone)
    return text


def _boolean(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    text = (text_of(value) or "").strip().lower()
    return True if text in _TRUE else False if text in _FALSE else None
