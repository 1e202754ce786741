"""How fast known entries pass the ledger: recognise and page, 50 rows a page, as the lister does it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from fyke.app import SystemClock
from fyke.db.sqlite import SqliteDatabase
from fyke.ledgers.sql import SqlLedger
from fyke.model import Column, Entry, Listing, NewRun, PageCommit, PassEnd, PassState, ResolvedSource

PER_PAGE = 50
SOURCE = ResolvedSource(
    id="known",
    title="known",
    text="{}",
    hash="1",
    scope="known",
    table="known_rows",
    identity="key",
    columns=(Column("title"),),
    has_detail=True,
)


def pages(items: int) -> list[list[Entry]]:
    rows = [
        Entry(
            n % PER_PAGE,
            f"key-{n:08}",
            {"title": f"某某公告 {n}"},
            n.to_bytes(16, "big"),
            f"http://e.example/{n}",
            "e.example",
        )
        for n in range(items)
    ]
    return [rows[start : start + PER_PAGE] for start in range(0, items, PER_PAGE)]


async def known_entries(items: int) -> dict[str, Any]:
    """Entries/s for the first walk (all new) and the second (all known)."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        database = SqliteDatabase(Path(folder) / "known.db")
        ledger = SqlLedger(database, clock)
        await ledger.migrate()
        await ledger.apply_source(SOURCE)
        rates = []
        for walk in range(2):
            opened = await ledger.open_run(NewRun("known", clock.now() + walk, [Listing("main")], ["e.example"]))
            lease = await ledger.start_pass(opened.tasks[0].ref, "bench")
            assert lease is not None
            began, new = time.perf_counter(), 0
            for number, entries in enumerate(pages(items), 1):
                await ledger.recognise(lease.pass_id, [entry.key for entry in entries])
                commit = PageCommit(number, 0, "http://e.example/", clock.now(), entries, [], b"{}")
                new += (await ledger.page(lease.pass_id, lease.fence, commit)).new
            rates.append(items / (time.perf_counter() - began))
            await ledger.end_pass(lease.pass_id, lease.fence, PassEnd(PassState.COMPLETE))
            assert new == (items if walk == 0 else 0)
        await ledger.close()
        await database.close()
    return {"new_entries_per_s": rates[0], "entries_per_s": rates[1]}
