"""How the statements of the ledger reach the database.

Each call is one transaction or one snapshot, and a function of its connection alone: what raced is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fyke.db.connection import Connection, Database
from fyke.db.migrate import refuse_closed
from fyke.ports import Clock

T = TypeVar("T")


class Statements:
    """What all parts of the ledger share. `_db` and `_clock` are for the parts, not for callers."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db, self._clock = database, clock

    async def _write(self, call: Callable[[Connection], T]) -> T:
        def run(connection: Connection) -> T:
            refuse_closed(connection)
            return call(connection)

        return await self._db.write(run)

    async def _look(self, call: Callable[[Connection], T]) -> T:
        """For a call of one statement, which asks itself whether the ledger is closed."""
        return await self._db.look(call)

    async def _read(self, call: Callable[[Connection], T]) -> T:
        def run(connection: Connection) -> T:
            refuse_closed(connection)
            return call(connection)

        return await self._db.read(run)
