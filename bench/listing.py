"""CPU of a list page of 50 new rows, whole: read, recognised, written to the ledger and offered, on one SQLite file."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random

from fyke.app import SystemClock
from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger
from fyke.model import LanePolicy, NewRun, PageCommit, Response
from fyke.sources.source import FileSource


async def offered(source: FileSource, pages: list[Response], lane: str) -> list[float]:
    """Microseconds of this process's CPU for each page, all threads. `source` has read none of them before, and all
    their rows are new.
    """
    clock, listing = SystemClock(), source.listings()[0]
    with tempfile.TemporaryDirectory() as folder:
        database = SqliteDatabase(Path(folder) / "listing.db")
        ledger, frontier = SqlLedger(database, clock), SqlFrontier(database, clock, Random(1), lease_ms=60_000)
        await ledger.migrate()
        await ledger.apply_source(source.resolved)
        await frontier.configure([LanePolicy(lane, gap=0, jitter=0, concurrency=64)])
        opened = await ledger.open_run(NewRun(source.resolved.id, clock.now(), [listing], [lane]))
        lease = await ledger.start_pass(opened.tasks[0].ref, "bench")
        assert lease is not None
        due, rows, used = 0, 0, list[float]()
        for number, answer in enumerate(pages, 1):
            began = time.process_time_ns()
            page = source.read_page(listing, answer, None)
            await ledger.recognise(lease.pass_id, [entry.key for entry in page.entries])
            commit = PageCommit(number, 0, answer.url, clock.now(), page.entries, page.refused, b"{}")
            result = await ledger.page(lease.pass_id, lease.fence, commit)
            await frontier.offer(result.due)
            used.append((time.process_time_ns() - began) / 1_000)
            due, rows = due + len(result.due), rows + len(page.entries)
        assert due == rows > 0
        await ledger.close()
        await database.close()
    return used
