"""Tasks move between their places: offered, given back, finished, dropped, reaped.

Every function is a part of one write transaction, and keeps each lane's counters equal to its rows. A delivery whose
token is not the live one changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fyke.frontiers import sql_statements as sql
from fyke.model import Delivery, LanePolicy, Reaped, Retry, Task, TaskKind

LEASE_RAN_OUT = "lease ran out"
LONGEST_DELAY = 30 * 24 * 3_600_000
READY, DELAYED, LEASED = 0, 1, 2
NO_CLASS = 3


class LaneMoves:
    """Changes of lanes' counters, gathered so that a batch writes each lane once, in order of id."""

    def __init__(self) -> None:
        self._lanes: dict[int, dict[str, int]] = {}

    def _lane(self, lane_id: int) -> dict[str, int]:
        found = self._lanes.get(lane_id)
        if found is None:
            found = self._lanes[lane_id] = {
                **dict.fromkeys(("ready_text", "ready_render", "delayed", "leased", "permits"), 0),
                **dict.fromkeys(("best_text", "best_render"), NO_CLASS),
                "id": lane_id,
            }
        return found

    def enter(self, lane_id: int, pool: str, priority: int) -> None:
        """A task became ready."""
        lane = self._lane(lane_id)
        lane[f"ready_{pool}"] += 1
        lane[f"best_{pool}"] = min(lane[f"best_{pool}"], priority)

    def leave(self, lane_id: int, pool: str, state: int) -> None:
        """A task left its place."""
        self._lane(lane_id)[f"ready_{pool}" if state == READY else "delayed" if state == DELAYED else "leased"] -= 1

    def delay(self, lane_id: int) -> None:
        self._lane(lane_id)["delayed"] += 1

    def keep_place(self, lane_id: int) -> None:
        self._lane(lane_id)["permits"] += 1

    def end_permit(self, lane_id: int) -> None:
        self._lane(lane_id)["permits"] -= 1

    def write(self, connection: sqlite3.Connection) -> None:
        if self._lanes:
            connection.executemany(sql.LANE_MOVE, [self._lanes[lane_id] for lane_id in sorted(self._lanes)])


def end_permits(connection: sqlite3.Connection, keys: Iterable[str], moves: LaneMoves) -> None:
    for (lane_id,) in connection.execute(sql.DROP_PERMITS, (json.dumps(list(keys)),)).fetchall():
        moves.end_permit(lane_id)


def keep_places(connection: sqlite3.Connection, seqs: Sequence[int], moves: LaneMoves) -> None:
    """Those of these tasks that are leased are taken from their holders: what these have in flight keeps its places."""
    for (lane_id,) in connection.execute(sql.KEEP_PLACES, {"seqs": json.dumps(seqs)}).fetchall():
        moves.keep_place(lane_id)


def lane_ids(connection: sqlite3.Connection, names: set[str]) -> dict[str, int]:
    """Ids by name; a lane not known yet is made with the default policy."""
    found: dict[str, int] = dict(connection.execute(sql.LANE_IDS, (json.dumps(sorted(names)),)).fetchall())
    for name in sorted(names - found.keys()):
        policy = LanePolicy(name)
        cursor = connection.execute(sql.LANE_INSERT, (name, policy.gap, policy.jitter, policy.concurrency))
        assert cursor.lastrowid is not None
        found[name] = cursor.lastrowid
    return found


class Owned(NamedTuple):
    """A leased task whose token the caller holds."""

    key: str
    token: int
    seq: int
    lane_id: int
    pool: str
    priority: int
    starts: int
    begun: int


def owned(connection: sqlite3.Connection, deliveries: Iterable[Delivery]) -> dict[tuple[str, int], Owned]:
    """The live ones among these deliveries, by key and token."""
    asked = {(one.task.key, one.token) for one in deliveries}
    keys = json.dumps(sorted(key for key, _ in asked))
    rows = connection.execute(sql.LEASED_TASKS, (keys,)).fetchall()
    return {(row[0], row[1]): Owned(*row) for row in rows if (row[0], row[1]) in asked}


def taken(live: dict[tuple[str, int], Owned], deliveries: Iterable[Delivery]) -> list[bool]:
    """Answers in order; the second of two equal deliveries finds the task gone."""
    left = set(live)
    answers = []
    for one in deliveries:
        mark = (one.task.key, one.token)
        answers.append(mark in left)
        left.discard(mark)
    return answers


def offer(connection: sqlite3.Connection, now: int, tasks: Sequence[Task]) -> int:
    wanted: dict[str, Task] = {}
    for task in tasks:
        key = task.key
        other = wanted.get(key)
        if other is None or task.generation > other.generation:
            wanted[key] = task
    moves, replaced, known = LaneMoves(), [], set()
    for row in connection.execute(sql.LIVE, (json.dumps(list(wanted)),)).fetchall():
        key, generation, seq, state, lane_id, pool = row
        known.add(key)
        if generation >= wanted[key].generation:
            del wanted[key]
        else:
            replaced.append(seq)
            moves.leave(lane_id, pool, state)
    if not wanted:
        return 0
    if replaced:
        keep_places(connection, replaced, moves)
        connection.execute(sql.REMOVE, (json.dumps(replaced),))
        end_permits(connection, known & wanted.keys(), moves)
    lanes = lane_ids(connection, {task.lane for task in wanted.values()})
    rows = []
    for key, task in wanted.items():
        lane_id, priority = lanes[task.lane], min(max(task.priority, 0), 2)
        moves.enter(lane_id, task.pool, priority)
        rows.append(
            (
                *(key, task.kind.value, task.ref, task.generation, lane_id, task.pool, priority),
                *(task.source_hash, task.starts, now),
            )
        )
    connection.executemany(sql.INSERT, rows)
    moves.write(connection)
    return len(wanted.keys() - known)


def give_back(
    connection: sqlite3.Connection,
    deliveries: Iterable[Delivery],
    live: dict[tuple[str, int], Owned],
    moves: LaneMoves,
) -> None:
    """What every end of a lease does: its place and its permits come free, also where the task was taken from it."""
    for task in live.values():
        moves.leave(task.lane_id, task.pool, LEASED)
    if live:
        end_permits(connection, [task.key for task in live.values()], moves)
    for mark in {(one.task.key, one.token) for one in deliveries} - live.keys():
        for (lane_id,) in connection.execute(sql.END_PLACES, mark).fetchall():
            moves.end_permit(lane_id)
    moves.write(connection)


def finish(connection: sqlite3.Connection, deliveries: Sequence[Delivery], counter: str) -> list[bool]:
    """Acknowledge (`counter` acked) or bury (buried)."""
    live = owned(connection, deliveries)
    if live:
        connection.execute(sql.REMOVE, (json.dumps([task.seq for task in live.values()]),))
        connection.execute(f"UPDATE task_meta SET {counter} = {counter} + ?", (len(live),))
    give_back(connection, deliveries, live, LaneMoves())
    return taken(live, deliveries)


def retry(connection: sqlite3.Connection, now: int, retries: Sequence[Retry]) -> list[bool]:
    deliveries = [one.delivery for one in retries]
    live, moves, rows = owned(connection, deliveries), LaneMoves(), {}
    for one in retries:
        task = live.get((one.delivery.task.key, one.delivery.token))
        if task is not None and task.seq not in rows:
            delay = min(max(one.delay_ms, 0), LONGEST_DELAY)
            rows[task.seq] = (now + delay, delay, one.reason, one.counted, task.seq)
            moves.delay(task.lane_id)
    connection.executemany(sql.RETRY, rows.values())
    give_back(connection, deliveries, live, moves)
    return taken(live, deliveries)


def release(connection: sqlite3.Connection, now: int, deliveries: Sequence[Delivery]) -> list[bool]:
    live, moves = owned(connection, deliveries), LaneMoves()
    connection.executemany(sql.RELEASE, [(now, task.seq) for task in live.values()])
    for task in live.values():
        moves.enter(task.lane_id, task.pool, task.priority)
    give_back(connection, deliveries, live, moves)
    return taken(live, deliveries)


def extend(connection: sqlite3.Connection, now: int, deliveries: Sequence[Delivery], duration: int) -> list[bool]:
    live = owned(connection, deliveries)
    connection.executemany(sql.EXTEND, [(now + duration, duration, task.seq) for task in live.values()])
    return [(one.task.key, one.token) in live for one in deliveries]


def drop(connection: sqlite3.Connection, keys: Sequence[tuple[str, int]]) -> int:
    wanted, moves, rows, ended = set(keys), LaneMoves(), [], []
    asked = json.dumps(sorted({key for key, _ in wanted}))
    for key, generation, seq, state, lane_id, pool in connection.execute(sql.LIVE, (asked,)).fetchall():
        if (key, generation) in wanted:
            rows.append(seq)
            ended.append(key)
            moves.leave(lane_id, pool, state)
    keep_places(connection, rows, moves)
    connection.execute(sql.REMOVE, (json.dumps(rows),))
    end_permits(connection, ended, moves)
    moves.write(connection)
    return len(ended)


def promote(connection: sqlite3.Connection, now: int, limit: int) -> None:
    """Delayed tasks that are due become ready, at their old place."""
    moves = LaneMoves()
    for lane_id, pool, priority in connection.execute(sql.PROMOTE, {"now": now, "limit": limit}).fetchall():
        moves.leave(lane_id, pool, DELAYED)
        moves.enter(lane_id, pool, priority)
    moves.write(connection)


def drop_expired_permits(connection: sqlite3.Connection, now: int) -> None:
    """A permit ends with its lease, though its task waits for the reaper; so does a place that outlived its task."""
    moves = LaneMoves()
    if expired := connection.execute(sql.EXPIRED_PERMITS, (now,)).fetchall():
        end_permits(connection, {key for key, _ in expired}, moves)
    for (lane_id,) in connection.execute(sql.EXPIRED_PLACES, (now,)).fetchall():
        moves.end_permit(lane_id)
    moves.write(connection)


def clamp_leases(connection: sqlite3.Connection, now: int) -> None:
    """What ends later than now + twice its length was granted by a clock that was ahead."""
    connection.execute(sql.CLAMP_LEASES, {"now": now})
    connection.execute(sql.CLAMP_PLACES, {"now": now})


def reap(connection: sqlite3.Connection, now: int, limit: int) -> list[Reaped]:
    clamp_leases(connection, now)
    moves, reaped, rows = LaneMoves(), [], []
    names = {}
    for row in connection.execute(sql.EXPIRED, (now, limit)).fetchall():
        seq, kind, ref, generation, lane_id, pool, priority, source_hash, starts, begun, worker = row
        if lane_id not in names:
            names[lane_id] = connection.execute("SELECT name FROM task_lane WHERE id = ?", (lane_id,)).fetchone()[0]
        task = Task(TaskKind(kind), ref, generation, names[lane_id], pool, priority, source_hash, starts)
        reaped.append(Reaped(task, worker, starts, begun > 0))
        rows.append((now, LEASE_RAN_OUT, seq))
        moves.leave(lane_id, pool, LEASED)
        moves.enter(lane_id, pool, priority)
    if reaped:
        connection.executemany(sql.PUT_BACK, rows)
        end_permits(connection, [one.task.key for one in reaped], moves)
        moves.write(connection)
    connection.execute(sql.LOST_PERMITS)
    for lane_id, _, leased, permits in connection.execute(sql.DRIFTED).fetchall():
        connection.execute(sql.MEND, (leased, permits, lane_id))
    return reaped
