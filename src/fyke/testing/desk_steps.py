"""Steps that bring a ledger into a state through its own methods: a listing is walked, items are collected or die."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from fyke.model import (
    Column,
    ColumnType,
    Entry,
    Fields,
    ItemState,
    Listing,
    NewRun,
    Outcome,
    PageCommit,
    PageResult,
    PassEnd,
    PassState,
    RefusedEntry,
    ResolvedSource,
    Result,
    Task,
)
from fyke.ports import Ledger
from fyke.testing.clock import FakeClock

SECOND, HOUR = 1_000, 3_600_000
COLUMNS = (
    Column("title", required=True),
    Column("budget", ColumnType.NUMBER),
    Column("published", ColumnType.DATETIME),
    Column("open_bid", ColumnType.BOOLEAN, expected=False),
    Column("lots", ColumnType.JSON, expected=False),
)


def digest(fields: Fields) -> bytes:
    return blake2b(msgspec.json.encode(fields), digest_size=16).digest()


def url_of(key: str) -> str:
    return f"https://notices.example/{key}"


def fields_of(key: str, title: str = "") -> Fields:
    return {"title": title or f"公告 {key}"}


def record_of(key: str, title: str = "") -> Fields:
    return {
        **fields_of(key, title),
        "budget": "569800.5",
        "published": "2025-06-27T17:52:00+08:00",
        "open_bid": True,
        "lots": [{"n": 1}, {"n": 2}],
    }


class Steps:
    """Drives one ledger. Each walk is a run of its own, an hour after the one before."""

    def __init__(self, ledger: Ledger, clock: FakeClock) -> None:
        self.ledger, self.clock = ledger, clock

    async def source(
        self, name: str = "ggzy", *, detail: bool = True, scope: str = "notice", table: str = "notices"
    ) -> ResolvedSource:
        source = ResolvedSource(
            id=name,
            title=f"Notices of {name}",
            text="{}",
            hash=f"hash-{name}",
            scope=scope,
            table=table,
            identity="id",
            columns=COLUMNS,
            has_detail=detail,
        )
        await self.ledger.apply_source(source)
        return source

    async def walk(
        self,
        *pages: Sequence[str],
        source: str = "ggzy",
        listing: str = "main",
        state: PassState = PassState.COMPLETE,
        reason: str = "",
        connected: bool = False,
        refused: Sequence[str] = (),
        title: str = "",
        detail: bool = True,
    ) -> tuple[int, list[PageResult]]:
        """Walk a listing that shows these keys, page by page; refused rows are on the last one."""
        self.clock.advance(HOUR)
        run = await self.ledger.open_run(NewRun(source, self.clock.now(), [Listing(listing)], ["notices.example"]))
        (task,) = run.tasks
        lease = await self.ledger.start_pass(task.ref, "w1")
        assert lease is not None
        results, shown = [], [key for page in pages for key in page]
        for number, keys in enumerate(pages, 1):
            self.clock.advance(SECOND)
            last = number == len(pages)
            page = PageCommit(
                number=number,
                look=0,
                url=f"https://notices.example/list/{number}",
                read_at=self.clock.now(),
                entries=[entry(key, at, title=title, detail=detail) for at, key in enumerate(keys)],
                refused=[refusal(text, len(keys) + at) for at, text in enumerate(refused)] if last else [],
                checkpoint=b"",
            )
            results.append(await self.ledger.page(task.ref, lease.fence, page))
        end = PassEnd(
            state=state,
            reason=reason,
            connected=connected,
            newest_key=shown[0] if shown else None,
            oldest_key=shown[-1] if shown else None,
            first_page_rows=len(pages[0]) if pages else 0,
        )
        await self.ledger.end_pass(task.ref, lease.fence, end)
        return run.run_id, results

    async def listed(self, *keys: str, **settings: Any) -> list[Task]:
        """Walk one page; the tasks that it made due, in order of key."""
        _, (result,) = await self.walk(keys, **settings)
        return result.due

    async def visit(
        self,
        tasks: Sequence[Task],
        outcome: Outcome = Outcome.OK,
        final: ItemState | None = ItemState.STORED,
        *,
        reason: str = "",
        title: str = "",
        delay_ms: int = 0,
    ) -> None:
        """One visit of each task, with this end."""
        due = await self.ledger.still_due([(task.ref, task.generation) for task in tasks])
        results = []
        for item in due:
            assert item is not None
            record = record_of(item.key, title) if outcome is Outcome.OK else None
            started = self.clock.now()
            self.clock.advance(230)
            result = Result(
                item_id=item.item_id,
                generation=item.generation,
                outcome=outcome,
                final=final,
                worker="w1",
                started_at=started,
                ended_at=self.clock.now(),
                starts=1,
                reason=reason,
                costs=outcome is not Outcome.OK,
                delay_ms=delay_ms,
                record=record,
                record_hash=digest(record) if record else b"",
                entry_hash=item.entry_hash,
                evidence={"status": 200 if outcome is Outcome.OK else 404},
            )
            results.append(result)
        await self.ledger.commit(results)

    async def stored(self, *keys: str, **settings: Any) -> None:
        """List and collect these keys."""
        await self.visit(await self.listed(*keys, **settings))

    async def died(self, *keys: str, outcome: Outcome = Outcome.NOT_FOUND, reason: str = "HTTP 404") -> None:
        """List these keys; their only visit ends dead."""
        await self.visit(await self.listed(*keys), outcome, ItemState.DEAD, reason=reason)


def entry(key: str, position: int = 0, *, title: str = "", detail: bool = True) -> Entry:
    fields = fields_of(key, title) if detail else record_of(key, title)
    url, lane = (url_of(key), "notices.example") if detail else ("", "")
    return Entry(position=position, key=key, fields=fields, hash=digest(fields), url=url, lane=lane)


def refusal(text: str, position: int = 0) -> RefusedEntry:
    return RefusedEntry(position=position, reason="no link", raw=text, fingerprint=digest({"text": text}))
