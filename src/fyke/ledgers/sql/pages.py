"""List pages: items, sightings, refused entries and checkpoint in one transaction (P2).

A page counts what it shows: entries = new + known + refused, on each page row and so in each sum over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from fyke.db.connection import Connection
from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.coverage import keep_shown
from fyke.ledgers.sql.entries import Item, PageWork, Row, hold_items, prepare, take, write_counts, write_work
from fyke.ledgers.sql.records import read_facts, unblock
from fyke.ledgers.sql.rekey import refuse_while_moving
from fyke.ledgers.sql.runs import LOW, listing_number
from fyke.ledgers.sql.sources import lock_source
from fyke.ledgers.sql.state import end_untold_space, known_space, plain
from fyke.model import Entry, Listing, PageCommit, PageResult

RAW_LIMIT = 20_000
SUBMITTED = "submitted"
GUARD = """
SELECT pages, listing_id, source_id, checkpoint_at FROM pass
WHERE id = ? AND state = 'running' AND fence = ? FOR UPDATE
"""
COUNT = """
UPDATE pass SET pages = ?, checkpoint = coalesce(?, checkpoint), checkpoint_at = ?, soft_failures = 0,
  entries = entries + ?, new = new + ?, known = known + ?, refused = refused + ?
WHERE id = ?
"""
PAGE = """
INSERT INTO page(pass_id, seq, number, look, url, entries, new, known, refused, changed, read_at, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
SIGHTING = """
INSERT INTO sighting(listing_id, key, item_id, first_pass, last_pass, page, position, url, first_at, last_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(listing_id, key) DO UPDATE SET item_id = excluded.item_id, last_pass = excluded.last_pass,
  page = excluded.page, position = excluded.position, url = excluded.url,
  last_at = greatest(sighting.last_at, excluded.last_at)
"""
REFUSED = "INSERT INTO refused(pass_id, seq, position, reason, raw, fingerprint, at) VALUES (?, ?, ?, ?, ?, ?, ?)"
SUBMISSION = """
INSERT INTO pass(source_id, listing_id, state, fence, lane, opened_at, due_at, started_at)
VALUES (?, ?, 'running', 1, '', ?, ?, ?)
"""


class PageStatements(Statements):
    async def page(self, pass_id: int, fence: int, page: PageCommit) -> PageResult:
        now, rows, tries = self._clock.now(), prepare(page.entries), count()

        def call(connection: Connection) -> PageResult:
            # Repeated where a key that is not looked for was there: then it is. SQLite repeats for no such reason, and
            # there to look costs little.
            first = next(tries) == 0 and connection.dialect != "sqlite"
            trusted = page.fresh if first else frozenset()
            return _write(connection, pass_id, fence, page, rows, now, hand=False, trusted=trusted)

        return await self._write(call)

    async def submit(self, source_id: str, entries: Sequence[Entry], *, listing: str = SUBMITTED) -> PageResult:
        """As `page` on a listing of its own; what the ledger knows already is counted and stays as it is."""
        now, rows = self._clock.now(), prepare(list(entries))
        page = PageCommit(1, 0, "", now, list(entries), [], b"")

        def call(connection: Connection) -> PageResult:
            source = lock_source(connection, source_id)
            if connection.execute("SELECT removed_at FROM source WHERE id = ?", (source,)).fetchone()[0] is not None:
                raise UsageError(f"source '{source_id}' is removed", hint="`fyke source apply` brings it back")
            refuse_while_moving(connection, source_id)
            number = listing_number(connection, source, Listing(listing), now)
            pass_id = connection.insert(SUBMISSION, (source, number, now, now, now))
            result = _write(connection, pass_id, 1, page, rows, now, hand=True)
            connection.execute("UPDATE pass SET state = 'complete', ended_at = ? WHERE id = ?", (now, pass_id))
            return result

        return await self._write(call)


def _write(
    connection: Connection,
    pass_id: int,
    fence: int,
    page: PageCommit,
    rows: list[Row],
    now: int,
    *,
    hand: bool,
    trusted: frozenset[str] = frozenset(),
) -> PageResult:
    found = connection.execute(GUARD, (pass_id, fence)).fetchone()
    if found is None:
        return PageResult(accepted=False)
    pages, listing, source_id, checkpoint_at = found
    if page.skipped and not _may_skip(connection, page):
        return PageResult(True, misjudged=True, known_space=known_space(connection))
    seq = pages + 1
    source = read_facts(connection, [source_id])[source_id]
    if page.low:
        source.priority = LOW
    known = hold_items(connection, source, [row for row in rows if row.key not in trusted])
    if not page.fresh.isdisjoint(known):
        return PageResult(True, misjudged=True, known_space=page.known_space)
    changed = set() if hand or page.aside else _changed(source.id, rows, known)
    missing = len(rows) - len(known)
    # What a person submits says less than any row of a list, whenever that was read.
    work = PageWork(source, now, 0 if hand else min(page.read_at, now), hand, page.aside)
    take(work, rows, known, connection.new_ids("item", missing) if missing else ())
    write_work(connection, work)
    keep_shown(connection, pass_id, listing, [row.key for row in rows])
    connection.executemany(
        SIGHTING,
        [
            (listing, r.key, work.items[r.key], pass_id, pass_id, seq, r.position, r.url, page.read_at, page.read_at)
            for r in rows
        ],
    )
    _write_refused(connection, pass_id, seq, page, now)
    counts = work.counts
    shown = len(page.entries) + page.skipped
    counts["entries"] = shown + len(page.refused)
    counts["known"], counts["refused"] = shown - counts["new"], len(page.refused)
    numbers = (counts["entries"], counts["new"], counts["known"], counts["refused"])
    values = (pass_id, seq, page.number, page.look, plain(page.url), *numbers, work.changed, page.read_at, now)
    connection.execute(PAGE, values)
    checkpoint_at = now if page.checkpoint else checkpoint_at
    connection.execute(COUNT, (seq, page.checkpoint or None, checkpoint_at, *numbers, pass_id))
    if not source.has_detail:
        # One with details may get its lists and be blocked on every detail: there only records count as good.
        unblock(connection, [source])
    space = page.known_space
    if changed:
        space = end_untold_space(connection, space if changed <= page.told else 0)
    write_counts(connection, work)
    return PageResult(
        True, counts["new"], counts["known"], counts["refused"], work.changed, work.due, known_space=space
    )


def _write_refused(connection: Connection, pass_id: int, seq: int, page: PageCommit, now: int) -> None:
    connection.executemany(
        REFUSED,
        [
            (pass_id, seq, r.position, plain(r.reason), plain(r.raw)[:RAW_LIMIT], r.fingerprint, now)
            for r in page.refused
        ],
    )


def _may_skip(connection: Connection, page: PageCommit) -> bool:
    """Whoever takes items of this scope away holds its passes, too: as long as the space stands, what is skipped is
    there.
    """
    return page.known_space != 0 and known_space(connection) == page.known_space


def _changed(source: int, rows: list[Row], known: dict[str, Item]) -> set[str]:
    """The keys whose items this source's entries may change."""
    found = ((row, known.get(row.key)) for row in rows)
    return {row.key for row, item in found if item and item.source_id == source and item.entry_hash != row.hash}


def next_item(connection: Connection) -> int:
    """A new item's id. One that was given before is never given again: tasks and results of then may still come."""
    return connection.new_ids("item", 1)[0]
