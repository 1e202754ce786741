"""The SQL texts of the frontier, apart so that tests can read their query plans.

Written once for three databases, in the subset of `db.dialect`; PER_DATABASE has the few that differ.
"""

from __future__ import annotations

from functools import lru_cache

POOLS = ("text", "render")
PRIORITIES = (0, 1, 2)

# locks: lanes by id, before anything of them is looked at

LANE_COLUMNS = """
    id, name, gap, jitter, start_at, hold_until, concurrency - leased - permits, ready_text, ready_render
"""
LANES_BY_NAME = f"SELECT {LANE_COLUMNS} FROM task_lane WHERE name IN (SELECT value FROM json_each(?))"
LANES_BY_ID = f"SELECT {LANE_COLUMNS} FROM task_lane WHERE id IN (SELECT value FROM json_each(?))"
LOCKED = " ORDER BY id FOR UPDATE"
LOCKED_IF_FREE = " ORDER BY id FOR UPDATE SKIP LOCKED"
EVERY_LANE = "SELECT id FROM task_lane ORDER BY id FOR UPDATE"
# Where the lanes of a call are: of names, and of keys.
NAMED = "SELECT id FROM task_lane WHERE name IN (SELECT value FROM json_each(?))"
OF_TASKS = "SELECT lane_id FROM task WHERE key IN (SELECT value FROM json_each(?))"
OF_PERMITS = "SELECT lane_id FROM task_permit WHERE key IN (SELECT value FROM json_each(?))"
OF_PLACES = "SELECT lane_id FROM task_place WHERE key IN (SELECT value FROM json_each(?))"
GIVEN_BACK = f"{NAMED} UNION {OF_PERMITS} UNION {OF_PLACES}"
TAKEN_AWAY = f"{NAMED} UNION {OF_TASKS} UNION {OF_PERMITS}"

# lease

# What a lease of the pool waits for: clock_high, first due time by class, delayed task, end of a lease or of a place
# that outlived its task, expired permit or place.
NEXT_DUE = {
    pool: f"""
    SELECT (SELECT clock_high FROM task_meta),
      (SELECT due_{pool} FROM task_lane WHERE best_{pool} = 0 AND due_{pool} IS NOT NULL ORDER BY due_{pool} LIMIT 1),
      (SELECT due_{pool} FROM task_lane WHERE best_{pool} = 1 AND due_{pool} IS NOT NULL ORDER BY due_{pool} LIMIT 1),
      (SELECT due_{pool} FROM task_lane WHERE best_{pool} = 2 AND due_{pool} IS NOT NULL ORDER BY due_{pool} LIMIT 1),
      (SELECT at FROM task WHERE state = 1 ORDER BY at LIMIT 1),
      (SELECT at FROM task WHERE state = 2 AND at > :now ORDER BY at LIMIT 1),
      (SELECT at FROM task_place WHERE at > :now ORDER BY at LIMIT 1),
      EXISTS (SELECT 1 FROM task t CROSS JOIN task_permit p ON p.key = t.key WHERE t.state = 2 AND t.at <= :now)
        OR EXISTS (SELECT 1 FROM task_place WHERE at <= :now)
    """
    for pool in POOLS
}
DELAYED_DUE = "SELECT seq, lane_id, pool, priority FROM task WHERE state = 1 AND at <= ? ORDER BY at LIMIT ?"
PROMOTE = "UPDATE task SET state = 0, at = ?, length = 0 WHERE seq IN (SELECT value FROM json_each(?))"
DUE_LANES = {
    pool: f"""
    SELECT id, name, gap, jitter, concurrency - leased - permits, ready_{pool}, next_at, start_at
    FROM task_lane WHERE best_{pool} = ? AND due_{pool} <= ? ORDER BY due_{pool} LIMIT ?
    FOR UPDATE SKIP LOCKED
    """
    for pool in POOLS
}
HEADS = """
    SELECT seq, kind, ref, generation, priority, source_hash, starts FROM task
    WHERE state = 0 AND lane_id = ? AND pool = ? ORDER BY priority, seq LIMIT ?
"""
TAKE = """
    UPDATE task SET state = 2, at = ?, length = ?, token = ?, worker = ?, begun = 0
    WHERE seq IN (SELECT value FROM json_each(?))
"""
LANE_TAKEN = {
    pool: f"""
    UPDATE task_lane SET ready_{pool} = ?, best_{pool} = ?, leased = leased + ?, next_at = ?,
      last_lease_at = greatest(last_lease_at, ?) WHERE id = ?
    """
    for pool in POOLS
}
# Permits of leases that have run out, and places that outlived their task: key, token, lane, lane of the task.
EXPIRED_PLACES = """
    SELECT p.key, 0, p.lane_id, t.lane_id FROM task t CROSS JOIN task_permit p ON p.key = t.key
    WHERE t.state = 2 AND t.at <= :now
    UNION ALL SELECT key, token, lane_id, lane_id FROM task_place WHERE at <= :now
"""


@lru_cache(maxsize=16)
def heads_of(lanes: int) -> str:
    """HEADS of several lanes in one round trip, each with its lane's id first; for servers."""
    one = HEADS.replace("SELECT seq", "SELECT lane_id, seq")
    return " UNION ALL ".join([f"({one})"] * lanes)


# deliveries: fenced by the token

LEASED_TASKS = """
    SELECT t.key, t.token, t.seq, t.lane_id, t.pool, t.priority, t.starts, t.begun, p.lane_id
    FROM task t INDEXED BY task_key LEFT JOIN task_permit p ON p.key = t.key
    WHERE t.key IN (SELECT value FROM json_each(?)) AND t.state = 2
"""
BEGIN = "UPDATE task SET starts = ?, begun = ? WHERE seq = ?"
RESERVE = "UPDATE task_lane SET start_at = ?, next_at = greatest(next_at, ?) WHERE id = ?"
EXTEND = "UPDATE task SET at = ?, length = ? WHERE seq = ?"
REMOVE = "DELETE FROM task WHERE seq IN (SELECT value FROM json_each(?))"
RETRY = """
    UPDATE task SET state = 1, at = ?, length = ?, token = 0, worker = '', reason = ?, starts = ?, begun = 0
    WHERE seq = ?
"""
RELEASE = """
    UPDATE task SET state = 0, at = ?, length = 0, token = 0, worker = '', starts = ?, begun = 0 WHERE seq = ?
"""
PERMITS = "SELECT key, lane_id FROM task_permit WHERE key IN (SELECT value FROM json_each(?))"
END_PERMITS = "DELETE FROM task_permit WHERE key IN (SELECT value FROM json_each(?))"
END_PERMIT = "DELETE FROM task_permit WHERE key = ? AND lane_id = ?"
PLACES = "SELECT key, token, lane_id FROM task_place WHERE key IN (SELECT value FROM json_each(?))"
KEEP_PLACE = "INSERT INTO task_place(key, token, lane_id, at, length) VALUES (?, ?, ?, ?, ?)"
END_PLACE = "DELETE FROM task_place WHERE key = ? AND token = ? AND lane_id = ?"

# offer

LIVE = """
    SELECT key, generation, seq, state, lane_id, pool, token, at, length FROM task INDEXED BY task_key
    WHERE key IN (SELECT value FROM json_each(?))
"""
INSERT = """
    INSERT INTO task(key, kind, ref, generation, lane_id, pool, priority, source_hash, starts, at, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '')
"""
LANE_INSERT = """
    INSERT INTO task_lane(name, gap, jitter, concurrency, configured, hold_reason) VALUES (?, ?, ?, ?, ?, '')
"""
# The best class of an empty pool is what comes in (3: nothing); a stale one is too good at worst, and a lease corrects
# it on sight. It stands before `ready`, which it reads.
LANE_MOVE = """
    UPDATE task_lane SET
      best_text = least(CASE WHEN ready_text > 0 THEN best_text ELSE 2 END, ?),
      best_render = least(CASE WHEN ready_render > 0 THEN best_render ELSE 2 END, ?),
      ready_text = greatest(0, ready_text + ?), ready_render = greatest(0, ready_render + ?),
      delayed = greatest(0, delayed + ?), leased = greatest(0, leased + ?), permits = greatest(0, permits + ?)
    WHERE id = ?
"""
LANE_FINISHED = """
    UPDATE task_lane SET leased = greatest(0, leased + ?), permits = greatest(0, permits + ?), acked = acked + ?,
      buried = buried + ?
    WHERE id = ?
"""

# reap

REAP_NEEDED = """
    SELECT EXISTS (SELECT 1 FROM task WHERE state = 2),
      EXISTS (SELECT 1 FROM task WHERE state = 2 AND at <= :now),
      EXISTS (SELECT 1 FROM task WHERE state = 2 AND at > :now + 2 * length),
      (SELECT clock_high FROM task_meta)
"""
TOO_LONG = """
    SELECT EXISTS (SELECT 1 FROM task WHERE state = 2 AND at > :now + 2 * length)
      OR EXISTS (SELECT 1 FROM task_place WHERE at > :now + 2 * length)
"""
CLAMP_LEASES = "UPDATE task SET at = :now + length WHERE state = 2 AND at > :now + 2 * length"
CLAMP_PLACES = "UPDATE task_place SET at = :now + length WHERE at > :now + 2 * length"
EXPIRED = """
    SELECT t.seq, t.key, t.kind, t.ref, t.generation, l.name, t.pool, t.priority, t.source_hash, t.starts, t.lane_id,
      t.begun, t.worker
    FROM task t CROSS JOIN task_lane l ON l.id = t.lane_id WHERE t.state = 2 AND t.at <= ? ORDER BY t.at LIMIT ?
"""
PUT_BACK = """
    UPDATE task SET state = 0, at = ?, length = 0, token = 0, worker = '', begun = 0, reason = ? WHERE seq = ?
"""
# Rows removed by hand would leave a lane full for ever.
DRIFTED = """
    SELECT l.id, coalesce(t.n, 0), coalesce(p.n, 0) FROM task_lane l
    LEFT JOIN (SELECT lane_id, count(*) AS n FROM task WHERE state = 2 GROUP BY lane_id) t ON t.lane_id = l.id
    LEFT JOIN (SELECT lane_id, count(*) AS n FROM (SELECT lane_id FROM task_permit UNION ALL
      SELECT lane_id FROM task_place) u GROUP BY lane_id) p ON p.lane_id = l.id
    WHERE l.leased <> coalesce(t.n, 0) OR l.permits <> coalesce(p.n, 0)
"""
MEND = "UPDATE task_lane SET leased = ?, permits = ? WHERE id = ?"
LOST_PERMITS = """
    SELECT p.key, p.lane_id FROM task_permit p WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.key = p.key)
"""

# clock

# What ends later than now + its own length was set by a clock that was ahead. A start that is still waited for belongs
# to a task or permit in flight, so no more of them than that lie ahead.
CLAMP_DELAYED = "UPDATE task SET at = :now + length WHERE state = 1 AND at > :now + length"
CLAMP_LANES = """
    UPDATE task_lane SET
      next_at = least(next_at, :now + (1 + leased + permits) * (gap + jitter)),
      start_at = least(start_at, :now + (1 + leased + permits) * (gap + jitter)),
      hold_until = least(hold_until, :now + hold_ms)
    WHERE next_at > :now OR start_at > :now OR hold_until > :now
"""
# After a leap forward nobody knows how long ago the last start was: the lane starts one gap later.
LATER_STARTS = """
    UPDATE task_lane SET
      next_at = greatest(next_at, :now + (1 + leased + permits) * (gap + jitter)),
      start_at = greatest(start_at, :now + (1 + leased + permits) * (gap + jitter))
    WHERE gap > 0 AND start_at > :before
"""
CLOCK_HIGH = "SELECT clock_high FROM task_meta"
SET_CLOCK_HIGH = "UPDATE task_meta SET clock_high = ?"
RAISE_CLOCK_HIGH = "UPDATE task_meta SET clock_high = greatest(clock_high, ?)"

# lanes

POLICIES = """
    SELECT name, id, gap, jitter, concurrency, configured FROM task_lane
    WHERE name IN (SELECT value FROM json_each(?))
"""
CONFIGURED = "SELECT name, id FROM task_lane WHERE configured = 1"
SET_POLICY = "UPDATE task_lane SET gap = ?, jitter = ?, concurrency = ?, configured = 1 WHERE id = ?"
UNCONFIGURE = "UPDATE task_lane SET configured = 0 WHERE id IN (SELECT value FROM json_each(?))"
HOLD = "UPDATE task_lane SET hold_until = ?, hold_ms = ?, hold_reason = ? WHERE id = ?"
HELD = "SELECT hold_until, hold_ms FROM task_lane WHERE name = ?"
ADD_PERMIT = "INSERT INTO task_permit(key, lane_id) VALUES (?, ?)"
COUNT_PERMIT = "UPDATE task_lane SET permits = permits + 1 WHERE id = ?"

# reading

KEYS = (
    "SELECT key, generation, kind FROM task WHERE key > ? AND lane_id > 0 AND kind IN ('i', 'p') ORDER BY key LIMIT ?"
)
KNOWN = "SELECT key, generation FROM task INDEXED BY task_key WHERE key IN (SELECT value FROM json_each(?))"
VIEW = """
    SELECT t.kind, t.ref, t.generation, l.name, t.pool, t.priority, t.source_hash, t.starts, t.state, t.at, t.worker,
      t.reason, greatest(l.next_at, l.start_at), l.hold_until
    FROM task t JOIN task_lane l ON l.id = t.lane_id WHERE t.key = ?
"""
# The counters of task_meta are those of earlier releases.
TOTALS = """
    SELECT coalesce(sum(ready_text), 0), coalesce(sum(ready_render), 0), coalesce(sum(delayed), 0),
      coalesce(sum(leased), 0),
      (SELECT acked FROM task_meta) + coalesce(sum(acked), 0),
      (SELECT buried FROM task_meta) + coalesce(sum(buried), 0),
      greatest((SELECT coalesce(last_lease_at, 0) FROM task_meta), coalesce(max(last_lease_at), 0))
    FROM task_lane
"""
# Of each side apart: NULL where nothing waits there.
NEXT_TIMES = """
    SELECT min(at) FROM task WHERE state = 1
    UNION ALL SELECT min(due_text) FROM task_lane WHERE due_text IS NOT NULL
    UNION ALL SELECT min(due_render) FROM task_lane WHERE due_render IS NOT NULL
"""
OLDEST_READY = "SELECT at FROM task WHERE state = 0 ORDER BY seq LIMIT 1"
LANE_STATS = """
    SELECT name, ready_text + ready_render, delayed, leased, greatest(next_at, start_at), hold_until FROM task_lane
    WHERE ready_text + ready_render + delayed + leased > 0 OR hold_until > ?
    ORDER BY ready_text + ready_render + delayed + leased DESC, name LIMIT 200
"""

# rebuild

IDENTITY = "SELECT ledger_id, epoch FROM task_meta"
IDENTITY_LOCKED = "SELECT ledger_id, epoch FROM task_meta FOR UPDATE"
SET_IDENTITY = "UPDATE task_meta SET ledger_id = ?, epoch = ?"
LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM task"
OLD_TASKS = "SELECT seq, lane_id, pool, state FROM task WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
EMPTY_TASKS = "DELETE FROM task WHERE lane_id IN (SELECT value FROM json_each(?))"
EMPTY_PERMITS = "DELETE FROM task_permit WHERE lane_id IN (SELECT value FROM json_each(?))"
EMPTY_PLACES = "DELETE FROM task_place WHERE lane_id IN (SELECT value FROM json_each(?))"
EMPTY_ORPHANS = "DELETE FROM task WHERE lane_id NOT IN (SELECT id FROM task_lane)"
EMPTY_LANES = """
    UPDATE task_lane SET ready_text = 0, ready_render = 0, delayed = 0, leased = 0, permits = 0,
      next_at = greatest(next_at, :now + gap + jitter), start_at = greatest(start_at, :now + gap + jitter)
    WHERE id IN (SELECT value FROM json_each(:lanes))
"""
