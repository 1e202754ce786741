"""The SQL text of the frontier's hot statements on SQLite, apart so that tests can read their query plans."""

from __future__ import annotations

POOLS = ("text", "render")
PRIORITIES = (0, 1, 2)

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
      EXISTS (SELECT 1 FROM task t CROSS JOIN task_permit p WHERE t.state = 2 AND t.at <= :now AND p.key = t.key)
        OR EXISTS (SELECT 1 FROM task_place WHERE at <= :now)
    """
    for pool in POOLS
}
PROMOTE = """
    UPDATE task SET state = 0, at = :now, length = 0
    WHERE seq IN (SELECT seq FROM task WHERE state = 1 AND at <= :now ORDER BY at LIMIT :limit)
    RETURNING lane_id, pool, priority
"""
DUE_LANES = {
    pool: f"""
    SELECT id, name, gap, jitter, concurrency - leased - permits, ready_{pool}, next_at, start_at
    FROM task_lane WHERE best_{pool} = ? AND due_{pool} <= ? ORDER BY due_{pool} LIMIT ?
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
    pool: f"UPDATE task_lane SET ready_{pool} = ?, best_{pool} = ?, leased = leased + ?, next_at = ? WHERE id = ?"
    for pool in POOLS
}
EXPIRED_PERMITS = """
    SELECT p.key, p.lane_id FROM task t CROSS JOIN task_permit p WHERE t.state = 2 AND t.at <= ? AND p.key = t.key
"""

# deliveries: fenced by the token

LEASED_TASKS = """
    SELECT key, token, seq, lane_id, pool, priority, starts, begun FROM task INDEXED BY task_key
    WHERE key IN (SELECT value FROM json_each(?)) AND state = 2
"""
LANES = """
    SELECT id, gap, jitter, start_at, hold_until FROM task_lane WHERE id IN (SELECT value FROM json_each(?))
"""
BEGIN = "UPDATE task SET starts = ?, begun = ? WHERE seq = ?"
RESERVE = "UPDATE task_lane SET start_at = ?, next_at = max(next_at, ?) WHERE id = ?"
EXTEND = "UPDATE task SET at = ?, length = ? WHERE seq = ?"
REMOVE = "DELETE FROM task WHERE seq IN (SELECT value FROM json_each(?))"
RETRY = """
    UPDATE task SET state = 1, at = ?, length = ?, token = 0, worker = '', reason = ?,
      starts = starts - (begun > 0 AND NOT ?), begun = 0
    WHERE seq = ?
"""
RELEASE = """
    UPDATE task SET state = 0, at = ?, length = 0, token = 0, worker = '', starts = starts - (begun > 0), begun = 0
    WHERE seq = ?
"""
EXPIRED_PLACES = "DELETE FROM task_place WHERE at <= ? RETURNING lane_id"
END_PLACES = "DELETE FROM task_place WHERE key = ? AND token = ? RETURNING lane_id"
DROP_PERMITS = "DELETE FROM task_permit WHERE key IN (SELECT value FROM json_each(?)) RETURNING lane_id"

# offer

LIVE = """
    SELECT key, generation, seq, state, lane_id, pool FROM task INDEXED BY task_key
    WHERE key IN (SELECT value FROM json_each(?))
"""
INSERT = """
    INSERT INTO task(key, kind, ref, generation, lane_id, pool, priority, source_hash, starts, at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Of tasks that are about to go: their own place and that of each permit.
KEEP_PLACES = """
    INSERT INTO task_place(key, token, lane_id, at, length)
    SELECT t.key, t.token, t.lane_id, t.at, t.length FROM json_each(:seqs) j CROSS JOIN task t ON t.seq = j.value
    WHERE t.state = 2
    UNION ALL
    SELECT t.key, t.token, p.lane_id, t.at, t.length FROM json_each(:seqs) j CROSS JOIN task t ON t.seq = j.value
    CROSS JOIN task_permit p ON p.key = t.key WHERE t.state = 2
    RETURNING lane_id
"""
LANE_IDS = "SELECT name, id FROM task_lane WHERE name IN (SELECT value FROM json_each(?))"
LANE_INSERT = "INSERT INTO task_lane(name, gap, jitter, concurrency) VALUES (?, ?, ?, ?)"
# The best class of an empty pool is what comes in; a stale one is too good at worst, and a lease corrects it on sight.
LANE_MOVE = """
    UPDATE task_lane SET
      best_text = CASE WHEN ready_text > 0 THEN min(best_text, :best_text) ELSE min(:best_text, 2) END,
      best_render = CASE WHEN ready_render > 0 THEN min(best_render, :best_render) ELSE min(:best_render, 2) END,
      ready_text = max(0, ready_text + :ready_text), ready_render = max(0, ready_render + :ready_render),
      delayed = max(0, delayed + :delayed), leased = max(0, leased + :leased), permits = max(0, permits + :permits)
    WHERE id = :id
"""

# reap

REAP_NEEDED = """
    SELECT EXISTS (SELECT 1 FROM task WHERE state = 2),
      EXISTS (SELECT 1 FROM task WHERE state = 2 AND at <= :now),
      EXISTS (SELECT 1 FROM task WHERE state = 2 AND at > :now + 2 * length)
"""
CLAMP_LEASES = "UPDATE task SET at = :now + length WHERE state = 2 AND at > :now + 2 * length"
CLAMP_PLACES = "UPDATE task_place SET at = :now + length WHERE at > :now + 2 * length"
EXPIRED = """
    SELECT seq, kind, ref, generation, lane_id, pool, priority, source_hash, starts, begun, worker
    FROM task WHERE state = 2 AND at <= ? ORDER BY at LIMIT ?
"""
PUT_BACK = """
    UPDATE task SET state = 0, at = ?, length = 0, token = 0, worker = '', begun = 0, reason = ? WHERE seq = ?
"""
# Rows removed by hand would leave a lane full for ever.
DRIFTED = """
    SELECT l.id, l.name, coalesce(t.n, 0), coalesce(p.n, 0) FROM task_lane l
    LEFT JOIN (SELECT lane_id, count(*) AS n FROM task WHERE state = 2 GROUP BY lane_id) t ON t.lane_id = l.id
    LEFT JOIN (SELECT lane_id, count(*) AS n FROM (SELECT lane_id FROM task_permit UNION ALL
      SELECT lane_id FROM task_place) GROUP BY lane_id) p ON p.lane_id = l.id
    WHERE l.leased <> coalesce(t.n, 0) OR l.permits <> coalesce(p.n, 0)
"""
MEND = "UPDATE task_lane SET leased = ?, permits = ? WHERE id = ?"
LOST_PERMITS = "DELETE FROM task_permit WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.key = task_permit.key)"

# clock

# What ends later than now + its own length was set by a clock that was ahead. A start that is still waited for belongs
# to a task or permit in flight, so no more of them than that lie ahead.
CLAMP_DELAYED = "UPDATE task SET at = :now + length WHERE state = 1 AND at > :now + length"
CLAMP_LANES = """
    UPDATE task_lane SET
      next_at = min(next_at, :now + (1 + leased + permits) * (gap + jitter)),
      start_at = min(start_at, :now + (1 + leased + permits) * (gap + jitter)),
      hold_until = min(hold_until, :now + hold_ms)
    WHERE next_at > :now OR start_at > :now OR hold_until > :now
"""
# After a leap forward nobody knows how long ago the last start was: the lane starts one gap later.
LATER_STARTS = """
    UPDATE task_lane SET
      next_at = max(next_at, :now + (1 + leased + permits) * (gap + jitter)),
      start_at = max(start_at, :now + (1 + leased + permits) * (gap + jitter))
    WHERE gap > 0 AND start_at > :before
"""
CLOCK_HIGH = "SELECT clock_high FROM task_meta"
SET_CLOCK_HIGH = "UPDATE task_meta SET clock_high = ?"

# lanes

CONFIGURE = """
    INSERT INTO task_lane(name, gap, jitter, concurrency, configured) VALUES (?, ?, ?, ?, 1)
    ON CONFLICT(name) DO UPDATE SET gap = excluded.gap, jitter = excluded.jitter, concurrency = excluded.concurrency,
      configured = 1
    WHERE configured = 0 OR gap <> excluded.gap OR jitter <> excluded.jitter OR concurrency <> excluded.concurrency
"""
# The longest gap, the longest shortest gap, the fewest at once; a lane with defaults only takes what is given.
TIGHTEN = """
    INSERT INTO task_lane(name, gap, jitter, concurrency, configured) VALUES (?, ?, ?, ?, 1)
    ON CONFLICT(name) DO UPDATE SET
      gap = iif(configured, max(gap, excluded.gap), excluded.gap),
      jitter = iif(configured, max(gap, excluded.gap) - max(gap - jitter, excluded.gap - excluded.jitter),
        excluded.jitter),
      concurrency = iif(configured, min(concurrency, excluded.concurrency), excluded.concurrency),
      configured = 1
    WHERE configured = 0 OR gap < excluded.gap OR gap - jitter < excluded.gap - excluded.jitter
      OR concurrency > excluded.concurrency
"""
UNCONFIGURE = """
    UPDATE task_lane SET configured = 0
    WHERE configured = 1 AND name NOT IN (SELECT value FROM json_each(?))
"""
HOLD = """
    UPDATE task_lane SET hold_until = :until, hold_ms = :length, hold_reason = :reason WHERE name = :lane
      AND (:until = 0 OR hold_until < :until)
"""
HELD = "SELECT hold_until, hold_ms FROM task_lane WHERE name = ?"
LANE = "SELECT id, gap, jitter, start_at, hold_until, concurrency - leased - permits FROM task_lane WHERE name = ?"
HAS_PERMIT = "SELECT 1 FROM task_permit WHERE key = ? AND lane_id = ?"
ADD_PERMIT = "INSERT INTO task_permit(key, lane_id) VALUES (?, ?)"

# reading

KEYS = "SELECT key, generation, kind FROM task WHERE key > ? ORDER BY key LIMIT ?"
KNOWN = "SELECT key, generation FROM task INDEXED BY task_key WHERE key IN (SELECT value FROM json_each(?))"
VIEW = """
    SELECT t.kind, t.ref, t.generation, l.name, t.pool, t.priority, t.source_hash, t.starts, t.state, t.at, t.worker,
      t.reason, max(l.next_at, l.start_at), l.hold_until
    FROM task t JOIN task_lane l ON l.id = t.lane_id WHERE t.key = ?
"""
TOTALS = """
    SELECT coalesce(sum(ready_text + ready_render), 0), coalesce(sum(delayed), 0), coalesce(sum(leased), 0)
    FROM task_lane
"""
# Two-argument min() is NULL where either is: each side is asked apart.
NEXT_TIMES = """
    SELECT min(at) FROM task WHERE state = 1
    UNION ALL SELECT min(due_text) FROM task_lane WHERE due_text IS NOT NULL
    UNION ALL SELECT min(due_render) FROM task_lane WHERE due_render IS NOT NULL
"""
OLDEST_READY = "SELECT at FROM task WHERE state = 0 ORDER BY seq LIMIT 1"
COUNTERS = "SELECT last_lease_at, acked, buried FROM task_meta"
LANE_STATS = """
    SELECT name, ready_text + ready_render AS ready, delayed, leased, max(next_at, start_at), hold_until FROM task_lane
    WHERE ready + delayed + leased > 0 OR hold_until > ? ORDER BY ready + delayed + leased DESC, name LIMIT 200
"""

# rebuild

IDENTITY = "SELECT ledger_id, epoch FROM task_meta"
SET_IDENTITY = "UPDATE task_meta SET ledger_id = ?, epoch = ?"
EMPTY_TASKS = "DELETE FROM task"
EMPTY_PERMITS = "DELETE FROM task_permit"
EMPTY_PLACES = "DELETE FROM task_place"
EMPTY_LANES = """
    UPDATE task_lane SET ready_text = 0, ready_render = 0, delayed = 0, leased = 0, permits = 0,
      next_at = max(next_at, :now + gap + jitter), start_at = max(start_at, :now + gap + jitter)
"""
