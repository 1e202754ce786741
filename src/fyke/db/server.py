"""What the two servers share: transactions that are repeated, connections, the server's clock, and waiting.

A call is answered only after its COMMIT (P3). A deadlock, a race or a connection lost before COMMIT runs the whole call
again; a connection lost at COMMIT leaves the outcome unknown, and is the caller's to repeat.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from fyke.db.address import Address
from fyke.db.bridge import bridged
from fyke.db.connection import Dialect, RepeatTransaction, Values
from fyke.db.errors import is_busy, is_lost
from fyke.db.pool import Pool
from fyke.db.server_errors import translate_server
from fyke.errors import TransientError
from fyke.ports import Clock

T = TypeVar("T")

CONNECTIONS = 8
REPEATS = 8
LOST_REPEATS = 2
CONNECT_S = 8.0
COMMAND_S = 30.0  # for one statement of a write; the server gives up before
SERVER_S = 25
READ_S = 300.0  # for one statement of a read: an audit counts all there is
ENDING_S = 10.0
LOCK_S = 8
IDLE_S = 15  # a transaction whose process stands still holds locks that others wait for
LOOK_S = 1.0
CLOCK_S = 30.0


class ServerDatabase(ABC):
    """`db.connection.Database` on a server. At most `connections` are open, and one more: PostgreSQL's to listen,
    MariaDB's to count ids.
    """

    dialect: Dialect
    looks = False  # whether a statement outside a transaction is a snapshot of its own

    def __init__(self, address: Address, *, connections: int = CONNECTIONS) -> None:
        self.address = address
        self.version = 0
        self.waited = 0.0
        self._pool = Pool(self._connect_measured, self._terminate, self._is_open, connections)
        self._changed = asyncio.Event()
        self._clock: tuple[int, float] | None = None  # the server's ms at this monotonic time
        self._measured = 0.0
        self._known: dict[str, Any] = {}
        self.blocks: dict[str, list[int]] = {}  # ids taken from the server, not given out yet

    # --- What a server does in its own way ---

    @abstractmethod
    async def _connect(self) -> Any: ...

    @abstractmethod
    def _terminate(self, raw: Any) -> None: ...

    @abstractmethod
    def _is_open(self, raw: Any) -> bool: ...

    @abstractmethod
    def _connection(self, raw: Any, *, read: bool) -> Any: ...

    @abstractmethod
    async def _begin(self, raw: Any, *, read: bool, durable: bool) -> None: ...

    @abstractmethod
    async def _commit(self, raw: Any, *, notify: bool) -> None: ...

    @abstractmethod
    async def _rollback(self, raw: Any) -> None: ...

    @abstractmethod
    async def _server_ms(self, raw: Any) -> int: ...

    async def _listening(self) -> bool:
        """Whether other processes' notifications arrive by themselves."""
        return False

    # --- Calls ---

    async def open(self) -> None:
        """Reach the server now; raises as `read` does."""
        await self.read(lambda connection: None)

    async def write(self, call: Callable[[Any], T], *, durable: bool = True) -> T:
        return await self._repeated(call, read=False, durable=durable)

    async def read(self, call: Callable[[Any], T]) -> T:
        return await self._repeated(call, read=True, durable=False)

    async def look(self, call: Callable[[Any], T]) -> T:
        return await self._repeated(call, read=True, durable=False, alone=self.looks)

    async def read_long(self, call: Callable[[Any], T]) -> T:
        def much(connection: Any) -> T:
            connection.reads_much()
            return call(connection)

        # One of several connections: the others' reads go on.
        return await self.read(much)

    async def _repeated(self, call: Callable[[Any], T], *, read: bool, durable: bool, alone: bool = False) -> T:
        asked, lost = time.monotonic(), 0
        for attempt in range(1, REPEATS + 1):
            try:
                return await self._transact(call, asked, read=read, durable=durable, alone=alone)
            except Exception as error:
                lost += is_lost(error)
                again = is_busy(error) or (is_lost(error) and lost <= LOST_REPEATS)
                if not again or attempt == REPEATS:
                    found = self._translated(error)
                    if found is error:
                        raise
                    raise found from error
            await asyncio.sleep(random.uniform(0.001, 0.02) * attempt)
        raise AssertionError("unreachable")

    def _translated(self, error: Exception) -> BaseException:
        if isinstance(error, RepeatTransaction):
            return TransientError(f"{self.address}: raced with other writers each time: {error}")
        return translate_server(error, self.address)

    async def _transact(self, call: Callable[[Any], T], asked: float, *, read: bool, durable: bool, alone: bool) -> T:
        raw = await self._pool.take()
        clean = False
        try:
            await self._look_at_clock(raw)
            if not alone:
                await self._begin(raw, read=read, durable=durable)
            connection: Any = self._connection(raw, read=read)
            connection = OneStatement(connection) if alone else connection
            connection.waited = time.monotonic() - asked
            if not read:
                self.waited = connection.waited
            try:
                value = await bridged(call, connection)
            except Exception as error:
                if not is_lost(error) and not alone:
                    async with asyncio.timeout(ENDING_S):
                        await self._rollback(raw)
                    clean = True
                raise
            if not read:
                await self._end(raw, notify=connection.notified)
            elif not alone:
                await self._rollback(raw)
            clean = True
        except Exception as error:
            if is_lost(error):
                self._pool.forget_idle()
            raise
        finally:
            if clean and self._is_open(raw):
                self._pool.give(raw)
            else:
                self._pool.drop(raw)
        if not read and connection.notified:
            self.changed()
        return value

    async def _end(self, raw: Any, *, notify: bool) -> None:
        try:
            await self._commit(raw, notify=notify)
        except Exception as error:
            if is_lost(error):
                self._pool.forget_idle()
                found = f"{self.address}: the connection was lost during COMMIT, so it is not known what was written"
                raise TransientError(found) from error
            raise

    async def close(self) -> None:
        self._pool.close()

    # --- The server's clock ---

    def now(self) -> int:
        if self._clock is None:
            return time.time_ns() // 1_000_000
        at, measured = self._clock
        return at + int((time.monotonic() - measured) * 1000)

    async def _connect_measured(self) -> Any:
        raw = await self._connect()
        try:
            await self._look_at_clock(raw)
        except BaseException:
            self._terminate(raw)
            raise
        return raw

    async def _look_at_clock(self, raw: Any) -> None:
        before = time.monotonic()
        if self._clock is not None and before - self._measured < CLOCK_S:
            return
        found = await self._server_ms(raw)
        after = time.monotonic()
        at = found + int((after - before) * 500)
        # What the way there and back may explain is no step of the clock.
        if self._clock is None or abs(at - self.now()) > (after - before) * 1000 + 2:
            self._clock = (at, after)
        self._measured = after

    # --- Waiting ---

    def changed(self) -> None:
        """A commit was noticed that others may wait for."""
        self.version += 1
        self._changed.set()

    async def wait(self, timeout: float, since: int) -> None:
        end = time.monotonic() + timeout
        while self.version == since:
            listening = await self._listening()
            left = end - time.monotonic()
            if left <= 0:
                return
            self._changed.clear()
            if self.version != since:
                return
            try:
                await asyncio.wait_for(self._changed.wait(), left if listening else min(left, LOOK_S))
            except TimeoutError:
                # Without notifications the caller looks itself, once a second.
                return


class OneStatement:
    """A connection for a look: what a second statement saw would be another moment."""

    notified = False
    waited = 0.0

    def __init__(self, connection: Any) -> None:
        self.dialect: Dialect = connection.dialect
        self._connection = connection

    def execute(self, sql: str, values: Values = (), /) -> Any:
        if self._connection is None:
            raise RuntimeError("a look asks one statement only")
        connection, self._connection = self._connection, None
        return connection.execute(sql, values)


class ServerClock:
    """The ledger's clock on a server: the server's time, and this host's waiting."""

    def __init__(self, database: ServerDatabase, host: Clock) -> None:
        self._database, self._host = database, host

    def now(self) -> int:
        return self._database.now()

    def monotonic(self) -> float:
        return self._host.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._host.sleep(seconds)
