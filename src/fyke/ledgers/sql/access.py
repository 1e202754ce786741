"""How the statements of the SQLite ledger reach the database.

Each call is one transaction or one snapshot, and a function of its connection alone: a busy group is repeated.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from fyke.db.migrate import moved_to
from fyke.db.sqlite import SqliteDatabase
from fyke.ports import Clock

T = TypeVar("T")


class Statements:
    """What all parts of the ledger share. `_db` and `_clock` are for the parts, not for callers."""

    def __init__(self, database: SqliteDatabase, clock: Clock) -> None:
        self._db, self._clock = database, clock

    async def _write(self, call: Callable[[sqlite3.Connection], T]) -> T:
        def run(connection: sqlite3.Connection) -> T:
            refuse_moved(connection)
            return call(connection)

        return await self._db.write(run)

    async def _read(self, call: Callable[[sqlite3.Connection], T]) -> T:
        def run(connection: sqlite3.Connection) -> T:
            refuse_moved(connection)
            return call(connection)

        return await self._db.read(run)


def refuse_moved(connection: sqlite3.Connection) -> None:
    """Raise UsageError where the ledger was moved away."""
    # A process that still runs on a ledger that was copied away would write what nobody reads.
    row = connection.execute("SELECT value FROM meta WHERE name = 'moved_to'").fetchone()
    if row is not None:
        raise moved_to(row[0])
