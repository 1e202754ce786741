"""Runs, passes and their pages."""

from __future__ import annotations

from msgspec import Struct, field

from fyke.model.source import Entry, Listing, RefusedEntry
from fyke.model.task import Task
from fyke.model.words import PassState, RunState


class NewRun(Struct, frozen=True):
    """A due moment of a source. `slot` is UNIQUE per source; `covers_from` the first missed slot merged into it."""

    source_id: str
    slot: int
    listings: list[Listing]
    lanes: list[str]  # of each listing's first request, same order
    trigger: str = "cron"  # cron, hand, fill
    covers_from: int | None = None
    limit_ms: int = 3_600_000
    skipped: str = ""  # a reason: the run is recorded as skipped and has no passes


class OpenedRun(Struct, frozen=True):
    """`created` is False where the slot was taken already. `tasks`: the listing tasks to offer."""

    run_id: int
    created: bool
    state: RunState
    tasks: list[Task]


class PassRow(Struct, frozen=True):
    id: int
    listing: str
    state: PassState
    reason: str
    note: str
    pages: int
    entries: int
    new: int
    known: int
    refused: int
    started_at: int | None
    ended_at: int | None


class RunRow(Struct, frozen=True):
    """A run as people read it; counts are sums over its passes."""

    id: int
    source_id: str
    slot: int
    covers_from: int | None
    trigger: str
    state: RunState
    reason: str
    started_at: int
    ended_at: int | None
    deadline: int
    accepted_at: int | None
    entries: int
    new: int
    known: int
    refused: int
    passes: list[PassRow]


class Coverage(Struct, frozen=True):
    """What is known of one listing. `anchors`: keys inside covered stretches; `usual_rows`: entries of the last good
    page one.
    """

    stretches: int = 0
    open_holes: int = 0
    anchors: int = 0
    watermark_key: str | None = None
    watermark_at: int | None = None
    usual_rows: int = 0


class PassLease(Struct, frozen=True):
    """The right to walk one pass: `fence` is checked by `page` and `end_pass`."""

    pass_id: int
    fence: int
    run_id: int
    source_id: str
    source_hash: str
    listing: Listing
    coverage: Coverage
    deadline: int
    started_at: int
    attempts: int  # costing failures of this pass so far
    soft_failures: int
    checkpoint: bytes | None = None
    checkpoint_at: int = 0
    etag: str = ""
    last_modified: str = ""
    accepted_refusals: frozenset[bytes] = frozenset()
    space: str = ""  # names the ledger and its epoch, for what is remembered of it elsewhere
    known_space: int = 0
    """Names this state of its items: what was remembered of them under another name is void. 0: it has no name now."""


class Standing(Struct, frozen=True):
    """What the ledger knows of a key of this listing. `anchor`: this listing showed it inside a covered stretch.

    `hash`: of the item's last entry, where it is this source's. `settled`: the item is stored, nothing of it is due.
    """

    known: bool
    anchor: bool
    hash: bytes = b""
    settled: bool = False


class PageCommit(Struct):
    """One list page to be written: entries, refusals and checkpoint go in one transaction.

    An empty `checkpoint` leaves the one before: a walk that is killed reads a few pages again. `skipped`: entries
    that are not among `entries`, for a known filter said that they are settled, as of `known_space` (0: no such
    filter was asked). `fresh`: keys of which it said that the ledger has never had them. `told`: keys of which it
    was told in that space that their entries have changed; a change that it was not told of ends the space. `low`:
    new items wait behind those of other pages. `aside`: the rows say other things than those of the source's lists,
    so that items which are there stay as they are.
    """

    number: int  # page of this walk, from 1
    look: int  # 0: the walk itself; 1-3: the second looks
    url: str
    read_at: int
    entries: list[Entry]
    refused: list[RefusedEntry]
    checkpoint: bytes
    skipped: int = 0
    fresh: frozenset[str] = frozenset()
    known_space: int = 0
    told: frozenset[str] = frozenset()
    low: bool = False
    aside: bool = False


class Hole(Struct, frozen=True):
    """A hole in what was covered that is open. Times in ms; `start`: older than all that was covered."""

    id: int
    listing: Listing
    newer_at: int | None
    older_at: int | None
    start: bool
    found_at: int


class Holes(Struct, frozen=True):
    """The open holes of a source, and what was done about them.

    `walked`: date windows that were read whole since, as (its listing, from, to, when its run began). `tried_at`:
    when the last run that fills began, 0 where there was none. `going`: one that still goes.
    """

    holes: list[Hole]
    walked: list[tuple[Listing, int, int, int]]
    tried_at: int = 0
    going: int | None = None


class PageResult(Struct, frozen=True):
    """`accepted` False: the fence is not the live one, nothing was written. `due`: what to offer now.

    `misjudged`: what a known filter said was wrong (the ledger has had some of `fresh`, or entries were skipped as of a
    space that is over); nothing was written, recognise all and write again. `known_space`: the one from now on.
    """

    accepted: bool
    new: int = 0
    known: int = 0
    refused: int = 0
    changed: int = 0
    due: list[Task] = field(default_factory=list)
    misjudged: bool = False
    known_space: int = 0


class PassEnd(Struct, frozen=True):
    """How a walk ended. Edges are those of the keys shown in it and are used when the state is complete or gap.

    `connected`: of a suspicious walk, that it would have been complete; for a person who accepts it.
    """

    state: PassState
    reason: str = ""
    note: str = ""  # for people, e.g. "no start given: only the first page was read"
    newest_key: str | None = None
    newest_at: int | None = None
    oldest_key: str | None = None
    oldest_at: int | None = None
    first_page_rows: int = 0
    etag: str = ""
    last_modified: str = ""
    connected: bool = False
