"""Sitemaps and their indexes: XML, or text with one address a line.

An address that is none (a real one says `None` five times) is no entry's address, so its row is refused and shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from lxml import etree
from msgspec import Struct

from fyke.sources.faults import Misfit
from fyke.sources.feeds import MOST_ENTRIES, FeedEntry, lost_entry
from fyke.sources.joining import joined
from fyke.sources.markup import squeeze
from fyke.sources.xmlpages import CUT_INSIDE, local_name, read_xml

NAMES: Final = ("loc", "lastmod", "changefreq", "priority")
MOST_PARTS: Final = 10_000  # of an index

_SPACES: Final = MappingProxyType(
    {
        "http://www.google.com/schemas/sitemap-news/0.9": "news",
        "http://www.google.com/schemas/sitemap-image/1.1": "image",
        "http://www.google.com/schemas/sitemap-video/1.1": "video",
        "http://www.w3.org/1999/xhtml": "xhtml",
    }
)
_ROOTS: Final = MappingProxyType({"urlset": "url", "sitemapindex": "sitemap"})


class SitemapEntry(FeedEntry):
    """One `<url>`. `get` takes loc, lastmod, changefreq, priority, and `news:title` and the like for extensions."""

    __slots__ = ()


class Sitemap(Struct):
    """`parts`: of an index, the addresses of the sitemaps that it names, else None. `doubt`: what of it is lost."""

    entries: list[FeedEntry]
    parts: list[str] | None = None
    doubt: str = ""


def read_sitemap(text: str, url: str) -> Sitemap:
    """A sitemap or an index.

    Raises:
        Misfit: the text is neither, or an index that names nothing.
    """
    lines = text.lstrip("\ufeff").split()
    if lines and lines[0].startswith(("http://", "https://")):
        return Sitemap([_of_line(line) for line in lines[: MOST_ENTRIES + 1]])
    page = read_xml(text, dict(_ROOTS))
    if isinstance(page, str):
        raise Misfit(f"the answer is no sitemap: it begins with <{page}>" if page else "the answer is no sitemap")
    if local_name(page.root) == "sitemapindex":
        return _index([address_of(_values(part).get("loc"), url) for part in page.parts], len(page.lost) + page.cut)
    entries: list[FeedEntry] = [_entry(part, url) for part in page.parts[: MOST_ENTRIES + 1]]
    if page.cut:
        entries[-1].lost = CUT_INSIDE
    return Sitemap([*entries, *(lost_entry(reason, f"({at})") for at, reason in enumerate(page.lost, len(entries)))])


def _index(addresses: list[str | None], lost: int) -> Sitemap:
    parts = list(dict.fromkeys(address for address in addresses if address))
    bad = addresses.count(None) + lost
    if not parts:
        raise Misfit("the index of sitemaps names none that has an address")
    if len(parts) > MOST_PARTS:
        raise Misfit(f"the index names more than {MOST_PARTS:,} sitemaps")
    return Sitemap([], parts, f"{bad} of the sitemaps that the index names could not be read from it" if bad else "")


def address_of(text: str | None, url: str) -> str | None:
    """A sitemap's addresses are whole ones; one from the root of the host is meant well, any other word is none."""
    found = "".join((text or "").split())
    if not found.startswith(("http://", "https://", "/")):
        return None
    whole = joined(url, found)
    # As it is written: joining drops an empty `?` or `#`, and two entries would become one.
    return found if whole is not None and not found.startswith("/") else whole


def _of_line(line: str) -> SitemapEntry:
    address = address_of(line, line)
    return SitemapEntry(lambda name: address if name == "loc" else None, lambda: line)


def _entry(part: etree._Element, url: str) -> SitemapEntry:
    values = _values(part)

    def read(name: str) -> str | None:
        value = values.get(name)
        return address_of(value, url) if name == "loc" else squeeze(value) if value else None

    return SitemapEntry(read, lambda: etree.tostring(part, encoding="unicode", with_tail=False))


def _values(part: etree._Element) -> Mapping[str, str]:
    """The first text of each name in the element, at any depth: `news:title` stands in `news:news`."""
    found: dict[str, str] = {}
    for inner in part.iterdescendants():
        tag: Any = inner.tag  # of a comment it is a function
        text = (inner.text or "").strip()
        if isinstance(tag, str) and text:
            space, _, name = tag.rpartition("}")
            prefix = _SPACES.get(space[1:], "") if space else ""
            found.setdefault(f"{prefix}:{name}" if prefix else name, text)
    return found
