"""Tasks move between their places: offered, given back, finished, dropped, reaped.

Every function is a part of one write transaction, and keeps each lane's counters equal to its rows. A delivery whose
token is not the live one changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from fyke.db.connection import Connection, listed
from fyke.frontiers import sql_lane_locks as locks
from fyke.frontiers import sql_statements as sql
from fyke.frontiers.sql_aside import KINDS, set_aside
from fyke.frontiers.sql_moves import DELAYED, LEASED, LaneMoves
from fyke.model import Delivery, LanePolicy, Reaped, Retry, Task, TaskKind

LEASE_RAN_OUT = "lease ran out"
LONGEST_DELAY = 30 * 24 * 3_600_000


class Owned(NamedTuple):
    """A leased task whose token the caller holds; `permits` are the other lanes where it has one."""

    key: str
    token: int
    seq: int
    lane_id: int
    pool: str
    priority: int
    starts: int
    begun: int
    permits: tuple[int, ...]


def owned(connection: Connection, deliveries: Iterable[Delivery]) -> dict[tuple[str, int], Owned]:
    """The live ones among these deliveries, by key and token."""
    asked = {(one.task.key, one.token) for one in deliveries}
    found: dict[tuple[str, int], Owned] = {}
    rows = connection.execute(sql.LEASED_TASKS, (listed(sorted(key for key, _ in asked)),))
    for *columns, permit in rows.fetchall():
        mark = (columns[0], columns[1])
        if mark in found:
            found[mark] = found[mark]._replace(permits=(*found[mark].permits, permit))
        elif mark in asked:
            found[mark] = Owned._make((*columns, () if permit is None else (permit,)))
    return found


def taken(live: dict[tuple[str, int], Owned], deliveries: Iterable[Delivery]) -> list[bool]:
    """Answers in order; the second of two equal deliveries finds the task gone."""
    left = set(live)
    answers = []
    for one in deliveries:
        mark = (one.task.key, one.token)
        answers.append(mark in left)
        left.discard(mark)
    return answers


def make_lanes(connection: Connection, names: Collection[str]) -> dict[str, locks.Lane]:
    """Lanes not known yet, with the default policy. A name that another process makes meanwhile repeats the call."""
    policies = [LanePolicy(name) for name in sorted(names)]
    connection.executemany(sql.LANE_INSERT, [(one.lane, one.gap, one.jitter, one.concurrency, 0) for one in policies])
    return {
        row[1]: locks.Lane(*row) for row in connection.execute(sql.LANES_BY_NAME, (listed(sorted(names)),)).fetchall()
    }


# --- Offered and dropped ---


def offer(connection: Connection, now: int, tasks: Sequence[Task]) -> int:
    wanted: dict[str, Task] = {}
    for task in tasks:
        key = task.key
        other = wanted.get(key)
        if other is None or task.generation > other.generation:
            wanted[key] = task
    replaced = _lower(connection, wanted)
    if not wanted:
        return 0
    names = {task.lane for task in wanted.values()}
    locked = locks.taken_away(connection, names, [row[0] for row in replaced]) if replaced else None
    if locked is not None:
        # Looked at again under the locks.
        replaced = _lower(connection, wanted)
        if not wanted:
            return 0
        names = {task.lane for task in wanted.values()}
        lanes = {lane.name: lane for lane in locked.values()}
    else:
        lanes = locks.by_name(connection, names)
        locked = {lane.id: lane for lane in lanes.values()} if locks.is_server(connection) else None
    if names - lanes.keys():
        made = make_lanes(connection, names - lanes.keys())
        lanes |= made
        if locked is not None:
            locked |= {lane.id: lane for lane in made.values()}
    moves = LaneMoves(connection, locked)
    _take_away(connection, replaced, moves)
    rows = []
    for key, task in wanted.items():
        lane_id, priority = lanes[task.lane].id, min(max(task.priority, 0), 2)
        moves.enter(lane_id, task.pool, priority)
        rows.append(
            (
                *(key, task.kind.value, task.ref, task.generation, lane_id, task.pool, priority),
                *(task.source_hash, task.starts, now),
            )
        )
    connection.executemany(sql.INSERT, rows)
    moves.write()
    return len(wanted) - len(replaced)


def _lower(connection: Connection, wanted: dict[str, Task]) -> list[Any]:
    """Live tasks that a wanted one replaces; what is live at no lower generation is wanted no more."""
    replaced = []
    for row in connection.execute(sql.LIVE, (listed(wanted),)).fetchall() if wanted else ():
        if row[1] >= wanted[row[0]].generation:
            del wanted[row[0]]
        else:
            replaced.append(row)
    return replaced


def _take_away(connection: Connection, rows: Sequence[Any], moves: LaneMoves) -> None:
    """Remove tasks (rows of LIVE). What the holders of leased ones have in flight keeps its places, for its requests
    are on their way."""
    if not rows:
        return
    kept = []
    leases = {}
    for key, _, _, state, lane_id, pool, token, at, length in rows:
        moves.leave(lane_id, pool, state)
        if state == LEASED:
            leases[key] = (token, at, length)
            kept.append((key, token, lane_id, at, length))
            moves.keep_place(lane_id)
    keys = [row[0] for row in rows]
    for key, lane_id in end_permits(connection, keys, moves):
        if key in leases:
            token, at, length = leases[key]
            kept.append((key, token, lane_id, at, length))
            moves.keep_place(lane_id)
    if kept:
        connection.executemany(sql.KEEP_PLACE, kept)
    connection.execute(sql.REMOVE, (listed(row[2] for row in rows),))


def drop(connection: Connection, keys: Sequence[tuple[str, int]]) -> int:
    wanted = set(keys)
    asked = sorted({key for key, _ in wanted})
    rows = [row for row in connection.execute(sql.LIVE, (listed(asked),)).fetchall() if (row[0], row[1]) in wanted]
    if not rows:
        return 0
    locked = locks.taken_away(connection, [], [row[0] for row in rows])
    if locked is not None:
        asked = sorted(row[0] for row in rows)
        rows = [row for row in connection.execute(sql.LIVE, (listed(asked),)).fetchall() if (row[0], row[1]) in wanted]
    moves = LaneMoves(connection, locked)
    _take_away(connection, rows, moves)
    moves.write()
    return len(rows)


def remove_old(connection: Connection, after: int, last: int, limit: int) -> int:
    """Remove some tasks, leased ones too, behind seq `after` up to `last`; where to go on, 0 at the end. For a frontier
    that is emptied: a server has a limit of time for each statement."""
    # From where the last step ended: rows that are gone are passed over slowly until the server has cleaned up.
    rows = connection.execute(sql.OLD_TASKS, (after, last, limit)).fetchall()
    if not rows:
        return 0
    locked = locks.by_id(connection, (row[1] for row in rows))
    if locked is not None:
        rows = connection.execute(sql.OLD_TASKS, (after, last, limit)).fetchall()
    # Those of no lane are left to whoever empties all.
    known = [row for row in rows if locked is None or row[1] in locked]
    moves = LaneMoves(connection, locked)
    for _, lane_id, pool, state in known:
        moves.leave(lane_id, pool, state)
    connection.execute(sql.REMOVE, (listed(row[0] for row in known),))
    moves.write()
    return int(rows[-1][0]) if rows else after


# --- Given back by their holders ---


def end_permits(connection: Connection, keys: Sequence[str], moves: LaneMoves) -> list[Any]:
    """End the permits of these tasks; which they were."""
    rows = connection.execute(sql.PERMITS, (listed(sorted(keys)),)).fetchall()
    for _, lane_id in rows:
        moves.end_permit(lane_id)
    if rows:
        connection.execute(sql.END_PERMITS, (listed(sorted({key for key, _ in rows})),))
    return rows


class GivenBack:
    """The end of leases: their places and permits come free, also where the task was taken from its holder."""

    def __init__(self, connection: Connection, deliveries: Sequence[Delivery]) -> None:
        self._connection, self._deliveries = connection, deliveries
        marks = {(one.task.key, one.token) for one in deliveries}
        locked = locks.given_back(connection, {one.task.lane for one in deliveries}, {key for key, _ in marks})
        self.live = owned(connection, deliveries)
        self.lost = marks - self.live.keys()
        self.moves = LaneMoves(connection, locked)

    def end(self) -> list[bool]:
        """Write what the caller's moves and these ends come to; whether each delivery was the live one."""
        for task in self.live.values():
            self.moves.leave(task.lane_id, task.pool, LEASED)
            for lane_id in task.permits:
                self.moves.end_permit(lane_id)
        if permitted := sorted(task.key for task in self.live.values() if task.permits):
            self._connection.execute(sql.END_PERMITS, (listed(permitted),))
        if self.lost:
            asked = listed(sorted({key for key, _ in self.lost}))
            rows = self._connection.execute(sql.PLACES, (asked,)).fetchall()
            if places := [row for row in rows if (row[0], row[1]) in self.lost]:
                self._connection.executemany(sql.END_PLACE, places)
                for _, _, lane_id in places:
                    self.moves.end_permit(lane_id)
        self.moves.write()
        return taken(self.live, self._deliveries)


def finish(connection: Connection, deliveries: Sequence[Delivery], counter: str) -> list[bool]:
    """Acknowledge (`counter` acked) or bury (buried)."""
    back = GivenBack(connection, deliveries)
    if back.live:
        connection.execute(sql.REMOVE, (listed(task.seq for task in back.live.values()),))
        for task in back.live.values():
            back.moves.finish(task.lane_id, counter)
    return back.end()


def retry(connection: Connection, now: int, retries: Sequence[Retry]) -> list[bool]:
    back, rows = GivenBack(connection, [one.delivery for one in retries]), {}
    for one in retries:
        task = back.live.get((one.delivery.task.key, one.delivery.token))
        if task is not None and task.seq not in rows:
            delay = min(max(one.delay_ms, 0), LONGEST_DELAY)
            starts = task.starts - (task.begun > 0 and not one.counted)
            rows[task.seq] = (now + delay, delay, one.reason, starts, task.seq)
            back.moves.delay(task.lane_id)
    if rows:
        connection.executemany(sql.RETRY, list(rows.values()))
    return back.end()


def release(connection: Connection, now: int, deliveries: Sequence[Delivery]) -> list[bool]:
    back = GivenBack(connection, deliveries)
    live = back.live.values()
    if live:
        connection.executemany(sql.RELEASE, [(now, task.starts - (task.begun > 0), task.seq) for task in live])
    for task in live:
        back.moves.enter(task.lane_id, task.pool, task.priority)
    return back.end()


def extend(connection: Connection, now: int, deliveries: Sequence[Delivery], duration: int) -> list[bool]:
    if locks.is_server(connection):
        locks.by_name(connection, (one.task.lane for one in deliveries))
    live = owned(connection, deliveries)
    if live:
        connection.executemany(sql.EXTEND, [(now + duration, duration, task.seq) for task in live.values()])
    return [(one.task.key, one.token) in live for one in deliveries]


# --- By time ---


def promote(connection: Connection, now: int, limit: int) -> None:
    """Delayed tasks that are due become ready, at their old place. On a server those of lanes that nobody holds."""
    rows = connection.execute(sql.DELAYED_DUE, (now, limit)).fetchall()
    if not rows:
        return
    locked = locks.if_free(connection, (row[1] for row in rows))
    if locked is not None:
        rows = [row for row in connection.execute(sql.DELAYED_DUE, (now, limit)).fetchall() if row[1] in locked]
    moves = LaneMoves(connection, locked)
    for _, lane_id, pool, priority in rows:
        moves.leave(lane_id, pool, DELAYED)
        moves.enter(lane_id, pool, priority)
    if rows:
        connection.execute(sql.PROMOTE, (now, listed(row[0] for row in rows)))
    moves.write()


def drop_expired_permits(connection: Connection, now: int) -> None:
    """A permit ends with its lease, though its task waits for the reaper; so does a place that outlived its task."""
    rows = connection.execute(sql.EXPIRED_PLACES, {"now": now}).fetchall()
    if not rows:
        return
    locked = locks.if_free(connection, (lane_id for row in rows for lane_id in row[2:]))
    if locked is not None:
        rows = connection.execute(sql.EXPIRED_PLACES, {"now": now}).fetchall()
        rows = [row for row in rows if row[2] in locked and row[3] in locked]
    moves = LaneMoves(connection, locked)
    for _, _, lane_id, _ in rows:
        moves.end_permit(lane_id)
    if permits := [(key, lane_id) for key, token, lane_id, _ in rows if not token]:
        connection.executemany(sql.END_PERMIT, permits)
    if places := [(key, token, lane_id) for key, token, lane_id, _ in rows if token]:
        connection.executemany(sql.END_PLACE, places)
    moves.write()


def clamp_leases(connection: Connection, now: int) -> None:
    """What ends later than now + twice its length was granted by a clock that was ahead."""
    connection.execute(sql.CLAMP_LEASES, {"now": now})
    connection.execute(sql.CLAMP_PLACES, {"now": now})


def reap(connection: Connection, now: int, limit: int) -> list[Reaped]:
    if connection.execute(sql.TOO_LONG, {"now": now}).fetchone()[0]:
        locks.every(connection)
        clamp_leases(connection, now)
    found = Found(connection, now, limit)
    locked = locks.by_id(connection, found.lanes) if locks.is_server(connection) else None
    if locked is not None:
        found = Found(connection, now, limit, within=locked)
    moves, reaped, strange = LaneMoves(connection, locked), [], list[int]()
    for row in found.expired:
        _, _, kind, ref, generation, name, pool, priority, source_hash, starts, lane_id, begun, worker = row
        if kind not in KINDS or pool not in sql.POOLS:
            strange.append(row[0])
            moves.leave(lane_id, pool, LEASED)
            continue
        task = Task(TaskKind(kind), ref, generation, name, pool, priority, source_hash, starts)
        reaped.append(Reaped(task, worker, starts, begun > 0))
        moves.leave(lane_id, pool, LEASED)
        moves.enter(lane_id, pool, priority)
    if found.expired:
        back = [(now, LEASE_RAN_OUT, row[0]) for row in found.expired if row[0] not in strange]
        connection.executemany(sql.PUT_BACK, back)
    if strange:
        set_aside(connection, strange)
    for _, lane_id in found.permits:
        moves.end_permit(lane_id)
    if found.permits or found.lost:
        connection.executemany(sql.END_PERMIT, [*found.permits, *found.lost])
    moves.write()
    drifted = [row for row in connection.execute(sql.DRIFTED).fetchall() if locked is None or row[0] in locked]
    if drifted:
        connection.executemany(sql.MEND, [(leased, permits, lane_id) for lane_id, leased, permits in drifted])
    return reaped


class Found:
    """What the reaper has to do; `within` the lanes that it has locked."""

    def __init__(self, connection: Connection, now: int, limit: int, *, within: locks.Locked = None) -> None:
        rows = connection.execute(sql.EXPIRED, (now, limit)).fetchall()
        self.expired = [row for row in rows if within is None or row[10] in within]
        keys = listed(sorted(row[1] for row in self.expired))
        self.permits = connection.execute(sql.PERMITS, (keys,)).fetchall() if self.expired else []
        rows = connection.execute(sql.LOST_PERMITS).fetchall()
        self.lost = [row for row in rows if within is None or row[1] in within]
        drifted = connection.execute(sql.DRIFTED).fetchall() if locks.is_server(connection) and within is None else []
        self.lanes = {
            *(row[10] for row in self.expired),
            *(row[1] for row in self.permits),
            *(row[1] for row in self.lost),
            *(row[0] for row in drifted),
        }
