"""Dead letters and items closed by hand: what a person decides about items that did not make it.

Keeps P2: an item leaves the dead only into `open` or into `ignored` with a reason, and its letter stays as closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from fyke.db.connection import Connection, listed
from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.coverage import read_anew
from fyke.ledgers.sql.records import write_tally
from fyke.ledgers.sql.state import plain
from fyke.model import DeadFilter, DeadLetter, Task, TaskKind

OFFER_LIMIT = 1_000
CHUNK = 1_000  # items in one statement

# What has no detail page (no lane) waits, visibly open, for the next listing that shows it, and is never due.
# An item that begins anew: nothing of the visits before counts against it.
FRESH = """
attempts = 0, soft_failures = 0, soft_ms = 0, first_started_at = NULL, paused_base = 0
"""

LETTERS = """
SELECT d.id, d.item_id, s.name, d.scope, d.key, d.url, d.outcome, d.reason, d.attempts, d.worker, d.first_at,
  d.died_at, d.entry, d.evidence
FROM dead d JOIN source s ON s.id = d.source_id WHERE {match}
ORDER BY d.died_at DESC, d.id DESC LIMIT ?
"""
# The second bound says nothing new, but to planners that would join from the first item on for each page.
DEAD_ITEMS = """
SELECT d.item_id, i.source_id, i.scope, i.lane FROM dead d JOIN item i ON i.id = d.item_id AND i.id > ?
WHERE i.state = 'dead' AND {match} AND d.item_id > ? ORDER BY d.item_id LIMIT ?
"""
LOCK = """
SELECT id, source_id FROM item WHERE id IN (SELECT value FROM json_each(?)) AND state = 'dead' ORDER BY id FOR UPDATE
"""
REOPEN = f"""
UPDATE item SET state = 'open', outcome = '', reason = '', generation = generation + 1,
  pending = CASE WHEN lane = '' THEN 0 ELSE 1 END, due_at = ?, closed_at = NULL, {FRESH}
WHERE id IN (SELECT value FROM json_each(?))
"""
IGNORE = """
UPDATE item SET state = 'ignored', outcome = 'policy', reason = ?, pending = 0, closed_at = ?
WHERE id IN (SELECT value FROM json_each(?))
"""
CLOSE = """
UPDATE dead SET closed_at = ?, closed_reason = ?
WHERE item_id IN (SELECT value FROM json_each(?)) AND closed_at IS NULL
"""
TASKS = """
SELECT i.id, i.generation, i.lane, s.pool, s.priority, s.hash FROM item i JOIN source s ON s.id = i.source_id
WHERE i.id IN (SELECT value FROM json_each(?)) AND i.pending = 1 AND i.lane <> ''
  AND s.paused_at IS NULL AND s.removed_at IS NULL
ORDER BY i.id
"""
BY_KEY = "SELECT id, source_id, state FROM item WHERE scope = ? AND key = ? FOR UPDATE"


class LetterStatements(Statements):
    async def dead_letters(self, which: DeadFilter, limit: int = 100) -> list[DeadLetter]:
        match, values = _match(which)

        def call(connection: Connection) -> list[DeadLetter]:
            rows = connection.execute(LETTERS.format(match=match), (*values, limit))
            return [DeadLetter(*row[:-2], *map(msgspec.json.decode, row[-2:])) for row in rows]

        return await self._read(call)

    async def replay(self, which: DeadFilter, *, dry_run: bool = False) -> tuple[int, list[Task]]:
        now = self._clock.now()

        def call(connection: Connection) -> tuple[int, list[Task]]:
            # Before the items are locked, for a page locks its pass before its items.
            scopes = {scope for _, _, scope, lane in _dead_items(connection, which) if not lane}
            read_anew(connection, scopes)
            counts: Counter[int] = Counter()
            chosen: list[int] = []
            for items in _locked(connection, which, counts):
                connection.execute(REOPEN, (now, listed(items)))
                connection.execute(CLOSE, (now, "replayed", listed(items)))
                chosen += items[: OFFER_LIMIT - len(chosen)]
            write_tally(connection, {source: Counter(dead=-n, open=n) for source, n in counts.items()})
            return counts.total(), tasks_of(connection, chosen)

        if dry_run:
            return await self._count(which), []
        return await self._write(call)

    async def drop_dead(self, which: DeadFilter, reason: str, *, dry_run: bool = False) -> int:
        why, now = f"dropped: {reason_given(reason, 'drop dead letters')}", self._clock.now()

        def call(connection: Connection) -> int:
            counts: Counter[int] = Counter()
            for items in _locked(connection, which, counts):
                connection.execute(IGNORE, (why, now, listed(items)))
                connection.execute(CLOSE, (now, why, listed(items)))
            write_tally(connection, {source: Counter(dead=-n, ignored=n) for source, n in counts.items()})
            return counts.total()

        if dry_run:
            return await self._count(which)
        return await self._write(call)

    async def _count(self, which: DeadFilter) -> int:
        return await self._read(lambda connection: sum(1 for _ in _dead_items(connection, which)))

    async def ignore(self, scope: str, key: str, reason: str) -> bool:
        why = f"by hand: {reason_given(reason, 'ignore an item')}"
        now = self._clock.now()

        def call(connection: Connection) -> bool:
            row = connection.execute(BY_KEY, (scope, key)).fetchone()
            if row is None:
                return False
            item, source, state = row
            if state == "stored":
                connection.execute("UPDATE item SET pending = 0 WHERE id = ?", (item,))
                return True
            # Outcome policy: a listing that shows the key again does not open it, as it would after `robots`.
            connection.execute(IGNORE, (why, now, listed([item])))
            connection.execute(CLOSE, (now, why, listed([item])))
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


def tasks_of(connection: Connection, items: list[int]) -> list[Task]:
    """What to offer for these items: those that are due and whose source is active."""
    return [
        Task(TaskKind.ITEM, item, generation, lane, pool, priority, source_hash)
        for item, generation, lane, pool, priority, source_hash in connection.execute(TASKS, (listed(items),))
    ]


def _match(which: DeadFilter) -> tuple[str, list[Any]]:
    """The condition on `dead d`, and its values."""
    conditions, values = ["d.closed_at IS NULL"], []
    for value, condition in (
        (which.source_id, "d.source_id = (SELECT o.id FROM source o WHERE o.name = ?)"),
        (which.scope, "d.scope = ?"),
        (which.key, "d.key = ?"),
    ):
        if value:
            conditions.append(condition)
            values.append(value)
    if which.reason:
        # The databases name their functions that find a text in another differently; taking it out is the same in all.
        conditions.append("(d.outcome = ? OR replace(lower(d.reason), lower(?), '') <> lower(d.reason))")
        values += [which.reason, which.reason]
    return " AND ".join(conditions), values


def _dead_items(connection: Connection, which: DeadFilter) -> Iterator[tuple[int, int, str, str]]:
    """(item id, source id, scope, lane) of dead items, in order of id."""
    match, values = _match(which)
    after, statement = 0, DEAD_ITEMS.format(match=match)
    while rows := connection.execute(statement, (after, *values, after, CHUNK)).fetchall():
        yield from rows
        after = rows[-1][0]


def _locked(connection: Connection, which: DeadFilter, counts: Counter[int]) -> Iterator[list[int]]:
    """The dead items, locked in order of id and still dead, in chunks; counts them by source."""
    match, values = _match(which)
    after, statement = 0, DEAD_ITEMS.format(match=match)
    while rows := connection.execute(statement, (after, *values, after, CHUNK)).fetchall():
        after = rows[-1][0]
        found = connection.execute(LOCK, (listed(row[0] for row in rows),)).fetchall()
        counts.update(source for _, source in found)
        if found:
            yield [item for item, _ in found]
