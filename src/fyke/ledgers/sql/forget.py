"""Forgetting items, so that a later listing makes them new.

Keeps P2 in its own way: nothing but the chosen items goes, all that belongs to them goes in one transaction, and the
answer says how many rows of which table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fyke.db.connection import Connection, listed
from fyke.db.typed import quoted
from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.coverage import read_anew
from fyke.ledgers.sql.records import write_tally
from fyke.ledgers.sql.state import end_space
from fyke.model import ForgetFilter

CHUNK = 1_000  # items in one statement

CHOOSE = """
SELECT i.id, i.source_id, i.scope, i.key, i.state FROM item i WHERE {match} AND i.id > ? ORDER BY i.id LIMIT ?
"""
SCOPES = "SELECT DISTINCT i.scope FROM item i WHERE {match} ORDER BY i.scope"
# Both halves of the primary key are named, so that few keys cost few look-ups.
SIGHTINGS = """
listing_id IN (SELECT l.id FROM listing l JOIN source s ON s.id = l.source_id WHERE s.scope = ?)
  AND key IN (SELECT value FROM json_each(?))
"""
BY_ITEM = "item_id IN (SELECT value FROM json_each(?))"
PARTS = ("visit", "version", "dead", "revisit", "relation")
TYPED = """
SELECT DISTINCT s.table_name FROM source s JOIN typed_table t ON t.name = s.table_name
WHERE s.scope IN (SELECT value FROM json_each(?)) ORDER BY s.table_name
"""
VERSIONS = """
SELECT i.source_id, count(*) FROM item i JOIN version v ON v.item_id = i.id
WHERE i.id IN (SELECT value FROM json_each(?)) GROUP BY i.source_id
"""

Chosen = tuple[int, int, str, str, str]  # id, source id, scope, key, state


class ForgetStatements(Statements):
    async def forget(self, which: ForgetFilter, *, dry_run: bool = False) -> dict[str, int]:
        if which == ForgetFilter():
            raise UsageError(
                "nothing says what to forget", hint="name a key, a source, a scope or a time; all is a new ledger"
            )
        if dry_run:
            return await self._read(lambda connection: _forget(connection, which, remove=False))
        return await self._write(lambda connection: _forget(connection, which, remove=True))


def _forget(connection: Connection, which: ForgetFilter, *, remove: bool) -> dict[str, int]:
    match, values = _match(connection, which)
    scopes = [scope for (scope,) in connection.execute(SCOPES.format(match=match), values)]
    if not scopes:
        return {"item": 0}
    if remove:
        # Before the items are locked, for a page locks its pass before its items.
        read_anew(connection, scopes)
    typed = [name for (name,) in connection.execute(TYPED, (listed(scopes),))]
    counts = dict.fromkeys(("sighting", *PARTS, *typed, "item"), 0)
    tally: dict[int, Counter[str]] = {}
    for chosen in _chunks(connection, match, values, lock=remove):
        if remove:
            _count_out(connection, chosen, tally)
        for name, number in _remove(connection, chosen, typed, remove=remove):
            counts[name] += number
    if remove:
        end_space(connection)
        write_tally(connection, tally)
    return counts if counts["item"] else {"item": 0}


def _match(connection: Connection, which: ForgetFilter) -> tuple[str, list[Any]]:
    """The condition on `item i`, and its values."""
    conditions, values = [], []
    scopes = [which.scope] if which.scope else []
    if which.key and not scopes:
        # Keys are found by scope and key.
        scopes = [scope for (scope,) in connection.execute("SELECT DISTINCT scope FROM source ORDER BY scope")]
    if scopes:
        conditions.append("i.scope IN (SELECT value FROM json_each(?))")
        values.append(listed(scopes))
    found: tuple[tuple[Any, str], ...] = (
        (which.source_id or None, "i.source_id = (SELECT o.id FROM source o WHERE o.name = ?)"),
        (which.key or None, "i.key = ?"),
        (which.since, "i.opened_at >= ?"),
        (which.until, "i.opened_at < ?"),
    )
    for value, condition in found:
        if value is not None:
            conditions.append(condition)
            values.append(value)
    return " AND ".join(conditions or ["1 = 1"]), values


def _chunks(connection: Connection, match: str, values: list[Any], *, lock: bool) -> Iterator[list[Chosen]]:
    statement, after = CHOOSE.format(match=match) + (" FOR UPDATE" if lock else ""), 0
    while rows := connection.execute(statement, (*values, after, CHUNK)).fetchall():
        yield rows
        after = rows[-1][0]


def _remove(
    connection: Connection, chosen: list[Chosen], typed: list[str], *, remove: bool
) -> Iterator[tuple[str, int]]:
    """Count, and remove, what belongs to these items, they themselves last; (table, rows)."""
    items = listed(row[0] for row in chosen)
    keys: dict[str, list[str]] = {}
    for _, _, scope, key, _ in chosen:
        keys.setdefault(scope, []).append(key)
    if remove:
        for name in ("shown_before", "former_key"):
            connection.execute(f"DELETE FROM {name} WHERE {BY_ITEM}", (items,))
    for scope, found in keys.items():
        yield "sighting", _rows(connection, "sighting", SIGHTINGS, (scope, listed(found)), remove=remove)
    for name in PARTS:
        yield name, _rows(connection, name, BY_ITEM, (items,), remove=remove)
    for name in typed:
        yield name, _rows(connection, quoted(name), f"_{BY_ITEM}", (items,), remove=remove)
    yield "item", _rows(connection, "item", "id IN (SELECT value FROM json_each(?))", (items,), remove=remove)


def _rows(connection: Connection, table: str, condition: str, values: tuple[Any, ...], *, remove: bool) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table} WHERE {condition}", values).fetchone()
    if remove and count:
        connection.execute(f"DELETE FROM {table} WHERE {condition}", values)
    return int(count)


def _count_out(connection: Connection, chosen: list[Chosen], tally: dict[int, Counter[str]]) -> None:
    """Take the items out of the tally. Pages were read, so entries, new, known and refused stay."""
    for _, source, _, _, state in chosen:
        tally.setdefault(source, Counter()).update({"listed": -1, state: -1})
    for source, number in connection.execute(VERSIONS, (listed(row[0] for row in chosen),)):
        tally[source]["versions"] -= number
