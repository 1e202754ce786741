"""The frontier in the ledger's database: a SQLite file, the default with no server, or PostgreSQL or MariaDB.

It shares no transaction with the ledger: all that is here can be rebuilt from it (P2). Places are kept in
`sql_places`, politeness (P4) in `sql_lanes`, locks in `sql_lane_locks`; here are the calls, the clock and the waiting.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from fyke.db.connection import Connection, Database, listed
from fyke.errors import LeaseLost, TransientError, UsageError, nearest
from fyke.frontiers import sql_lanes as lanes
from fyke.frontiers import sql_places as places
from fyke.frontiers import sql_statements as sql
from fyke.frontiers.clock_steps import StepWatch
from fyke.frontiers.sql_aside import KINDS
from fyke.frontiers.sql_due import WAIT_LIMIT_MS, look, reaping
from fyke.frontiers.sql_stats import read_stats
from fyke.model import (
    Delivery,
    FrontierStats,
    LanePolicy,
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
PROMOTE_LIMIT = 500
EMPTIED_AT_ONCE = 5_000
AWAY_S = 1.0
# Lanes that are due may all be locked by neighbours for a moment.
LOCKED_TRIES, LOCKED_WAIT_MS = 8, 5
# A server's row that all would wait for is written this seldom.
CLOCK_NOTED_MS = 30_000
STATES = (TaskState.READY, TaskState.DELAYED, TaskState.LEASED)


class SqlFrontier:
    """Implements `ports.Frontier` on a database whose tables are there (`db.migrate`, `db.frontier_tables`).

    Any number of processes may use it; each has one of these. `clock` is the database's: with SQLite the host's.
    """

    def __init__(self, database: Database, clock: Clock, random: Random, *, lease_ms: int = 30_000) -> None:
        self._db, self._clock, self._random = database, clock, random
        self._server = database.dialect != "sqlite"
        self._watch = StepWatch(clock, lease_ms)
        self._noted = 0
        self._lucky = False
        self._yields = 2.0
        self._clock_high = 0

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
        if not self._lucky or limit <= 0:
            wait = await self._db.read(lambda connection: self._wait(connection, pool))
            if wait > 0 or limit <= 0:
                await self._note_clock()
                return Leased([], wait)
        limit, token = min(limit, BATCH_LIMIT), secrets.randbits(62)

        def take(connection: Connection, now: int) -> Leased:
            grant = lanes.Grant(now, limit, duration_ms, worker, pool, token, yields=self._yields)
            return self._take(connection, grant)

        leased = await self._write(take)
        tries = LOCKED_TRIES if self._server else 1
        while not leased.deliveries and leased.wait_ms == 0 and tries > 1:
            await self._clock.sleep(self._random.uniform(1, LOCKED_WAIT_MS) / 1000)
            leased = await self._write(take)
            tries -= 1
        await self._note_clock()
        self._lucky = leased.wait_ms == 0
        if self._server and not leased.deliveries and leased.wait_ms == 0:
            return Leased([], LOCKED_WAIT_MS)
        return leased

    def _take(self, connection: Connection, grant: lanes.Grant) -> Leased:
        now = grant.now
        due = look(connection, grant.pool, now)
        self._clock_high = due.clock_high
        if now < due.clock_high - lanes.SMALL_STEP_MS:
            lanes.settle(connection, now, 0)
            due = due._replace(classes=(now,))
        best = due.best(now)
        if due.expired and not self._watch.paused:
            places.drop_expired_permits(connection, now)
            best = 0
        if due.delayed is not None and due.delayed <= now:
            places.promote(connection, now, PROMOTE_LIMIT)
            best = 0
        if best is None:
            return Leased([], due.wait(now))
        grant.run(connection, best)
        self._yields = grant.yields
        return Leased(grant.deliveries, 0 if grant.room == 0 else self._wait(connection, grant.pool))

    def _wait(self, connection: Connection, pool: str) -> int:
        """Milliseconds until something may be due, at most a second; 0 where something is."""
        now = self._clock.now()
        due = look(connection, pool, now)
        self._clock_high = due.clock_high
        if self._watch.step or now < due.clock_high - lanes.SMALL_STEP_MS or (due.expired and not self._watch.paused):
            return 0
        return due.wait(now)

    async def begin(self, deliveries: Sequence[Delivery]) -> list[Started]:
        _check_batch(deliveries)
        if not deliveries:
            return []
        draw, granted = self._random.random, _Granted(self._clock)
        answers = await self._write(lambda connection, now: lanes.begin(connection, granted.now, deliveries, draw))
        return [replace(one, wait_ms=granted.left(one.wait_ms)) if one.wait_ms else one for one in answers]

    async def permit(self, delivery: Delivery, lane: str, limit_ms: int = 5_000) -> int:
        draw, granted, expire = self._random.random, _Granted(self._clock), not self._watch.paused
        wait = await self._write(
            lambda connection, now: lanes.permit(connection, granted.now, delivery, lane, limit_ms, draw, expire=expire)
        )
        if wait is None:
            raise LeaseLost(f"task {delivery.task.key} is not {delivery.worker}'s any more")
        return granted.left(wait) if wait <= limit_ms else wait

    async def extend(self, deliveries: Sequence[Delivery], duration_ms: int) -> list[bool]:
        _check_batch(deliveries)
        if not deliveries:
            return []
        return await self._write(lambda connection, now: places.extend(connection, now, deliveries, duration_ms))

    async def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        _check_batch(deliveries)
        if not deliveries:
            return []
        return await self._write(lambda connection, now: places.finish(connection, deliveries, "acked"))

    async def bury(self, deliveries: Sequence[Delivery]) -> list[bool]:
        _check_batch(deliveries)
        if not deliveries:
            return []
        return await self._write(lambda connection, now: places.finish(connection, deliveries, "buried"))

    async def retry(self, retries: Sequence[Retry]) -> list[bool]:
        _check_batch(retries)
        if not retries:
            return []
        return await self._write(lambda connection, now: places.retry(connection, now, retries))

    async def release(self, deliveries: Sequence[Delivery]) -> list[bool]:
        _check_batch(deliveries)
        if not deliveries:
            return []
        return await self._write(lambda connection, now: places.release(connection, now, deliveries))

    async def reap(self, limit: int = 100) -> list[Reaped]:
        self._watch.look()

        def put_back(connection: Connection, now: int) -> list[Reaped]:
            if connection.waited > AWAY_S:
                self._watch.pause()
            return (
                places.reap(connection, now, min(limit, BATCH_LIMIT)) if needed.work and not self._watch.paused else []
            )

        began = self._clock.monotonic()
        try:
            needed = await self._db.read(lambda connection: reaping(connection, self._clock.now()))
            self._clock_high = needed.clock_high
            if self._clock.monotonic() - began > AWAY_S:
                self._watch.pause()
            await self._note_clock()
            # While there are leases a file is written each time, also in a pause: a locked one can be read, so only a
            # write that fails or waits tells that their holders cannot renew them.
            if not (needed.work or self._watch.step or (needed.leased and not self._server)):
                return []
            return await self._write(put_back)
        except TransientError:
            self._watch.pause()
            raise

    async def _note_clock(self) -> None:
        """So that a step back of the server's clock is found; a file's is noted with each write."""
        now = self._clock.now()
        if self._server and now > self._clock_high + CLOCK_NOTED_MS:
            await self._db.write(lambda connection: connection.execute(sql.RAISE_CLOCK_HIGH, (now,)), durable=False)

    async def pause_reaping(self) -> None:
        self._watch.pause()

    async def hold(self, lane: str, until: int, reason: str) -> None:
        await self._write(_Granted(self._clock).hold(lane, until, reason))

    async def held(self, lane: str) -> int:
        row = await self._db.read(lambda connection: connection.execute(sql.HELD, (lane,)).fetchone())
        now = self._clock.now()
        # Nothing may be held longer than its own length, whatever a clock said when it was written.
        return max(0, min(row[0] - now, row[1])) if row else 0

    async def keys(self, after: str = "", limit: int = 1000) -> list[tuple[str, int, TaskKind]]:
        rows = await self._db.read(lambda c: c.execute(sql.KEYS, (after, min(limit, BATCH_LIMIT))).fetchall())
        return [(key, generation, TaskKind(kind)) for key, generation, kind in rows]

    async def drop(self, keys: Sequence[tuple[str, int]]) -> int:
        _check_batch(keys)
        return await self._write(lambda connection, now: places.drop(connection, keys)) if keys else 0

    async def known(self, keys: Sequence[str]) -> list[int | None]:
        _check_batch(keys)
        asked = listed(keys)
        live = dict(await self._db.read(lambda connection: connection.execute(sql.KNOWN, (asked,)).fetchall()))
        return [live.get(key) for key in keys]

    async def view(self, key: str) -> TaskView | None:
        row = await self._db.read(lambda connection: connection.execute(sql.VIEW, (key,)).fetchone())
        return None if row is None or row[0] not in KINDS else _view(row)

    async def stats(self) -> FrontierStats:
        return await self._db.read(lambda connection: read_stats(connection, self._clock.now()))

    async def rebuild(self, ledger_id: str, epoch: int) -> bool:
        identity = (ledger_id, epoch)
        if await self._db.read(lambda connection: connection.execute(sql.IDENTITY).fetchone()) == identity:
            return False

        def empty(connection: Connection, now: int) -> bool:
            # Of many processes that find it so, one empties it.
            if connection.execute(sql.IDENTITY_LOCKED).fetchone() == identity:
                return False
            lanes.empty(connection, now)
            connection.execute(sql.SET_IDENTITY, identity)
            return True

        if self._server:
            last = await self._db.read(lambda connection: connection.execute(sql.LAST_SEQ).fetchone()[0])
            after = -1

            def remove(connection: Connection, now: int) -> int:
                return places.remove_old(connection, after, last, EMPTIED_AT_ONCE)

            while after:
                after = await self._write(remove)
        return await self._write(empty)

    @property
    def made(self) -> int:
        return 1  # tables beside the ledger are there once

    async def damaged(self) -> str:
        return ""

    async def wait(self, timeout_ms: int) -> None:
        await self._db.wait(min(max(timeout_ms, 0), WAIT_LIMIT_MS) / 1000, self._noted)

    async def close(self) -> None:
        """Nothing to do: whoever opened the database closes it."""

    async def _write(self, call: Callable[[Connection, int], T]) -> T:
        self._watch.look()
        step = self._watch.step

        def run(connection: Connection) -> T:
            # Read here, not where the call was made: it may have waited for its turn.
            now = self._clock.now()
            # On a server the clocks of hosts decide nothing, and its own hardly steps: a lease notices that.
            if step or not self._server:
                lanes.settle(connection, now, step)
            return call(connection, now)

        # Not durable: a power failure may take the last leases and acks, and the ledger makes them good. It holds the
        # truth; a redelivered task meets a closed item.
        answer = await self._db.write(run, durable=False)
        self._watch.told(step)
        return answer


class _Granted:
    """The time by which a start was granted; what its commit took is no more to be waited for.

    Else a start whose commit was slow comes late, and the next one at the same host too soon after it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._at = clock, clock.monotonic()

    def now(self) -> int:
        self._at = self._clock.monotonic()
        return self._clock.now()

    def hold(self, lane: str, until: int, reason: str) -> Callable[[Connection, int], None]:
        """A hold as it is written: its length counts, for the clock may be set before the write has its turn."""
        length = until - self._clock.now()

        def call(connection: Connection, now: int) -> None:
            lanes.hold(connection, now, lane, now + self.left(length) if until else 0, reason)

        return call

    def left(self, wait_ms: int) -> int:
        return max(0, wait_ms - round((self._clock.monotonic() - self._at) * 1000))


def _check_batch(batch: Sequence[object]) -> None:
    if len(batch) > BATCH_LIMIT:
        raise ValueError(f"a call takes at most {BATCH_LIMIT} tasks, not {len(batch)}")


def _view(row: Sequence[Any]) -> TaskView:
    kind, ref, generation, lane, pool, priority, source_hash, starts, state, at, worker, reason, *times = row
    task = Task(TaskKind(kind), ref, generation, lane, pool, priority, source_hash, starts)
    return TaskView(task, STATES[state], starts, at if state else None, worker, reason, *times)


def _check_pool(pool: str) -> None:
    if pool not in sql.POOLS:
        raise UsageError(f"no such pool: {pool!r}", field="pool", hint=nearest(pool, sql.POOLS) or "text or render")
