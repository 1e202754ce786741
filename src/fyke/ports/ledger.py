"""The ledger is the truth: every discovered item is in it before it is queued, and "once" is decided here.

The arbiter is one conditional update in the record's transaction:
``UPDATE item SET state='stored', pending=0 WHERE id=:id AND generation=:g AND pending=1``.
Every method is one transaction (or one snapshot), safe to repeat when its outcome is unknown. Batches are sorted and
made unique inside. All methods raise TransientError for what passes (busy, locked, disk full, connection lost) and
UsageError for a ledger that was moved or is of a newer schema.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Protocol

from fyke.model import (
    AuditReport,
    Committed,
    DeadFilter,
    DeadLetter,
    DueItem,
    Entry,
    Event,
    Explanation,
    Fields,
    Finding,
    ForgetFilter,
    GapRow,
    Holes,
    KeyItem,
    KeyMove,
    LaneRow,
    Listing,
    NewRun,
    OpenedRun,
    PageCommit,
    PageResult,
    PassEnd,
    PassLease,
    ResolvedSource,
    Result,
    RunRow,
    RunState,
    SourceCounts,
    SourceRow,
    Standing,
    Task,
    WorkerRow,
)


class SourceBook(Protocol):
    async def apply_source(self, source: ResolvedSource) -> str:
        """Write the resolved source and make or widen its typed table; returns "created", "changed" or "unchanged".

        Raises:
            UsageError: identity, scope or table differ from what is stored; a column changed its type; another
            source of
                the scope names another table or key rule. Each names the way out.
        """
        ...

    async def sources(self, *, removed: bool = False) -> list[SourceRow]: ...

    async def pause_source(self, source_id: str, reason: str) -> bool:
        """True if it was not paused before. Paused: no new runs, its tasks are not due; items stay open and are
        shown.
        """
        ...

    async def resume_source(self, source_id: str) -> bool: ...

    async def remove_source(self, source_id: str) -> bool: ...


class RunBook(Protocol):
    async def open_run(self, run: NewRun) -> OpenedRun:
        """Take the slot (P1: UNIQUE(source, slot)); write the run and one pass per listing in one transaction.

        A planned run is not created where it would make up for a slot that has had a run, nor where a later one has
        made up for its slot: that other run is returned.
        """
        ...

    async def last_run(self, source_id: str) -> RunRow | None:
        """The run with the latest slot, whatever its trigger."""
        ...

    async def last_cron_slot(self, source_id: str) -> int | None: ...

    async def running(self, source_id: str | None = None) -> list[RunRow]: ...

    async def expire_runs(self) -> list[RunRow]:
        """End the passes of runs over their limit as timed_out; returns the runs that ended by that."""
        ...

    async def cancel_run(self, run_id: int, reason: str) -> None:
        """End its running passes as timed_out with this reason."""
        ...

    async def start_pass(self, pass_id: int, worker: str) -> PassLease | None:
        """Raise the pass's fence and return what the walk needs; None where the pass has ended or its source is
        paused.
        """
        ...

    async def recognise(self, pass_id: int, keys: Sequence[str]) -> dict[str, Standing]:
        """What is known of these keys in the pass's listing (anchor) and scope (known)."""
        ...

    async def page(self, pass_id: int, fence: int, page: PageCommit) -> PageResult:
        """Write one list page: items, sightings, refused entries, checkpoint, and records where there is no detail.

        One transaction. Changes nothing unless the pass is running and `fence` is the live one. A page repeated is
        written again: nothing new. An entry of a stored item whose hash changed raises the generation (with detail: due
        again; without: a version at once). An entry read before the item's last one changes nothing. `open` items take
        the new request. `dead` (not_found, gave_up) and `ignored` (robots) items open again, at most once a day and 7
        times. `due`: items of the page that are due now and belong to this source.

        Known filters rely on the space named by `cursor("known_space")`, 0 where none may. A page that skipped entries
        in another space than the current one, or whose `fresh` keys are known, is `misjudged` and writes nothing. A
        change of a key that is not in `told`, or that was told in another space, sets the space to 0 in this
        transaction, and so do `forget` and `repair`.
        """
        ...

    async def pass_failed(
        self, pass_id: int, fence: int, *, outcome: str, reason: str, costs: bool, evidence: Fields
    ) -> bool:
        """Record a failed attempt of a walk that goes on later. False where the fence is not the live one."""
        ...

    async def end_pass(self, pass_id: int, fence: int, end: PassEnd) -> RunState | None:
        """End the pass; coverage is joined (complete) or gets a stretch and a hole (gap); the run ends with its last
        pass.

        Returns the run's state if this ended it. Changes nothing unless running and fenced. Writes the events.
        """
        ...

    async def spread(
        self, pass_id: int, fence: int, end: PassEnd, listings: Sequence[Listing], lanes: Sequence[str]
    ) -> list[Task] | None:
        """End a pass that has found listings, and give its run one pass for each, in one transaction.

        `lanes`: of each listing's first request, same order. A listing that the run has already is left as it is.
        Returns the tasks of the new passes, to be offered; None, and nothing is changed, unless the pass is
        running and fenced.
        """
        ...

    async def listings(self, source_id: str) -> list[Listing]:
        """The listings of a source that had a pass, without its date windows."""
        ...

    async def holes(self, source_id: str) -> Holes:
        """The open holes of a source, and the windows that were read whole since the first of them was found."""
        ...

    async def fill_hole(self, hole_id: int, windows: list[str], reason: str) -> str:
        """Close a hole that these windows, named by their listings, hold whole: the caller knows so by their dates.

        Returns why it stays open: the windows show no row of what is covered on one of its sides. Empty: it is closed.
        """
        ...


class ItemBook(Protocol):
    async def still_due(self, refs: Sequence[tuple[int, int]]) -> list[DueItem | None]:
        """For each (item id, generation): the item if it is due at exactly this generation and its source is active."""
        ...

    async def commit(self, results: Sequence[Result]) -> list[tuple[Committed, str]]:
        """Write what visits came to; answer and message for each result, in order.

        One transaction for record, version, visit, item, tally. A row that the database refuses is isolated: its
        item is dead (row_refused, with the database's message) and the rest commits. The first result of a
        generation wins; anything else is `late` and changes nothing (P3). A record whose hash is the head version's
        makes no new version.
        """
        ...

    async def revisit(self, limit: int = 1_000) -> list[Task]:
        """Stored items of active sources whose next visit by the calendar has come are due, each at a new generation.

        Returns what to offer. A commit says when the next visit is (`Result.revisit_at`).
        """
        ...

    async def plan_visits(
        self, source_id: str, when: Callable[[int], int | None], *, after: int = 0, limit: int = 5_000
    ) -> int | None:
        """Plan a visit of each stored item of the source that has none, among `limit` items of any source behind
        `after`.

        `when`: from the time of its first listing that of its next visit, None for no more. Returns what `after` is
        next, None when all were looked at.
        """
        ...

    async def due(self, *, after: tuple[str, int] | None, limit: int, older_than_ms: int) -> list[Task]:
        """What should be in the frontier: pending items and running passes of active sources, older than the grace
        time.

        In order of (kind, id), pages by `after`. `Task.starts`: costing attempts of this generation in the ledger.
        """
        ...

    async def due_keys(self, keys: Sequence[tuple[str, int]]) -> list[bool]:
        """For each (task key, generation) whether the ledger still wants it in the frontier."""
        ...

    async def submit(self, source_id: str, entries: Sequence[Entry], *, listing: str = "submitted") -> PageResult:
        """Add entries that no list shows: by hand, or attachments; they write sightings of this listing."""
        ...

    async def open_count(self, source_ids: Sequence[str] | None = None) -> int:
        """Pending items plus running passes of active sources: 0 means that nothing is due or delayed."""
        ...


class StateBook(Protocol):
    async def migrate(self) -> None:
        """Make or upgrade the core tables; safe to run from several processes at once."""
        ...

    async def identity(self) -> tuple[str, int]:
        """(ledger id, epoch)."""
        ...

    async def now(self) -> int:
        """The server's clock in ms (SQLite: the host's)."""
        ...

    async def lanes(self) -> list[LaneRow]: ...

    async def hold_lane(self, lane: str, until: int, reason: str, *, blocked: bool = False) -> int:
        """Remember a hold; returns the number of blocks in a row (raised by one where `blocked`)."""
        ...

    async def lane_ok(self, lane: str) -> None:
        """A good answer came: blocks in a row are 0 again. Cheap where they are."""
        ...

    async def lane(self, lane: str) -> LaneRow | None:
        """What is remembered of a lane; None where nothing is."""
        ...

    async def robots(self, lane: str) -> LaneRow | None:
        """As `lane`, but None where no answer to robots.txt is remembered."""
        ...

    async def put_robots(self, lane: str, status: int, text: str) -> None: ...

    async def source_blocked(self, source_id: str, limit: int) -> bool:
        """Count a block in a row of the source; pauses it and returns True when `limit` is reached."""
        ...

    async def add_events(self, events: Sequence[Event], *, apart_ms: int = 0) -> None:
        """Write events. `apart_ms`: one of the same kind and group that was written so short before is enough, whoever
        wrote it.
        """
        ...

    async def events(self, after: int = 0, limit: int = 100) -> list[Event]: ...

    async def cursor(self, name: str, value: int | None = None) -> int:
        """Read (or set) a named position, e.g. how far alerts were told."""
        ...

    async def beat(self, worker: WorkerRow) -> None: ...

    async def workers(self, *, since: int) -> list[WorkerRow]: ...

    async def close(self) -> None: ...


class Desk(Protocol):
    """What a person asks and orders."""

    async def counts(self) -> list[SourceCounts]: ...

    async def runs(self, source_id: str | None = None, limit: int = 20) -> list[RunRow]: ...

    async def accept_run(self, run_id: int, reason: str) -> int:
        """A person says that suspicious passes are right: they cover, and their refused rows make no later pass
        suspicious.

        Returns the number of passes accepted.
        """
        ...

    async def gaps(self, *, closed: bool = False) -> list[GapRow]: ...

    async def close_gap(self, gap_id: int, reason: str) -> bool: ...

    async def dead_letters(self, which: DeadFilter, limit: int = 100) -> list[DeadLetter]: ...

    async def replay(self, which: DeadFilter, *, dry_run: bool = False) -> tuple[int, list[Task]]:
        """Dead items open again with a new generation; returns their number and what to offer (at most 1,000)."""
        ...

    async def drop_dead(self, which: DeadFilter, reason: str, *, dry_run: bool = False) -> int:
        """Dead items become ignored, with the reason; their letters are kept as closed."""
        ...

    async def ignore(self, scope: str, key: str, reason: str) -> bool:
        """Close an item by hand; also of paused and removed sources. False: no such item. Stored items stay stored."""
        ...

    async def forget(self, which: ForgetFilter, *, dry_run: bool = False) -> dict[str, int]:
        """Remove items with all that belongs to them, so that a later listing makes them new; rows removed by table."""
        ...

    async def explain(self, scope: str, key: str) -> Explanation | None: ...

    async def near_keys(self, scope: str, key: str) -> tuple[list[str], list[str]]:
        """For a helpful error: the known scopes, and keys of the scope near to `key`."""
        ...

    async def audit(
        self, known_tasks: set[str] | None = None, progress: Callable[[int, int], None] | None = None
    ) -> AuditReport:
        """Count both sides from different tables in one snapshot and name each key that is on one side only.

        `known_tasks`: keys live in the frontier; pending items older than the grace time and not among them are
        `unqueued`. `progress` is told, from any thread, how many rows are counted, and of about how many.
        """
        ...

    async def repair(self, report: AuditReport) -> list[Finding]:
        """Mend the findings that can be mended; returns all findings with `mended` set."""
        ...

    def rows(self, source_id: str, *, where: Sequence[tuple[str, str, Any]] = ()) -> AsyncIterator[list[Fields]]:
        """The typed rows of a source in order of item id, in chunks of at most 1,000."""
        ...


class KeyBook(Protocol):
    """New keys for the items of sources whose key rule or scope has changed; see `fyke source rekey`."""

    async def rekeying(self, source_id: str) -> bool:
        """Whether a change of its keys has begun and not ended."""
        ...

    async def begin_rekey(self, sources: Sequence[ResolvedSource]) -> None:
        """Pause the sources, and note what they become: nothing is added to them until `end_rekey`.

        Raises:
            UsageError: a run of one of them is going.
        """
        ...

    async def key_items(self, source_id: str, after: int, limit: int) -> list[KeyItem]:
        """Items of a source in order of id, those after `after`."""
        ...

    async def items_of_keys(self, scope: str, keys: Iterable[str]) -> list[KeyItem]: ...

    async def items_under(self, scope: str, first: str, behind: str) -> list[KeyItem]:
        """Items whose keys are from `first` on and before `behind`."""
        ...

    async def move_keys(self, source: ResolvedSource, moves: Sequence[KeyMove]) -> int:
        """Give items their new keys, in one transaction with their sightings, rows and letters; returns how many moved.

        What has another key than `KeyMove.key` is left as it is, so it may be repeated. Among the moves are those of
        items that have a key which another one of them gets.

        Raises:
            UsageError: a key is taken, or another command changes these keys.
        """
        ...

    async def end_rekey(self, sources: Sequence[ResolvedSource]) -> None:
        """The sources are what they were to become, and go on unless a person had paused them."""
        ...


class Ledger(SourceBook, RunBook, ItemBook, StateBook, Desk, KeyBook, Protocol):
    """All of it."""
