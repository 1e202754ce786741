"""Lanes decide who may go: leases, starts, permits, holds.

Keeps P4: a start is reserved in the lane's row, in the transaction that grants it, so that no two workers get one.
Every function is a part of one write transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from fyke.frontiers import sql_statements as sql
from fyke.frontiers.sql_places import clamp_leases, lane_ids, owned
from fyke.model import Delivery, LanePolicy, Started, Task, TaskKind
from fyke.policy.politeness import drawn_gap, strictest

Draw = Callable[[], float]

HORIZON_MS = 1_000
LANES_A_ROUND = 64
ROUNDS = 64
# A worker that waited for its start asks `begin` once more, in case the lane was held meanwhile.
SAME_START_MS = 100
FULL_WAIT_MS = 1_000
SMALL_STEP_MS = 1_000


class Grant:
    """One lease call: what it may take and what it took."""

    def __init__(self, now: int, limit: int, duration: int, worker: str, pool: str, token: int) -> None:
        self.now, self.limit, self.pool, self.token = now, limit, pool, token
        self._duration, self._worker = duration, worker
        self.deliveries: list[Delivery] = []

    def run(self, connection: sqlite3.Connection) -> list[Delivery]:
        """Best class first; within it the lane that waited longest; within a lane the oldest task."""
        for priority in sql.PRIORITIES:
            for _ in range(ROUNDS):
                values = (priority, self.now, min(self.limit - len(self.deliveries), LANES_A_ROUND))
                lanes = connection.execute(sql.DUE_LANES[self.pool], values).fetchall()
                if not lanes:
                    break
                self._round(connection, priority, lanes)
        return self.deliveries

    def _round(self, connection: sqlite3.Connection, priority: int, lanes: list[tuple[Any, ...]]) -> None:
        end, tasks, updates = self.now + self._duration, [], []
        for lane_id, name, gap, jitter, free, ready, due_at, start_at in lanes:
            room = self.limit - len(self.deliveries)
            if room <= 0:
                break
            wanted, first = min(room, free, ready), max(self.now, start_at)
            if gap > 0:
                wanted = min(wanted, max(1, 1 + (self.now + HORIZON_MS - first) // gap))
            rows = connection.execute(sql.HEADS, (lane_id, self.pool, wanted + 1)).fetchall()
            mine = [row for row in rows[:wanted] if row[4] == priority]
            for number, (seq, kind, ref, generation, _, source_hash, starts) in enumerate(mine):
                task = Task(TaskKind(kind), ref, generation, name, self.pool, priority, source_hash, starts)
                start = first + max(0, number * gap - jitter) if number else first
                self.deliveries.append(Delivery(task, self.token, self._worker, end, starts, start))
                tasks.append(seq)
            # Fewer rows than asked for: these are all there are, whatever the counter says.
            left = (len(rows) if len(rows) <= wanted else ready) - len(mine)
            best = rows[len(mine)][4] if len(rows) > len(mine) else 2
            # The earliest time at which one more start may be possible; `begin` moves it to the true one.
            next_at = first + max(0, len(mine) * gap - jitter) if gap > 0 else self.now
            updates.append((left, best, len(mine), next_at if mine else due_at, lane_id))
        connection.execute(sql.TAKE, (end, self._duration, self.token, self._worker, json.dumps(tasks)))
        connection.executemany(sql.LANE_TAKEN[self.pool], updates)


def begin(connection: sqlite3.Connection, now: int, deliveries: Sequence[Delivery], draw: Draw) -> list[Started]:
    live = owned(connection, deliveries)
    asked = json.dumps(sorted({task.lane_id for task in live.values()}))
    lanes = {row[0]: row[1:] for row in connection.execute(sql.LANES, (asked,)).fetchall()}
    answers: dict[tuple[str, int], Started] = {}
    begun_tasks, reserved = [], dict[int, int]()
    for mark in dict.fromkeys((one.task.key, one.token) for one in deliveries):
        task = live.get(mark)
        if task is None:
            answers[mark] = Started(lost=True)
            continue
        gap, jitter, start_at, hold_until = lanes[task.lane_id]
        if hold_until > now:
            answers[mark] = Started(False, task.starts, hold_until - now, reserved=False)
            continue
        at, starts = task.begun, task.starts
        if at < now - SAME_START_MS:
            at = now
            if gap > 0:
                at = max(now, reserved.get(task.lane_id, start_at))
                reserved[task.lane_id] = at + drawn_gap(gap, jitter, draw())
            starts += not task.begun
            begun_tasks.append((starts, at, task.seq))
        answers[mark] = Started(False, starts, max(0, at - now))
    connection.executemany(sql.BEGIN, begun_tasks)
    connection.executemany(sql.RESERVE, [(at, at, lane_id) for lane_id, at in sorted(reserved.items())])
    return [answers[one.task.key, one.token] for one in deliveries]


def permit(
    connection: sqlite3.Connection, now: int, delivery: Delivery, lane: str, limit_ms: int, draw: Draw
) -> int | None:
    """The wait in ms, or None where the delivery is not the live one."""
    key = delivery.task.key
    task = owned(connection, [delivery]).get((key, delivery.token))
    if task is None:
        return None
    lane_ids(connection, {lane})
    lane_id, gap, jitter, start_at, hold_until, free = connection.execute(sql.LANE, (lane,)).fetchone()
    if hold_until > now:
        # All who waited for the hold's end in hand would start at once when it ends.
        return max(limit_ms + 1, int(hold_until - now))
    at = max(now, start_at if gap > 0 else 0)
    if at - now > limit_ms:
        return int(at - now)
    if lane_id != task.lane_id and connection.execute(sql.HAS_PERMIT, (key, lane_id)).fetchone() is None:
        if free <= 0:
            # Nobody knows when a place comes free; ask again after a while.
            return max(limit_ms + 1, FULL_WAIT_MS)
        connection.execute(sql.ADD_PERMIT, (key, lane_id))
        connection.execute("UPDATE task_lane SET permits = permits + 1 WHERE id = ?", (lane_id,))
    if gap > 0:
        following = at + drawn_gap(gap, jitter, draw())
        connection.execute(sql.RESERVE, (following, following, lane_id))
    return int(at - now)


def configure(connection: sqlite3.Connection, policies: Sequence[LanePolicy], *, tighten: bool) -> None:
    rows = [(one.lane, one.gap, one.jitter, one.concurrency) for one in strictest(policies)]
    if not tighten:
        connection.execute(sql.UNCONFIGURE, (json.dumps([row[0] for row in rows]),))
    connection.executemany(sql.TIGHTEN if tighten else sql.CONFIGURE, rows)


def hold(connection: sqlite3.Connection, now: int, lane: str, until: int, reason: str) -> None:
    lane_ids(connection, {lane})
    length = max(0, until - now) if until else 0
    connection.execute(sql.HOLD, {"lane": lane, "until": until, "length": length, "reason": reason if until else ""})


def settle(connection: sqlite3.Connection, now: int, step: int) -> None:
    """Keep waits within their own length after the clock moved by `step` ms against the time that really went by."""
    high = connection.execute(sql.CLOCK_HIGH).fetchone()[0]
    if step > 0:
        connection.execute(sql.LATER_STARTS, {"now": now, "before": now - step})
    # The highest time written is kept, so that a step back is found by a process that starts after it, too.
    if step < 0 or now < high - SMALL_STEP_MS:
        connection.execute(sql.CLAMP_DELAYED, {"now": now})
        clamp_leases(connection, now)
        connection.execute(sql.CLAMP_LANES, {"now": now})
        connection.execute(sql.SET_CLOCK_HIGH, (now,))
    elif now > high + SMALL_STEP_MS:
        connection.execute(sql.SET_CLOCK_HIGH, (now,))
