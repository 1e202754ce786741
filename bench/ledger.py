"""How fast rows pass the ledger: list pages of 50 entries, new and known, and commits of many visits at once.

`python bench/ledger.py` measures each database that can be started here; `--json` is for programs. Asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path

from fyke.app import SystemClock
from fyke.db.sqlite import SqliteDatabase
from fyke.ledgers.sql import SqlLedger
from fyke.model import (
    Column,
    ColumnType,
    Committed,
    Entry,
    ItemState,
    Listing,
    NewRun,
    Outcome,
    PageCommit,
    PassEnd,
    PassState,
    ResolvedSource,
    Result,
    Task,
)
from fyke.ports import Ledger

PER_PAGE = 50
SOURCE = ResolvedSource(
    id="bench",
    title="bench",
    text="{}",
    hash="1",
    scope="bench",
    table="bench_rows",
    identity="key",
    columns=(Column("title"), Column("buyer"), Column("budget", ColumnType.NUMBER), Column("body")),
    has_detail=True,
)


def entry(number: int) -> Entry:
    key = blake2b(number.to_bytes(8, "big"), digest_size=16).hexdigest()  # random order: the worst for an index
    fields = {"title": f"某某市公共资源交易中心采购公告 {number}"}
    return Entry(
        number % PER_PAGE, key, fields, number.to_bytes(16, "big"), f"http://e.example/{key}.html", "e.example"
    )


def result(task: Task) -> Result:
    record = {"title": f"采购公告 {task.ref}", "buyer": "某某市教育局", "budget": task.ref * 100, "body": "正文" * 60}
    return Result(
        item_id=task.ref,
        generation=task.generation,
        outcome=Outcome.OK,
        final=ItemState.STORED,
        worker="bench",
        started_at=1_000,
        ended_at=1_200,
        starts=1,
        record=record,
        record_hash=task.ref.to_bytes(16, "big"),
        filled={"title": True, "buyer": True, "budget": True, "body": True},
    )


async def walk(ledger: Ledger, pages: list[list[Entry]]) -> tuple[list[Task], float]:
    """One pass over all pages: what it made due, and its seconds."""
    await asyncio.sleep(0.002)  # each walk has a slot of its own
    now = await ledger.now()
    opened = await ledger.open_run(NewRun("bench", now, [Listing("main")], ["e.example"]))
    lease = await ledger.start_pass(opened.tasks[0].ref, "bench")
    assert lease is not None
    began, due = time.perf_counter(), []
    for number, entries in enumerate(pages, 1):
        commit = PageCommit(number, 0, "http://e.example/", now, entries, [], b"{}")
        due += (await ledger.page(lease.pass_id, lease.fence, commit)).due
    seconds = time.perf_counter() - began
    await ledger.end_pass(lease.pass_id, lease.fence, PassEnd(PassState.COMPLETE))
    return due, seconds


async def fill(ledger: Ledger, first: int, rows: int, batch: int) -> tuple[float, float, float]:
    """Seconds of the pages and of the commits of new rows, and CPU seconds of this process for the commits."""
    pages = [[entry(number) for number in range(at, at + PER_PAGE)] for at in range(first, first + rows, PER_PAGE)]
    due, listing = await walk(ledger, pages)
    tasks = sorted(due, key=lambda task: task.ref)
    results = [[result(task) for task in tasks[at : at + batch]] for at in range(0, rows, batch)]
    began, cpu = time.perf_counter(), _cpu()
    for part in results:
        answers = await ledger.commit(part)
        assert all(answer is Committed.COMMITTED for answer, _ in answers)
    return listing, time.perf_counter() - began, _cpu() - cpu


async def measure(ledger: Ledger, rows: int, batch: int, settle: Callable[[], Awaitable[None]]) -> dict[str, float]:
    """Rows/s of each step, and CPU microseconds of this process for each row of a commit.

    On a ledger that has `rows` items already; `settle` lets the database look at them.
    """
    await ledger.migrate()
    await ledger.apply_source(SOURCE)
    await fill(ledger, 0, rows, batch)
    await settle()
    listing, committing, cpu = await fill(ledger, rows, rows, batch)
    pages = [[entry(number) for number in range(at, at + PER_PAGE)] for at in range(0, rows, PER_PAGE)]
    _, known = await walk(ledger, pages)
    return {
        "page_new": rows / listing,
        "page_known": rows / known,
        f"commit_{batch}": rows / committing,
        "commit_client_us": cpu / rows * 1e6,
    }


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@asynccontextmanager
async def sqlite() -> AsyncIterator[Ledger]:
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqlLedger(SqliteDatabase(Path(folder) / "bench.db"), SystemClock())
        yield ledger
        await ledger.close()


async def nothing() -> None: ...


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=500)
    given = parser.parse_args()
    async with sqlite() as ledger:
        print(json.dumps(await measure(ledger, given.rows, given.batch, nothing)))


if __name__ == "__main__":
    asyncio.run(main())
