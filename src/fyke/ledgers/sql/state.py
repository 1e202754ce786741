"""Identity, lanes, events, cursors and workers: the ledger's small state.

Holds and robots answers outlive the frontier here (P4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fyke.db.connection import Connection
from fyke.db.migrate import migrate
from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.cleaning import to_json
from fyke.model import Event, LaneRow, WorkerRow

LANE_COLUMNS = "lane, hold_until, hold_reason, blocks, robots_text, robots_status, robots_at"
HELD = "SELECT hold_until, hold_reason, blocks FROM lane WHERE lane = ? FOR UPDATE"
NEW_HOLD = "INSERT INTO lane(lane, hold_until, hold_reason, blocks) VALUES (?, ?, ?, ?)"
HOLD = "UPDATE lane SET hold_until = ?, hold_reason = ?, blocks = ? WHERE lane = ?"
ROBOTS = """
INSERT INTO lane(lane, robots_text, robots_status, robots_at) VALUES (?, ?, ?, ?)
ON CONFLICT(lane) DO UPDATE SET robots_text = excluded.robots_text, robots_status = excluded.robots_status,
  robots_at = excluded.robots_at
"""
WORKER_COLUMNS = WorkerRow.__struct_fields__
BEAT = f"""
INSERT INTO worker({", ".join(WORKER_COLUMNS)}) VALUES ({", ".join("?" * len(WORKER_COLUMNS))})
ON CONFLICT(worker) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in WORKER_COLUMNS[1:])}
"""
BLOCKED = "SELECT id, blocks, paused_at FROM source WHERE name = ? FOR UPDATE"
# Events are read on by number. Whoever writes some holds this row until its commit, so numbers are given in the order
# of commits, and a late commit is not passed over. It is the last lock but the tally's.
EVENT_LOCK = "SELECT value FROM meta WHERE name = 'ledger_id' FOR UPDATE"
EVENT = "INSERT INTO event(kind, message, source, grp, at, data) VALUES (?, ?, ?, ?, ?, ?)"
# The latest of them only: nobody waits for a walk over all events.
TOLD_SINCE = """
SELECT DISTINCT kind, grp FROM event WHERE id > (SELECT coalesce(max(id), 0) - 1000 FROM event) AND at >= ?
"""
SET_META = "INSERT INTO meta(name, value) VALUES (?, ?) ON CONFLICT(name) DO UPDATE SET value = excluded.value"
SPACE = "cursor:known_space"
KNOWN_SPACE = f"SELECT value FROM meta WHERE name = '{SPACE}'"
HOLD_SPACE = f"{KNOWN_SPACE} FOR UPDATE"
SPACE_NAMES = "SELECT name, value FROM meta WHERE name IN ('epoch', 'ledger_id', 'cursor:known_space')"
WORKERS = f"SELECT {', '.join(WORKER_COLUMNS)} FROM worker WHERE beat_at >= ? ORDER BY worker"


def write_events(connection: Connection, events: Sequence[Event], now: int) -> None:
    """Add events inside a transaction, as its last writing but the tally; those without a time happen now."""
    if events:
        connection.execute(EVENT_LOCK)
        connection.executemany(
            EVENT, [(e.kind, plain(e.message), e.source_id, e.group, e.at or now, to_json(e.data)) for e in events]
        )


def spaces(connection: Connection) -> tuple[str, int]:
    """The name of the ledger and its epoch; and that of the state of its items, 0 where it has none."""
    meta = dict(connection.execute(SPACE_NAMES).fetchall())
    return f"{meta['ledger_id']}:{meta['epoch']}", int(meta.get(SPACE, 0))


def known_space(connection: Connection) -> int:
    row = connection.execute(KNOWN_SPACE).fetchone()
    return int(row[0]) if row else 0


def end_space(connection: Connection) -> None:
    """What known filters remember is void when this transaction commits, and whatever they are told until then.

    For what takes items away, and after the items are locked. Whoever relies on a filter gives the next space its name.
    """
    connection.execute(SET_META, (SPACE, "0"))


def end_untold_space(connection: Connection, space: int) -> int:
    """Entries have changed that filters were not told of in the current space; or it has changed since `space`.

    Late in the transaction, for whoever changes entries waits here. The space from now on.
    """
    row = connection.execute(HOLD_SPACE).fetchone()
    if row is None or int(row[0]) == space:
        return space if row else 0
    if row[0] != "0":
        end_space(connection)
    return 0


def plain(text: str) -> str:
    """Text that every database takes: without NUL and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "").encode("utf-8", "ignore").decode()


class StateStatements(Statements):
    async def migrate(self) -> None:
        await migrate(self._db)

    async def identity(self) -> tuple[str, int]:
        def call(connection: Connection) -> tuple[str, int]:
            rows = connection.execute("SELECT name, value FROM meta WHERE name IN ('ledger_id', 'epoch')")
            meta = dict(rows.fetchall())
            return meta["ledger_id"], int(meta["epoch"])

        return await self._read(call)

    async def now(self) -> int:
        return self._clock.now()

    async def lanes(self) -> list[LaneRow]:
        return await self._read(
            lambda c: [LaneRow(*row) for row in c.execute(f"SELECT {LANE_COLUMNS} FROM lane ORDER BY lane")]
        )

    async def hold_lane(self, lane: str, until: int, reason: str, *, blocked: bool = False) -> int:
        why, block = plain(reason), int(blocked)

        def call(connection: Connection) -> int:
            row = connection.execute(HELD, (lane,)).fetchone()
            if row is None:
                connection.execute(NEW_HOLD, (lane, until, why, block))
                return block
            held_until, held_reason, blocks = row
            if until == 0 or until >= held_until:
                held_until, held_reason = until, why
            connection.execute(HOLD, (held_until, held_reason, blocks + block, lane))
            return int(blocks) + block

        return await self._write(call)

    async def lane_ok(self, lane: str) -> None:
        # A read first: a good answer comes with each request, and nearly all of them have nothing to write.
        blocked = await self._read(
            lambda c: c.execute("SELECT 1 FROM lane WHERE lane = ? AND blocks > 0", (lane,)).fetchone()
        )
        if blocked:
            await self._change("UPDATE lane SET blocks = 0 WHERE lane = ?", (lane,))

    async def lane(self, lane: str) -> LaneRow | None:
        def call(connection: Connection) -> LaneRow | None:
            row = connection.execute(f"SELECT {LANE_COLUMNS} FROM lane WHERE lane = ?", (lane,)).fetchone()
            return LaneRow(*row) if row else None

        return await self._read(call)

    async def robots(self, lane: str) -> LaneRow | None:
        row = await self.lane(lane)
        return row if row is not None and row.robots_at is not None else None

    async def put_robots(self, lane: str, status: int, text: str) -> None:
        await self._change(ROBOTS, (lane, plain(text), status, self._clock.now()))

    async def source_blocked(self, source_id: str, limit: int) -> bool:
        now = self._clock.now()

        def call(connection: Connection) -> bool:
            row = connection.execute(BLOCKED, (source_id,)).fetchone()
            if row is None:
                raise UsageError(f"no source '{source_id}' in the ledger")
            id, blocks, paused_at = row
            blocks += 1
            connection.execute("UPDATE source SET blocks = ? WHERE id = ?", (blocks, id))
            if blocks < limit or paused_at is not None:
                return False
            reason = f"blocked {blocks} times in a row"
            connection.execute("UPDATE source SET paused_at = ?, paused_reason = ? WHERE id = ?", (now, reason, id))
            message = f"source '{source_id}' is paused: the site blocked it {blocks} times in a row"
            event = Event("blocked", message, source_id, f"blocked:{source_id}", now, {"blocks": blocks})
            write_events(connection, [event], now)
            return True

        return await self._write(call)

    async def add_events(self, events: Sequence[Event], *, apart_ms: int = 0) -> None:
        now, found = self._clock.now(), list(events)

        def call(connection: Connection) -> None:
            wanted = found
            if apart_ms:
                connection.execute(EVENT_LOCK)
                since = now - apart_ms
                told = {(kind, group) for kind, group in connection.execute(TOLD_SINCE, (since,)).fetchall()}
                wanted = [event for event in found if (event.kind, event.group) not in told]
            write_events(connection, wanted, now)

        await self._write(call)

    async def events(self, after: int = 0, limit: int = 100) -> list[Event]:
        def call(connection: Connection) -> list[Event]:
            rows = connection.execute(
                "SELECT kind, message, source, grp, at, data, id FROM event WHERE id > ? ORDER BY id LIMIT ?",
                (after, limit),
            )
            return [Event(k, m, s, g, at, msgspec.json.decode(data), id) for k, m, s, g, at, data, id in rows]

        return await self._read(call)

    async def cursor(self, name: str, value: int | None = None) -> int:
        key = f"cursor:{name}"

        def read(connection: Connection) -> int:
            row = connection.execute("SELECT value FROM meta WHERE name = ?", (key,)).fetchone()
            return int(row[0]) if row else 0

        if value is None:
            return await self._read(read)
        await self._change(SET_META, (key, str(value)))
        return value

    async def beat(self, worker: WorkerRow) -> None:
        await self._change(BEAT, msgspec.structs.astuple(msgspec.structs.replace(worker, stage=to_json(worker.stage))))

    async def workers(self, *, since: int) -> list[WorkerRow]:
        def call(connection: Connection) -> list[WorkerRow]:
            rows = (dict(zip(WORKER_COLUMNS, row, strict=True)) for row in connection.execute(WORKERS, (since,)))
            return [WorkerRow(**row | {"stage": msgspec.json.decode(row["stage"])}) for row in rows]

        return await self._read(call)

    async def close(self) -> None:
        await self._db.close()

    async def _change(self, statement: str, values: tuple[Any, ...]) -> None:
        def call(connection: Connection) -> None:
            connection.execute(statement, values)

        await self._write(call)
