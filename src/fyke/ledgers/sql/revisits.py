"""Visits on a calendar, and what relates items: rows beside the item, written in the record's transaction.

A visit that is due is no more than a higher generation of a stored item: it is offered, fenced and committed like any
other (P3), and survives whatever dies, for the calendar is in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fyke.db.connection import Connection, listed
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.letters import FRESH, TASKS
from fyke.ledgers.sql.sources import ACTIVE, number_of
from fyke.model import Relation, Task, TaskKind

DUE = f"""
SELECT r.item_id FROM revisit r CROSS JOIN item i ON i.id = r.item_id JOIN source s ON s.id = i.source_id
WHERE r.at <= ? AND {ACTIVE} ORDER BY r.at, r.item_id LIMIT ?
"""
LOCK = "SELECT id, state, pending FROM item WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id FOR UPDATE"
AGAIN = f"UPDATE item SET generation = generation + 1, pending = 1, due_at = ?, {FRESH} WHERE id = ?"
# The visit's commit says when the next one is. Should it never come to that, this one stands.
PUT_OFF = "UPDATE revisit SET at = ? WHERE item_id = ?"
GONE = "DELETE FROM revisit WHERE item_id IN (SELECT value FROM json_each(?))"
PLAN = "INSERT INTO revisit(item_id, at) VALUES (?, ?) ON CONFLICT(item_id) DO UPDATE SET at = excluded.at"
# A window of items, whatever source they are of: a step is short also where the source's items are few among many.
UNPLANNED = """
SELECT i.id, i.opened_at FROM item i WHERE i.id > ? AND i.id <= ? AND i.source_id = ? AND i.state = 'stored'
AND NOT EXISTS (SELECT 1 FROM revisit r WHERE r.item_id = i.id) ORDER BY i.id FOR UPDATE
"""
SPARE_MS = 7 * 86_400_000

UNRELATED = "DELETE FROM relation WHERE item_id IN (SELECT value FROM json_each(?))"
RELATE = "INSERT INTO relation(item_id, n, kind, field, shared) VALUES (?, ?, ?, ?, ?)"
OWN = "SELECT kind, field, shared FROM relation WHERE item_id = ? ORDER BY n"
OTHERS = """
SELECT i.key, r.kind, r.field FROM relation r CROSS JOIN item i ON i.id = r.item_id
WHERE r.shared = ? AND i.scope = ? AND r.item_id <> ? ORDER BY r.item_id LIMIT ?
"""


class RevisitStatements(Statements):
    async def revisit(self, limit: int = 1_000) -> list[Task]:
        now = self._clock.now()
        return await self._write(lambda connection: _revisit(connection, now, limit))

    async def plan_visits(
        self, source_id: str, when: Callable[[int], int | None], *, after: int = 0, limit: int = 5_000
    ) -> int | None:
        def call(connection: Connection) -> int | None:
            number = number_of(connection, source_id)
            (last,) = connection.execute("SELECT max(id) FROM item").fetchone()
            found = connection.execute(UNPLANNED, (after, after + limit, number)).fetchall()
            planned = {id: at for id, opened_at in found if (at := when(opened_at)) is not None}
            write_revisits(connection, planned)
            return after + limit if after + limit < (last or 0) else None

        return await self._write(call)


def _revisit(connection: Connection, now: int, limit: int) -> list[Task]:
    ids = sorted(id for (id,) in connection.execute(DUE, (now, limit)))
    if not ids:
        return []
    found = connection.execute(LOCK, (listed(ids),)).fetchall()
    # One that is due already, or that a person has closed, is no more to be planned.
    again = [id for id, state, pending in found if state == "stored" and not pending]
    over = sorted(set(ids) - {id for id, state, _ in found if state == "stored"})
    connection.executemany(AGAIN, [(now, id) for id in again])
    connection.executemany(PUT_OFF, [(now + SPARE_MS, id) for id in ids if id not in set(over)])
    if over:
        connection.execute(GONE, (listed(over),))
    return [Task(TaskKind.ITEM, *row) for row in connection.execute(TASKS, (listed(again),))] if again else []


def write_revisits(connection: Connection, planned: Mapping[int, int]) -> None:
    """When each item is visited next; 0: not again."""
    connection.executemany(PLAN, [(id, at) for id, at in sorted(planned.items()) if at])
    over = sorted(id for id, at in planned.items() if not at)
    if over:
        connection.execute(GONE, (listed(over),))


def write_relations(connection: Connection, related: Mapping[int, Sequence[Relation]]) -> None:
    """What relates each of these items, in place of what did before."""
    if not related:
        return
    connection.execute(UNRELATED, (listed(sorted(related)),))
    connection.executemany(
        RELATE,
        [(id, n, *part) for id, parts in sorted(related.items()) for n, part in enumerate(parts)],
    )


def next_visit(connection: Connection, item: int) -> int | None:
    row = connection.execute("SELECT at FROM revisit WHERE item_id = ?", (item,)).fetchone()
    return None if row is None else int(row[0])


def relations_of(connection: Connection, scope: str, item: int, limit: int) -> list[dict[str, Any]]:
    """The items that share what relates this one: `kind` is what it is to them, or they to it (`inverse`)."""
    found: dict[tuple[str, str, str, bool], dict[str, Any]] = {}
    for kind, field, shared in connection.execute(OWN, (item,)).fetchall():
        for key, theirs, their_field in connection.execute(OTHERS, (shared, scope, item, limit)):
            if their_field != field or bool(kind) == bool(theirs):
                continue
            name = (key, kind or theirs, field, not kind)
            found[name] = {"key": key, "kind": kind or theirs, "field": field, "shared": shared, "inverse": not kind}
    return list(found.values())
