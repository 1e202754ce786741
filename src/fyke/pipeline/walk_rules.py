"""What a source says of its walks, as `policy.coverage` reads it; and a walk's state as it is kept between pages."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from fyke.model import ListPage, PassLease, Request, Standing
from fyke.policy.coverage import NOBODY_KNOWS, Rules, Walk
from fyke.policy.hints import CIRCLE
from fyke.ports import Source


class Checkpoint(Struct):
    """`cursor`: of the last committed page; `next`: of the one after it.

    `starts`: those counted before the lease that read this page first; what is counted since then ended in a death.
    `asked`: the pages of this round, as `mark_of` tells them.
    """

    walk: Walk
    cursor: dict[str, Any] | None = None
    next: dict[str, Any] | None = None
    starts: int = 0
    asked: list[bytes] = []


def mark_of(cursor: Mapping[str, Any] | None) -> bytes | None:
    """What tells a page again that another one names; None where pages are counted, which never come again."""
    named = (cursor.get("url") or cursor.get("cursor")) if cursor else None
    return blake2b(str(named).encode("utf-8", "replace"), digest_size=8).digest() if named else None


def is_part(cursor: Mapping[str, Any] | None) -> bool:
    """Whether the page is one of several that do not hang on each other, such as the sitemaps of an index."""
    return cursor is not None and "rest" in cursor


def may_go_stale(cursor: Mapping[str, Any] | None) -> bool:
    """Whether the page is asked for with what the site gave for a while: a cursor, a state of a form."""
    return cursor is not None and ("cursor" in cursor or "carry" in cursor)


def next_part(cursor: Mapping[str, Any] | None, asked: set[bytes]) -> dict[str, Any] | None:
    """The next part that was not asked for yet."""
    rest = list(cursor["rest"]) if cursor is not None and is_part(cursor) else []
    for at, url in enumerate(rest):
        part = {**(cursor or {}), "url": url, "rest": rest[at + 1 :]}
        if mark_of(part) not in asked:
            return part
    return None


def without_circle(page: ListPage, asked: set[bytes]) -> None:
    """Take away a next page that this round has read: following it would not end, and its end proves nothing."""
    if mark_of(page.next) not in asked:
        return
    if is_part(page.next):
        page.next = next_part(page.next, asked)
        page.last_by_hint = True if page.next is None else None
    else:
        # That this is the last page is said by `more`; that it is not, by the link that leads in a circle.
        said = page.last_by_hint or None
        page.next, page.last_by_hint, page.doubt = None, said, page.doubt or CIRCLE


def conditional(request: Request, lease: PassLease) -> Request:
    """The request of page one with what the last complete walk remembered of it."""
    headers = dict(request.headers)
    if lease.etag:
        headers["If-None-Match"] = lease.etag
    if lease.last_modified:
        headers["If-Modified-Since"] = lease.last_modified
    return msgspec.structs.replace(request, headers=headers)


def any_new(page: ListPage, standing: Mapping[str, Standing]) -> bool:
    return any(not standing.get(entry.key, NOBODY_KNOWS).known for entry in page.entries)


def rules_of(source: Source, lease: PassLease) -> Rules:
    """The source's words about walks, with the run's moment put in."""
    connect, checks = source.connect, source.checks
    if lease.listing.filled and source.fill is not None:
        # A window is short and its rows are not those of the list: what is usual there says nothing here.
        fill = source.fill
        return Rules(known=1, all=True, start="all", max_pages=fill.max_pages, paged=fill.paged)
    since = connect.start_value if connect.start == "since" else lease.started_at - connect.start_value
    listed = set(source.list_fields)
    return Rules(
        known=connect.known,
        lookback=connect.lookback,
        all=connect.all,
        start="since" if connect.start in ("since", "length") else connect.start,
        since=since,
        max_pages=connect.max_pages,
        paged=source.paged,
        rows_min=checks.rows_per_page_min,
        coverage={name: share for name, share in checks.coverage.items() if name in listed},
    )


def too_long(page: ListPage, rules: Rules) -> str:
    """Why a date window cannot be read to its end, by what its first page says."""
    if page.last_hint is not None and page.last_hint > rules.max_pages:
        return f"the site says {page.last_hint} pages, and pages.max is {rules.max_pages}"
    rows = len(page.entries) + len(page.refused)
    if page.total_hint is not None and page.next is not None and page.total_hint > rows * rules.max_pages:
        return f"the site says {page.total_hint} rows, more than {rules.max_pages} pages (pages.max) of {rows}"
    return ""


def copied(walk: Walk) -> Walk:
    """A state that the next page leaves as it is. Keys are shared, for a long walk has many."""
    fields = {name: copy.copy(getattr(walk, name)) for name in walk.__struct_fields__}
    return msgspec.structs.replace(walk, **fields | {"signs": copy.deepcopy(walk.signs)})
