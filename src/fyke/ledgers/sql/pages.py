"""List pages: items, sightings, refused entries and checkpoint in one transaction (P2).

A page counts what it shows: entries = new + known + refused, on each page row and so in each sum over them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.cleaning import to_json
from fyke.ledgers.sql.coverage import KEEP_SHOWN
from fyke.ledgers.sql.entries import KNOWN, Item, PageWork, Row, add_counts, prepare, take, write_work
from fyke.ledgers.sql.records import SourceFacts, read_facts
from fyke.ledgers.sql.runs import listing_number
from fyke.ledgers.sql.sources import number_of
from fyke.ledgers.sql.state import plain
from fyke.model import Entry, Listing, PageCommit, PageResult

RAW_LIMIT = 20_000
SUBMITTED = "submitted"
GUARD = """
UPDATE pass SET pages = pages + 1, checkpoint = coalesce(?1, checkpoint),
  checkpoint_at = iif(?1 IS NULL, checkpoint_at, ?2), soft_failures = 0
WHERE id = ?3 AND state = 'running' AND fence = ?4 RETURNING pages, listing_id, source_id
"""
COUNT = "UPDATE pass SET entries = entries + ?, new = new + ?, known = known + ?, refused = refused + ? WHERE id = ?"
PAGE = """
INSERT INTO page(pass_id, seq, number, look, url, entries, new, known, refused, changed, read_at, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
SIGHTING = """
INSERT INTO sighting(listing_id, key, item_id, first_pass, last_pass, page, position, url, first_at, last_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(listing_id, key) DO UPDATE SET item_id = excluded.item_id, last_pass = excluded.last_pass,
  page = excluded.page, position = excluded.position, url = excluded.url, last_at = max(last_at, excluded.last_at)
"""
REFUSED = "INSERT INTO refused(pass_id, seq, position, reason, raw, fingerprint, at) VALUES (?, ?, ?, ?, ?, ?, ?)"
SUBMISSION = """
INSERT INTO pass(source_id, listing_id, state, fence, lane, opened_at, due_at, started_at)
VALUES (?, ?, 'running', 1, '', ?, ?, ?)
"""


class PageStatements(Statements):
    async def page(self, pass_id: int, fence: int, page: PageCommit) -> PageResult:
        now, rows = self._clock.now(), prepare(page.entries)
        return await self._write(lambda connection: _write(connection, pass_id, fence, page, rows, now, hand=False))

    async def submit(self, source_id: str, entries: Sequence[Entry]) -> PageResult:
        """As `page` on a listing of its own; what the ledger knows already is counted and stays as it is."""
        now, rows = self._clock.now(), prepare(list(entries))
        page = PageCommit(1, 0, "", now, list(entries), [], b"")

        def call(connection: sqlite3.Connection) -> PageResult:
            source = number_of(connection, source_id)
            if connection.execute("SELECT removed_at FROM source WHERE id = ?", (source,)).fetchone()[0] is not None:
                raise UsageError(f"source '{source_id}' is removed", hint="`fyke source apply` brings it back")
            listing = listing_number(connection, source, Listing(SUBMITTED), now)
            pass_id = connection.execute(SUBMISSION, (source, listing, now, now, now)).lastrowid
            assert pass_id is not None
            result = _write(connection, pass_id, 1, page, rows, now, hand=True)
            connection.execute("UPDATE pass SET state = 'complete', ended_at = ? WHERE id = ?", (now, pass_id))
            return result

        return await self._write(call)


def _write(
    connection: sqlite3.Connection, pass_id: int, fence: int, page: PageCommit, rows: list[Row], now: int, *, hand: bool
) -> PageResult:
    found = connection.execute(GUARD, (page.checkpoint or None, now, pass_id, fence)).fetchone()
    if found is None:
        return PageResult(accepted=False)
    seq, listing, source_id = found
    source = read_facts(connection, [source_id])[source_id]
    known = read_items(connection, source.scope, [row.key for row in rows])
    # What a person submits says less than any row of a list, whenever that was read.
    work = PageWork(source, now, 0 if hand else min(page.read_at, now), hand)
    take(work, rows, known, next_item(connection))
    write_work(connection, work)
    connection.execute(KEEP_SHOWN, (to_json([row.key for row in rows]), listing))
    connection.executemany(
        SIGHTING,
        [
            (listing, r.key, work.items[r.key], pass_id, pass_id, seq, r.position, r.url, page.read_at, page.read_at)
            for r in rows
        ],
    )
    connection.executemany(
        REFUSED,
        [
            (pass_id, seq, r.position, plain(r.reason), plain(r.raw)[:RAW_LIMIT], r.fingerprint, now)
            for r in page.refused
        ],
    )
    counts = work.counts
    counts["entries"] = len(page.entries) + len(page.refused)
    counts["known"], counts["refused"] = len(page.entries) - counts["new"], len(page.refused)
    numbers = (counts["entries"], counts["new"], counts["known"], counts["refused"])
    values = (pass_id, seq, page.number, page.look, plain(page.url), *numbers, work.changed, page.read_at, now)
    connection.execute(PAGE, values)
    connection.execute(COUNT, (*numbers, pass_id))
    _good_answer(connection, source)
    add_counts(connection, work)
    return PageResult(True, counts["new"], counts["known"], counts["refused"], work.changed, work.due)


def _good_answer(connection: sqlite3.Connection, source: SourceFacts) -> None:
    # A source with details may get its lists and be blocked on every detail: there only records count as good.
    if not source.has_detail:
        connection.execute("UPDATE source SET blocks = 0 WHERE id = ? AND blocks > 0", (source.id,))


def read_items(connection: sqlite3.Connection, scope: str, keys: list[str]) -> dict[str, Item]:
    return {row[0]: Item(*row) for row in connection.execute(KNOWN, (scope, to_json(keys)))}


def next_item(connection: sqlite3.Connection) -> int:
    """The next item id. One that was given before is never given again: tasks and results of then may still come."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'item'").fetchone()
    return int(row[0]) + 1 if row else 1
