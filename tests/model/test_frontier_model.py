"""The sql frontier behaves as the model does, and its lanes' counters equal their rows."""

import shutil
import sqlite3
import tempfile
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, settings

from fyke.db.frontier_tables import create_frontier_tables
from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers.sql import SqlFrontier
from fyke.testing.frontier_model import LEASE, FrontierMachine

COUNTED = """
    SELECT l.name FROM task_lane l WHERE
      l.ready_text <> (SELECT count(*) FROM task WHERE lane_id = l.id AND state = 0 AND pool = 'text')
      OR l.ready_render <> (SELECT count(*) FROM task WHERE lane_id = l.id AND state = 0 AND pool = 'render')
      OR l.delayed <> (SELECT count(*) FROM task WHERE lane_id = l.id AND state = 1)
      OR l.leased <> (SELECT count(*) FROM task WHERE lane_id = l.id AND state = 2)
      OR l.permits <> (SELECT count(*) FROM task_permit WHERE lane_id = l.id)
        + (SELECT count(*) FROM task_place WHERE lane_id = l.id)
      OR l.start_at > l.next_at
"""
# A class that is too good is corrected by the next lease; one that is too bad would hide a better task.
HIDDEN = """
    SELECT t.key FROM task t JOIN task_lane l ON l.id = t.lane_id WHERE t.state = 0
      AND t.priority < CASE t.pool WHEN 'text' THEN l.best_text ELSE l.best_render END
"""
LOOSE = "SELECT key FROM task_permit WHERE key NOT IN (SELECT key FROM task WHERE state = 2)"


class SqlFrontierMachine(FrontierMachine):
    async def open(self) -> SqlFrontier:
        self.folder = Path(tempfile.mkdtemp(prefix="fyke-model-"))
        self.database = SqliteDatabase(self.folder / "fyke.db")
        await self.database.write(create_frontier_tables)
        return SqlFrontier(self.database, self.clock, Random(1), lease_ms=LEASE)

    async def check_inside(self) -> None:
        def wrong(connection: sqlite3.Connection) -> list[object]:
            return [row for text in (COUNTED, HIDDEN, LOOSE) for row in connection.execute(text)]

        assert await self.database.read(wrong) == []

    def teardown(self) -> None:
        self.run(self.database.close())
        super().teardown()
        shutil.rmtree(self.folder)


# The same cases each time: a failure on a machine that nobody watches must be one on mine.
SqlFrontierMachine.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestSqlFrontierModel = SqlFrontierMachine.TestCase
