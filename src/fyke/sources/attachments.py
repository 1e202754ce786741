"""Attachments: files that a detail page names, each an item of its own with its own visit, lane and outcome.

They belong to a source that is made from the one whose pages name them (`ID.attachments`), so that ledger, audit and
repair treat them as they treat everything else (P1, P2). The files themselves are not kept yet.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace
from selectolax.lexbor import LexborNode

from fyke.errors import UsageError
from fyke.model import (
    Column,
    ColumnType,
    DetailPage,
    FetchPolicy,
    Fields,
    FoundListings,
    LanePolicy,
    Listing,
    ListPage,
    Outcome,
    Relation,
    Request,
    ResolvedSource,
    Response,
)
from fyke.policy.attaching import SUFFIX, attached_scope, attached_source, attached_table
from fyke.policy.identity import content_hash, fingerprint, rule_text
from fyke.policy.units import parse_size
from fyke.ports.source import SourceChecks, SourceConnect, SourceFill, SourceSchedule
from fyke.sources.addresses import absolute_url
from fyke.sources.faults import Fault, Misfit, Path
from fyke.sources.markup import sane, squeeze
from fyke.sources.nodes import Context, lexbor_of, text_of
from fyke.sources.selectors import Css, XPath
from fyke.sources.shapes import SIZE, Key, Section, Text
from fyke.sources.steps import compile_regex

MOST_ATTACHMENTS: Final = 1_000
LONGEST_NAME: Final = 500
LARGEST: Final = "50MB"
TOTAL_TIMEOUT: Final = 240_000
COLUMNS: Final = (
    Column("parent", required=True),
    Column("name"),
    Column("url", required=True),
    Column("file_name", expected=False),
    Column("media_type", expected=False),
    Column("size", ColumnType.INTEGER),
    Column("sha256"),
)
ATTACHMENTS: Final = Section(
    "attachments",
    {
        "css": Key(Text(), "The links; ::attr(name) where the address is in another attribute than href or src."),
        "xpath": Key(Text(), "The same by XPath: elements, or the addresses themselves."),
        "match": Key(Text(), "A regular expression of the addresses that count, whatever their case; default all."),
        "max_size": Key(SIZE, "A larger file is not fetched whole, and its item is dead. Default 50MB."),
    },
    one_of=("css", "xpath"),
)
_HTML: Final = re.compile(rb"\s*(?:<!doctype html|<html|<head|<body|<script)", re.IGNORECASE)
_FILE_NAME: Final = re.compile(r"filename\*?\s*=\s*(?:UTF-8'')?\"?([^\";]+)", re.IGNORECASE)
_WEB_PAGE: Final = re.compile(r"\.(?:s?html?|aspx?|jsp|php)$", re.IGNORECASE)


@dataclass(frozen=True)
class Attachments:
    """What a page's attachments are, compiled."""

    selector: Css | XPath
    match: re.Pattern[str] | None
    max_size: int

    def read(self, context: Context) -> list[Fields]:
        """Address and name of each, in order, none twice.

        Raises:
            Misfit: there are more than a page of this kind can have.
        """
        found: dict[str, Fields] = {}
        for address, name in self._links(context):
            url = absolute_url(address, context)
            # A place on the page itself is no file of it.
            if url is None or address.strip().startswith("#"):
                continue
            url = url.partition("#")[0]
            if self.match is not None and not self._fits(url):
                continue
            known = found.setdefault(url, {"url": url, "name": name})
            # Of an icon and a title that lead to one file the title is its name.
            known["name"] = name if len(name) > len(known["name"]) else known["name"]
        if len(found) > MOST_ATTACHMENTS:
            raise Misfit(f"the page has more than {MOST_ATTACHMENTS:,} attachments")
        return [fields | {"name": fields["name"] or file_name_of(url)} for url, fields in found.items()]

    def _fits(self, url: str) -> bool:
        return self.match is not None and bool(self.match.search(url) or self.match.search(urlsplit(url).path))

    def _links(self, context: Context) -> list[tuple[str, str]]:
        if isinstance(self.selector, XPath):
            return [_link(hit) for hit in self.selector.hits(context)]
        node, attribute = lexbor_of(context.row, context.document), self.selector.attribute
        hits = self.selector.nodes(node) if node is not None else []
        return [_link(hit, attribute) for hit in hits]


def _link(hit: Any, attribute: str | None = None) -> tuple[str, str]:
    if isinstance(hit, str):
        return hit, ""
    attributes: Mapping[str, str | None] = hit.attributes if isinstance(hit, LexborNode) else hit.attrib
    names = [attribute] if attribute else ["href", "src"]
    address = next((value for name in names if (value := attributes.get(name))), "")
    name = squeeze(sane(text_of(hit) or attributes.get("title") or ""))
    return address, name[:LONGEST_NAME]


def file_name_of(url: str) -> str:
    """The last part of an address as a person reads it."""
    return squeeze(sane(unquote(urlsplit(url).path.rpartition("/")[2])))[:LONGEST_NAME]


def compile_attachments(spec: Mapping[str, Any] | None) -> Attachments | None:
    if spec is None:
        return None
    path: Path = ("detail", "attachments")
    selector: Css | XPath
    if "css" in spec:
        selector = Css(spec["css"], (*path, "css"))
        if selector.relative:
            raise Fault(f"{spec['css']!r} has nothing to begin from on a page", (*path, "css"))
    else:
        selector = XPath(spec["xpath"], (*path, "xpath"), row=False)
    match = compile_regex(f"(?i:{spec['match']})", (*path, "match")) if "match" in spec else None
    return Attachments(selector, match, parse_size(str(spec.get("max_size", LARGEST))))


class AttachmentSource:
    """A `ports.Source` for the files of another source. It has no lists: visits of that one find its items."""

    schedule = SourceSchedule()
    connect = SourceConnect()
    checks = SourceChecks()
    list_fields: tuple[str, ...] = ("parent", "name", "url")
    compared: tuple[str, ...] = ("url", "size", "sha256")
    paged = False
    steps = 1
    fill: SourceFill | None = None

    def __init__(self, owner: ResolvedSource, attachments: Attachments, fetch: FetchPolicy) -> None:
        self.fetch = replace(
            fetch,
            max_body=attachments.max_size,
            total_timeout=max(fetch.total_timeout, TOTAL_TIMEOUT),
        )
        self.resolved = _resolved(owner)

    def listings(self) -> list[Listing]:
        return []

    def list_request(self, listing: Listing, cursor: dict[str, Any] | None) -> Request:
        raise UsageError("attachments have no lists")

    def read_listings(self, listing: Listing, response: Response) -> FoundListings:
        raise UsageError("attachments have no lists")

    def read_page(self, listing: Listing, response: Response, cursor: dict[str, Any] | None) -> ListPage:
        raise UsageError("attachments have no lists")

    def detail_request(self, step: int, fields: Fields) -> Request:
        headers = {"Referer": str(fields["page"])} if fields.get("page") else {}
        return Request(str(fields["url"]), headers=headers)

    def read_detail(self, step: int, response: Response, fields: Fields) -> DetailPage:
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not response.body:
            return DetailPage(Outcome.EMPTY, "the file is empty")
        web_page = media_type in ("", "text/html", "application/xhtml+xml") and _HTML.match(response.body)
        if web_page and not _WEB_PAGE.search(urlsplit(str(fields.get("url", ""))).path):
            return DetailPage(Outcome.MISFIT, "the answer is a web page, not a file")
        named = _FILE_NAME.search(response.headers.get("content-disposition", ""))
        found: Fields = {
            "file_name": squeeze(sane(unquote(named[1].strip())))[:LONGEST_NAME]
            if named
            else file_name_of(response.url),
            "media_type": media_type or None,
            "size": len(response.body),
            "sha256": hashlib.sha256(response.body).hexdigest(),
        }
        return DetailPage(Outcome.OK, fields=found)

    def revisit_at(self, opened_at: int, now: int) -> int | None:
        return None

    def relations(self, record: Fields) -> list[Relation] | None:
        return None

    def record(self, entry: Fields, detail: Fields) -> tuple[Fields, bytes, dict[str, bool]]:
        merged = entry | {name: value for name, value in detail.items() if value is not None}
        stored = {column.name: merged[column.name] for column in COLUMNS if merged.get(column.name) not in (None, "")}
        filled = {column.name: column.name in stored for column in COLUMNS if column.expected}
        return stored, content_hash(stored, self.compared), filled


def _resolved(owner: ResolvedSource) -> ResolvedSource:
    text = json.dumps({**json.loads(owner.text), "part": SUFFIX}, ensure_ascii=False, separators=(",", ":"))
    anywhere = next((policy for policy in owner.lanes if policy.lane == "*"), LanePolicy("*"))
    return ResolvedSource(
        id=attached_source(owner.id),
        title=f"{owner.title}: attachments",
        text=text,
        hash=fingerprint(text.encode()).hex(),
        scope=attached_scope(owner.scope),
        table=attached_table(owner.table),
        identity=rule_text({"template": "{parent}/{url}"}),
        columns=COLUMNS,
        has_detail=True,
        lanes=(anywhere,),
        priority=owner.priority,
    )
