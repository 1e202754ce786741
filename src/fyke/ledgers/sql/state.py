"""Identity, lanes, events, cursors and workers: the ledger's small state.

Holds and robots answers outlive the frontier here (P4).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence

import msgspec

from fyke.db.migrate import load_alembic, newest_schema, schema_of, upgrade
from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.cleaning import to_json
from fyke.model import Event, LaneRow, WorkerRow

LANE_COLUMNS = "lane, hold_until, hold_reason, blocks, robots_text, robots_status, robots_at"
HOLD = """
INSERT INTO lane(lane, hold_until, hold_reason, blocks) VALUES (:lane, :until, :reason, :block)
ON CONFLICT(lane) DO UPDATE SET
  hold_reason = CASE WHEN :until = 0 OR :until >= hold_until THEN :reason ELSE hold_reason END,
  hold_until = CASE WHEN :until = 0 THEN 0 ELSE max(hold_until, :until) END,
  blocks = blocks + :block
RETURNING blocks
"""
ROBOTS = """
INSERT INTO lane(lane, robots_text, robots_status, robots_at) VALUES (:lane, :text, :status, :at)
ON CONFLICT(lane) DO UPDATE SET robots_text = :text, robots_status = :status, robots_at = :at
"""
BEAT = """
INSERT INTO worker(worker, host, pid, version, pool, started_at, beat_at, in_hand, done, failed, memory, stage)
VALUES (:worker, :host, :pid, :version, :pool, :started_at, :beat_at, :in_hand, :done, :failed, :memory, :stage)
ON CONFLICT(worker) DO UPDATE SET host = :host, pid = :pid, version = :version, pool = :pool,
  started_at = :started_at, beat_at = :beat_at, in_hand = :in_hand, done = :done, failed = :failed,
  memory = :memory, stage = :stage
"""
WORKERS = """
SELECT worker, host, pid, version, pool, started_at, beat_at, in_hand, done, failed, memory, stage
FROM worker WHERE beat_at >= ? ORDER BY worker
"""


def write_events(connection: sqlite3.Connection, events: Sequence[Event], now: int) -> None:
    """Add events inside a transaction; those without a time happen now."""
    connection.executemany(
        "INSERT INTO event(kind, message, source, grp, at, data) VALUES (?, ?, ?, ?, ?, ?)",
        [(e.kind, plain(e.message), e.source_id, e.group, e.at or now, to_json(e.data)) for e in events],
    )


def plain(text: str) -> str:
    """Text that every database takes: without NUL and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "").encode("utf-8", "ignore").decode()


class StateStatements(Statements):
    async def migrate(self) -> None:
        if await self._db.read(schema_of) == newest_schema():
            return
        await asyncio.to_thread(load_alembic)
        await self._db.write(upgrade)

    async def identity(self) -> tuple[str, int]:
        def call(connection: sqlite3.Connection) -> tuple[str, int]:
            meta = dict(connection.execute("SELECT name, value FROM meta WHERE name IN ('ledger_id', 'epoch')"))
            return meta["ledger_id"], int(meta["epoch"])

        return await self._read(call)

    async def now(self) -> int:
        return self._clock.now()

    async def lanes(self) -> list[LaneRow]:
        return await self._read(
            lambda c: [LaneRow(*row) for row in c.execute(f"SELECT {LANE_COLUMNS} FROM lane ORDER BY lane")]
        )

    async def hold_lane(self, lane: str, until: int, reason: str, *, blocked: bool = False) -> int:
        values = {"lane": lane, "until": until, "reason": plain(reason), "block": int(blocked)}

        def call(connection: sqlite3.Connection) -> int:
            (blocks,) = connection.execute(HOLD, values).fetchone()
            return int(blocks)

        return await self._write(call)

    async def lane_ok(self, lane: str) -> None:
        # A read first: a good answer comes with each request, and nearly all of them have nothing to write.
        blocked = await self._read(
            lambda c: c.execute("SELECT 1 FROM lane WHERE lane = ? AND blocks > 0", (lane,)).fetchone()
        )
        if blocked:
            await self._write(lambda c: c.execute("UPDATE lane SET blocks = 0 WHERE lane = ?", (lane,)).rowcount)

    async def lane(self, lane: str) -> LaneRow | None:
        def call(connection: sqlite3.Connection) -> LaneRow | None:
            row = connection.execute(f"SELECT {LANE_COLUMNS} FROM lane WHERE lane = ?", (lane,)).fetchone()
            return LaneRow(*row) if row else None

        return await self._read(call)

    async def robots(self, lane: str) -> LaneRow | None:
        row = await self.lane(lane)
        return row if row is not None and row.robots_at is not None else None

    async def put_robots(self, lane: str, status: int, text: str) -> None:
        values = {"lane": lane, "status": status, "text": plain(text), "at": self._clock.now()}
        await self._write(lambda c: c.execute(ROBOTS, values).rowcount)

    async def source_blocked(self, source_id: str, limit: int) -> bool:
        now = self._clock.now()

        def call(connection: sqlite3.Connection) -> bool:
            row = connection.execute(
                "UPDATE source SET blocks = blocks + 1 WHERE name = ? RETURNING blocks, paused_at", (source_id,)
            ).fetchone()
            if row is None:
                raise UsageError(f"no source '{source_id}' in the ledger")
            blocks, paused_at = row
            if blocks < limit or paused_at is not None:
                return False
            reason = f"blocked {blocks} times in a row"
            connection.execute(
                "UPDATE source SET paused_at = ?, paused_reason = ? WHERE name = ?", (now, reason, source_id)
            )
            message = f"source '{source_id}' is paused: the site blocked it {blocks} times in a row"
            event = Event("blocked", message, source_id, f"blocked:{source_id}", now, {"blocks": blocks})
            write_events(connection, [event], now)
            return True

        return await self._write(call)

    async def add_events(self, events: Sequence[Event]) -> None:
        now, found = self._clock.now(), list(events)
        await self._write(lambda c: write_events(c, found, now))

    async def events(self, after: int = 0, limit: int = 100) -> list[Event]:
        def call(connection: sqlite3.Connection) -> list[Event]:
            rows = connection.execute(
                "SELECT kind, message, source, grp, at, data, id FROM event WHERE id > ? ORDER BY id LIMIT ?",
                (after, limit),
            )
            return [Event(k, m, s, g, at, msgspec.json.decode(data), id) for k, m, s, g, at, data, id in rows]

        return await self._read(call)

    async def cursor(self, name: str, value: int | None = None) -> int:
        key = f"cursor:{name}"

        def read(connection: sqlite3.Connection) -> int:
            row = connection.execute("SELECT value FROM meta WHERE name = ?", (key,)).fetchone()
            return int(row[0]) if row else 0

        if value is None:
            return await self._read(read)
        statement = "INSERT INTO meta(name, value) VALUES (?, ?) ON CONFLICT(name) DO UPDATE SET value = excluded.value"
        await self._write(lambda c: c.execute(statement, (key, str(value))).rowcount)
        return value

    async def beat(self, worker: WorkerRow) -> None:
        values = msgspec.structs.asdict(worker) | {"stage": to_json(worker.stage)}
        await self._write(lambda c: c.execute(BEAT, values).rowcount)

    async def workers(self, *, since: int) -> list[WorkerRow]:
        def call(connection: sqlite3.Connection) -> list[WorkerRow]:
            names = WorkerRow.__struct_fields__
            rows = (dict(zip(names, row, strict=True)) for row in connection.execute(WORKERS, (since,)))
            return [WorkerRow(**row | {"stage": msgspec.json.decode(row["stage"])}) for row in rows]

        return await self._read(call)

    async def close(self) -> None:
        await self._db.close()
