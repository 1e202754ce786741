"""Rebuilding what is missing of an item from what is there: the item, its sighting, its row, its version, its letter.

Keeps P2 and P3: content comes only from the ledger itself, a restored item never claims more than its traces prove.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from fyke.db.connection import Connection
from fyke.db.typed import OWN_COLUMNS
from fyke.errors import UsageError
from fyke.ledgers.sql.cleaning import to_json
from fyke.ledgers.sql.deaths import Death, write_deaths
from fyke.ledgers.sql.desk import shown
from fyke.ledgers.sql.pages import SUBMITTED, next_item
from fyke.ledgers.sql.records import SourceFacts, read_facts
from fyke.ledgers.sql.runs import listing_number
from fyke.model import ColumnType, Fields, Listing
from fyke.policy.politeness import lane_of

ITEM = """
SELECT id, source_id, scope, key, url, lane, state, generation, pending, opened_at, entry, entry_hash, entry_at, head_n,
  head_hash
FROM item WHERE id = ?
"""
INSERT = """
INSERT INTO item(id, source_id, scope, key, url, lane, pool, priority, entry, entry_hash, entry_at, state, outcome,
  reason, generation, pending, opened_at, due_at, closed_at, head_n, head_hash)
VALUES (:id, :source, :scope, :key, :url, :lane, :pool, :priority, :entry, :hash, 0, :state, :outcome, :reason,
  :generation, :pending, :opened_at, :now, :closed_at, :head_n, :head_hash)
"""
LAST_GENERATIONS = (
    "SELECT max(generation) FROM visit WHERE item_id = ?",
    "SELECT max(generation) FROM dead WHERE item_id = ?",
)
LETTER = """
SELECT outcome, reason, entry FROM dead WHERE item_id = ? AND closed_at IS NULL
"""
HEAD = "SELECT n, hash, content, at FROM version WHERE item_id = ? ORDER BY n DESC LIMIT 1"
SIGHTING = """
INSERT INTO sighting(listing_id, key, item_id, first_pass, last_pass, page, position, url, first_at, last_at)
VALUES (?, ?, ?, 0, 0, 0, 0, ?, ?, ?)
"""
POINT_SIGHTINGS = """
UPDATE sighting SET item_id = :item WHERE key = :key AND listing_id IN (
  SELECT l.id FROM listing l JOIN source s ON s.id = l.source_id WHERE s.scope = :scope)
"""
VISITS = """
SELECT outcome, reason, worker, starts, started_at, ended_at, evidence FROM visit WHERE item_id = ? ORDER BY id
"""
LOST = """
SELECT i.outcome, i.reason, i.attempts, i.opened_at, i.closed_at FROM item i
WHERE i.id = ? AND i.state = 'dead'
  AND NOT EXISTS (SELECT 1 FROM dead d WHERE d.item_id = i.id AND d.closed_at IS NULL)
"""


class Whole(Struct):
    """An item as the ledger has it."""

    id: int
    source_id: int
    scope: str
    key: str
    url: str
    lane: str
    state: str
    generation: int
    pending: int
    opened_at: int
    entry: str
    entry_hash: bytes
    entry_at: int
    head_n: int
    head_hash: bytes | None


class Typed(Struct):
    """A row of a typed table, its cells as they are stored."""

    url: str
    version: int
    first_at: int
    updated_at: int
    cells: dict[str, Any]


def read_item(connection: Connection, item: int) -> Whole | None:
    row = connection.execute(ITEM, (item,)).fetchone()
    return Whole(*row) if row else None


def facts_of(connection: Connection, source: int) -> SourceFacts:
    return read_facts(connection, [source])[source]


def typed_row(connection: Connection, facts: SourceFacts, item: int) -> Typed | None:
    row = connection.execute(f"{facts.table.select} WHERE _item_id = ?", (item,)).fetchone()
    if row is None:
        return None
    own = dict(zip(OWN_COLUMNS, row, strict=False))
    names = [name for name, _ in facts.table.columns]
    cells = dict(zip(names, row[len(OWN_COLUMNS) :], strict=True))
    return Typed(own["_url"], own["_version"], own["_first_at"], own["_updated_at"], cells)


def restore_item(connection: Connection, facts: SourceFacts, place: dict[str, Any], now: int) -> int:
    """Make an item again from its traces; returns its id. `place`: id, scope, key, url, opened_at.

    With versions or a row it is stored, with an open letter dead, else open and due, so that it is collected. It keeps
    its id, so that what hangs on the id is its own again.
    """
    item = int(place["id"])
    if item < 1 or read_item(connection, item) is not None:
        item = next_item(connection)
    head, typed = connection.execute(HEAD, (item,)).fetchone(), typed_row(connection, facts, item)
    letter = connection.execute(LETTER, (item,)).fetchone()
    url = place["url"] or (typed.url if typed else "")
    lane = _lane(facts, url)
    entry = head[2] if head else to_json(content_of(facts, typed)) if typed else letter[2] if letter else "{}"
    state = "stored" if head or typed else "dead" if letter else "open"
    generation = max(connection.execute(statement, (item,)).fetchone()[0] or 0 for statement in LAST_GENERATIONS)
    values = {
        **place,
        "id": item,
        "source": facts.id,
        "url": url,
        "lane": lane,
        "pool": facts.pool,
        "priority": facts.priority,
        "entry": entry,
        "hash": b"",
        "state": state,
        "outcome": letter[0] if state == "dead" else "",
        "reason": letter[1] if state == "dead" else "",
        "generation": generation + 1,
        "pending": int(state == "open" and lane != ""),
        "now": now,
        "closed_at": None if state == "open" else now,
        "head_n": head[0] if head else typed.version if typed else 0,
        "head_hash": head[1] if head else b"" if typed else None,
    }
    connection.execute(INSERT, values)
    if state == "stored":
        settle_content(connection, facts, item)
    return item


def settle_content(connection: Connection, facts: SourceFacts, item: int) -> str:
    """Make row and head version of a stored item say the same: the version wins, a lost one is rebuilt from the row.

    Returns why that cannot be, or "".
    """
    whole = read_item(connection, item)
    assert whole is not None
    head = connection.execute(HEAD, (item,)).fetchone()
    typed = typed_row(connection, facts, item)
    if typed is not None and (head is None or head[0] < whole.head_n):
        n = max(whole.head_n, 1)
        content = to_json(content_of(facts, typed))
        (visit,) = connection.execute(
            "SELECT max(id) FROM visit WHERE item_id = ? AND final = 'stored'", (item,)
        ).fetchone()
        connection.execute(
            "INSERT INTO version(item_id, n, at, hash, visit_id, content) VALUES (?, ?, ?, ?, ?, ?)",
            (item, n, typed.updated_at, whole.head_hash or b"", visit, content),
        )
        head = connection.execute(HEAD, (item,)).fetchone()
    if head is None:
        return "neither its row nor a version is there"
    n, digest, content, at = head
    if (n, digest) != (whole.head_n, whole.head_hash):
        connection.execute("UPDATE item SET head_n = ?, head_hash = ? WHERE id = ?", (n, digest, item))
    try:
        cells = facts.table.bind(msgspec.json.decode(content))
    except ValueError as error:
        return f"version {n} does not fit the table: {error}"
    (first_at,) = connection.execute("SELECT min(at) FROM version WHERE item_id = ?", (item,)).fetchone()
    connection.execute(facts.table.upsert, [item, whole.scope, whole.key, whole.url, n, first_at, at, *cells])
    return ""


def content_of(facts: SourceFacts, typed: Typed) -> Fields:
    """A row as a record: what the source's columns say, in their canonical form."""
    return {column.name: _canonical(column.type, typed.cells.get(column.name)) for column in facts.columns}


def _canonical(kind: ColumnType, value: Any) -> Any:
    if kind is ColumnType.NUMBER and isinstance(value, int | float):
        return str(value) if isinstance(value, int) else f"{Decimal(repr(value)):f}"
    return shown(kind, value)


def restore_sighting(connection: Connection, whole: Whole, now: int) -> None:
    """Write a sighting from its item, in the source's oldest listing; it is no anchor, for no walk has shown it."""
    row = connection.execute(
        "SELECT id FROM listing WHERE source_id = ? ORDER BY name = ?, id LIMIT 1", (whole.source_id, SUBMITTED)
    ).fetchone()
    listing = row[0] if row else listing_number(connection, whole.source_id, Listing(SUBMITTED), now)
    last_at = max(whole.entry_at, whole.opened_at)
    connection.execute(SIGHTING, (listing, whole.key, whole.id, whole.url, whole.opened_at, last_at))


def point_sightings(connection: Connection, scope: str, key: str, item: int) -> None:
    connection.execute(POINT_SIGHTINGS, {"scope": scope, "key": key, "item": item})


def restore_letter(connection: Connection, item: int, now: int) -> None:
    """Write the dead letter of a dead item from the item and its visits."""
    row = connection.execute(LOST, (item,)).fetchone()
    if row is None:
        return
    outcome, reason, attempts, opened_at, closed_at = row
    visits = connection.execute(VISITS, (item,)).fetchall()
    last = visits[-1] if visits else ("error", "its dead letter was lost", "", 0, opened_at, now, "{}")
    death = Death(
        item_id=item,
        outcome=outcome or last[0],
        reason=reason or last[1],
        attempts=max(attempts, last[3]),
        worker=last[2],
        first_at=min((visit[4] for visit in visits), default=opened_at),
        evidence=last[6],
    )
    write_deaths(connection, [death], closed_at if closed_at is not None else last[5])


def _lane(facts: SourceFacts, url: str) -> str:
    if not facts.has_detail or not url:
        return ""
    try:
        return lane_of(url)
    except UsageError:
        return ""
