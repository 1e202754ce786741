"""Tasks that another release wrote and this one cannot read: kept whole in no lane, offered anew by the ledger (P2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fyke.db.connection import Connection, listed
from fyke.model import TaskKind

KINDS: Final = frozenset(kind.value for kind in TaskKind)
# No lane has this number, so no lease looks there; a rebuilt frontier leaves them out.
NO_LANE: Final = 0
POOL: Final = "aside"
FIND: Final = "SELECT seq, key, pool FROM task WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq"
SET: Final = f"UPDATE task SET key = ?, reason = ?, lane_id = {NO_LANE}, pool = '{POOL}', state = 0 WHERE seq = ?"
COUNT: Final = f"SELECT count(*) FROM task WHERE state = 0 AND lane_id = {NO_LANE} AND pool = '{POOL}'"


def set_aside(connection: Connection, tasks: Sequence[int]) -> None:
    """Take tasks (`seq`) out of their lanes, whose counters are the caller's; their keys are free for new tasks."""
    rows = connection.execute(FIND, (listed(tasks),)).fetchall()
    connection.executemany(SET, [(f"{POOL}:{seq}:{key}"[:255], f"pool {pool}", seq) for seq, key, pool in rows])


def count_aside(connection: Connection) -> int:
    return int(connection.execute(COUNT).fetchone()[0])
