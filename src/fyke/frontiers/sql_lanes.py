"""Lanes decide who may go: leases, starts, permits, holds.

Keeps P4: a start is reserved in the lane's row, in the transaction that grants it, so that no two workers get one.
Every function is a part of one write transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from math import ceil
from operator import itemgetter
from typing import Any

from fyke.db.connection import Connection, listed
from fyke.frontiers import sql_lane_locks as locks
from fyke.frontiers import sql_statements as sql
from fyke.frontiers.sql_aside import KINDS, set_aside
from fyke.frontiers.sql_places import clamp_leases, drop_expired_permits, make_lanes, owned
from fyke.model import Delivery, LanePolicy, Started, Task, TaskKind
from fyke.policy.politeness import drawn_gap, strictest

Draw = Callable[[], float]
# The time is read when the lanes are locked, not when they were asked for.
Now = Callable[[], int]

HORIZON_MS = 1_000
LANES_A_ROUND = 64
ROUNDS = 64
# A worker that waited for its start asks `begin` once more, in case the lane was held meanwhile.
SAME_START_MS = 100
FULL_WAIT_MS = 1_000
SMALL_STEP_MS = 1_000


class Grant:
    """One lease call: what it may take and what it took.

    `yields`: about how many tasks a lane gives, as the last lease found; a server's lane that is looked at is locked,
    so no more are than are needed.
    """

    def __init__(
        self, now: int, limit: int, duration: int, worker: str, pool: str, token: int, *, yields: float = 2.0
    ) -> None:
        self.now, self.limit, self.pool, self.token = now, limit, pool, token
        self._duration, self._worker = duration, worker
        self.yields = yields
        self.deliveries: list[Delivery] = []

    @property
    def room(self) -> int:
        return self.limit - len(self.deliveries)

    def run(self, connection: Connection, best: int = 0) -> list[Delivery]:
        """Best class first, from `best`; within it the lane that waited longest; within a lane the oldest task."""
        for priority in sql.PRIORITIES[best:]:
            for _ in range(ROUNDS):
                asked = min(self.room, LANES_A_ROUND)
                if locks.is_server(connection):
                    asked = min(asked, ceil(self.room / self.yields))
                values = (priority, self.now, asked)
                lanes = connection.execute(sql.DUE_LANES[self.pool], values).fetchall() if asked > 0 else []
                if not lanes or not (self._round(connection, priority, lanes) or len(lanes) == asked):
                    break
        return self.deliveries

    def _round(self, connection: Connection, priority: int, lanes: list[tuple[Any, ...]]) -> bool:
        """Take what these lanes may give; True where one was passed over for want of room."""
        room, plan = self.room, []
        for lane in lanes:
            _, _, gap, _, free, ready, _, start_at = lane
            if room <= 0:
                break
            wanted, first = min(room, free, ready), max(self.now, start_at)
            if gap > 0:
                wanted = min(wanted, max(1, 1 + (self.now + HORIZON_MS - first) // gap))
            plan.append((lane, wanted, first))
            room -= wanted
        end, tasks, strange, updates = self.now + self._duration, [], list[int](), []
        heads = _heads(connection, self.pool, [(lane[0], wanted + 1) for lane, wanted, _ in plan])
        for ((lane_id, name, gap, jitter, _, ready, due_at, _), wanted, first), rows in zip(plan, heads, strict=True):
            mine = [row for row in rows[:wanted] if row[4] == priority]
            unread = len(strange)
            for number, (seq, kind, ref, generation, _, source_hash, starts) in enumerate(mine):
                if kind not in KINDS:
                    strange.append(seq)
                    continue
                task = Task(TaskKind(kind), ref, generation, name, self.pool, priority, source_hash, starts)
                start = first + max(0, number * gap - jitter) if number else first
                self.deliveries.append(Delivery(task, self.token, self._worker, end, starts, start))
                tasks.append(seq)
            # Fewer rows than asked for: these are all there are, whatever the counter says.
            left = (len(rows) if len(rows) <= wanted else ready) - len(mine)
            best = rows[len(mine)][4] if len(rows) > len(mine) else 2
            # The earliest time at which one more start may be possible; `begin` moves it to the true one.
            next_at = first + max(0, len(mine) * gap - jitter) if gap > 0 else self.now
            taken = len(mine) - len(strange) + unread
            updates.append((left, best, taken, *((next_at, self.now) if mine else (due_at, 0)), lane_id))
        if tasks:
            connection.execute(sql.TAKE, (end, self._duration, self.token, self._worker, listed(tasks)))
        if strange:
            set_aside(connection, strange)
        connection.executemany(sql.LANE_TAKEN[self.pool], updates)
        self.yields = max(1.0, len(tasks) / len(plan))
        return len(plan) < len(lanes)


def _heads(connection: Connection, pool: str, wanted: Sequence[tuple[int, int]]) -> list[list[Any]]:
    """The first tasks of each of these lanes, as many as are wanted of it."""
    if not locks.is_server(connection):
        return [connection.execute(sql.HEADS, (lane_id, pool, count)).fetchall() for lane_id, count in wanted]
    # A text is prepared once: there are only so many of them.
    arms = 1 << (len(wanted) - 1).bit_length()
    filled = [*wanted, *[(0, 0)] * (arms - len(wanted))]
    values = [value for lane_id, count in filled for value in (lane_id, pool, count)]
    rows = sorted(connection.execute(sql.heads_of(arms), values).fetchall(), key=itemgetter(0, 5, 1))
    found = {lane_id: [row[1:] for row in of_lane] for lane_id, of_lane in groupby(rows, key=itemgetter(0))}
    return [found.get(lane_id, []) for lane_id, _ in wanted]


def begin(connection: Connection, clock: Now, deliveries: Sequence[Delivery], draw: Draw) -> list[Started]:
    lanes = {lane.id: lane for lane in locks.by_name(connection, (one.task.lane for one in deliveries)).values()}
    live, now = owned(connection, deliveries), clock()
    answers: dict[tuple[str, int], Started] = {}
    begun_tasks, reserved = [], dict[int, int]()
    for mark in dict.fromkeys((one.task.key, one.token) for one in deliveries):
        task = live.get(mark)
        if task is None:
            answers[mark] = Started(lost=True)
            continue
        lane = lanes[task.lane_id]
        if lane.hold_until > now:
            answers[mark] = Started(False, task.starts, lane.hold_until - now, reserved=False)
            continue
        at, starts = task.begun, task.starts
        if at < now - SAME_START_MS:
            at = now
            if lane.gap > 0:
                at = max(now, reserved.get(lane.id, lane.start_at))
                reserved[lane.id] = at + drawn_gap(lane.gap, lane.jitter, draw())
            starts += not task.begun
            begun_tasks.append((starts, at, task.seq))
        answers[mark] = Started(False, starts, max(0, at - now))
    if begun_tasks:
        connection.executemany(sql.BEGIN, begun_tasks)
    if reserved:
        connection.executemany(sql.RESERVE, [(at, at, lane_id) for lane_id, at in sorted(reserved.items())])
    return [answers[one.task.key, one.token] for one in deliveries]


def permit(
    connection: Connection, clock: Now, delivery: Delivery, lane: str, limit_ms: int, draw: Draw, *, expire: bool
) -> int | None:
    """The wait in ms, or None where the delivery is not the live one. `expire`: end places that have run out first."""
    key = delivery.task.key
    if expire and not locks.is_server(connection):
        drop_expired_permits(connection, clock())
    lanes = locks.by_name(connection, {delivery.task.lane, lane})
    task = owned(connection, [delivery]).get((key, delivery.token))
    if task is None:
        return None
    target = lanes.get(lane) or make_lanes(connection, {lane})[lane]
    now = clock()
    if target.hold_until > now:
        # All who waited for the hold's end in hand would start at once when it ends.
        return max(limit_ms + 1, int(target.hold_until - now))
    at = max(now, target.start_at if target.gap > 0 else 0)
    if at - now > limit_ms:
        return int(at - now)
    if target.id != task.lane_id and target.id not in task.permits:
        if target.free <= 0 and expire and locks.is_server(connection):
            drop_expired_permits(connection, now)
            target = locks.by_name(connection, {lane})[lane]
        if target.free <= 0:
            # Nobody knows when a place comes free; ask again after a while.
            return max(limit_ms + 1, FULL_WAIT_MS)
        connection.execute(sql.ADD_PERMIT, (key, target.id))
        connection.execute(sql.COUNT_PERMIT, (target.id,))
    if target.gap > 0:
        following = at + drawn_gap(target.gap, target.jitter, draw())
        connection.execute(sql.RESERVE, (following, following, target.id))
    return int(at - now)


# --- Policies and holds ---


def configure(connection: Connection, policies: Sequence[LanePolicy], *, tighten: bool) -> None:
    """Lanes whose policy stays what it is are not locked."""
    wanted = {one.lane: one for one in strictest(policies)}
    named = listed(wanted)
    known = {row[0]: row[1:] for row in connection.execute(sql.POLICIES, (named,)).fetchall()} if wanted else {}
    changed = [row[0] for name, row in known.items() if _changed(wanted[name], row, tighten) is not None]
    gone = []
    if not tighten:
        gone = [row[1] for row in connection.execute(sql.CONFIGURED).fetchall() if row[0] not in wanted]
    if new := [wanted[name] for name in sorted(wanted.keys() - known.keys())]:
        connection.executemany(sql.LANE_INSERT, [(one.lane, one.gap, one.jitter, one.concurrency, 1) for one in new])
    if not changed and not gone:
        return
    if locks.is_server(connection):
        locks.by_id(connection, [*changed, *gone])
        known = {row[0]: row[1:] for row in connection.execute(sql.POLICIES, (named,)).fetchall()} if wanted else {}
    if gone:
        connection.execute(sql.UNCONFIGURE, (listed(gone),))
    asked = set(changed)
    policies_now = ((row[0], _changed(wanted[name], row, tighten)) for name, row in known.items() if row[0] in asked)
    if rows := [(one.gap, one.jitter, one.concurrency, lane_id) for lane_id, one in policies_now if one is not None]:
        connection.executemany(sql.SET_POLICY, sorted(rows, key=itemgetter(3)))
    # A limit that was raised lets more go.
    connection.notify()


def _changed(wanted: LanePolicy, row: Sequence[int], tighten: bool) -> LanePolicy | None:
    """The policy that the lane gets; None where it is the one that it has. Tightened, a lane with defaults only takes
    what is given."""
    _, gap, jitter, concurrency, configured = row
    has = LanePolicy(wanted.lane, gap, jitter, concurrency)
    new = strictest([has, wanted])[0] if tighten and configured else wanted
    return None if configured and new == has else new


def hold(connection: Connection, now: int, lane: str, until: int, reason: str) -> None:
    found = locks.by_name(connection, {lane})
    held = found.get(lane) or make_lanes(connection, {lane})[lane]
    if until and held.hold_until >= until:
        return
    length = max(0, until - now) if until else 0
    connection.execute(sql.HOLD, (until, length, reason if until else "", held.id))
    if not until:
        connection.notify()


# --- Clock ---


def settle(connection: Connection, now: int, step: int) -> None:
    """Keep waits within their own length after the clock moved by `step` ms against the time that really went by."""
    high = connection.execute(sql.CLOCK_HIGH).fetchone()[0]
    # The highest time written is kept, so that a step back is found by a process that starts after it, too.
    back = step < 0 or now < high - SMALL_STEP_MS
    if (step > 0 or back) and locks.is_server(connection):
        locks.every(connection)
    if step > 0:
        connection.execute(sql.LATER_STARTS, {"now": now, "before": now - step})
    if back:
        connection.execute(sql.CLAMP_DELAYED, {"now": now})
        clamp_leases(connection, now)
        connection.execute(sql.CLAMP_LANES, {"now": now})
        connection.execute(sql.SET_CLOCK_HIGH, (now,))
    elif now > high + SMALL_STEP_MS and not locks.is_server(connection):
        connection.execute(sql.SET_CLOCK_HIGH, (now,))


def empty(connection: Connection, now: int) -> None:
    """Remove all tasks; each lane starts one gap later. What is offered meanwhile to a new lane stays."""
    lanes = listed(locks.every(connection))
    for statement in (sql.EMPTY_TASKS, sql.EMPTY_PERMITS, sql.EMPTY_PLACES):
        connection.execute(statement, (lanes,))
    connection.execute(sql.EMPTY_ORPHANS)
    connection.execute(sql.EMPTY_LANES, {"now": now, "lanes": lanes})
