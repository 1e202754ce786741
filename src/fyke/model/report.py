"""What people and programs read: events, counts, letters, the audit."""

from __future__ import annotations

from msgspec import Struct, field

from fyke.model.walk import RunRow
from fyke.model.words import Fields, ItemState


class Event(Struct, frozen=True):
    """Something a person may want to know. `group`: events of one group are told together."""

    kind: str  # see docs/reference/events.md
    message: str
    source_id: str = ""
    group: str = ""
    at: int = 0
    data: Fields = field(default_factory=dict)
    id: int = 0


class LaneRow(Struct, frozen=True):
    """What must outlive the frontier: holds and robots answers."""

    lane: str
    hold_until: int = 0
    hold_reason: str = ""
    blocks: int = 0  # in a row
    robots_text: str | None = None
    robots_status: int | None = None
    robots_at: int | None = None


class WorkerRow(Struct, frozen=True):
    worker: str
    host: str
    pid: int
    version: str
    pool: str
    started_at: int
    beat_at: int
    in_hand: int = 0
    done: int = 0
    failed: int = 0
    memory: int = 0
    stage: dict[str, dict[str, int]] = field(default_factory=dict)  # stage -> {in, out, failed}


class SourceCounts(Struct, frozen=True):
    source_id: str
    title: str
    table: str
    paused_at: int | None
    paused_reason: str
    entries: int
    listed: int
    stored: int
    dead: int
    ignored: int
    open: int
    refused: int
    versions: int
    oldest_open_at: int | None
    last_run: RunRow | None


class GapRow(Struct, frozen=True):
    id: int
    source_id: str
    listing: str
    found_at: int
    newer_key: str | None
    newer_at: int | None
    older_key: str | None
    older_at: int | None
    reason: str
    closed_at: int | None = None
    closed_reason: str = ""


class DeadLetter(Struct, frozen=True):
    id: int
    item_id: int
    source_id: str
    scope: str
    key: str
    url: str
    outcome: str
    reason: str
    attempts: int
    worker: str
    first_at: int
    died_at: int
    entry: Fields = field(default_factory=dict)
    evidence: Fields = field(default_factory=dict)


class DeadFilter(Struct, frozen=True):
    """Which dead letters; empty = all. `reason` matches the outcome or a part of the reason."""

    source_id: str = ""
    reason: str = ""
    key: str = ""
    scope: str = ""


class ForgetFilter(Struct, frozen=True):
    source_id: str = ""
    scope: str = ""
    key: str = ""
    since: int | None = None
    until: int | None = None


class KeyItem(Struct, frozen=True):
    """A stored item as its key is told again: its last entry, its newest version, the values of its listing."""

    item_id: int
    source_id: str
    scope: str
    key: str
    url: str
    state: ItemState
    entry: Fields
    record: Fields
    values: dict[str, str]


class KeyMove(Struct, frozen=True):
    """An item gets another scope or key. `table`: where its row is. `into`: it is the same as that item, and goes.

    `entry` and `entry_hash`: of an attachment, which names the item that it belongs to.
    """

    item_id: int
    scope: str
    key: str
    new_scope: str
    new_key: str
    table: str
    into: int = 0
    entry: Fields | None = None
    entry_hash: bytes = b""


class AuditSource(Struct, frozen=True):
    entries: int
    listed: int
    stored: int
    dead: int
    ignored: int
    open: int
    unqueued: int | None  # None: the frontier was not asked
    unaccounted: int


class Finding(Struct, frozen=True):
    """A key that is on one side only. `mendable`: `fyke audit --repair` can mend it. `item_id` is 0 where none is
    meant.
    """

    kind: str
    source_id: str
    scope: str
    key: str
    message: str
    mendable: bool
    mended: bool = False
    item_id: int = 0


class AuditReport(Struct, frozen=True):
    """Both sides of `listed = stored + dead + ignored + open`, each counted from another table in one snapshot."""

    entries: int
    new: int
    known: int
    refused: int
    listed: int
    stored: int
    dead: int
    ignored: int
    open: int
    unqueued: int | None  # None: the frontier was not asked
    unaccounted: int
    open_holes: int
    by_source: dict[str, AuditSource]
    findings: list[Finding]  # at most 1,000; `unaccounted` counts all
    balanced: bool


class Explanation(Struct, frozen=True):
    """The whole life of one item; `lines` in order of time: (ms, what happened)."""

    scope: str
    key: str
    item_id: int
    source_id: str
    state: ItemState
    generation: int
    pending: bool
    url: str
    table: str
    lines: list[tuple[int, str]]
    sightings: list[Fields]
    visits: list[Fields]
    versions: list[Fields]
    dead: list[Fields]
    task: Fields | None = None
    relations: list[Fields] = []  # key, kind, field, shared; `inverse`: the other one is `kind` to this one
    attachments: list[Fields] = []  # scope, key, url, state
    revisit_at: int | None = None
