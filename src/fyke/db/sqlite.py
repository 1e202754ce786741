"""One SQLite file, one writer thread, group commit.

Calls that wait together share one transaction and one fsync; each runs in a savepoint of its own, so one that fails
takes nothing of its neighbours with it. A call is answered only after the COMMIT that holds it (P3). The whole group is
repeated when the file is busy, so a call must be a function of its connection alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from fyke.db.connection import Dialect
from fyke.db.errors import is_busy, translate
from fyke.db.migrate import refuse_foreign
from fyke.db.sqlite_connection import SqliteConnection
from fyke.errors import UsageError

T = TypeVar("T")
Call: TypeAlias = Callable[[SqliteConnection], Any]
Asked: TypeAlias = "tuple[Call, asyncio.Future[Any], bool]"
Answer: TypeAlias = "tuple[asyncio.Future[Any], Any, BaseException | None]"

GROUP_LIMIT = 256
BUSY_TIMEOUT_MS = 2_000
BUSY_REPEATS = 6
SYNC_FULL, SYNC_NORMAL = "PRAGMA synchronous=full", "PRAGMA synchronous=normal"
PRAGMAS = (
    "journal_mode=wal",
    "synchronous=full",
    "foreign_keys=off",
    "cache_size=-16384",
    "temp_store=memory",
    "wal_autocheckpoint=4000",
    "mmap_size=0",
    f"busy_timeout={BUSY_TIMEOUT_MS}",
)


def open_connection(path: Path, *, read_only: bool = False) -> SqliteConnection:
    """Open the file with our settings; autocommit, so that transactions are ours alone."""
    if read_only:
        connection = _connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA cache_size=-16384")
        return connection
    try:
        connection = _connect(path)
    except sqlite3.OperationalError as error:
        if path.is_dir():
            raise UsageError(f"{path} is a folder", hint="name a file in it: --ledger sqlite:///PATH") from error
        raise
    try:
        # Before the settings, for they would change another program's file.
        refuse_foreign(connection, path)
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.DatabaseError as error:
        connection.close()
        # Found by SQLite itself: to open and close the file beside it would drop the locks of this process, and another
        # one could then take the write-ahead log away under it.
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise UsageError(
                f"{path} is no SQLite file", hint="name another one with --ledger sqlite:///PATH"
            ) from error
        raise
    except UsageError:
        connection.close()
        raise
    return connection


def _connect(place: Path | str, *, uri: bool = False) -> SqliteConnection:
    return sqlite3.connect(
        place,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        uri=uri,
        factory=SqliteConnection,
    )


class SqliteDatabase:
    """`db.connection.Database` on one file. Use from one event loop; close it at the end.

    `write` and `read` raise TransientError for what passes (busy, disk full, I/O) and the driver's own error for what
    does not; see `db.errors`.
    """

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        # None ends a thread.
        self._writes: SimpleQueue[Asked | None] = SimpleQueue()
        self._reads: SimpleQueue[Asked | None] = SimpleQueue()
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: list[threading.Thread] = []
        self._changed: asyncio.Event | None = None
        self._data_version = -1
        self.version = 0  # counts commits seen, ours and others'
        self.waited = 0.0  # seconds that the last write waited for the file; for calls inside it

    async def write(self, call: Callable[[SqliteConnection], T], *, durable: bool = True) -> T:
        """Run `call` inside a write transaction; returns after it is committed, and with `durable` on the disk.

        What is not durable outlives the process, but a power failure may take the last of it; never the file's order:
        a durable commit takes all that was committed before it along.
        """
        return await self._submit(self._writes, call, durable=durable)

    async def read(self, call: Callable[[SqliteConnection], T]) -> T:
        """Run `call` inside one read snapshot, beside the writer."""
        return await self._submit(self._reads, call, durable=False)

    async def look(self, call: Callable[[SqliteConnection], T]) -> T:
        return await self.read(call)

    async def read_long(self, call: Callable[[SqliteConnection], T]) -> T:
        """As `read`, on a connection of its own: the one reader of the others must not wait for it."""
        connection = await asyncio.to_thread(open_connection, self.path, read_only=True)

        def run() -> T:
            try:
                connection.execute("BEGIN")
                return call(connection)
            except sqlite3.Error as error:
                raise translate(error, self.path) from None
            finally:
                connection.close()

        work = asyncio.ensure_future(asyncio.to_thread(run))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            connection.interrupt()
            await asyncio.wait([work])
            raise

    async def wait(self, timeout: float, since: int) -> None:
        """Return after a commit later than `since`, a value of `version` read before; at the latest after `timeout` s.

        Commits of other processes are looked for once a second.
        """
        changed = self._start()
        while self.version == since:
            changed.clear()
            try:
                await asyncio.wait_for(changed.wait(), timeout)
            except TimeoutError:
                return

    def now(self) -> int:
        """The host's clock."""
        return time.time_ns() // 1_000_000

    async def close(self) -> None:
        """Finish what was submitted and close the connections."""
        self._closing = True
        self._writes.put(None)
        self._reads.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join, 30)
        self._threads.clear()

    def _start(self) -> asyncio.Event:
        if self._changed is None:
            self._loop, self._changed = asyncio.get_running_loop(), asyncio.Event()
            for target, name in ((self._write_loop, "writer"), (self._read_loop, "reader")):
                thread = threading.Thread(target=target, name=f"sqlite-{name}", daemon=True)
                thread.start()
                self._threads.append(thread)
        return self._changed

    async def _submit(
        self, asked: SimpleQueue[Asked | None], call: Callable[[SqliteConnection], T], *, durable: bool
    ) -> T:
        self._start()
        if self._closing:
            raise RuntimeError("the database is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        asked.put((call, future, durable))
        return await future

    def _answer(self, answers: list[Answer], wrote: bool) -> None:
        for future, value, error in answers:
            if future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        if wrote and self._changed is not None:
            self.version += 1
            self._changed.set()

    def _reply(self, answers: list[Answer], *, wrote: bool) -> None:
        assert self._loop is not None
        # A loop that is gone has nobody left to answer.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answer, answers, wrote)

    def _write_loop(self) -> None:
        connection: SqliteConnection | None = None
        ended = False
        while not ended:
            group: list[Asked] = []
            asked = self._writes.get()
            while asked is not None:
                group.append(asked)
                if len(group) == GROUP_LIMIT:
                    break
                try:
                    asked = self._writes.get_nowait()
                except Empty:
                    break
            ended = asked is None
            if not group:
                continue
            try:
                connection = connection or open_connection(self.path)
                answers = self._transact(connection, group)
            except BaseException as error:  # noqa: BLE001 - the waiting callers get it, whatever it is
                answers = [(future, None, translate(error, self.path)) for _, future, _ in group]
            self._reply(answers, wrote=True)
        if connection is not None:
            connection.close()

    def _transact(self, connection: SqliteConnection, group: list[Asked]) -> list[Answer]:
        asked_at = time.monotonic()
        durable = any(durable for _, _, durable in group)
        connection.execute(SYNC_FULL if durable else SYNC_NORMAL)
        for attempt in range(BUSY_REPEATS):
            try:
                connection.execute("BEGIN IMMEDIATE")
                self.waited = connection.waited = time.monotonic() - asked_at
                answers = [(future, *self._run(connection, call)) for call, future, _ in group]
                connection.execute("COMMIT")
            except BaseException as error:
                # A failed COMMIT (disk full) leaves the transaction open.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if not is_busy(error) or attempt == BUSY_REPEATS - 1:
                    raise
                time.sleep(random.uniform(0.005, 0.05) * (attempt + 1))
            else:
                return answers
        raise AssertionError("unreachable")

    def _run(self, connection: SqliteConnection, call: Call) -> tuple[Any, BaseException | None]:
        connection.execute("SAVEPOINT call")
        try:
            value = call(connection)
        except BaseException as error:
            # The engine itself may have rolled everything back (disk full, I/O): then the group fails as one.
            if not connection.in_transaction or is_busy(error):
                raise
            connection.execute("ROLLBACK TO call")
            connection.execute("RELEASE call")
            return None, translate(error, self.path)
        connection.execute("RELEASE call")
        return value, None

    def _read_loop(self) -> None:
        connection: SqliteConnection | None = None
        while True:
            try:
                asked = self._reads.get(timeout=1.0)
            except Empty:
                # One cheap read a second tells of other processes' commits; our own wake `wait` directly.
                if connection is not None:
                    self._look_for_others(connection)
                continue
            if asked is None:
                break
            call, future, _ = asked
            try:
                connection = connection or open_connection(self.path)
                connection.execute("BEGIN")
                try:
                    value = call(connection)
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                self._reply([(future, value, None)], wrote=False)
            except BaseException as error:  # noqa: BLE001 - the waiting caller gets it, whatever it is
                self._reply([(future, None, translate(error, self.path))], wrote=False)
        if connection is not None:
            connection.close()

    def _look_for_others(self, connection: SqliteConnection) -> None:
        with contextlib.suppress(sqlite3.Error):
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            if version != self._data_version:
                self._data_version = version
                self._reply([], wrote=True)
