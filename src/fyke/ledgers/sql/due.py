"""What is due: the ledger's side of the frontier, from which all of it can be rebuilt.

Keeps P2: a pending item of an active source is always found here, whatever the frontier has lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fyke.db.connection import Connection, listed
from fyke.db.migrate import CLOSED
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.runs import PASS_GENERATION, PRIORITY, task_of_pass
from fyke.ledgers.sql.sources import ACTIVE
from fyke.model import DueItem, ItemState, Task, TaskKind

# CROSS JOIN keeps the order of the loops: items by id first, so that LIMIT ends the walk. What is due in the future was
# written before the clock was set back: it is due.
DUE_ITEMS = f"""
SELECT i.id, i.generation, i.lane, s.pool, s.priority, s.hash, i.attempts
FROM item i INDEXED BY item_pending CROSS JOIN source s ON s.id = i.source_id
WHERE i.pending = 1 AND i.id > ? AND (i.due_at <= ? OR i.due_at > ?) AND {ACTIVE}
ORDER BY i.id LIMIT ?
"""
DUE_PASSES = f"""
SELECT p.id, p.lane, s.pool, {PRIORITY}, s.hash, p.attempts
FROM pass p INDEXED BY pass_running CROSS JOIN source s ON s.id = p.source_id
CROSS JOIN run r ON r.id = p.run_id
WHERE p.state = 'running' AND p.id > ? AND (p.due_at <= ? OR p.due_at > ?) AND {ACTIVE}
ORDER BY p.id LIMIT ?
"""
STILL_DUE = f"""
SELECT i.id, i.generation, s.name, s.hash, i.scope, i.key, i.url, i.lane, i.entry, i.entry_hash, i.state,
  i.first_started_at, i.soft_failures, i.soft_ms,
  CASE WHEN i.first_started_at IS NULL THEN 0 ELSE s.paused_total - i.paused_base END, i.attempts,
  i.opened_at, {CLOSED}
FROM item i JOIN source s ON s.id = i.source_id
WHERE i.id IN (SELECT value FROM json_each(?)) AND i.pending = 1 AND {ACTIVE}
"""
WANTED_ITEMS = f"""
SELECT i.id, i.generation FROM item i JOIN source s ON s.id = i.source_id
WHERE i.id IN (SELECT value FROM json_each(?)) AND i.pending = 1 AND {ACTIVE}
"""
WANTED_PASSES = f"""
SELECT p.id FROM pass p JOIN source s ON s.id = p.source_id
WHERE p.id IN (SELECT value FROM json_each(?)) AND p.state = 'running' AND {ACTIVE}
"""
OPEN_ITEMS = f"""
SELECT count(*) FROM item i INDEXED BY item_pending CROSS JOIN source s ON s.id = i.source_id
WHERE i.pending = 1 AND {ACTIVE}
"""
OPEN_PASSES = f"""
SELECT count(*) FROM pass p INDEXED BY pass_running CROSS JOIN source s ON s.id = p.source_id
WHERE p.state = 'running' AND {ACTIVE}
"""
NAMED = " AND s.name IN (SELECT value FROM json_each(?))"


class DueStatements(Statements):
    async def still_due(self, refs: Sequence[tuple[int, int]]) -> list[DueItem | None]:
        closed = False

        def call(connection: Connection) -> list[DueItem | None]:
            nonlocal closed
            found: dict[tuple[int, int], DueItem] = {}
            for row in connection.execute(STILL_DUE, (listed([ref[0] for ref in refs]),)):
                id, generation, source, hash, scope, key, url, lane, entry, entry_hash, state, *rest, closing = row
                closed = closed or bool(closing)
                fields = msgspec.json.decode(entry)
                found[id, generation] = DueItem(
                    id, generation, source, hash, scope, key, url, lane, fields, entry_hash, ItemState(state), *rest
                )
            return [found.get((item, generation)) for item, generation in refs]

        due = await self._look(call)
        # Asked as other calls ask, it says how the ledger is closed.
        return await self._read(lambda _: due) if closed else due

    async def due(self, *, after: tuple[str, int] | None, limit: int, older_than_ms: int) -> list[Task]:
        now = self._clock.now()
        times = (now - older_than_ms, now)
        kind, last = after or (TaskKind.ITEM.value, 0)

        def call(connection: Connection) -> list[Task]:
            tasks: list[Task] = []
            if kind == TaskKind.ITEM.value:
                tasks = [Task(TaskKind.ITEM, *row) for row in connection.execute(DUE_ITEMS, (last, *times, limit))]
            first = last if kind == TaskKind.PASS.value else 0
            if len(tasks) < limit:
                rows = connection.execute(DUE_PASSES, (first, *times, limit - len(tasks)))
                tasks += [task_of_pass(row) for row in rows]
            return tasks

        return await self._read(call)

    async def due_keys(self, keys: Sequence[tuple[str, int]]) -> list[bool]:
        items = [int(key[1:]) for key, _ in keys if key[0] == TaskKind.ITEM.value]
        passes = [int(key[1:]) for key, _ in keys if key[0] == TaskKind.PASS.value]

        def call(connection: Connection) -> list[bool]:
            wanted = {(f"i{id}", generation) for id, generation in connection.execute(WANTED_ITEMS, (listed(items),))}
            wanted |= {(f"p{id}", PASS_GENERATION) for (id,) in connection.execute(WANTED_PASSES, (listed(passes),))}
            return [(key, generation) in wanted for key, generation in keys]

        return await self._read(call)

    async def open_count(self, source_ids: Sequence[str] | None = None) -> int:
        def call(connection: Connection) -> int:
            if source_ids is None:
                counts = [connection.execute(OPEN_ITEMS), connection.execute(OPEN_PASSES)]
            else:
                named = (listed(source_ids),)
                counts = [connection.execute(OPEN_ITEMS + NAMED, named), connection.execute(OPEN_PASSES + NAMED, named)]
            return sum(int(found.fetchone()[0]) for found in counts)

        return await self._read(call)
