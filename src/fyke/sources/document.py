"""One page, parsed when it is asked for and once per parser.

Bounded: what would hold a parser for minutes (deep nesting, endless open formatting, giant tags) is a misfit.
"""

from __future__ import annotations

import json
import re
import zlib
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

from fyke.model import Response
from fyke.sources.faults import Misfit
from fyke.sources.feeds import FeedEntry, read_feed
from fyke.sources.labels import Labels
from fyke.sources.markup import sane, text_of_node
from fyke.sources.nesting import check_nesting
from fyke.sources.sitemaps import Sitemap, read_sitemap

# Twice what a sitemap may have by its own standard.
LARGEST_UNPACKED: Final = 100_000_000
_GZIP: Final = b"\x1f\x8b"
_ENCODED: Final = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']\s*([\w.:-]{2,40})", re.IGNORECASE)
_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]{0,200}\?>")


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

    def __init__(self, text: str, url: str, data: bytes | None = None, answer: Response | None = None) -> None:
        if data is None:
            text = text.replace("\0", "\ufffd")
            try:
                data = text.encode()
            except UnicodeEncodeError:
                text = sane(text)
                data = text.encode()
        self.text, self.data, self.url = text, data, url
        self._answer = answer
        self._texts: dict[int, str] = {}
        self._firsts: dict[str, LexborNode | None] = {}
        # The row and the selector that were last asked for together: an address and its title are one link.
        self._last: tuple[LexborNode | None, str, LexborNode | None] = (None, "", None)
        # The row that was last read by another parser than its own, and what came out.
        self.reread: tuple[Any, Any] | None = None
        self._page_labels: Labels | None = None
        self._row_labels: Labels | None = None

    @classmethod
    def of(cls, response: Response) -> Document:
        """The document of an answer; its bytes are parsed as they came where they are sound UTF-8.

        Raises:
            Misfit: a packed file (`.gz`) is broken or too large.
        """
        if response.body.startswith(_GZIP):
            return cls(unpacked(response.body), response.url)
        as_it_came = response.encoding_from == "utf-8" and not response.replaced and b"\0" not in response.body
        return cls(response.text, response.url, response.body if as_it_came else None, response)

    @cached_property
    def at(self) -> datetime | None:
        """When the page was answered: what it tells from its own moment (3小时前) is told from here."""
        return None if self._answer is None else answered_at(self._answer)

    @cached_property
    def html(self) -> LexborHTMLParser:
        check_nesting(self.text)
        return LexborHTMLParser(self.data)

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
    def sitemap(self) -> Sitemap:
        return read_sitemap(self.text, self.url)

    @cached_property
    def base(self) -> str:
        """What relative addresses are relative to: the page's own address, or its `<base href>`."""
        if any(mark in self.text for mark in ("<base", "<BASE", "<Base")):
            element = self.html.css_first("base[href]")
            href = (element.attributes.get("href") or "").strip() if element else ""
            if href:
                try:
                    base = urljoin(self.url, href)
                except ValueError:
                    return self.url
                return base if base.startswith(("http://", "https://")) else self.url
        return self.url

    @cached_property
    def origin(self) -> str:
        """Scheme and host of `base`: what an address that begins with one slash is put behind."""
        parts = urlsplit(self.base)
        return f"{parts.scheme}://{parts.netloc}"

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """The folder of `base`, the one above it, and so on to the host; nothing where the base is no address."""
        try:
            parts = urlsplit(self.base)
        except ValueError:
            return ()
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return ()
        names: list[str] = []
        for name in parts.path.split("/")[:-1]:
            if name == "..":
                del names[-1:]
            elif name not in ("", "."):
                names.append(name)
        return tuple("/".join((self.origin, *names[:count], "")) for count in range(len(names), -1, -1))

    @cached_property
    def names_pinned(self) -> bool:
        """Whether the page has the word 置顶 at all."""
        return "置顶" in self.text

    def text_of(self, node: LexborNode) -> str:
        """The text of a node of this page, made once: `ready` and fields often ask for the same one."""
        if node.parser is not self.html:
            return text_of_node(node)
        found = self._texts.get(node.mem_id)
        if found is None:
            found = self._texts[node.mem_id] = text_of_node(node)
        return found

    def first(self, query: str) -> LexborNode | None:
        """The first hit of a selector on the page, looked for once: `ready` and fields often ask for the same one."""
        if query not in self._firsts:
            self._firsts[query] = self.html.css_first(query)
        return self._firsts[query]

    def first_in(self, row: LexborNode, query: str, number: int | None = None) -> LexborNode | None:
        """The first hit of a selector in a row; `number` is the parser's where the selector is the name of a tag."""
        last = self._last
        if last[0] is row and last[1] == query:
            return last[2]
        found: LexborNode | None
        if number is None:
            found = row.css_first(query)
        else:
            # Rows are small: taking the query apart would take longer than the search.
            found = next((part for part in row.traverse() if part.tag_id == number), None)
        self._last = (row, query, found)
        return found

    def labels(self, node: LexborNode | None) -> Labels:
        """The label/value pairs of a row, or of the whole page; read once while the row is the same."""
        if node is None:
            if self._page_labels is None:
                self._page_labels = Labels(self.html.root)
            return self._page_labels
        if self._row_labels is None or self._row_labels.root is not node:
            self._row_labels = Labels(node)
        return self._row_labels


def answered_at(response: Response) -> datetime | None:
    """The moment of an answer by the site's clock, else by ours; None for a text that nobody fetched."""
    said = response.headers.get("date")
    if said:
        try:
            return parsedate_to_datetime(said).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    if not response.started_at:
        return None
    return datetime.fromtimestamp((response.started_at + response.elapsed_ms) / 1_000, UTC)


def unpacked(body: bytes) -> str:
    """The text of a gzip file, in the encoding that it declares, else UTF-8.

    Raises:
        Misfit: it is broken or cut off, or would be too large.
    """
    unpack = zlib.decompressobj(wbits=31)
    try:
        data = unpack.decompress(body, LARGEST_UNPACKED)
    except zlib.error as error:
        raise Misfit(f"the packed file cannot be read: {error}") from error
    if unpack.unconsumed_tail:
        raise Misfit(f"the packed file is larger than {LARGEST_UNPACKED:,} bytes")
    if not unpack.eof:
        raise Misfit("the packed file is cut off")
    declared = _ENCODED.match(data)
    try:
        return data.decode(declared[1].decode() if declared else "utf-8-sig", "replace")
    except LookupError:
        return data.decode("utf-8-sig", "replace")


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
