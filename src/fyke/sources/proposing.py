"""`fyke new`: from an answer to proposed source files. Pure: a response in, proposals out, each loaded and tried on it.

What is proposed is read by the very code that would run it, so that a person judges what a run would bring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from fyke.errors import UsageError
from fyke.model import ListPage, Outcome, Response
from fyke.sources.compile import compile_source
from fyke.sources.document import Document
from fyke.sources.faults import Misfit
from fyke.sources.feeds import FeedEntry
from fyke.sources.proposing_fields import FieldFound, fields_of, key_rule
from fyke.sources.proposing_json import json_fields, records_of
from fyke.sources.proposing_markup import joined, squeezed
from fyke.sources.proposing_pages import pages_by_name, pages_of
from fyke.sources.proposing_rows import RowGroup, row_groups
from fyke.sources.proposing_text import source_text
from fyke.sources.source import FileSource
from fyke.sources.yamlfile import parse_yaml

MOST_FEEDS: Final = 3
MOST_KNOWN: Final = 40
FEED_TYPES: Final = re.compile(r"application/(?:(?:rss|atom|rdf)\+xml|feed\+json)", re.IGNORECASE)
_SITEMAP: Final = re.compile(r"<(?:\w+:)?(?:urlset|sitemapindex)[\s>]")
_CHINESE: Final = re.compile("[\u4e00-\u9fff]")
_FEED_FIELDS: Final = ("id", "link", "title", "published", "updated", "summary")


@dataclass(frozen=True)
class Asked:
    """What was asked for: the address as typed, the form of a POST, and what a person said besides."""

    url: str
    form: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    private: bool = False


@dataclass(frozen=True)
class Proposal:
    """A source file that loads, and what it reads on the page. `notes` are for a person, one line each."""

    kind: str
    url: str
    text: str
    source: FileSource
    page: ListPage
    notes: list[str]


def propose(response: Response, asked: Asked) -> list[Proposal]:
    """The proposals for one answer, best first; none where nothing on it repeats.

    Raises:
        Misfit: the page is one that parsers cannot bear.
    """
    document = Document.of(response)
    text = document.text.lstrip("\ufeff \t\r\n")
    if text.startswith(("{", "[")):
        made = (_of_feed(document, asked) if _says_feed(document) else None) or _of_json(document, response, asked)
        return _tried([made], response, asked)
    if text.startswith("<?xml") or re.match(r"<(?:rss|feed|rdf:RDF|urlset|sitemapindex)\b", text):
        made = _of_sitemap(document, asked) or _of_feed(document, asked)
        if made is not None:
            return _tried([made], response, asked)
    return _tried(list(_of_html(document, response, asked)), response, asked)


def _says_feed(document: Document) -> bool:
    """Whether JSON is a JSON Feed: many another answer keeps its records in `items`, too."""
    return "jsonfeed.org/version" in document.text[:5_000] or "jsonfeed.org/version" in document.text[-5_000:]


def named_feeds(response: Response) -> list[str]:
    """The feeds and the sitemap that a page names in its head, at most three."""
    document = Document.of(response)
    if document.text.lstrip("\ufeff \t\r\n").startswith(("{", "[", "<?xml")):
        return []
    found: dict[str, None] = {}
    for link in document.html.css("link[rel][href]"):
        words = (link.attributes.get("rel") or "").lower().split()
        kind = (link.attributes.get("type") or "").strip()
        feed = "alternate" in words and FEED_TYPES.fullmatch(kind)
        address = joined(document.base, link.attributes.get("href"))
        # A feed of what readers say is another list.
        if (feed or "sitemap" in words) and address.startswith(("http://", "https://")) and "comment" not in address:
            found[address] = None
    return list(found)[:MOST_FEEDS]


@dataclass
class _Draft:
    kind: str
    rows: dict[str, Any]
    fields: dict[str, Any]
    key: dict[str, Any]
    count: int
    title: str = ""
    url: str = ""
    form: dict[str, str] = field(default_factory=dict)
    pages: dict[str, Any] | None = None
    remarks: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    whole: bool = False  # it is walked to its end


def _zone(document: Document) -> str:
    """Where times without a zone are most likely from."""
    host = urlsplit(document.url).hostname or ""
    chinese = host.endswith((".cn", ".com.cn")) or len(_CHINESE.findall(document.text[:200_000])) > 200
    return "Asia/Shanghai" if chinese else "UTC"


def _tzinfo(document: Document) -> tzinfo:
    return ZoneInfo(_zone(document))


def _of_html(document: Document, response: Response, asked: Asked) -> Iterator[_Draft]:
    for group in row_groups(document):
        found = fields_of(group.rows, _tzinfo(document))
        if not found:
            continue
        urls = _addresses(document, group, found)
        if not urls:
            continue
        rule, note = key_rule(urls, [one.name for one in found])
        links = {link.mem_id for row in group.rows for link in row.css("a")}
        pages, url, about_pages = pages_of(document, asked.url, links)
        draft = _Draft(
            "list", {"in": group.inside, "css": group.css}, {}, rule, len(group.rows), url=url, pages=pages,
            title=_title(document), form=dict(asked.form), notes=[text for text in (note, about_pages) if text],
        )  # fmt: skip
        _add_fields(draft, found)
        yield draft


def _addresses(document: Document, group: RowGroup, found: Sequence[FieldFound]) -> list[str]:
    css = str(found[0].spec["css"]).removesuffix("::attr(href)")
    links = (row.css_first(css) for row in group.rows)
    hrefs = (link.attributes.get("href") for link in links if link is not None)
    return [address for href in hrefs if href and (address := joined(document.base, href))]


def _title(document: Document) -> str:
    title = document.html.css_first("title")
    return squeezed(title)[:100] if title is not None else ""


def _add_fields(draft: _Draft, found: Sequence[FieldFound]) -> None:
    for one in found:
        spec = dict(one.spec)
        if one.name == "title":
            spec["required"] = True
        if one.hits < draft.count and one.name not in ("title", "url"):
            spec["optional"] = True
        draft.fields[one.name] = spec
        draft.remarks[f"listing.fields.{one.name}"] = f"{one.hits} of {draft.count} rows"


def _of_feed(document: Document, asked: Asked) -> _Draft | None:
    try:
        entries = document.feed
    except Misfit:
        return None
    if not entries:
        return None
    found = [
        FieldFound("url" if name == "link" else name, {"feed": name}, _filled(entries, name)) for name in _FEED_FIELDS
    ]
    found = [one for one in found if one.hits]
    names = {one.name: one.hits for one in found}
    if "published" in names and names["published"] == len(entries):
        found = [one for one in found if one.name != "updated"]
    count = len(entries)
    ids = {entry.get("id") for entry in entries}
    keys: list[dict[str, Any]] = [{"field": name} for name in ("id", "url") if name in names]
    if "id" not in names and "url" in names:
        keys = [key_rule([entry.get("link") or "" for entry in entries], list(names))[0]]
    if not keys:
        keys = [{"hash": [name for name in ("title", "published") if name in names]}]
    key = keys[0] if len(keys) == 1 or (names.get("id") == count and len(ids) == count) else {"first_of": keys}
    draft = _Draft("feed", {"feed": "entries"}, {}, key, count, url=asked.url, form=dict(asked.form))
    _add_fields(draft, found)
    for name in ("summary", "title"):
        if name in draft.fields:
            draft.fields[name].pop("required", None)
    draft.notes.append("a feed shows its newest entries only: let it be read often enough that none falls out")
    return draft


def _filled(entries: Sequence[FeedEntry], name: str) -> int:
    return sum(1 for entry in entries if entry.get(name))


def _of_sitemap(document: Document, asked: Asked) -> _Draft | None:
    if not _SITEMAP.search(document.text[:5_000]):
        return None
    count = len(re.findall(r"<(?:url|sitemap)[\s>]", document.text))
    fields = {"url": {"sitemap": "loc"}, "updated": {"sitemap": "lastmod", "optional": True}}
    return _Draft("sitemap", {"sitemap": "urls"}, dict(fields), {"field": "url"}, count, url=asked.url)


def _of_json(document: Document, response: Response, asked: Asked) -> _Draft | None:
    records = records_of(document.json)
    if records is None:
        return None
    path, rows = records
    found = json_fields(rows, _tzinfo(document))
    names = [one.name for one in found]
    if "id" in names:
        key: dict[str, Any] = {"field": "id"}
    elif "url" in names:
        key = {"field": "url"}
    elif "title" in names:
        key = {"hash": [name for name in ("title", "published") if name in names]}
    else:
        return None
    pages, url, form = pages_by_name(asked.url, dict(asked.form), len(rows))
    draft = _Draft("json", {"json": path}, {}, key, len(rows), url=url, form=form, pages=pages)
    if "link" in response.headers and 'rel="next"' in response.headers["link"]:
        draft.pages, draft.url, draft.form = {"link_header": True}, asked.url, dict(asked.form)
    elif pages is None:
        draft.notes.append("nothing says how the next page is asked for: one page is read")
    _add_fields(draft, found)
    return draft


def _tried(drafts: Sequence[_Draft | None], response: Response, asked: Asked) -> list[Proposal]:
    """The drafts that load and read at least one entry, each with what it reads."""
    found = []
    for draft in drafts:
        made = _made(draft, response, asked) if draft is not None else None
        if made is None and draft is not None and draft.pages is not None:
            draft.pages, draft.url = None, asked.url
            made = _made(draft, response, asked)
        if made is not None:
            found.append(made)
    return found


def _made(draft: _Draft, response: Response, asked: Asked) -> Proposal | None:
    document = Document.of(response)
    head = [
        f"Proposed by `fyke new` from {asked.url}: {draft.count} rows. Look it over, then `fyke try` this file.",
        *draft.notes,
    ]
    text = source_text(_data(draft, document, asked), head, draft.remarks)
    try:
        data, _ = parse_yaml(text, "the proposal")
        source = compile_source(data, folder=None)
        page = source.read_page(source.listings()[0], response, None)
    except UsageError:
        return None
    # An index of sitemaps has parts to follow and no entries of its own.
    if page.outcome is not Outcome.OK or not (page.entries or (draft.kind == "sitemap" and page.next is not None)):
        return None
    if draft.pages is not None and not draft.whole and _oldest_first(page):
        draft.whole = True
        draft.notes.append("the oldest stand first: every page is read each time, for what is new is on the last one")
        return _made(draft, response, asked)
    return Proposal(draft.kind, asked.url, text, source, page, draft.notes)


def _oldest_first(page: ListPage) -> bool:
    times = [str(entry.fields["published"]) for entry in page.entries if entry.fields.get("published")]
    return len(times) == len(page.entries) and times == sorted(times) and times[0] < times[-1]


def _data(draft: _Draft, document: Document, asked: Asked) -> dict[str, Any]:
    host = urlsplit(asked.url).hostname or "site"
    name = asked.id or re.sub(r"[^a-z0-9]+", "-", host.removeprefix("www.")).strip("-")[:60] or "site"
    table = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    # A brace of the site's own would be a placeholder.
    address = draft.url.replace("{page}", "\0").replace("{offset}", "\1").replace("{", "%7B").replace("}", "%7D")
    request: dict[str, Any] = {"url": address.replace("\0", "{page}").replace("\1", "{offset}")}
    if draft.form:
        request = {"method": "POST", **request, "form": draft.form}
    listing: dict[str, Any] = {"request": request}
    if draft.pages is not None:
        listing["pages"] = draft.pages
    listing |= {"rows": draft.rows, "fields": draft.fields}
    if draft.kind == "sitemap" or draft.whole:
        # Nothing says that what is new stands first: a known row would end the walk before it.
        listing = {"order": "none", **listing, "connect": "all"}
    else:
        listing["connect"] = {"known": max(1, min(draft.count, MOST_KNOWN)) if draft.pages is not None else 1}
    draft.remarks["listing.rows"] = f"{draft.count} on the page"
    draft.remarks["schedule"] = "when it runs; zone of times that name none"
    data: dict[str, Any] = {"id": name}
    if draft.title:
        data["title"] = draft.title
    data["schedule"] = {"cron": "0 8 * * *", "timezone": _zone(document)}
    data["listing"] = listing
    data["identity"] = {"scope": host, "key": draft.key}
    data["store"] = {"table": table if table[:1].isalpha() else f"t_{table}"}
    if asked.private:
        data["fetch"] = {"private_addresses": "allow"}
    return data
