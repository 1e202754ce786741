"""Where a world keeps its ledger and its frontier: one SQLite file, or (`pair`) Redis and PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from fyke.db.connection import Connection
from fyke.db.sqlite import open_connection
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger
from fyke.model import ResolvedSource
from fyke.ports import Frontier, Ledger
from fyke.testing.effects import install_effect_log
from tests.crash.calls import Fault
from tests.crash.virtual import TimedDatabase, VirtualClock, run_virtual

T = TypeVar("T")
Read = Callable[[Connection], T]


class Stores(Struct):
    """What one process has open. `database`: of the ledger."""

    database: Any
    ledger: Ledger
    frontier: Frontier
    close: Callable[[], Awaitable[None]]


class Place(Protocol):
    """Empty, but for the played source and the log of what is written to its table."""

    def run(self, scene: Coroutine[Any, Any, T]) -> T:
        """Play a scene in virtual time."""
        ...

    async def open(self, clock: VirtualClock, random: Random, lease_ms: int) -> Stores:
        """The stores of a new process; close them."""
        ...

    def read(self, call: Read[T]) -> T:
        """Look at the database from outside, at once; from a scene or after it."""
        ...

    def expect(self, faults: Collection[Fault]) -> None:
        """These will come."""
        ...

    async def damage(self, fault: Fault) -> None:
        """One of `calls.DAMAGES`."""
        ...

    def changed(self) -> None:
        """A call has ended: who waits for the frontier looks again."""
        ...


def ask(place: Place, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows that answer a question in the shared SQL."""
    return place.read(lambda connection: [tuple(row) for row in connection.execute(question, values)])


class FilePlace:
    """Both on one SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, scene: Coroutine[Any, Any, T]) -> T:
        return run_virtual(scene)

    async def open(self, clock: VirtualClock, random: Random, lease_ms: int) -> Stores:
        database = TimedDatabase(self.path)
        frontier = SqlFrontier(database, clock, random, lease_ms=lease_ms)
        return Stores(database, SqlLedger(database, clock), frontier, database.close)

    def read(self, call: Read[T]) -> T:
        with closing(open_connection(self.path)) as connection:
            return call(connection)

    def expect(self, faults: Collection[Fault]) -> None:
        return None

    async def damage(self, fault: Fault) -> None:
        raise NotImplementedError(f"no test asks for it: {fault}")

    def changed(self) -> None:
        # The file tells by itself who waits.
        return None


async def fill(database: Any, ledger: Ledger, resolved: ResolvedSource) -> None:
    """Tables, the source, and the triggers that log each write of a row."""
    await ledger.migrate()
    await ledger.apply_source(resolved)
    await database.write(lambda connection: install_effect_log(connection, resolved.table))
