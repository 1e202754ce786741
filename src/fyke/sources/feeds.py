"""Feeds: RSS 0.9x, 1.0 and 2.0, Atom and JSON Feed, each entry under the same names.

Of a malformed feed what can be read is read; entities are never expanded and nothing is loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from html import unescape
from html.entities import html5
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urljoin

from lxml import etree

from fyke.sources.faults import Misfit
from fyke.sources.markup import sane, squeeze

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
_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]{0,200}\?>")
_ENTITY: Final = re.compile(r"&([a-zA-Z][a-zA-Z0-9]{1,31});")
_XML_ENTITIES: Final = frozenset(("amp", "lt", "gt", "quot", "apos"))
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_JSON_NAMES: Final = MappingProxyType(
    {"published": "date_published", "updated": "date_modified", "summary": "summary", "title": "title"}
)


class FeedEntry:
    """One entry. `get` takes the names of `NAMES`, or `prefix:name` for an extension."""

    __slots__ = ("_read", "raw")

    def __init__(self, read: Callable[[str], str | None], raw: Callable[[], str]) -> None:
        self._read, self.raw = read, raw

    def get(self, name: str) -> str | None:
        value = self._read(name)
        return sane(value).strip() or None if value else None


def read_feed(text: str, url: str) -> list[FeedEntry]:
    """The entries of a feed in their order.

    Raises:
        Misfit: the text is no feed.
    """
    text = text.lstrip("\ufeff \t\r\n")
    return _read_json(text, url) if text.startswith(("{", "[")) else _read_xml(text, url)


def _read_json(text: str, url: str) -> list[FeedEntry]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Misfit(f"the feed is no JSON: {error}") from error
    items = data.get("items") if isinstance(data, dict) else None
    if not isinstance(items, list):
        raise Misfit("the answer is no feed: it has no list 'items'")
    return [_json_entry(item, url) for item in items[:MOST_ENTRIES] if isinstance(item, dict)]


def _json_entry(item: Mapping[str, Any], url: str) -> FeedEntry:
    def text(value: Any) -> str | None:
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


def _known_entity(match: re.Match[str]) -> str:
    """HTML's entities, which XML does not know, as characters; those of XML stay."""
    name = match[1]
    if name in _XML_ENTITIES:
        return match[0]
    char = html5.get(f"{name};")
    return match[0] if char is None or char in "<>&\"'" else char


def _read_xml(text: str, url: str) -> list[FeedEntry]:
    text = _UNREADABLE.sub("\ufffd", _DECLARATION.sub("", text))
    if "<!DOCTYPE" not in text[:2_000]:
        text = _ENTITY.sub(_known_entity, text)
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, load_dtd=False, encoding="utf-8", remove_pis=True
    )
    root = etree.fromstring(text.encode(), parser) if text.strip() else None
    kind = etree.QName(root).localname.lower() if root is not None and isinstance(root.tag, str) else ""
    if root is None or kind not in ("rss", "rdf", "feed", "channel"):
        raise Misfit(f"the answer is no feed: it begins with <{kind}>" if kind else "the answer is no feed")
    wanted = "entry" if kind == "feed" else "item"
    found = [part for part in root.iter("{*}" + wanted) if part.getparent() is not None]
    return [_xml_entry(item, url) for item in found[:MOST_ENTRIES]]


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
    try:
        return urljoin(url, "".join(link.split()))
    except ValueError:
        return None
