"""A known filter in front of the ledger changes no row: exact and Bloom, filled, wiped and lied to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers.redis.known_filter import RedisKnownFilter
from fyke.ledgers.sql import SqlLedger
from fyke.model import Entry, PageCommit, PageResult, PassLease
from fyke.pipeline.knowing import Knowing
from fyke.ports import KnownFilter
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_steps import Book, make_result

SCOPE = "notice"


@pytest.fixture(params=["exact", "bloom"])
async def known_filter(
    request: pytest.FixtureRequest, fresh_redis: Callable[..., str]
) -> AsyncIterator[RedisKnownFilter]:
    found = RedisKnownFilter.at(
        fresh_redis(), FakeClock(), kind=request.param, namespace="test", planned=10_000, error_rate=0.001
    )
    yield found
    await found.close()


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[Book]:
    clock = FakeClock()
    database = SqliteDatabase(tmp_path / "ledger.db")
    ledger = SqlLedger(database, clock)
    await ledger.migrate()
    yield await Book(ledger, clock).prepare()
    await database.close()


class Walk:
    """Writes pages as the lister does."""

    def __init__(self, book: Book, known_filter: KnownFilter | None) -> None:
        self.book, self.knowing = book, Knowing(book.ledger, book.clock, known_filter)
        self.skipped = 0

    async def show(self, lease: PassLease, *entries: Entry) -> PageResult:
        for ask_filter in (True, False):
            known = await self.knowing.recognise(lease, SCOPE, entries, ask_filter=ask_filter)
            left = [entry for entry in entries if entry.key not in known.skipped]
            self.skipped = len(entries) - len(left)
            commit = PageCommit(
                1, 0, "http://e.example/", self.book.clock.now(), left, [], b"", self.skipped, known.fresh
            )
            result = await self.book.ledger.page(lease.pass_id, lease.fence, commit)
            if not result.misjudged:
                await self.knowing.written(lease, SCOPE, entries)
                return result
        raise AssertionError("misjudged without a filter")

    async def round(self, *entries: Entry) -> PageResult:
        """A complete walk of one page, and the details that are due."""
        self.book.clock.advance(60_000)
        lease = await self.book.begin()
        result = await self.show(lease, *entries)
        await self.book.complete(lease)
        await self.book.commit(*(make_result(task) for task in result.due))
        return result
