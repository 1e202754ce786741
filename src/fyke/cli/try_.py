"""`fyke try`: read a page with a source and show what comes out; nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import Struct, field

from fyke.app import find_source
from fyke.app.trial import Trial, open_trial
from fyke.cli.flags import Json
from fyke.cli.output import plain, print_json, say, shortened, table
from fyke.cli.verb import one_verb, verb
from fyke.errors import FetchFailed, UsageError, nearest
from fyke.fetchers.encoding import decode
from fyke.model import Fields, Listing, ListPage, Outcome, Response
from fyke.pipeline.discovering import all_listings
from fyke.pipeline.requests import judge
from fyke.ports import Source
from fyke.settings import Loaded
from fyke.sources.hits import Hit, Hits, detail_hits, list_hits

LARGEST_PAGE: Final = 64 * 2**20
SHOWN_FIELDS: Final = 6
MOST_DOUBTS: Final = 10
MOST_INDEXES: Final = 4
TYPES: Final = {
    **dict.fromkeys((".html", ".htm"), "text/html"),
    **dict.fromkeys((".xml", ".rss", ".atom", ".rdf"), "application/xml"),
    ".json": "application/json",
}

app = one_verb()


class ListTried(Struct):
    """A list page as it was read, and on how many rows each selector hit."""

    page: ListPage
    hits: Hits = field(default_factory=Hits)


class DetailTried(Struct):
    """What a detail came to."""

    outcome: Outcome
    record: Fields | None = None
    missing: list[str] = field(default_factory=list)
    reason: str = ""
    key: str | None = None
    hits: Hits = field(default_factory=Hits)
    doubts: list[str] = []


@verb(app, "try", example="fyke try sources/ccgp.yaml --page saved.html --url https://www.ccgp.gov.cn/cggg/zygg/")
async def try_source(
    loaded: Loaded,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A source file, or an id in the sources folder.")],
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="A saved page; nothing is fetched.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="The saved page's own address.")] = None,
    detail: Annotated[bool, typer.Option("--detail", help="Read a detail page, or the first entry's detail.")] = False,
    step: Annotated[
        int | None, typer.Option("--step", min=1, help="The saved page's detail step; else the last.")
    ] = None,
    listing: Annotated[
        str | None, typer.Option("--listing", metavar="NAME", help="Which list; else the first.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Read a list page (or a detail page) with a source; show what comes out, and on how many rows each selector hit.

    Nothing is stored. Without --page it is fetched, as politely as the source says and as robots.txt allows. Exits with
    1 where the outcome is not ok.
    """
    one = find_source(loaded.settings, source)
    if page is None and (url is not None or step is not None):
        raise UsageError("--url and --step go with --page", hint="without --page the source's own addresses are used")
    try:
        chosen = await _chosen(loaded, one, listing, saved=page is not None)
    except FetchFailed as error:
        failed, unknown = ListTried(ListPage(Outcome(error.outcome), error.reason)), one.listings()[0]
        print_json(_list_json(one, unknown, failed)) if as_json else _show_list(one, unknown, failed)
        return 1
    if detail:
        if not one.steps:
            raise UsageError(f"source {one.resolved.id!r} has no detail pages", hint="leave --detail out")
        tried = _saved_detail(one, page, url, step) if page is not None else await _fetched_detail(loaded, one, chosen)
        print_json(_detail_json(tried)) if as_json else _show_detail(one, tried)
        return 0 if tried.outcome is Outcome.OK else 1
    found = _saved_list(one, chosen, page, url) if page is not None else await _fetched_list(loaded, one, chosen)
    print_json(_list_json(one, chosen, found)) if as_json else _show_list(one, chosen, found)
    return 0 if found.page.outcome is Outcome.OK else 1


async def _chosen(loaded: Loaded, source: Source, name: str | None, *, saved: bool) -> Listing:
    """The list of this name, or the first one; lists that the site names are asked for, unless a page is at hand."""
    discovers = any(listing.discovers for listing in source.listings())
    if saved and discovers:
        values = dict(part.split("=", 1) for part in (name or "").split(",") if "=" in part)
        if not values:
            raise UsageError(
                "the site names the lists of this source", hint="say which one this is: --listing NAME=VALUE"
            )
        return Listing(name or "", values)
    found = source.listings()
    if discovers:
        async with open_trial(loaded.settings, source) as trial:
            found = await all_listings(source, trial.fetch)
    listings = {listing.name: listing for listing in found}
    if name is None:
        return next(iter(listings.values()))
    if name not in listings:
        raise UsageError(
            f"there is no listing {name!r}", hint=nearest(name, listings) or f"there are {', '.join(listings)}"
        )
    return listings[name]


def saved_response(source: Source, page: Path, url: str) -> Response:
    """A saved page as if it had just been fetched; headers are read from FILE.headers where that stands beside it."""
    try:
        with page.open("rb") as file:
            body = file.read(LARGEST_PAGE + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror or error}", file=str(page)) from error
    if len(body) > LARGEST_PAGE:
        raise UsageError("is larger than 64 MiB", file=str(page))
    headers = _saved_headers(page)
    content_type = headers.setdefault("content-type", TYPES.get(page.suffix.lower(), ""))
    read = decode(body, content_type, source.fetch.encoding)
    return Response(url, 200, headers, body, read.text, read.encoding, read.source, read.replaced)


def _saved_headers(page: Path) -> dict[str, str]:
    beside = page.with_name(f"{page.name}.headers")
    if not beside.is_file():
        return {}
    lines = [line.partition(":") for line in beside.read_text(encoding="utf-8", errors="replace").splitlines()]
    return {name.strip().lower(): value.strip() for name, colon, value in lines if colon and " " not in name.strip()}


def _saved_list(source: Source, listing: Listing, page: Path, url: str | None) -> ListTried:
    response = saved_response(source, page, url or source.list_request(listing, None).url)
    try:
        judge(response, source.fetch)
    except FetchFailed as error:
        return ListTried(ListPage(Outcome(error.outcome), error.reason))
    return _list_tried(source, listing, response)


def _list_tried(source: Source, listing: Listing, response: Response) -> ListTried:
    return ListTried(source.read_page(listing, response, None), list_hits(source, listing, response))


def _saved_detail(source: Source, page: Path, url: str | None, step: int | None) -> DetailTried:
    number = source.steps if step is None else step
    if number > source.steps:
        raise UsageError(f"there is no step {number}", field="--step", hint=f"the source has {source.steps}")
    entry: Fields = {} if url is None else {"url": url}
    response = saved_response(source, page, url or "http://saved.invalid/")
    try:
        judge(response, source.fetch)
    except FetchFailed as error:
        return DetailTried(Outcome(error.outcome), reason=error.reason)
    found = source.read_detail(number - 1, response, entry)
    hits = detail_hits(source, number - 1, response, entry)
    if found.outcome is not Outcome.OK:
        missing = found.missing
        return DetailTried(found.outcome, found.fields or None, missing, found.reason, hits=hits, doubts=found.flags)
    record, _, _ = source.record(entry, found.fields)
    return DetailTried(found.outcome, record, found.missing, found.reason, hits=hits, doubts=found.flags)


async def _fetched_list(loaded: Loaded, source: Source, listing: Listing) -> ListTried:
    async with open_trial(loaded.settings, source) as trial:
        try:
            page, response = await _first_page(trial, source, listing)
        except FetchFailed as error:
            return ListTried(ListPage(Outcome(error.outcome), error.reason))
    return ListTried(page, list_hits(source, listing, response))


async def _first_page(trial: Trial, source: Source, listing: Listing) -> tuple[ListPage, Response]:
    """Page one; of an index of sitemaps the first sitemap."""
    page, cursor = ListPage(Outcome.OK, index=True), None
    for _ in range(MOST_INDEXES):
        response = await trial.fetch(source.list_request(listing, cursor))
        page = source.read_page(listing, response, cursor)
        if not page.index or page.next is None:
            break
        cursor = page.next
    return page, response


async def _fetched_detail(loaded: Loaded, source: Source, listing: Listing) -> DetailTried:
    async with open_trial(loaded.settings, source) as trial:
        try:
            page, _ = await _first_page(trial, source, listing)
            if page.outcome is not Outcome.OK:
                return DetailTried(page.outcome, reason=f"the list page: {page.reason}")
            if not page.entries:
                return DetailTried(Outcome.EMPTY, reason="the list page has no entry")
            entry = page.entries[0]
            fields, hits, doubts = dict(entry.fields), Hits(), list[str]()
            for step in range(source.steps):
                response = await trial.fetch(source.detail_request(step, fields))
                found = source.read_detail(step, response, fields)
                doubts += found.flags
                hits.rows, more = 1, detail_hits(source, step, response, fields)
                hits.fields += more.fields
                if found.outcome is not Outcome.OK:
                    tried = DetailTried(found.outcome, found.fields or None, found.missing, found.reason, entry.key)
                    tried.hits, tried.doubts = hits, doubts
                    return tried
                fields |= found.fields
        except FetchFailed as error:
            return DetailTried(Outcome(error.outcome), reason=error.reason)
    record, _, _ = source.record(entry.fields, fields)
    return DetailTried(Outcome.OK, record, key=entry.key, hits=hits, doubts=doubts)


def _list_json(source: Source, listing: Listing, tried: ListTried) -> dict[str, Any]:
    page = tried.page
    return {
        "outcome": page.outcome,
        "entries": [{"key": entry.key, "fields": entry.fields} for entry in page.entries],
        "refused": [{"position": entry.position, "reason": entry.reason, "raw": entry.raw} for entry in page.refused],
        "next": None if page.next is None else _next_address(source, listing, page),
        "reason": page.reason,
        "doubts": page.flags,
        "listing": listing.name,
        "hits": tried.hits.fields,
    }


def _next_address(source: Source, listing: Listing, page: ListPage) -> str:
    return source.list_request(listing, page.next).url


def _detail_json(tried: DetailTried) -> dict[str, Any]:
    return {
        "outcome": tried.outcome,
        "record": tried.record,
        "missing": tried.missing,
        "reason": tried.reason,
        "doubts": tried.doubts,
        "hits": tried.hits.fields,
    } | ({"key": tried.key} if tried.key is not None else {})


def _show_list(source: Source, listing: Listing, tried: ListTried) -> None:
    page = tried.page
    say(
        f"{source.resolved.id}, listing {listing.name}: {page.outcome}"
        + (f": {plain(page.reason)}" if page.reason else "")
    )
    if page.entries:
        names = list(dict.fromkeys(name for entry in page.entries for name in entry.fields))[:SHOWN_FIELDS]
        table(
            ("KEY", *names),
            [(entry.key, *(shortened(entry.fields.get(name)) for name in names)) for entry in page.entries],
        )
    say(f"{len(page.entries)} entries, {len(page.refused)} refused")
    for entry in page.refused:
        say(f"refused row {entry.position}: {plain(entry.reason)}: {shortened(entry.raw, 100)}")
    _show_doubts(page.flags)
    if page.next is not None:
        say(f"next page: {_next_address(source, listing, page)}")
    _show_hits(tried.hits)


def _show_doubts(doubts: list[str]) -> None:
    """Values that were left out, for they can be read in two ways."""
    for doubt in doubts[:MOST_DOUBTS]:
        say(f"left out: {plain(doubt)}")
    if len(doubts) > MOST_DOUBTS:
        say(f"left out: {len(doubts) - MOST_DOUBTS} more value(s)")


def _show_hits(hits: Hits) -> None:
    """What each selector found, so that one that misses rows is seen."""
    if not hits.fields:
        return
    say()
    of = f"of {hits.rows} rows" if hits.rows != 1 else "on the page"
    table(
        ("FIELD", "SELECTOR", f"FOUND {of}", "VALUES", ""),
        [
            (
                each.field if each.branch is None else f"  {each.branch + 1}.",
                shortened(each.selector, 80),
                each.found,
                each.values,
                _judgement(each),
            )
            for each in hits.fields
        ],
    )


def _judgement(hit: Hit) -> str:
    if hit.branch is not None or hit.values == hit.rows:
        return ""
    if hit.found == 0:
        return "finds nothing"
    return "found, but its steps give no value" if hit.values < hit.found else "not on every row"


def _show_detail(source: Source, tried: DetailTried) -> None:
    key = f" {plain(tried.key)}" if tried.key else ""
    say(f"{source.resolved.id}{key}: {tried.outcome}" + (f": {plain(tried.reason)}" if tried.reason else ""))
    if tried.record:
        table(("FIELD", "VALUE"), [(name, shortened(value, 200)) for name, value in tried.record.items()])
    if tried.missing:
        say(f"missing: {', '.join(tried.missing)}")
    _show_doubts(tried.doubts)
    _show_hits(tried.hits)
