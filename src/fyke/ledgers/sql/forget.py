"""Forgetting items, so that a later listing makes them new.

Keeps P2 in its own way: nothing but the chosen items goes, all that belongs to them goes in one transaction, and the
answer says how many rows of which table.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

from fyke.db.typed import quoted
from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.coverage import read_anew
from fyke.ledgers.sql.records import write_tally
from fyke.model import ForgetFilter

# Up to here sightings are looked up by listing and key; beyond, one walk over all of them is cheaper.
LOOK_UP_LIMIT = 1_000

CHOOSE = """
INSERT INTO temp.forgotten
SELECT i.id, i.source_id, i.scope, i.key, i.state FROM item i WHERE
  (:source = '' OR i.source_id = (SELECT id FROM source WHERE name = :source))
  AND (:scope = '' OR i.scope = :scope) AND (:key = '' OR i.key = :key)
  AND (:since IS NULL OR i.opened_at >= :since) AND (:until IS NULL OR i.opened_at < :until)
"""
CHOOSE_KEY = """
INSERT INTO temp.forgotten
SELECT i.id, i.source_id, i.scope, i.key, i.state FROM source s CROSS JOIN item i ON i.scope = s.scope AND i.key = :key
WHERE s.id = (SELECT min(id) FROM source o WHERE o.scope = s.scope)
  AND (:source = '' OR i.source_id = (SELECT id FROM source WHERE name = :source))
  AND (:scope = '' OR i.scope = :scope)
  AND (:since IS NULL OR i.opened_at >= :since) AND (:until IS NULL OR i.opened_at < :until)
"""
# A delete by pairs would use only the first half of the primary key; this join uses all of it.
BY_KEY = """
SELECT g.listing_id, g.key FROM temp.forgotten f CROSS JOIN source s ON s.scope = f.scope
CROSS JOIN listing l ON l.source_id = s.id CROSS JOIN sighting g ON g.listing_id = l.id AND g.key = f.key
"""
BY_ITEM = "item_id IN (SELECT id FROM temp.forgotten)"


class ForgetStatements(Statements):
    async def forget(self, which: ForgetFilter, *, dry_run: bool = False) -> dict[str, int]:
        if which == ForgetFilter():
            raise UsageError(
                "nothing says what to forget", hint="name a key, a source, a scope or a time; all is a new ledger"
            )
        values = {
            "source": which.source_id,
            "scope": which.scope,
            "key": which.key,
            "since": which.since,
            "until": which.until,
        }
        if dry_run:
            return await self._read(lambda connection: _forget(connection, values, remove=False))
        return await self._write(lambda connection: _forget(connection, values, remove=True))


def _forget(connection: sqlite3.Connection, values: dict[str, Any], *, remove: bool) -> dict[str, int]:
    connection.execute("DROP TABLE IF EXISTS temp.forgotten")
    connection.execute(
        "CREATE TEMP TABLE forgotten(id INTEGER PRIMARY KEY, source_id INTEGER, scope TEXT, key TEXT, state TEXT)"
    )
    connection.execute(CHOOSE_KEY if values["key"] else CHOOSE, values)
    (chosen,) = connection.execute("SELECT count(*) FROM temp.forgotten").fetchone()
    counts = {"item": chosen}
    if chosen:
        if remove:
            _count_out(connection)
            connection.execute(f"DELETE FROM shown_before WHERE {BY_ITEM}")
            read_anew(
                connection, [scope for (scope,) in connection.execute("SELECT DISTINCT scope FROM temp.forgotten")]
            )
        counts = {"sighting": _sightings(connection, chosen, remove=remove)}
        for name, condition in _parts(connection):
            counts[name] = _rows(connection, name, condition, remove=remove)
    connection.execute("DROP TABLE temp.forgotten")
    return counts


def _parts(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The other tables that hold something of an item, and which rows; the items themselves last."""
    typed = connection.execute(
        "SELECT DISTINCT table_name FROM source WHERE table_name IN (SELECT name FROM typed_table)"
        " AND scope IN (SELECT DISTINCT scope FROM temp.forgotten) ORDER BY table_name"
    )
    return [
        *((name, BY_ITEM) for name in ("visit", "version", "dead")),
        *((name, "_item_id IN (SELECT id FROM temp.forgotten)") for (name,) in typed.fetchall()),
        ("item", "id IN (SELECT id FROM temp.forgotten)"),
    ]


def _sightings(connection: sqlite3.Connection, chosen: int, *, remove: bool) -> int:
    if chosen > LOOK_UP_LIMIT:
        return _rows(connection, "sighting", BY_ITEM, remove=remove)
    pairs = connection.execute(BY_KEY).fetchall()
    if remove:
        connection.executemany("DELETE FROM sighting WHERE listing_id = ? AND key = ?", pairs)
    return len(pairs)


def _rows(connection: sqlite3.Connection, table: str, condition: str, *, remove: bool) -> int:
    if remove:
        return connection.execute(f"DELETE FROM {quoted(table)} WHERE {condition}").rowcount
    (count,) = connection.execute(f"SELECT count(*) FROM {quoted(table)} WHERE {condition}").fetchone()
    return int(count)


def _count_out(connection: sqlite3.Connection) -> None:
    """Take the items out of the tally. Pages were read, so entries, new, known and refused stay."""
    states = connection.execute("SELECT source_id, state, count(*) FROM temp.forgotten GROUP BY source_id, state")
    counts: dict[int, Counter[str]] = {}
    for source, state, number in states:
        counts.setdefault(source, Counter()).update({"listed": -number, state: -number})
    versions = connection.execute(
        "SELECT f.source_id, count(*) FROM temp.forgotten f JOIN version v ON v.item_id = f.id GROUP BY f.source_id"
    )
    for source, number in versions:
        counts[source]["versions"] -= number
    write_tally(connection, counts)
