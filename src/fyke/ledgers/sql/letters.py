"""Dead letters and items closed by hand: what a person decides about items that did not make it.

Keeps P2: an item leaves the dead only into `open` or into `ignored` with a reason, and its letter stays as closed.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

import msgspec

from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.coverage import read_anew
from fyke.ledgers.sql.records import write_tally
from fyke.ledgers.sql.state import plain
from fyke.model import DeadFilter, DeadLetter, Task, TaskKind

OFFER_LIMIT = 1_000

# What has no detail page (no lane) waits, visibly open, for the next listing that shows it, and is never due.
# An item that begins anew: nothing of the visits before counts against it.
FRESH = """
attempts = 0, soft_failures = 0, soft_ms = 0, first_started_at = NULL, paused_base = 0
"""

MATCH = """
d.closed_at IS NULL
AND (:source = '' OR d.source_id = (SELECT id FROM source WHERE name = :source))
AND (:scope = '' OR d.scope = :scope)
AND (:key = '' OR d.key = :key)
AND (:reason = '' OR d.outcome = :reason OR instr(lower(d.reason), lower(:reason)) > 0)
"""
DEAD_ITEMS = f"SELECT d.item_id FROM dead d JOIN item i ON i.id = d.item_id WHERE i.state = 'dead' AND {MATCH}"

LETTERS = f"""
SELECT d.id, d.item_id, s.name, d.scope, d.key, d.url, d.outcome, d.reason, d.attempts, d.worker, d.first_at,
  d.died_at, d.entry, d.evidence
FROM dead d JOIN source s ON s.id = d.source_id WHERE {MATCH}
ORDER BY d.died_at DESC, d.id DESC LIMIT :limit
"""
BY_SOURCE = f"""
SELECT i.source_id, count(*) FROM dead d JOIN item i ON i.id = d.item_id WHERE i.state = 'dead' AND {MATCH}
GROUP BY i.source_id
"""
LISTED_ONLY = f"""
SELECT DISTINCT i.scope FROM dead d JOIN item i ON i.id = d.item_id WHERE i.state = 'dead' AND i.lane = '' AND {MATCH}
"""
REOPEN = f"""
UPDATE item SET state = 'open', outcome = '', reason = '', generation = generation + 1, pending = lane != '',
  due_at = :now, closed_at = NULL, {FRESH}
WHERE id IN ({DEAD_ITEMS})
"""
DROP = f"""
UPDATE item SET state = 'ignored', outcome = 'policy', reason = :why, pending = 0, closed_at = :now
WHERE id IN ({DEAD_ITEMS})
"""
CLOSE = f"""
UPDATE dead AS d SET closed_at = :now, closed_reason = :why
WHERE EXISTS (SELECT 1 FROM item i WHERE i.id = d.item_id AND i.state = :state) AND {MATCH}
"""
TASKS = """
SELECT i.id, i.generation, i.lane, s.pool, s.priority, s.hash FROM item i JOIN source s ON s.id = i.source_id
WHERE i.id IN (SELECT value FROM json_each(:ids)) AND i.pending = 1 AND i.lane <> ''
  AND s.paused_at IS NULL AND s.removed_at IS NULL
ORDER BY i.id
"""


class LetterStatements(Statements):
    async def dead_letters(self, which: DeadFilter, limit: int = 100) -> list[DeadLetter]:
        values = _values(which) | {"limit": limit}

        def call(connection: sqlite3.Connection) -> list[DeadLetter]:
            return [
                DeadLetter(*row[:-2], *map(msgspec.json.decode, row[-2:]))
                for row in connection.execute(LETTERS, values)
            ]

        return await self._read(call)

    async def replay(self, which: DeadFilter, *, dry_run: bool = False) -> tuple[int, list[Task]]:
        values = _values(which) | {"now": self._clock.now(), "why": "replayed"}

        def count(connection: sqlite3.Connection) -> dict[int, int]:
            return dict(connection.execute(BY_SOURCE, values).fetchall())

        def call(connection: sqlite3.Connection) -> tuple[int, list[Task]]:
            found = count(connection)
            chosen = connection.execute(f"{DEAD_ITEMS} ORDER BY d.item_id LIMIT {OFFER_LIMIT}", values).fetchall()
            read_anew(connection, [scope for (scope,) in connection.execute(LISTED_ONLY, values)])
            # The letters last: the other statement finds its items by them.
            connection.execute(REOPEN, values)
            connection.execute(CLOSE, values | {"state": "open"})
            write_tally(connection, {source: Counter(dead=-n, open=n) for source, n in found.items()})
            return sum(found.values()), tasks_of(connection, [row[0] for row in chosen])

        if dry_run:
            return sum((await self._read(count)).values()), []
        return await self._write(call)

    async def drop_dead(self, which: DeadFilter, reason: str, *, dry_run: bool = False) -> int:
        why = reason_given(reason, "drop dead letters")
        values = _values(which) | {"now": self._clock.now(), "why": f"dropped: {why}"}

        def count(connection: sqlite3.Connection) -> dict[int, int]:
            return dict(connection.execute(BY_SOURCE, values).fetchall())

        def call(connection: sqlite3.Connection) -> int:
            found = count(connection)
            connection.execute(DROP, values)
            connection.execute(CLOSE, values | {"state": "ignored"})
            write_tally(connection, {source: Counter(dead=-n, ignored=n) for source, n in found.items()})
            return sum(found.values())

        if dry_run:
            return sum((await self._read(count)).values())
        return await self._write(call)

    async def ignore(self, scope: str, key: str, reason: str) -> bool:
        why = f"by hand: {reason_given(reason, 'ignore an item')}"
        now = self._clock.now()

        def call(connection: sqlite3.Connection) -> bool:
            row = connection.execute(
                "SELECT id, source_id, state FROM item WHERE scope = ? AND key = ?", (scope, key)
            ).fetchone()
            if row is None:
                return False
            item, source, state = row
            if state == "stored":
                connection.execute("UPDATE item SET pending = 0 WHERE id = ?", (item,))
                return True
            # Outcome policy: a listing that shows the key again does not open it, as it would after `robots`.
            connection.execute(
                "UPDATE item SET state = 'ignored', outcome = 'policy', reason = ?, pending = 0, closed_at = ?"
                " WHERE id = ?",
                (why, now, item),
            )
            connection.execute(
                "UPDATE dead SET closed_at = ?, closed_reason = ? WHERE item_id = ? AND closed_at IS NULL",
                (now, why, item),
            )
            if state != "ignored":
                write_tally(connection, {source: Counter({state: -1, "ignored": 1})})
            return True

        return await self._write(call)


def reason_given(reason: str, what: str) -> str:
    """The reason as text for the ledger.

    Raises:
        UsageError: it is blank.
    """
    found = plain(reason).strip()
    if not found:
        raise UsageError(f"no reason was given to {what}", hint="say why with --reason, for those who look later")
    return found


def tasks_of(connection: sqlite3.Connection, items: list[int]) -> list[Task]:
    """What to offer for these items: those that are due and whose source is active."""
    rows = connection.execute(TASKS, {"ids": msgspec.json.encode(items).decode()})
    return [
        Task(TaskKind.ITEM, item, generation, lane, pool, priority, source_hash)
        for item, generation, lane, pool, priority, source_hash in rows
    ]


def _values(which: DeadFilter) -> dict[str, Any]:
    return {"source": which.source_id, "scope": which.scope, "key": which.key, "reason": which.reason}
