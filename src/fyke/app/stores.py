"""The composition root: settings → objects. The only place that names concrete classes.

Back ends are imported when they are asked for, so that a verb pays for nothing that it does not use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from msgspec import Struct

from fyke.app.strangers import ANSWER_S, refuse_stranger
from fyke.app.waiting import Patience
from fyke.db.connection import Database
from fyke.errors import TransientError, UsageError
from fyke.pipeline.refill import MARK
from fyke.ports import Clock, Frontier, KnownFilter, Ledger, Lock
from fyke.settings import Settings, masked

# Extra → the drivers that come with it.
DRIVERS: Final = {"redis": ("redis",), "postgres": ("asyncpg", "greenlet"), "mysql": ("asyncmy", "greenlet")}
OPEN_LIMIT_S: Final = 20.0

T = TypeVar("T")

# --- Time and stores ---


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Stores(Struct, frozen=True):
    """What every process opens: the truth, and what hands out work from it."""

    settings: Settings
    clock: Clock
    ledger: Ledger
    frontier: Frontier
    lock: Lock
    known_filter: KnownFilter | None = None


class Book(Struct, frozen=True):
    """What a command opens that asks the ledger alone: it works while the frontier is away."""

    settings: Settings
    clock: Clock
    ledger: Ledger


class Desk(Struct):
    """What a command opens that answers from the ledger, and asks the frontier where it is there."""

    settings: Settings
    clock: Clock
    ledger: Ledger
    frontier: Frontier | None
    known_filter: KnownFilter | None = None
    away: str = ""
    """Why the frontier could not be asked; "" while it answers."""

    async def ask(self, question: Callable[[Frontier], Awaitable[T]]) -> T | None:
        """What the frontier answers; None where it is away, and from then on at once."""
        if self.frontier is None:
            return None
        try:
            return await question(self.frontier)
        except TransientError as error:
            if self.settings.frontier_kind == "sql":
                # It is a part of the ledger's database, without which nothing can be answered.
                raise
            self.frontier, self.away = None, str(error).removeprefix("the frontier at ")
            return None


@asynccontextmanager
async def open_ledger(settings: Settings) -> AsyncIterator[Book]:
    """Open the ledger without a frontier, and upgrade its tables.

    Raises:
        UsageError, TransientError: as `open_stores`.
    """
    if settings.ledger_path is not None:
        check_place(settings.ledger_path, create=False)
    async with AsyncExitStack() as stack:
        database, clock = await _open_database(settings, stack)()
        yield Book(settings, clock, await _ledger(database, clock, stack))


@asynccontextmanager
async def open_desk(settings: Settings) -> AsyncIterator[Desk]:
    """Open the ledger, and the frontier as `open_stores` does, but do without one that is away: nothing waits for it.

    Raises:
        UsageError, TransientError: as `open_stores`; the latter of the ledger alone.
    """
    if settings.ledger_path is not None:
        check_place(settings.ledger_path, create=False)
    async with AsyncExitStack() as stack:
        database, clock = await _open_database(settings, stack)()
        desk = Desk(settings, clock, await _ledger(database, clock, stack), None)
        identity = await desk.ledger.identity()
        try:
            desk.frontier = await _open_frontier(settings, database, clock, stack)()
            desk.known_filter = _known_filter(settings, clock, stack)
        except TransientError as error:
            if settings.frontier_kind == "sql":
                raise
            desk.away = str(error).removeprefix("the frontier at ")
        if await desk.ask(lambda frontier: frontier.rebuild(*identity)):
            await desk.ledger.cursor(MARK, 1)
        yield desk


@asynccontextmanager
async def open_stores(settings: Settings, *, create: bool = True, wait: bool = False) -> AsyncIterator[Stores]:
    """Open ledger and frontier, upgrade their tables, and empty a frontier that belongs to another ledger or epoch.

    What fills such a frontier is the first reconciler or worker that sees it; `fyke audit` tells what is missing.

    `create` False: a ledger that is not there yet is an error, so that looking at the wrong folder shows. `wait`:
    servers that are not there yet are waited for, `servers.wait` long.

    Raises:
        UsageError: there is no ledger, it was moved, or a newer Fyke wrote it; a driver is not installed.
        TransientError: it cannot be opened now.
    """
    if settings.ledger_path is not None:
        check_place(settings.ledger_path, create=create)
    host_clock = SystemClock()
    patience = Patience(settings.servers.wait if wait else 0, host_clock, Random())
    # A file is there or not: nobody starts it later.
    for_ledger = patience if settings.ledger_path is None else Patience(0, host_clock, Random())
    async with AsyncExitStack() as stack:
        at = masked(settings.ledger)
        database, clock = await for_ledger.reach(at, _open_database(settings, stack))
        ledger = await for_ledger.reach(at, lambda: _ledger(database, clock, stack))
        # The sql frontier is a part of the ledger's database: what is away then is the ledger.
        where = at if settings.frontier_kind == "sql" else masked(settings.frontier)
        frontier = await patience.reach(where, _open_frontier(settings, database, clock, stack))
        identity = await patience.reach(at, ledger.identity)
        if await patience.reach(where, lambda: frontier.rebuild(*identity)):
            await patience.reach(at, lambda: ledger.cursor(MARK, 1))
        lock, known_filter = _lock(settings, database, clock, stack), _known_filter(settings, clock, stack)
        yield Stores(settings, clock, ledger, frontier, lock, known_filter)


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """The ledger's database without a ledger: for what looks at its tables from outside, as `fyke lab chaos` does."""
    async with open_clocked(settings) as (database, _):
        yield database


@asynccontextmanager
async def open_clocked(settings: Settings) -> AsyncIterator[tuple[Database, Clock]]:
    """As `open_database`, with the clock that a ledger on it goes by."""
    async with AsyncExitStack() as stack:
        yield await _database(settings, stack)


def back_end(module: str, extra: str) -> Any:
    """A module of ours whose drivers come with an extra.

    Raises:
        UsageError: they are not installed; names the extra.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in DRIVERS[extra]:
            raise
        raise UsageError(
            f"the package {error.name} is not installed, which this server needs", hint=f"pip install 'fyke[{extra}]'"
        ) from error


def _limited(
    open_: Callable[[], Awaitable[Any]], stranger: Callable[[], Awaitable[None]]
) -> Callable[[], Awaitable[Any]]:
    """A server that accepts connections and never answers is away, too; `stranger` refuses one of another kind."""

    asked = False

    async def within() -> Any:
        nonlocal asked
        opening = asyncio.ensure_future(open_())
        try:
            await asyncio.wait([opening], timeout=ANSWER_S)
            if not asked and (not opening.done() or isinstance(opening.exception(), TransientError)):
                # Once: a database counts what is said to it and is no login, and shuts out who does it again and again.
                asked = True
                await stranger()
            return await asyncio.wait_for(opening, OPEN_LIMIT_S)
        except TimeoutError as error:
            raise TransientError(f"no answer for {OPEN_LIMIT_S:g} s") from error
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)

    return within


def _open_database(settings: Settings, stack: AsyncExitStack) -> Callable[[], Awaitable[Any]]:
    async def stranger() -> None:
        if settings.ledger_path is None:
            from fyke.db.address import parse_address

            address = parse_address(settings.ledger)
            await refuse_stranger(settings.ledger_kind, [(address.host, address.port)], "ledger")

    return _limited(lambda: _database(settings, stack), stranger)


def _open_frontier(
    settings: Settings, database: Any, clock: Clock, stack: AsyncExitStack
) -> Callable[[], Awaitable[Frontier]]:
    async def stranger() -> None:
        if settings.frontier_kind == "redis":
            address = back_end("fyke.frontiers.redis.address", "redis").read_address(settings.frontier)
            if address.tls is None:
                await refuse_stranger("redis", address.nodes, "frontier")

    return _limited(lambda: _frontier(settings, database, clock, stack), stranger)


async def _database(settings: Settings, stack: AsyncExitStack) -> tuple[Any, Clock]:
    clock = SystemClock()
    if settings.ledger_path is not None:
        from fyke.db.sqlite import SqliteDatabase

        file = SqliteDatabase(settings.ledger_path)
        stack.push_async_callback(file.close)
        return file, clock
    if settings.ledger_kind == "postgres":
        make = back_end("fyke.db.postgres", "postgres").PostgresDatabase
    else:
        make = back_end("fyke.db.mysql", "mysql").MysqlDatabase
    from fyke.db.address import parse_address
    from fyke.db.server import ServerClock

    database = make(parse_address(settings.ledger))
    try:
        await database.open()
    except BaseException:
        await database.close()
        raise
    stack.push_async_callback(database.close)
    return database, ServerClock(database, clock)


async def _ledger(database: Any, clock: Clock, stack: AsyncExitStack) -> Ledger:
    from fyke.ledgers.sql import SqlLedger

    ledger: Ledger = SqlLedger(database, clock)
    await ledger.migrate()
    stack.push_async_callback(ledger.close)
    return ledger


async def _frontier(settings: Settings, database: Any, clock: Clock, stack: AsyncExitStack) -> Frontier:
    frontier: Frontier
    if settings.frontier_kind == "redis":
        redis = back_end("fyke.frontiers.redis", "redis")
        frontier = await redis.RedisFrontier.open(
            settings.frontier,
            namespace=settings.redis.namespace,
            shards=settings.redis.shards,
            lease_ms=settings.lease,
            random=Random(),
            clock=clock,
            take_over=settings.redis.take_over,
        )
    else:
        from fyke.frontiers.sql import SqlFrontier

        frontier = SqlFrontier(database, clock, Random(), lease_ms=settings.lease)
    stack.push_async_callback(frontier.close)
    return frontier


def _lock(settings: Settings, database: Any, clock: Clock, stack: AsyncExitStack) -> Lock:
    lock: Lock
    if settings.frontier_kind == "redis":
        redis = back_end("fyke.frontiers.redis_lock", "redis")
        on_redis = redis.RedisLock.at(settings.frontier, namespace=settings.redis.namespace)
        stack.push_async_callback(on_redis.close)
        lock = on_redis
        return lock
    from fyke.frontiers.sql_lock import SqlLock

    lock = SqlLock(database, clock)
    return lock


def _known_filter(settings: Settings, clock: Clock, stack: AsyncExitStack) -> KnownFilter | None:
    wanted = settings.known_filter
    if wanted.kind == "off":
        return None
    if settings.frontier_kind != "redis":
        raise UsageError(
            f"a known filter is kept in Redis, and the frontier is {masked(settings.frontier)}",
            field="known_filter.kind",
            hint='set frontier = "redis://HOST:PORT/0", or known_filter.kind = "off"',
        )
    made: Any = back_end("fyke.frontiers.redis.known_filter", "redis").RedisKnownFilter.at(
        settings.frontier,
        clock,
        kind=wanted.kind,
        namespace=settings.redis.namespace,
        planned=wanted.planned,
        error_rate=1 / wanted.one_in,
        months=wanted.months,
    )
    stack.push_async_callback(made.close)
    known_filter: KnownFilter = made
    return known_filter


def check_place(path: Path, *, create: bool) -> None:
    """Raise UsageError where a ledger's file is not there (unless `create`), or cannot be made there."""
    if path.exists():
        return
    if not create:
        raise UsageError(
            f"there is no ledger at {path}", hint="`fyke run --once` makes it; --ledger or FYKE_LEDGER names another"
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(f"the ledger's folder {path.absolute().parent} does not exist", hint="make it first")
