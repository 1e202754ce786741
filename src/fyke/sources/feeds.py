"""Feeds: RSS 0.9x, 1.0 and 2.0, Atom and JSON Feed, each entry under the same names.

Of a malformed feed what can be read is read, and what is lost stands among the entries with its reason (P2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from html import unescape
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

from lxml import etree

from fyke.sources.faults import Misfit
from fyke.sources.joining import joined
from fyke.sources.markup import sane, squeeze
from fyke.sources.xmlpages import CUT, CUT_INSIDE, read_xml

NAMES: Final = ("id", "link", "title", "published", "updated", "summary", "content", "author")
MOST_ENTRIES: Final = 100_000

# Local names in order of preference; a prefix is one of those below.
_TAGS: Final = MappingProxyType(
    {
        "title": ("title", "dc:title"),
        "published": ("pubDate", "published", "dc:date", "issued", "dcterms:created", "created", "pubdate"),
        "updated": ("updated", "modified", "dcterms:modified", "atom:updated", "lastBuildDate"),
        "summary": ("description", "summary", "dc:description"),
        "content": ("content:encoded", "content", "xhtml:body", "fullitem"),
        "author": ("author", "dc:creator", "creator"),
    }
)
_SPACES: Final = MappingProxyType(
    {
        "http://purl.org/dc/elements/1.1/": "dc",
        "http://purl.org/dc/terms/": "dcterms",
        "http://purl.org/rss/1.0/modules/content/": "content",
        "http://www.w3.org/1999/xhtml": "xhtml",
        "http://search.yahoo.com/mrss/": "media",
        "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
        # The feeds' own name spaces: their elements bear no prefix.
        "http://www.w3.org/2005/Atom": "",
        "http://purl.org/atom/ns#": "",
        "http://purl.org/rss/1.0/": "",
        "http://my.netscape.com/rdf/simple/0.9/": "",
        "http://channel.netscape.com/rdf/simple/0.9/": "",
        "http://backend.userland.com/rss2": "",
    }
)
_ROOTS: Final = MappingProxyType({"rss": "item", "rdf": "item", "channel": "item", "feed": "entry"})
_ITEMS: Final = re.compile(r'"items"\s*:\s*\[')
_JSON_NAMES: Final = MappingProxyType(
    {"published": "date_published", "updated": "date_modified", "summary": "summary", "title": "title"}
)


class FeedEntry:
    """One entry. `get` takes the names of `NAMES`, or `prefix:name` for an extension. `lost`: why it is no entry."""

    __slots__ = ("_read", "lost", "raw")

    def __init__(self, read: Callable[[str], str | None], raw: Callable[[], str], lost: str = "") -> None:
        self._read, self.raw, self.lost = read, raw, lost

    def get(self, name: str) -> str | None:
        value = self._read(name)
        return sane(value).strip() or None if value else None


def lost_entry(reason: str, raw: str) -> FeedEntry:
    """What stands for an entry that could not be read."""
    return FeedEntry(lambda _: None, lambda: raw, reason)


def read_feed(text: str, url: str) -> list[FeedEntry]:
    """The entries of a feed in their order.

    Raises:
        Misfit: the text is no feed.
    """
    text = text.lstrip("\ufeff \t\r\n")
    return _read_json(text, url) if text.startswith(("{", "[")) else _read_xml(text, url)


def _read_json(text: str, url: str) -> list[FeedEntry]:
    cut = False
    try:
        data = json.loads(text, strict=False, parse_constant=_no_number)
        items = data.get("items") if isinstance(data, dict) else None
    except RecursionError as error:
        raise Misfit("the feed is nested too deep") from error
    except ValueError as error:
        items, cut = _read_whole_items(text), True
        if not items:
            raise Misfit(f"the feed is no JSON: {error}") from error
    if not isinstance(items, list):
        raise Misfit("the answer is no feed: it has no list 'items'")
    entries = [
        _json_entry(item, url)
        if isinstance(item, dict)
        else lost_entry("the entry is no JSON object", json.dumps(item, ensure_ascii=False))
        for item in items[: MOST_ENTRIES + 1]
    ]
    return [*entries, lost_entry(CUT, "(the end of the feed)")] if cut else entries


def _no_number(_: str) -> None:
    """NaN and Infinity: no JSON, and one key for many entries."""


def _read_whole_items(text: str) -> list[Any]:
    """The items of a feed that is cut off or broken, up to there."""
    start = _ITEMS.search(text)
    decoder, items = json.JSONDecoder(strict=False, parse_constant=_no_number), list[Any]()
    at = start.end() if start else len(text)
    while at < len(text) and len(items) <= MOST_ENTRIES:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            item, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        items.append(item)
    return items


def _json_entry(item: Mapping[str, Any], url: str) -> FeedEntry:
    def text(value: Any) -> str | None:
        if isinstance(value, float) and not isfinite(value):
            return None
        return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None

    def read(name: str) -> str | None:
        if name == "link":
            link = text(item.get("url")) or text(item.get("external_url"))
            return _absolute(url, link)
        if name == "content":
            return text(item.get("content_html")) or text(item.get("content_text"))
        if name == "author":
            authors = item.get("authors")
            author = item.get("author") or (authors[0] if isinstance(authors, list) and authors else None)
            return text(author.get("name")) if isinstance(author, dict) else None
        value = text(item.get(_JSON_NAMES.get(name, name)))
        return squeeze(value) if value and name == "title" else value

    return FeedEntry(read, lambda: json.dumps(item, ensure_ascii=False))


def _read_xml(text: str, url: str) -> list[FeedEntry]:
    page = read_xml(text, dict(_ROOTS))
    if isinstance(page, str):
        raise Misfit(f"the answer is no feed: it begins with <{page}>" if page else "the answer is no feed")
    entries = [_xml_entry(item, url) for item in page.parts[: MOST_ENTRIES + 1]]
    if page.cut:
        entries[-1].lost = CUT_INSIDE
    return [*entries, *(lost_entry(reason, f"({at})") for at, reason in enumerate(page.lost, len(entries)))]


def _name(element: etree._Element) -> str:
    """The element's name with its usual prefix, whatever prefix the document gives it."""
    tag: Any = element.tag  # of a comment it is a function
    if not isinstance(tag, str):
        return ""
    space, _, name = tag.rpartition("}")
    prefix = _SPACES.get(space[1:], element.prefix or "") if space else ""
    return f"{prefix}:{name}" if prefix else name


def _xml_entry(item: etree._Element, url: str) -> FeedEntry:
    parts: dict[str, list[etree._Element]] = {}
    for part in item:
        parts.setdefault(_name(part), []).append(part)

    def first(*names: str) -> str | None:
        for name in names:
            for part in parts.get(name, ()):
                if value := _inner(part):
                    return value
        return None

    def read(name: str) -> str | None:
        if name == "id":
            about = item.get("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about")
            return first("guid", "id") or about or first("dc:identifier")
        if name == "link":
            return _absolute(url, _link(parts))
        if name == "author":
            named = [part for author in parts.get("author", ()) for part in author if _name(part) == "name"]
            return squeeze((_inner(named[0]) if named else first(*_TAGS["author"])) or "")
        value = first(*_TAGS.get(name, (name,)))
        return squeeze(value) if value and name in ("title", "published", "updated") else value

    return FeedEntry(read, lambda: etree.tostring(item, encoding="unicode", with_tail=False))


def _inner(element: etree._Element) -> str:
    """The text of an element; of one with markup inside (xhtml), that markup."""
    if len(element) == 0:
        return (element.text or "").strip()
    if all(not isinstance(part.tag, str) for part in element):
        return "".join([element.text or "", *(part.tail or "" for part in element)]).strip()
    inner = "".join(etree.tostring(part, encoding="unicode") for part in element)
    return f"{element.text or ''}{inner}".strip()


def _link(parts: Mapping[str, list[etree._Element]]) -> str | None:
    fallback = None
    for part in parts.get("link", ()):
        href = (part.get("href") or "").strip()
        if href and part.get("rel", "alternate") == "alternate":
            return href
        text = _inner(part)
        if text and not href:
            return unescape(text)
        fallback = fallback or href or None
    for guid in parts.get("guid", ()):
        text = _inner(guid)
        if guid.get("isPermaLink", "true").lower() == "true" and text.startswith(("http://", "https://")):
            return text
    return fallback


def _absolute(url: str, link: str | None) -> str | None:
    if not link:
        return None
    return joined(url, "".join(link.split()))
