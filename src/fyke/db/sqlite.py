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
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fyke.db.errors import is_busy, translate

T = TypeVar("T")
Call = Callable[[sqlite3.Connection], Any]

GROUP_LIMIT = 256
BUSY_TIMEOUT_MS = 2_000
BUSY_REPEATS = 6
PRAGMAS = (
    "journal_mode=wal",
    "synchronous=full",
    "foreign_keys=off",
    "cache_size=-16384",
    "temp_store=memory",
    "mmap_size=0",
    f"busy_timeout={BUSY_TIMEOUT_MS}",
)


def open_connection(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the file with our settings; autocommit, so that transactions are ours alone."""
    if read_only:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA cache_size=-16384")
        return connection
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


class SqliteDatabase:
    """Asynchronous access to one file. Use from one event loop; close it at the end.

    `write` and `read` raise TransientError for what passes (busy, disk full, I/O) and the driver's own error for what
    does not; see `db.errors`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._calls: deque[tuple[Call, asyncio.Future[Any]]] = deque()
        self._reads: deque[tuple[Call, asyncio.Future[Any]]] = deque()
        self._wake_writer, self._wake_reader = threading.Semaphore(0), threading.Semaphore(0)
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: list[threading.Thread] = []
        self._changed: asyncio.Event | None = None
        self._data_version = -1
        self.version = 0  # counts commits seen, ours and others'

    async def write(self, call: Callable[[sqlite3.Connection], T]) -> T:
        """Run `call` inside a write transaction; returns after it is on the disk."""
        return await self._submit(self._calls, self._wake_writer, call)

    async def read(self, call: Callable[[sqlite3.Connection], T]) -> T:
        """Run `call` inside one read snapshot, beside the writer."""
        return await self._submit(self._reads, self._wake_reader, call)

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

    async def close(self) -> None:
        """Finish what was submitted and close the connections."""
        self._closing = True
        self._wake_writer.release()
        self._wake_reader.release()
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
        self,
        queue: deque[tuple[Call, asyncio.Future[Any]]],
        wake: threading.Semaphore,
        call: Callable[[sqlite3.Connection], T],
    ) -> T:
        self._start()
        if self._closing:
            raise RuntimeError("the database is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        queue.append((call, future))
        wake.release()
        return await future

    def _answer(self, answers: list[tuple[asyncio.Future[Any], Any, BaseException | None]], wrote: bool) -> None:
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

    def _reply(self, answers: list[tuple[asyncio.Future[Any], Any, BaseException | None]], *, wrote: bool) -> None:
        assert self._loop is not None
        # A loop that is gone has nobody left to answer.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answer, answers, wrote)

    def _write_loop(self) -> None:
        connection: sqlite3.Connection | None = None
        while True:
            self._wake_writer.acquire()
            group: list[tuple[Call, asyncio.Future[Any]]] = []
            while self._calls and len(group) < GROUP_LIMIT:
                group.append(self._calls.popleft())
            if not group:
                if self._closing and not self._calls:
                    break
                continue
            try:
                connection = connection or open_connection(self.path)
                answers = self._transact(connection, group)
            except BaseException as error:  # noqa: BLE001 - the waiting callers get it, whatever it is
                answers = [(future, None, translate(error)) for _, future in group]
            self._reply(answers, wrote=True)
        if connection is not None:
            connection.close()

    def _transact(
        self, connection: sqlite3.Connection, group: list[tuple[Call, asyncio.Future[Any]]]
    ) -> list[tuple[asyncio.Future[Any], Any, BaseException | None]]:
        for attempt in range(BUSY_REPEATS):
            try:
                connection.execute("BEGIN IMMEDIATE")
                answers = [(future, *self._run(connection, call, alone=len(group) == 1)) for call, future in group]
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

    def _run(self, connection: sqlite3.Connection, call: Call, *, alone: bool) -> tuple[Any, BaseException | None]:
        connection.execute("SAVEPOINT call")
        try:
            value = call(connection)
        except BaseException as error:
            # The engine itself may have rolled everything back (disk full, I/O): then the group fails as one.
            if not connection.in_transaction or is_busy(error):
                raise
            connection.execute("ROLLBACK TO call")
            connection.execute("RELEASE call")
            return None, translate(error)
        connection.execute("RELEASE call")
        return value, None

    def _read_loop(self) -> None:
        connection: sqlite3.Connection | None = None
        while True:
            # One cheap read a second tells of other processes' commits; our own wake `wait` directly.
            woken = self._wake_reader.acquire(timeout=1.0)
            if self._reads:
                call, future = self._reads.popleft()
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
                    self._reply([(future, None, translate(error))], wrote=False)
            elif self._closing:
                break
            elif not woken and connection is not None:
                version = connection.execute("PRAGMA data_version").fetchone()[0]
                if version != self._data_version:
                    self._data_version = version
                    self._reply([], wrote=True)
        if connection is not None:
            connection.close()
