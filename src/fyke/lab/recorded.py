"""Recorded pages, read offline: the walk over them, what a source reads of each, and the differences between two reads.

A request that was not recorded ends that part of the walk; nothing here reaches the network.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urljoin

from msgspec import Struct, field

from fyke.errors import FetchFailed, FykeError, UsageError
from fyke.fetchers.encoding import decode
from fyke.lab.replay import SavedPage, load_index, plain_url
from fyke.model import DetailPage, Entry, FetchPolicy, Fields, Listing, ListPage, Outcome, Request, Response
from fyke.pipeline.requests import judge
from fyke.ports import Source

INDEX: Final = "replay.tsv"
EXPECTED: Final = "expected.json"
MOST_PAGES: Final = 1_000
MOST_DETAILS: Final = 10_000
MOST_REDIRECTS: Final = 10
MOST_DIFFERENCES: Final = 200
REDIRECTED: Final = range(300, 400)
NOT_MODIFIED: Final = 304

Fetch = Callable[[Request], Awaitable[Response]]


class NotRecorded(FykeError):
    """No recorded page answers this request."""


class ListRead(Struct):
    """A list page and what the source read of it."""

    listing: str
    page: int
    request: Request
    response: Response | None
    read: ListPage
    next: str | None = None


class DetailRead(Struct):
    """The detail of an entry: its last hop, and the record that would be stored."""

    entry: Entry
    request: Request
    outcome: Outcome
    reason: str = ""
    missing: list[str] = field(default_factory=list)
    record: Fields | None = None
    responses: list[tuple[Request, Response]] = field(default_factory=list)


def fields_of(request: Request) -> dict[str, str]:
    """What a request's body says, as an index of pages matches it."""
    if request.form is not None:
        return dict(request.form)
    if isinstance(request.json, Mapping):
        plain = {name: value for name, value in request.json.items() if isinstance(value, str | int | float)}
        return {str(name): str(value) for name, value in plain.items()}
    return {}


class RecordedPages:
    """The answers of a folder of pages, or of any index that `fyke lab replay` reads."""

    def __init__(self, folder: Path, root: Path | None, policy: FetchPolicy) -> None:
        self._policy = policy
        index = folder / INDEX if folder.is_dir() else folder
        self._saved: dict[tuple[str, str], list[SavedPage]] = {}
        for page in load_index(index, root):
            self._saved.setdefault((page.method, page.url), []).append(page)

    async def fetch(self, request: Request) -> Response:
        """The recorded answer.

        Raises:
            NotRecorded
            FetchFailed: the recorded answer is no success.
        """
        page, url = self._find(request.method, request.url, fields_of(request)), request.url
        redirects: list[str] = []
        while page.status in REDIRECTED and page.status != NOT_MODIFIED and len(redirects) < MOST_REDIRECTS:
            location = next((text for name, text in page.headers.items() if name.lower() == "location"), None)
            if location is None:
                break
            url = urljoin(url, location)
            redirects.append(url)
            page = self._find("GET", url, {})
        headers = {name.lower(): text for name, text in page.headers.items()}
        body = page.file.read_bytes()
        read = decode(body, headers.get("content-type", ""), self._policy.encoding)
        response = Response(
            url, page.status, headers, body, read.text, read.encoding, read.source, read.replaced, redirects
        )
        judge(response, self._policy)
        return response

    def _find(self, method: str, url: str, fields: Mapping[str, str]) -> SavedPage:
        try:
            saved = self._saved.get((method, plain_url(url)), [])
        except ValueError:
            saved = []
        for page in saved:
            if page.fits(fields):
                return page
        raise NotRecorded(f"{method} {url}{'?' + urlencode(dict(fields)) if fields else ''} is not recorded")


async def walk_lists(
    source: Source, fetch: Fetch, *, pages: int = MOST_PAGES, listing: str | None = None, lists: int | None = None
) -> AsyncIterator[ListRead]:
    """Each listing's pages, one after the other, as far as `fetch` has them and the source finds a next one.

    Pages that name the lists (`each.discover`) come first. `listing`: only this one; else the first `lists` of them.

    Raises:
        UsageError: there is no such listing.
    """
    named: list[Listing] = []
    for one in source.listings():
        if not one.discovers:
            named.append(one)
            continue
        request = source.list_request(one, None)
        try:
            response = await fetch(request)
        except NotRecorded:
            continue
        except FetchFailed as error:
            yield ListRead(one.name, 1, request, None, ListPage(Outcome(error.outcome), error.reason))
            continue
        found = source.read_listings(one, response)
        yield ListRead(one.name, 1, request, response, ListPage(found.outcome, found.reason, refused=found.refused))
        named += found.listings
    chosen = [one for one in named if listing in (None, one.name)]
    if listing is not None and not chosen and named:
        raise UsageError(f"there is no listing {listing!r}", hint=f"there are {', '.join(o.name for o in named[:10])}")
    for one in chosen if listing is not None else chosen[:lists]:
        cursor: dict[str, Any] | None = None
        asked: set[str] = set()
        for number in range(1, pages + 1):
            request = source.list_request(one, cursor)
            mark = f"{request.method} {request.url} {sorted(fields_of(request).items())}"
            if mark in asked:
                break
            asked.add(mark)
            try:
                response = await fetch(request)
            except NotRecorded:
                break
            except FetchFailed as error:
                yield ListRead(one.name, number, request, None, ListPage(Outcome(error.outcome), error.reason))
                break
            read = source.read_page(one, response, cursor)
            yield ListRead(one.name, number, request, response, read, _next(source, one, read))
            cursor = read.next
            if read.outcome is not Outcome.OK or cursor is None:
                break


def _next(source: Source, listing: Listing, read: ListPage) -> str | None:
    return source.list_request(listing, read.next).url if read.next is not None else None


async def read_detail(source: Source, entry: Entry, fetch: Fetch) -> DetailRead:
    """The hops of one entry's detail.

    Raises:
        NotRecorded: a hop is not there.
    """
    fields = dict(entry.fields)
    found = DetailRead(entry, Request(entry.url), Outcome.OK)
    for step in range(source.steps):
        try:
            found.request = source.detail_request(step, fields)
        except UsageError as error:
            found.outcome, found.reason = Outcome.MISFIT, str(error)
            return found
        try:
            response = await fetch(found.request)
        except FetchFailed as error:
            found.outcome, found.reason = Outcome(error.outcome), error.reason
            return found
        found.responses.append((found.request, response))
        page: DetailPage = source.read_detail(step, response, fields)
        found.outcome, found.reason, found.missing = page.outcome, page.reason, page.missing
        if page.outcome is not Outcome.OK:
            return found
        fields |= page.fields
    found.record = source.record(entry.fields, fields)[0]
    return found


class Reading(Struct):
    """All that a source reads of recorded pages."""

    lists: list[ListRead] = field(default_factory=list)
    details: list[DetailRead] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The values that are kept and compared."""
        return {
            "lists": [
                {
                    "listing": one.listing,
                    "page": one.page,
                    "outcome": one.read.outcome.value,
                    "entries": [{"key": entry.key, "fields": entry.fields} for entry in one.read.entries],
                    "refused": [{"position": row.position, "reason": row.reason} for row in one.read.refused],
                    "next": one.next,
                }
                for one in self.lists
            ],
            "details": [
                {"key": one.entry.key, "outcome": one.outcome.value, "missing": one.missing, "record": one.record}
                for one in self.details
            ],
        }


async def read_all(source: Source, recorded: RecordedPages) -> Reading:
    """What the source reads of everything that was recorded.

    Raises:
        UsageError: not one of its list pages was recorded.
    """
    found = Reading()
    async for one in walk_lists(source, recorded.fetch):
        found.lists.append(one)
    if not found.lists:
        url = source.list_request(source.listings()[0], None).url
        raise UsageError(
            f"the first list page of {source.resolved.id!r} is not recorded: {url}",
            hint=f"fyke record {source.resolved.id}",
        )
    done: set[str] = set()
    entries = (entry for one in found.lists for entry in one.read.entries)
    for entry in entries if source.steps else ():
        if entry.key in done or len(found.details) == MOST_DETAILS:
            continue
        done.add(entry.key)
        try:
            found.details.append(await read_detail(source, entry, recorded.fetch))
        except NotRecorded:
            continue
    return found


def kept(folder: Path) -> dict[str, Any] | None:
    """The expected values beside recorded pages; None where there are none yet.

    Raises:
        UsageError: the file is no JSON.
    """
    file = folder / EXPECTED
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read: {error}", file=str(file), hint="write it anew with --accept") from error
    return found


def keep(folder: Path, values: Mapping[str, Any]) -> Path:
    """Write the expected values; a file that is there is replaced whole."""
    file = folder / EXPECTED
    part = file.with_name(f"{file.name}.part")
    part.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    part.replace(file)
    return file


def differences(expected: Any, read: Any, place: str = "") -> Iterator[str]:
    """Each place where the values differ, in words."""
    if isinstance(expected, Mapping) and isinstance(read, Mapping):
        for name in dict.fromkeys((*expected, *read)):
            yield from differences(expected.get(name), read.get(name), f"{place}.{name}" if place else str(name))
    elif isinstance(expected, list) and isinstance(read, list):
        if len(expected) != len(read):
            yield f"{place}: {len(expected)} expected, {len(read)} read"
        for at, (one, other) in enumerate(zip(expected, read, strict=False)):
            yield from differences(one, other, f"{place}[{_name(one, at)}]")
    elif expected != read or type(expected) is not type(read):
        yield f"{place}: expected {_shown(expected)}, read {_shown(read)}"


def _name(value: Any, at: int) -> str:
    if isinstance(value, Mapping) and "listing" in value:
        return f"{value['listing']} page {value.get('page')}"
    return str(value["key"]) if isinstance(value, Mapping) and "key" in value else str(at)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
