"""Tables of the sql frontier in SQLite: live tasks, the lanes they wait in, permits, one row about the frontier itself.

A task's `state` says where it is: 0 ready, 1 delayed, 2 leased. A lane's counters are kept in the same transaction, and
`due_*` is NULL where the lane may not go, so that a million waiting tasks cost a lease nothing (P4).
"""

from __future__ import annotations

import sqlite3

STATEMENTS = (
    """
    CREATE TABLE IF NOT EXISTS task_lane(
      id INTEGER PRIMARY KEY,
      name TEXT NOT NULL UNIQUE,
      gap INTEGER NOT NULL,
      jitter INTEGER NOT NULL,
      concurrency INTEGER NOT NULL,
      configured INTEGER NOT NULL DEFAULT 0,
      next_at INTEGER NOT NULL DEFAULT 0,
      start_at INTEGER NOT NULL DEFAULT 0,
      hold_until INTEGER NOT NULL DEFAULT 0,
      hold_ms INTEGER NOT NULL DEFAULT 0,
      hold_reason TEXT NOT NULL DEFAULT '',
      ready_text INTEGER NOT NULL DEFAULT 0,
      ready_render INTEGER NOT NULL DEFAULT 0,
      best_text INTEGER NOT NULL DEFAULT 0,
      best_render INTEGER NOT NULL DEFAULT 0,
      delayed INTEGER NOT NULL DEFAULT 0,
      leased INTEGER NOT NULL DEFAULT 0,
      permits INTEGER NOT NULL DEFAULT 0,
      due_text INTEGER GENERATED ALWAYS AS
        (CASE WHEN ready_text > 0 AND leased + permits < concurrency THEN max(next_at, hold_until) END) VIRTUAL,
      due_render INTEGER GENERATED ALWAYS AS
        (CASE WHEN ready_render > 0 AND leased + permits < concurrency THEN max(next_at, hold_until) END) VIRTUAL
    ) STRICT
    """,
    "CREATE INDEX IF NOT EXISTS task_lane_text ON task_lane(best_text, due_text) WHERE due_text IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS task_lane_render ON task_lane(best_render, due_render) WHERE due_render IS NOT NULL",
    # seq is the task's age: it is kept when a task goes back to its place.
    """
    CREATE TABLE IF NOT EXISTS task(
      seq INTEGER PRIMARY KEY,
      key TEXT NOT NULL,
      kind TEXT NOT NULL,
      ref INTEGER NOT NULL,
      generation INTEGER NOT NULL,
      lane_id INTEGER NOT NULL,
      pool TEXT NOT NULL,
      priority INTEGER NOT NULL,
      source_hash TEXT NOT NULL,
      starts INTEGER NOT NULL,
      state INTEGER NOT NULL DEFAULT 0,
      at INTEGER NOT NULL,
      length INTEGER NOT NULL DEFAULT 0,
      token INTEGER NOT NULL DEFAULT 0,
      begun INTEGER NOT NULL DEFAULT 0,
      worker TEXT NOT NULL DEFAULT '',
      reason TEXT NOT NULL DEFAULT ''
    ) STRICT
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS task_key ON task(key)",
    # One partial index per literal state: SQLite does not use one over several states for a single one.
    "CREATE INDEX IF NOT EXISTS task_ready ON task(lane_id, pool, priority) WHERE state = 0",
    "CREATE INDEX IF NOT EXISTS task_delayed ON task(at) WHERE state = 1",
    "CREATE INDEX IF NOT EXISTS task_leased ON task(at) WHERE state = 2",
    # A permit ends with the lease of its task: its deadline is the task's `at`.
    """
    CREATE TABLE IF NOT EXISTS task_permit(
      key TEXT NOT NULL,
      lane_id INTEGER NOT NULL,
      PRIMARY KEY(key, lane_id)
    ) STRICT, WITHOUT ROWID
    """,
    # A lease whose task was replaced or dropped: its request is in flight, so it keeps its places until `at`.
    """
    CREATE TABLE IF NOT EXISTS task_place(
      key TEXT NOT NULL,
      token INTEGER NOT NULL,
      lane_id INTEGER NOT NULL,
      at INTEGER NOT NULL,
      length INTEGER NOT NULL,
      PRIMARY KEY(key, token, lane_id)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS task_place_end ON task_place(at)",
    """
    CREATE TABLE IF NOT EXISTS task_meta(
      id INTEGER PRIMARY KEY CHECK(id = 1),
      ledger_id TEXT NOT NULL DEFAULT '',
      epoch INTEGER NOT NULL DEFAULT 0,
      clock_high INTEGER NOT NULL DEFAULT 0,
      acked INTEGER NOT NULL DEFAULT 0,
      buried INTEGER NOT NULL DEFAULT 0,
      last_lease_at INTEGER
    ) STRICT
    """,
    "INSERT INTO task_meta(id) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM task_meta)",
)


def create_frontier_tables(connection: sqlite3.Connection) -> None:
    """Make what is missing; for a frontier in a file of its own. In a ledger's file the migrations do it."""
    for statement in STATEMENTS:
        connection.execute(statement)
