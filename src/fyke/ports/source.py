"""A source: listing pages → entries, responses → records. Made from a file or written as a Python class of this shape.

A source is pure: no I/O, no clock, no state. The same response gives the same entries. Exceptions from users' steps are
caught inside and become outcome `error` with the step's name and the exception's text.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from fyke.model import (
    DetailPage,
    FetchPolicy,
    Fields,
    FoundListings,
    Listing,
    ListPage,
    Relation,
    Request,
    ResolvedSource,
    Response,
)


class SourceSchedule(Struct, frozen=True):
    """`cron`: expressions in `timezone` (IANA). `limit` in ms."""

    cron: tuple[str, ...] = ()
    timezone: str = "Asia/Shanghai"
    late: str = "run"  # run | skip
    overlap: str = "skip"  # skip | queue | cancel
    limit: int = 3_600_000


class SourceConnect(Struct, frozen=True):
    """When a walk connects: after `known` anchors in a row, then `lookback` ms further. `all`: walk to the end.

    `start`: how far back the first walk goes: "page" (first page only), "all", or an absolute time or a length in ms.
    """

    known: int = 1
    lookback: int = 0
    all: bool = False
    start: str = "page"  # page | all | since | length
    start_value: int = 0  # since: ms epoch; length: ms before the run's slot
    max_pages: int = 100


class SourceChecks(Struct, frozen=True):
    """`rows_per_page_min`: the last page is exempt. `coverage`: least share of rows with a value, by field."""

    rows_per_page_min: int | None = None
    coverage: dict[str, float] = {}


class SourceFill(Struct, frozen=True):
    """How older entries are asked for by date. `window` in ms; `paged` and `max_pages` of one window.

    `aside`: the rows have fields of their own, so that items which are known stay as they are.
    """

    window: int
    max_pages: int = 100
    paged: bool = True
    aside: bool = False


class Source(Protocol):
    resolved: ResolvedSource
    schedule: SourceSchedule
    connect: SourceConnect
    checks: SourceChecks
    fetch: FetchPolicy
    list_fields: tuple[str, ...]
    compared: tuple[str, ...]
    """Record fields whose change makes a new version."""
    paged: bool
    """Whether a list can have more than one page."""
    steps: int
    """Number of detail steps (hops); 0: the entry is the record."""
    fill: SourceFill | None
    """Whether date windows can be asked for: listings that `policy.windows` makes."""

    def listings(self) -> list[Listing]:
        """At least one; several with `each`. One that discovers stands for those that its pass finds in each run."""
        ...

    def list_request(self, listing: Listing, cursor: dict[str, Any] | None) -> Request:
        """The request of the first page (`cursor` None) or of the page that `ListPage.next` named; of a listing that
        discovers, what its values are read from.
        """
        ...

    def read_listings(self, listing: Listing, response: Response) -> FoundListings:
        """What a listing that discovers stands for. Only asked where `listings` names one."""
        ...

    def read_page(self, listing: Listing, response: Response, cursor: dict[str, Any] | None) -> ListPage:
        """Entries and refusals of one list page. A row without a key is refused, never given a made-up key."""
        ...

    def detail_request(self, step: int, fields: Fields) -> Request:
        """The request of hop `step` (from 0), from the entry's fields and those of the hops before.

        Raises:
            UsageError: a placeholder has no value.
        """
        ...

    def read_detail(self, step: int, response: Response, fields: Fields) -> DetailPage:
        """Fields of one hop. `fields`: the entry's overlaid by those of the hops before."""
        ...

    def revisit_at(self, opened_at: int, now: int) -> int | None:
        """When an item that was first listed at `opened_at` is visited next, in ms; None: not again."""
        ...

    def relations(self, record: Fields) -> list[Relation] | None:
        """What relates this record to others of its scope; None: the source has no such rules."""
        ...

    def record(self, entry: Fields, detail: Fields) -> tuple[Fields, bytes, dict[str, bool]]:
        """The record as it is stored: entry overlaid by detail, restricted to `resolved.columns`, values in the
        columns' canonical form; the hash of its compared fields; and for each expected field whether it has a value.
        """
        ...
