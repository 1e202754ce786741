"""Steps for the ledger's contract: what a lister and a collector do, with each value in the test's hands."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from fyke.model import (
    Column,
    ColumnType,
    Committed,
    Entry,
    Event,
    Explanation,
    Fields,
    ItemState,
    Listing,
    NewRun,
    OpenedRun,
    Outcome,
    PageCommit,
    PageResult,
    PassEnd,
    PassLease,
    PassState,
    RefusedEntry,
    ResolvedSource,
    Result,
    RunState,
    SourceCounts,
    Task,
)
from fyke.ports import Ledger
from fyke.testing.clock import FakeClock

LANE = "site.example"
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
COLUMNS = (
    Column("title", required=True),
    Column("budget", ColumnType.NUMBER),
    Column("lots", ColumnType.INTEGER, expected=False),
    Column("parts", ColumnType.JSON, expected=False),
)


def hash_of(fields: Fields) -> bytes:
    return blake2b(repr(fields).encode("utf-8", "backslashreplace"), digest_size=16).digest()


def make_source(id: str = "gov", **changes: Any) -> ResolvedSource:
    source = ResolvedSource(
        id=id,
        title=f"Notices of {id}",
        text=f'{{"id":"{id}"}}',
        hash=f"text-of-{id}",
        scope="notice",
        table="gov_procure",
        identity="field id",
        columns=COLUMNS,
        has_detail=True,
    )
    return msgspec.structs.replace(source, **changes)


def make_entry(key: str, title: str = "", *, position: int = 0, direct: bool = False, **changes: Any) -> Entry:
    fields: Fields = {"title": title or f"公告 {key}"}
    url, lane = ("", "") if direct else (f"https://{LANE}/{key}", LANE)
    entry = Entry(position=position, key=key, fields=fields, hash=hash_of(fields), url=url, lane=lane)
    return msgspec.structs.replace(entry, **changes)


def refusal(text: str, position: int = 0) -> RefusedEntry:
    return RefusedEntry(position, "no link", text, hash_of({"text": text}))


def make_result(task: Task, record: Fields | None = None, **changes: Any) -> Result:
    """A good visit of the task; `changes` make it another one."""
    found = record if record is not None else {"title": f"record of {task.ref}"}
    result = Result(
        item_id=task.ref,
        generation=task.generation,
        outcome=Outcome.OK,
        final=ItemState.STORED,
        worker="w1",
        started_at=1_000,
        ended_at=1_230,
        starts=1,
        record=found,
        record_hash=hash_of(found),
    )
    return msgspec.structs.replace(result, **changes)


def failure(task: Task, outcome: Outcome, final: ItemState | None, **changes: Any) -> Result:
    result = make_result(task, outcome=outcome, final=final, **changes)
    return msgspec.structs.replace(result, record=None, record_hash=b"")


class Book:
    """A ledger and its clock, with a source `gov` that has details and one that has none, `feed`."""

    def __init__(self, ledger: Ledger, clock: FakeClock) -> None:
        self.ledger, self.clock = ledger, clock

    async def prepare(self) -> Book:
        await self.ledger.apply_source(make_source())
        feed = make_source("feed", scope="feed", table="feed_rows", has_detail=False)
        await self.ledger.apply_source(feed)
        return self

    async def open(self, source: str = "gov", *listings: str, slot: int | None = None, **changes: Any) -> OpenedRun:
        names = listings or ("all",)
        at = self.clock.now() if slot is None else slot
        run = NewRun(source, at, [Listing(name) for name in names], [LANE] * len(names))
        return await self.ledger.open_run(msgspec.structs.replace(run, **changes))

    async def begin_all(self, *listings: str) -> list[PassLease]:
        """Open a run of these listings and start all its passes."""
        return [await self.start(task) for task in (await self.open("gov", *listings)).tasks]

    async def begin(self, source: str = "gov", listing: str = "all") -> PassLease:
        """Open a run of one listing, a second later than the last one, and start its pass.

        A run of the source that was still going is cancelled.
        """
        self.clock.advance(SECOND)
        for row in await self.ledger.running(source):
            await self.ledger.cancel_run(row.id, "another walk begins")
        run = await self.open(source, listing)
        return await self.start(run.tasks[0])

    async def start(self, task: Task) -> PassLease:
        lease = await self.ledger.start_pass(task.ref, "w1")
        assert lease is not None
        return lease

    async def show(
        self, lease: PassLease, *entries: Entry, refused: Sequence[RefusedEntry] = (), **changes: Any
    ) -> PageResult:
        page = PageCommit(1, 0, f"https://{LANE}/list", self.clock.now(), list(entries), list(refused), b"page 1")
        return await self.ledger.page(lease.pass_id, lease.fence, msgspec.structs.replace(page, **changes))

    async def end(
        self, lease: PassLease, state: PassState = PassState.COMPLETE, newest: str = "", oldest: str = "", **more: Any
    ) -> RunState | None:
        end = PassEnd(state, newest_key=newest or None, oldest_key=oldest or None, **more)
        return await self.ledger.end_pass(lease.pass_id, lease.fence, end)

    async def walk(
        self,
        *keys: str | Entry,
        source: str = "gov",
        listing: str = "all",
        state: PassState = PassState.COMPLETE,
        **end: Any,
    ) -> PageResult:
        """A whole pass of one page that shows these keys."""
        lease = await self.begin(source, listing)
        direct = source == "feed"
        entries = [make_entry(key, direct=direct) if isinstance(key, str) else key for key in keys]
        result = await self.show(lease, *entries)
        shown = [entry.key for entry in entries] or [""]
        await self.end(lease, state, shown[0], shown[-1], **end)
        return result

    async def listed(self, *keys: str | Entry, source: str = "gov") -> list[Task]:
        """Walk one page; what it made due, in order of id."""
        return sorted((await self.walk(*keys, source=source)).due, key=lambda task: task.ref)

    async def stored(self, key: str, record: Fields | None = None) -> Task:
        """List and collect one item."""
        (task,) = await self.listed(key)
        assert await self.commit(make_result(task, record)) == [Committed.COMMITTED]
        return task

    async def commit(self, *results: Result) -> list[Committed]:
        return [answer for answer, _ in await self.ledger.commit(results)]

    async def look(self, key: str, scope: str = "notice") -> Explanation:
        found = await self.ledger.explain(scope, key)
        assert found is not None
        return found

    async def state(self, key: str, scope: str = "notice") -> tuple[str, int, bool]:
        """(state, generation, pending)"""
        found = await self.look(key, scope)
        return found.state.value, found.generation, found.pending

    async def rows(self, source: str = "gov") -> dict[str, Fields]:
        return {row["_key"]: row async for chunk in self.ledger.rows(source) for row in chunk}

    async def count(self, source: str = "gov") -> SourceCounts:
        return next(row for row in await self.ledger.counts() if row.source_id == source)

    async def told(self, kind: str) -> list[Event]:
        return [event for event in await self.ledger.events(limit=1_000) if event.kind == kind]

    async def coverage(self, listing: str = "all", source: str = "gov") -> tuple[int, int, int, str | None]:
        """(stretches, open holes, anchors, watermark), as the next walk will see it."""
        lease = await self.begin(source, listing)
        await self.end(lease, PassState.FAILED)
        found = lease.coverage
        return found.stretches, found.open_holes, found.anchors, found.watermark_key

    async def due(self) -> list[Task]:
        return await self.ledger.due(after=None, limit=1_000, older_than_ms=0)

    async def balanced(self) -> None:
        """P2: both sides of the audit are equal, and each key is on both."""
        report = await self.ledger.audit()
        assert report.findings == []
        assert report.balanced
        assert report.entries == report.new + report.known + report.refused
        assert report.listed == report.stored + report.dead + report.ignored + report.open
