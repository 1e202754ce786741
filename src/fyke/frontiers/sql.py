"""The frontier in a SQLite file: the embedded default, with no server.

It lives in the ledger's file but shares no transaction with it: all that is here can be rebuilt from the ledger (P2).
Places are kept in `sql_places`, politeness (P4) in `sql_lanes`; here are the calls, the clock and the waiting.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from fyke.db.sqlite import SqliteDatabase
from fyke.errors import LeaseLost, TransientError, UsageError, nearest
from fyke.frontiers import sql_lanes as lanes
from fyke.frontiers import sql_places as places
from fyke.frontiers import sql_statements as sql
from fyke.frontiers.clock_steps import StepWatch
from fyke.model import (
    Delivery,
    FrontierStats,
    LanePolicy,
    LaneStats,
    Leased,
    Reaped,
    Retry,
    Started,
    Task,
    TaskKind,
    TaskState,
    TaskView,
)
from fyke.ports import Clock

T = TypeVar("T")

BATCH_LIMIT = 1_000
WAIT_LIMIT_MS = 1_000
PROMOTE_LIMIT = 500
AWAY_S = 1.0
STATES = (TaskState.READY, TaskState.DELAYED, TaskState.LEASED)


class SqlFrontier:
    """Implements `ports.Frontier` on one file whose tables are there (`db.migrate`, `db.frontier_tables`).

    Any number of processes may use the file; each has one of these. Time is the host's, read inside the transaction.
    """

    def __init__(self, database: SqliteDatabase, clock: Clock, random: Random, *, lease_ms: int = 30_000) -> None:
        self._db, self._clock, self._random = database, clock, random
        self._watch = StepWatch(clock, lease_ms)
        self._noted = 0
        self._lucky = False

    async def configure(self, lanes_: Sequence[LanePolicy], *, tighten: bool = False) -> None:
        await self._write(lambda connection, now: lanes.configure(connection, lanes_, tighten=tighten))

    async def offer(self, tasks: Sequence[Task]) -> int:
        _check_batch(tasks)
        for task in tasks:
            _check_pool(task.pool)
        if not tasks:
            return 0
        return await self._write(lambda connection, now: places.offer(connection, now, tasks))

    async def lease(self, limit: int, duration_ms: int, *, worker: str, pool: str = "text") -> Leased:
        _check_pool(pool)
        self._watch.look()
        # Noted before anything is looked at: a commit between this and `wait` ends the wait at once.
        self._noted = self._db.version
        # A reader is asked first, unless the last lease left something due: an idle frontier writes nothing.
        if not self._lucky:
            wait = await self._db.read(lambda connection: self._next_due(connection, pool))
            if wait > 0 or limit <= 0:
                return Leased([], wait)
        limit, token = min(limit, BATCH_LIMIT), secrets.randbits(62)

        def take(connection: sqlite3.Connection, now: int) -> Leased:
            self._drop_expired_permits(connection, now)
            places.promote(connection, now, PROMOTE_LIMIT)
            grant = lanes.Grant(now, limit, duration_ms, worker, pool, token)
            deliveries = grant.run(connection)
            if deliveries:
                connection.execute("UPDATE task_meta SET last_lease_at = ?", (now,))
            return Leased(deliveries, self._next_due(connection, pool))

        leased = await self._write(take)
        self._lucky = leased.wait_ms == 0
        return leased

    def _next_due(self, connection: sqlite3.Connection, pool: str) -> int:
        """Milliseconds until something may be due, at most a second; 0 where something is."""
        now = self._clock.now()
        high, *times, expired = connection.execute(sql.NEXT_DUE[pool], {"now": now}).fetchone()
        if self._watch.step or now < high - lanes.SMALL_STEP_MS or (expired and not self._watch.paused):
            return 0
        # A lease that has run out is the reaper's affair: no reason to look again and again.
        waits = [at - now for at in times if at is not None]
        return max(0, min(WAIT_LIMIT_MS, *waits)) if waits else WAIT_LIMIT_MS

    def _drop_expired_permits(self, connection: sqlite3.Connection, now: int) -> None:
        if not self._watch.paused:
            places.drop_expired_permits(connection, now)

    async def begin(self, deliveries: Sequence[Delivery]) -> list[Started]:
        _check_batch(deliveries)
        draw = self._random.random
        return await self._write(lambda connection, now: lanes.begin(connection, now, deliveries, draw))

    async def permit(self, delivery: Delivery, lane: str, limit_ms: int = 5_000) -> int:
        def reserve(connection: sqlite3.Connection, now: int) -> int | None:
            self._drop_expired_permits(connection, now)
            return lanes.permit(connection, now, delivery, lane, limit_ms, self._random.random)

        wait = await self._write(reserve)
        if wait is None:
            raise LeaseLost(f"task {delivery.task.key} is not {delivery.worker}'s any more")
        return wait

    async def extend(self, deliveries: Sequence[Delivery], duration_ms: int) -> list[bool]:
        _check_batch(deliveries)
        return await self._write(lambda connection, now: places.extend(connection, now, deliveries, duration_ms))

    async def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        _check_batch(deliveries)
        return await self._write(lambda connection, now: places.finish(connection, deliveries, "acked"))

    async def bury(self, deliveries: Sequence[Delivery]) -> list[bool]:
        _check_batch(deliveries)
        return await self._write(lambda connection, now: places.finish(connection, deliveries, "buried"))

    async def retry(self, retries: Sequence[Retry]) -> list[bool]:
        _check_batch(retries)
        return await self._write(lambda connection, now: places.retry(connection, now, retries))

    async def release(self, deliveries: Sequence[Delivery]) -> list[bool]:
        _check_batch(deliveries)
        return await self._write(lambda connection, now: places.release(connection, now, deliveries))

    async def reap(self, limit: int = 100) -> list[Reaped]:
        self._watch.look()

        def look(connection: sqlite3.Connection) -> tuple[bool, bool]:
            leased, *answers = connection.execute(sql.REAP_NEEDED, {"now": self._clock.now()}).fetchone()
            return leased, any(answers) or connection.execute(sql.DRIFTED).fetchone() is not None

        def put_back(connection: sqlite3.Connection, now: int) -> list[Reaped]:
            if self._db.waited > AWAY_S:
                self._watch.pause()
            return places.reap(connection, now, min(limit, BATCH_LIMIT)) if needed and not self._watch.paused else []

        leased, needed = await self._db.read(look)
        if not (leased or needed or self._watch.step):
            return []
        # While there are leases it writes each time, also in a pause: a locked file can be read, so only a write that
        # fails or waits tells that their holders cannot renew them.
        try:
            return await self._write(put_back)
        except TransientError:
            self._watch.pause()
            raise

    async def pause_reaping(self) -> None:
        self._watch.pause()

    async def hold(self, lane: str, until: int, reason: str) -> None:
        await self._write(lambda connection, now: lanes.hold(connection, now, lane, until, reason))

    async def held(self, lane: str) -> int:
        row = await self._db.read(lambda connection: connection.execute(sql.HELD, (lane,)).fetchone())
        now = self._clock.now()
        # Nothing may be held longer than its own length, whatever a clock said when it was written.
        return max(0, min(row[0] - now, row[1])) if row else 0

    async def keys(self, after: str = "", limit: int = 1000) -> list[tuple[str, int, TaskKind]]:
        values = (after, min(limit, BATCH_LIMIT))
        rows = await self._db.read(lambda connection: connection.execute(sql.KEYS, values).fetchall())
        return [(key, generation, TaskKind(kind)) for key, generation, kind in rows]

    async def drop(self, keys: Sequence[tuple[str, int]]) -> int:
        _check_batch(keys)
        return await self._write(lambda connection, now: places.drop(connection, keys))

    async def known(self, keys: Sequence[str]) -> list[int | None]:
        _check_batch(keys)
        asked = json.dumps(list(keys))
        live = dict(await self._db.read(lambda connection: connection.execute(sql.KNOWN, (asked,)).fetchall()))
        return [live.get(key) for key in keys]

    async def view(self, key: str) -> TaskView | None:
        row = await self._db.read(lambda connection: connection.execute(sql.VIEW, (key,)).fetchone())
        if row is None:
            return None
        kind, ref, generation, lane, pool, priority, source_hash, starts, state, at, worker, reason, *times = row
        task = Task(TaskKind(kind), ref, generation, lane, pool, priority, source_hash, starts)
        return TaskView(task, STATES[state], starts, at if state else None, worker, reason, *times)

    async def stats(self) -> FrontierStats:
        def read(connection: sqlite3.Connection) -> FrontierStats:
            ready, delayed, leased = connection.execute(sql.TOTALS).fetchone()
            oldest = connection.execute(sql.OLDEST_READY).fetchone()
            last_lease, acked, buried = connection.execute(sql.COUNTERS).fetchone()
            times = [at for (at,) in connection.execute(sql.NEXT_TIMES) if at is not None]
            rows = connection.execute(sql.LANE_STATS, (self._clock.now(),)).fetchall()
            return FrontierStats(
                *(ready, delayed, leased, oldest and oldest[0], last_lease, [LaneStats(*row) for row in rows]),
                acked=acked,
                buried=buried,
                next_at=min(times, default=None),
            )

        return await self._db.read(read)

    async def rebuild(self, ledger_id: str, epoch: int) -> bool:
        if await self._db.read(lambda connection: _belongs(connection, ledger_id, epoch)):
            return False

        def empty(connection: sqlite3.Connection, now: int) -> bool:
            if _belongs(connection, ledger_id, epoch):
                return False
            for statement in (sql.EMPTY_TASKS, sql.EMPTY_PERMITS, sql.EMPTY_PLACES):
                connection.execute(statement)
            connection.execute(sql.EMPTY_LANES, {"now": now})
            connection.execute(sql.SET_IDENTITY, (ledger_id, epoch))
            return True

        return await self._write(empty)

    async def wait(self, timeout_ms: int) -> None:
        await self._db.wait(min(max(timeout_ms, 0), WAIT_LIMIT_MS) / 1000, self._noted)

    async def close(self) -> None:
        """Nothing to do: whoever opened the database closes it."""

    async def _write(self, call: Callable[[sqlite3.Connection, int], T]) -> T:
        self._watch.look()
        step = self._watch.step

        def run(connection: sqlite3.Connection) -> T:
            # Read here, not where the call was made: it may have waited for its turn.
            now = self._clock.now()
            lanes.settle(connection, now, step)
            return call(connection, now)

        # Not durable: a power failure may take the last leases and acks, and the ledger makes them good. It holds the
        # truth; a redelivered task meets a closed item.
        answer = await self._db.write(run, durable=False)
        self._watch.told(step)
        return answer


def _belongs(connection: sqlite3.Connection, ledger_id: str, epoch: int) -> bool:
    found: tuple[str, int] = connection.execute(sql.IDENTITY).fetchone()
    return found == (ledger_id, epoch)


def _check_batch(batch: Sequence[object]) -> None:
    if len(batch) > BATCH_LIMIT:
        raise ValueError(f"a call takes at most {BATCH_LIMIT} tasks, not {len(batch)}")


def _check_pool(pool: str) -> None:
    if pool not in sql.POOLS:
        raise UsageError(f"no such pool: {pool!r}", field="pool", hint=nearest(pool, sql.POOLS) or "text or render")
