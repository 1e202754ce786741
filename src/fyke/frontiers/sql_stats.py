"""How much waits where: read from the counters of lanes, so that a million waiting tasks are not counted."""

from __future__ import annotations

from fyke.db.connection import Connection
from fyke.frontiers import sql_statements as sql
from fyke.frontiers.sql_aside import count_aside
from fyke.model import FrontierStats, LaneStats


def read_stats(connection: Connection, now: int) -> FrontierStats:
    *ready, delayed, leased, acked, buried, last_lease = connection.execute(sql.TOTALS).fetchone()
    oldest = connection.execute(sql.OLDEST_READY).fetchone() if any(ready) else None
    times = [at for (at,) in connection.execute(sql.NEXT_TIMES) if at is not None]
    lanes = [LaneStats(*row) for row in connection.execute(sql.LANE_STATS, (now,)).fetchall()]
    return FrontierStats(
        *(sum(ready), delayed, leased, oldest and oldest[0], last_lease or None, lanes, acked, buried),
        next_at=min(times, default=None),
        pools={pool: count for pool, count in zip(sql.POOLS, ready, strict=True) if count},
        aside=count_aside(connection),
    )
