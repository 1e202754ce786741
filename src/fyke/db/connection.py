"""What ledgers and the sql frontier see of a database, the same for all three.

A call is a plain function of a connection: `Database.write` runs it in one transaction, `Database.read` in one
snapshot, and either may run it again, so it must be a function of its connection alone. SQL is written once, as SQLite
takes it; `db.dialect` says which subset that is, and rewrites it for the other two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
Values: TypeAlias = Sequence[Any] | Mapping[str, Any]
Dialect: TypeAlias = Literal["sqlite", "postgres", "mysql"]


class Listed(str):
    """Values for `IN (SELECT value FROM json_each(?))`: JSON for SQLite, and the values themselves for the others."""

    __slots__ = ("values",)
    values: list[int] | list[str]


def listed(values: Iterable[int] | Iterable[str]) -> Listed:
    """Bind whole numbers, or texts, as one list; it may be empty and has no length limit of ours."""
    found: Any = list(values)
    text = Listed(msgspec.json.encode(found).decode())
    text.values = found
    return text


class RepeatTransaction(Exception):
    """Raised by `Connection.repeat`; `Database.write` answers it, callers never see it."""


class Cursor(Protocol):
    """Rows as tuples, all read already. Nothing else of a driver's cursor may be used: no rowcount, no lastrowid."""

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Rows:
    """A `Cursor` over rows that a server has sent."""

    __slots__ = ("_next", "_rows")

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows, self._next = rows, iter(rows)

    def fetchone(self) -> Any:
        return next(self._next, None)

    def fetchall(self) -> list[Any]:
        return list(self._next)

    def __iter__(self) -> Iterator[Any]:
        return self._next


class Connection(Protocol):
    """A transaction or a snapshot. Valid inside its call only; a call may not keep it."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def waited(self) -> float:
        """Seconds that this call waited for its turn: a locked file, a connection, an earlier try."""
        ...

    def execute(self, sql: str, values: Values = (), /) -> Cursor:
        """One statement, positional (`?`, `?1`) or named (`:name`) values."""
        ...

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        """INSERT, UPDATE or DELETE once for each row, in few round trips. Rows are positional and unique by their key.

        Each value stands in the statement as one `?`; an UPDATE or DELETE finds its row by `column = ?`.
        """
        ...

    def together(self, parts: Iterable[tuple[str, Sequence[Sequence[Any]]]], /) -> None:
        """`executemany` of each (statement, rows), in as few round trips as the database allows, in no certain order.

        None may need what another one writes, and no two may write one row.
        """
        ...

    def insert(self, sql: str, values: Values = (), /) -> int:
        """INSERT one row whose id the database gives; its id."""
        ...

    def new_ids(self, table: str, count: int, /) -> list[int]:
        """Ascending ids for rows that the caller inserts with them. None was given before or is given again, whatever
        becomes of this transaction. A table has its ids from here or from `insert`, not from both.
        """
        ...

    def savepoint(self) -> AbstractContextManager[None]:
        """An error inside takes back what was done inside, and is raised on."""
        ...

    def repeat(self, why: str) -> NoReturn:
        """Roll back and run the whole call again: it has raced with another writer."""
        ...

    def notify(self) -> None:
        """Wake those that `wait` on this database, after the commit. SQLite does it for each commit."""
        ...


class Database(Protocol):
    """Asynchronous access. Use from one event loop; close it at the end.

    `write` and `read` raise TransientError for what passes (server away, lock held, disk full), UsageError for what a
    person must change (password, rights, a damaged file), and the driver's own error for what is wrong with a row
    (`db.errors.is_row_error`).
    """

    version: int  # counts the commits that were noticed, ours and others'
    waited: float  # `Connection.waited` of the last write

    @property
    def dialect(self) -> Dialect: ...

    async def write(self, call: Callable[[Any], T], *, durable: bool = True) -> T:
        """Run `call` in a transaction; returns after its commit, and with `durable` when it is on the disk.

        Deadlocks, lock timeouts, races and lost connections repeat the call; what outlasts that is a TransientError,
        after which it may have been committed: ask, or repeat what is safe to repeat.
        """
        ...

    async def read(self, call: Callable[[Any], T]) -> T:
        """Run `call` in one snapshot."""
        ...

    async def look(self, call: Callable[[Any], T]) -> T:
        """As `read`, for a call of one statement: it is its own snapshot, and there is no transaction to begin and
        to end.
        """
        ...

    async def read_long(self, call: Callable[[Any], T]) -> T:
        """As `read`, for a walk over everything that may take minutes: nobody waits for it, and no time limit ends it.

        Other work of the loop goes on between its statements, so each of them reads a page.
        """
        ...

    async def wait(self, timeout: float, since: int) -> None:
        """Return after a commit later than `since`, a value of `version` read before; at the latest after `timeout` s.

        On a server only those commits end it that called `Connection.notify`.
        """
        ...

    def now(self) -> int:
        """The database's clock, ms since the epoch: the server's; with SQLite the host's."""
        ...

    async def close(self) -> None:
        """Finish what was asked for and close the connections."""
        ...
