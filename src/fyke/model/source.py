"""A source, and what it reads out of responses."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from fyke.model.visit import Relation
from fyke.model.words import ColumnType, Fields, Outcome


class Column(Struct, frozen=True):
    """One declared field of a typed table. `expected`: counts for fill rates; `required`: nothing is stored without
    it.
    """

    name: str
    type: ColumnType = ColumnType.TEXT
    required: bool = False
    expected: bool = True


class LanePolicy(Struct, frozen=True):
    """What one host bears, for the whole cluster. `gap` and `jitter` in ms: starts are gap ± jitter apart."""

    lane: str
    gap: int = 1200
    jitter: int = 400
    concurrency: int = 2


DISCOVERING = "each.discover"
FILLING = "fill"


class Listing(Struct, frozen=True):
    """One list of a source, with its own coverage. `name` is stable: it is the key of the coverage."""

    name: str
    values: dict[str, str] = field(default_factory=dict)

    @property
    def discovers(self) -> bool:
        """Whether its pass finds the run's further listings, and no entries."""
        return self.name == DISCOVERING or self.name.startswith(f"{DISCOVERING}:")

    @property
    def filled(self) -> str:
        """The listing whose holes a date window fills, of a window of one; else nothing."""
        return self.name.split(" ", 2)[2] if self.name.startswith(f"{FILLING} ") else ""


class Entry(Struct):
    """A row of a list page that has a key."""

    position: int
    key: str
    fields: Fields
    hash: bytes  # of the compared fields, see policy.identity.content_hash
    url: str = ""
    lane: str = ""  # "": no detail page, the entry is the record
    pinned: bool = False
    published_at: int | None = None
    relations: list[Relation] | None = None  # of an entry that is the record


class RefusedEntry(Struct):
    """A row that became no item, kept with its reason. `fingerprint` is that of its text, for `fyke runs accept`."""

    position: int
    reason: str
    raw: str
    fingerprint: bytes


class ListPage(Struct):
    """What a source reads out of one list response.

    `outcome`: ok, blocked, login, misfit or error (then `reason` says why and nothing else counts). `blank`: the
    container is there and has no rows. `next`: what `Source.list_request` needs for the next page, None where the
    site shows none.
    `last_by_hint`: True or False where the page itself says whether it is the last, else None. `total_hint` and
    `last_hint`: how many rows and pages the site says it has. `doubt`: why it proves nothing that the pages end here.
    `index`: the page has no rows of its own and names the pages that have, the first of them is `next`. A `next` with
    `rest` names parts that do not hang on each other: where one is gone the walk goes on with the rest.
    """

    outcome: Outcome
    reason: str = ""
    entries: list[Entry] = field(default_factory=list)
    refused: list[RefusedEntry] = field(default_factory=list)
    next: dict[str, Any] | None = None
    blank: bool = False
    last_by_hint: bool | None = None
    total_hint: int | None = None
    flags: list[str] = field(default_factory=list)  # doubts about values that are left out, for people
    last_hint: int | None = None
    doubt: str = ""
    index: bool = False


class FoundListings(Struct):
    """The listings that a source reads out of the answer to a discovery (`each.discover`).

    `outcome`: as of a ListPage; no listing at all is a misfit. `refused`: rows that gave no listing.
    """

    outcome: Outcome
    reason: str = ""
    listings: list[Listing] = field(default_factory=list)
    refused: list[RefusedEntry] = field(default_factory=list)


class DetailPage(Struct):
    """What a source reads out of one detail response. `missing`: required fields that had no value (outcome misfit)."""

    outcome: Outcome
    reason: str = ""
    fields: Fields = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)  # doubts about values that are left out, for people
    attachments: list[Fields] = field(default_factory=list)  # url and name of each file that the page names


class ResolvedSource(Struct, frozen=True):
    """A source as the ledger keeps it: `text` is the whole resolved file (JSON), `hash` its fingerprint.

    `identity` is the canonical text of the key rule: sources of one scope must agree on it and on `table`.
    """

    id: str
    title: str
    text: str
    hash: str
    scope: str
    table: str
    identity: str
    columns: tuple[Column, ...]
    has_detail: bool
    lanes: tuple[LanePolicy, ...] = ()
    pool: str = "text"
    priority: int = 1  # 0 high, 1 normal, 2 low


class SourceRow(Struct, frozen=True):
    """A source in the ledger."""

    number: int
    source: ResolvedSource
    applied_at: int  # when this source first came into the ledger
    paused_at: int | None = None
    paused_reason: str = ""
    paused_total: int = 0  # ms, whole pauses so far
    removed_at: int | None = None
