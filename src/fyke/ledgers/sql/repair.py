"""Mends what an audit found, as far as the ledger's other tables still say what was there.

Keeps P2: a mend looks at the state again before it changes anything, and what it cannot mend it says, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from fyke.db.connection import Connection, listed
from fyke.db.errors import is_row_error
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.coverage import read_anew
from fyke.ledgers.sql.findings import Kind
from fyke.ledgers.sql.letters import FRESH
from fyke.ledgers.sql.records import TALLY_NAMES, Draft, write_drafts
from fyke.ledgers.sql.restore import (
    HEAD,
    Whole,
    facts_of,
    point_sightings,
    read_item,
    restore_item,
    restore_letter,
    restore_sighting,
    settle_content,
    typed_row,
)
from fyke.ledgers.sql.state import end_space
from fyke.model import AuditReport, Finding

BATCH = 100  # findings in one transaction

LOCK = "SELECT id FROM item WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id FOR UPDATE"
OPEN_AGAIN = f"""
UPDATE item SET state = 'open', outcome = '', reason = '', generation = generation + 1,
  pending = CASE WHEN lane = '' THEN 0 ELSE 1 END, due_at = :now, closed_at = NULL, head_n = 0,
  head_hash = NULL, {FRESH}
WHERE id = :item AND state = 'stored'
"""
VISIT_AGAIN = f"""
UPDATE item SET generation = generation + 1, pending = CASE WHEN lane = '' THEN 0 ELSE 1 END, due_at = :now, {FRESH}
WHERE id = :item
"""
MARK_STORED = """
UPDATE item SET state = 'stored', outcome = '', reason = '', pending = 0, closed_at = coalesce(closed_at, :now),
  head_n = greatest(head_n, :head)
WHERE id = :item
"""
CLOSE_ORPHAN = """
UPDATE dead SET closed_at = :now, closed_reason = 'its item is not dead any more'
WHERE item_id = :item AND closed_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM item i WHERE i.id = :item AND i.state = 'dead')
"""
NOT_PENDING = "UPDATE item SET pending = 1, due_at = :now WHERE id = :item AND state = 'open' AND lane <> ''"
PENDING_CLOSED = "UPDATE item SET pending = 0 WHERE id = :item AND state IN ('dead', 'ignored')"
COLLECTED = """
UPDATE item SET pending = 0 WHERE id = :item AND state = 'stored' AND EXISTS (
  SELECT 1 FROM visit v WHERE v.item_id = item.id AND v.generation = item.generation AND v.final IS NOT NULL)
"""
FIRST_SIGHTING = """
SELECT l.source_id, g.item_id, g.url, g.first_at
FROM source s JOIN listing l ON l.source_id = s.id JOIN sighting g ON g.listing_id = l.id AND g.key = :key
WHERE s.scope = :scope ORDER BY g.first_at, l.id LIMIT 1
"""
# All wait for these rows at their end: while they are held, nobody who would change a count ends.
TALLIES = "SELECT source_id FROM tally ORDER BY source_id FOR UPDATE"
PAGES = """
SELECT q.source_id, sum(g.entries), sum(g.new), sum(g.known), sum(g.refused)
FROM pass q JOIN page g ON g.pass_id = q.id GROUP BY q.source_id
"""
PAGE_NAMES = ("entries", "new", "known", "refused")
# Without NOT INDEXED SQLite walks an index and looks each item up.
STATES = "SELECT source_id, state, count(*) FROM item NOT INDEXED GROUP BY source_id, state"
VERSIONS = "SELECT i.source_id, count(*) FROM version v JOIN item i ON i.id = v.item_id GROUP BY i.source_id"
RECOUNT = f"UPDATE tally SET {', '.join(f'{name} = ?' for name in TALLY_NAMES)} WHERE source_id = ?"


class RepairStatements(Statements):
    async def repair(self, report: AuditReport) -> list[Finding]:
        now = self._clock.now()
        found: list[Finding] = []
        for start in range(0, len(report.findings), BATCH):
            part = report.findings[start : start + BATCH]
            found += await self._write(lambda connection, part=part: _mend_all(connection, part, now))  # type: ignore[misc]
        if any(finding.mendable for finding in report.findings):
            await self._write(recount)
        return found


def recount(connection: Connection) -> None:
    """Write the tally anew from pages, items and versions."""
    counts: dict[int, Counter[str]] = {source: Counter() for (source,) in connection.execute(TALLIES)}
    for source, *sums in connection.execute(PAGES):
        counts.setdefault(source, Counter()).update(dict(zip(PAGE_NAMES, sums, strict=True)))
    for source, state, number in connection.execute(STATES):
        counts.setdefault(source, Counter()).update({state: number, "listed": number})
    for source, number in connection.execute(VERSIONS):
        counts[source]["versions"] += number
    connection.executemany(
        RECOUNT, [(*(found[name] for name in TALLY_NAMES), source) for source, found in sorted(counts.items())]
    )


def _mend_all(connection: Connection, findings: Sequence[Finding], now: int) -> list[Finding]:
    # What concerns the frontier is the reconciler's: it stays mendable and not mended here.
    ours = [finding for finding in findings if finding.mendable and finding.kind in MENDS]
    # What has no page of its own comes back only with its list. Before the items are locked, for a page locks its pass
    # before its items.
    read_anew(connection, [finding.scope for finding in ours if finding.key])
    connection.execute(LOCK, (listed(sorted({finding.item_id for finding in ours if finding.item_id})),))
    if ours:
        end_space(connection)
    return [_mend(connection, finding, now) if finding in ours else finding for finding in findings]


def _mend(connection: Connection, finding: Finding, now: int) -> Finding:
    try:
        with connection.savepoint():
            problem = MENDS[Kind(finding.kind)](connection, finding, now)
            if problem:
                raise _CannotBe(problem)
    except _CannotBe as error:
        problem = str(error)
    except Exception as error:
        # Whatever driver says it: what is in the rows cannot be written as it is.
        if not is_row_error(error):
            raise
        problem = str(error)
    else:
        return msgspec.structs.replace(finding, mended=True)
    return msgspec.structs.replace(finding, mendable=False, message=f"{finding.message}; not mended: {problem}")


class _CannotBe(Exception):
    """Takes back what a mend has done before it found that it cannot be done."""


# Each mend answers why it could not be done, or "".


def _item_missing(connection: Connection, finding: Finding, now: int) -> str:
    names = {"scope": finding.scope, "key": finding.key}
    known = connection.execute("SELECT id FROM item WHERE scope = :scope AND key = :key", names).fetchone()
    if known is not None:
        point_sightings(connection, finding.scope, finding.key, known[0])
        return ""
    row = connection.execute(FIRST_SIGHTING, names).fetchone()
    if row is None:
        return "its sighting is gone too"
    source, named, url, first_at = row
    place = {"id": named, **names, "url": url, "opened_at": first_at}
    item = restore_item(connection, facts_of(connection, source), place, now)
    point_sightings(connection, finding.scope, finding.key, item)
    return ""


def _row_without_item(connection: Connection, finding: Finding, now: int) -> str:
    known = connection.execute(
        "SELECT id FROM item WHERE scope = ? AND key = ?", (finding.scope, finding.key)
    ).fetchone()
    if known is not None:
        return "" if known[0] == finding.item_id else "the key has a newer item"
    source = connection.execute("SELECT id FROM source WHERE name = ?", (finding.source_id,)).fetchone()[0]
    facts = facts_of(connection, source)
    typed = typed_row(connection, facts, finding.item_id)
    if typed is None:
        return "its row is gone too"
    place = {"scope": finding.scope, "key": finding.key, "url": typed.url, "opened_at": typed.first_at}
    item = restore_item(connection, facts, {"id": finding.item_id, **place}, now)
    whole = read_item(connection, item)
    assert whole is not None
    restore_sighting(connection, whole, now)
    return ""


def _sighting_missing(connection: Connection, whole: Whole, now: int) -> str:
    names = {"scope": whole.scope, "key": whole.key}
    if connection.execute(FIRST_SIGHTING, names).fetchone() is None:
        restore_sighting(connection, whole, now)
    return ""


def _sighting_differs(connection: Connection, whole: Whole, now: int) -> str:
    point_sightings(connection, whole.scope, whole.key, whole.id)
    return ""


def _content(connection: Connection, whole: Whole, now: int) -> str:
    if whole.state != "stored":
        return "it is not stored any more: audit again"
    return settle_content(connection, facts_of(connection, whole.source_id), whole.id)


def _stored_nothing(connection: Connection, whole: Whole, now: int) -> str:
    facts = facts_of(connection, whole.source_id)
    if whole.state != "stored" or typed_row(connection, facts, whole.id) is not None:
        return "it has changed meanwhile: audit again"
    values = {"item": whole.id, "now": now}
    if connection.execute(HEAD, (whole.id,)).fetchone() is not None:
        # Older content is there: it is stored again, and the newest is collected once more.
        connection.execute(VISIT_AGAIN, values)
        return settle_content(connection, facts, whole.id)
    if whole.lane:
        connection.execute(OPEN_AGAIN, values)
        return ""
    record = facts.record_of(msgspec.json.decode(whole.entry))
    content = msgspec.json.encode(record).decode()
    draft = Draft(whole.id, whole.scope, whole.key, whole.url, 1, whole.entry_hash, record, content)
    connection.execute("UPDATE item SET head_n = 1, head_hash = entry_hash WHERE id = ?", (whole.id,))
    return write_drafts(connection, facts.table, [draft], now).get(whole.id, "")


def _not_marked_stored(connection: Connection, whole: Whole, now: int) -> str:
    if whole.state == "stored":
        return ""
    facts = facts_of(connection, whole.source_id)
    head, typed = connection.execute(HEAD, (whole.id,)).fetchone(), typed_row(connection, facts, whole.id)
    if head is None and typed is None:
        return "its content is gone meanwhile: audit again"
    highest = head[0] if head else typed.version if typed else 0
    connection.execute(MARK_STORED, {"item": whole.id, "now": now, "head": highest})
    connection.execute(CLOSE_ORPHAN, {"item": whole.id, "now": now})
    return settle_content(connection, facts, whole.id)


def _letter_missing(connection: Connection, whole: Whole, now: int) -> str:
    restore_letter(connection, whole.id, now)
    return ""


def _statement(statement: str) -> Callable[[Connection, Finding, int], str]:
    def mend(connection: Connection, finding: Finding, now: int) -> str:
        connection.execute(statement, {"item": finding.item_id, "now": now})
        return ""

    return mend


def _of_item(
    mend: Callable[[Connection, Whole, int], str],
) -> Callable[[Connection, Finding, int], str]:
    def found(connection: Connection, finding: Finding, now: int) -> str:
        whole = read_item(connection, finding.item_id)
        return "its item is gone meanwhile: audit again" if whole is None else mend(connection, whole, now)

    return found


MENDS: Mapping[Kind, Callable[[Connection, Finding, int], str]] = MappingProxyType(
    {
        Kind.ITEM_MISSING: _item_missing,
        Kind.ROW_WITHOUT_ITEM: _row_without_item,
        Kind.SIGHTING_MISSING: _of_item(_sighting_missing),
        Kind.SIGHTING_DIFFERS: _of_item(_sighting_differs),
        Kind.ROW_MISSING: _of_item(_content),
        Kind.ROW_DIFFERS: _of_item(_content),
        Kind.VERSION_MISSING: _of_item(_content),
        Kind.STORED_NOTHING: _of_item(_stored_nothing),
        Kind.NOT_MARKED_STORED: _of_item(_not_marked_stored),
        Kind.LETTER_MISSING: _of_item(_letter_missing),
        Kind.LETTER_ORPHAN: _statement(CLOSE_ORPHAN),
        Kind.NOT_PENDING: _statement(NOT_PENDING),
        Kind.PENDING_CLOSED: _statement(PENDING_CLOSED),
        Kind.COLLECTED_PENDING: _statement(COLLECTED),
        # Counted again at the end of every repair.
        Kind.TALLY_DIFFERS: lambda connection, finding, now: "",
    }
)
