"""Redis and PostgreSQL as a place of worlds: real servers, one pair and one loop for all cases of a test process.

The scripts of the frontier are told the virtual time, and are otherwise as they are. Between cases all is emptied, but
connections and their prepared statements stay: so a case costs what its calls cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from redis import Redis

from fyke.db.address import parse_address
from fyke.db.connection import Connection as Sql
from fyke.db.postgres import PostgresDatabase
from fyke.db.tables import METADATA
from fyke.frontiers.redis import RedisFrontier
from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import BLOCK_S, Connection
from fyke.frontiers.redis.scripts import READING, Script, load_scripts
from fyke.ledgers.sql import SqlLedger
from fyke.model import ResolvedSource
from fyke.testing.clock import FakeClock
from tests.crash.calls import Died, Fault
from tests.crash.places import Read, Stores, fill
from tests.crash.virtual import BEGAN_MS, VirtualClock, VirtualLoop, owed

T = TypeVar("T")

NAMESPACE = "crash"
PREFIX = f"{{fyke:{NAMESPACE}:0}}:"
STREAM = f"{PREFIX}s:text"
# The scripts as they are, but for the clock: `TimedConnection` tells the time with each call.
SCRIPTS = load_scripts("tonumber(ARGV[4])")
PATIENCE_S = 30.0
THIEF = "thief"
# That write, of those just before a loss.
LOST_CALLS = 4
SEQUENCES = "SELECT sequencename, coalesce(last_value, 0) FROM pg_sequences WHERE schemaname = 'public'"
BUSY = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND state <> 'idle'"
)


def altered(scripts: Mapping[str, Script], changes: Mapping[str, str], *names: str) -> dict[str, Script]:
    """The same scripts, texts in them exchanged; each of them must be there, in each of those named."""
    found = dict(scripts)
    for name in names:
        text = found[name].text
        for old, new in changes.items():
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, new)
        found[name] = Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
    return found


class TimedPostgres(PostgresDatabase):
    """The virtual clock waits for its answers."""

    async def _transact(self, call: Callable[[Any], T], asked: float, **how: bool) -> T:
        with owed():
            return await super()._transact(call, asked, **how)


class TimedConnection(Connection):
    """As above; each script runs at the virtual time, and who waits for work is woken by calls of this loop."""

    def __init__(self, pair: Pair, clock: VirtualClock) -> None:
        super().__init__(read_address(pair.redis_url))
        self._pair, self._clock = pair, clock

    async def run(self, script: Script, key: str, *arguments: bytes | str | int) -> Any:
        with owed():
            if script.name not in READING:
                self._pair.keep()
            return await super().run(script, key, *arguments, self._clock.now())

    async def ask(self, *words: bytes | str | int, key: str = "") -> Any:
        with owed():
            return await super().ask(*words, key=key)

    async def may(self, *words: bytes | str | int, key: str = "") -> bool:
        with owed():
            return await super().may(*words, key=key)

    async def first_of(self, keys: Sequence[str], seconds: float) -> None:
        ends = self._clock.monotonic() + min(seconds, BLOCK_S)
        while not any(self._pair.server.lpop(key) for key in keys):
            if not await self._pair.change(ends - self._clock.monotonic()):
                return

    async def close(self) -> None:
        with owed():
            await super().close()


class Beside:
    """The database asked from a thread with a loop of its own, so that a scene can be asked about at any moment."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.database = PostgresDatabase(parse_address(url), connections=2)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def close(self) -> None:
        self.do(self.database.close())
        # One more turn, in which the connections' transports end.
        self.do(asyncio.sleep(0.01))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Pair:
    """`Place`. `scripts` may be exchanged by those that take a guard away; `emptied` takes the right ones again."""

    def __init__(self, redis_url: str, database_url: str, resolved: ResolvedSource) -> None:
        self.redis_url, self.database_url = redis_url, database_url
        self.server: Any = Redis.from_url(redis_url, decode_responses=True)
        self._raw: Any = Redis.from_url(redis_url)
        self.keeps = False
        self._kept: deque[dict[str, bytes | None]] = deque(maxlen=LOST_CALLS)
        self.scripts: Mapping[str, Script] = SCRIPTS
        self._event = asyncio.Event()
        self._runner: asyncio.Runner | None = None
        self._database: TimedPostgres | None = None
        self._clock: VirtualClock | None = None
        self._beside = Beside(database_url)
        ledger = SqlLedger(self._beside.database, FakeClock(BEGAN_MS))
        self._beside.do(fill(self._beside.database, ledger, resolved))
        self._again = self._beside.do(self._beside.database.write(_remember))

    # --- A case ---

    def emptied(self) -> Pair:
        """As it was made, whatever a case before has left; what such a case still had under way has ended."""
        ends = time.monotonic() + PATIENCE_S
        while self.read(lambda connection: connection.execute(BUSY).fetchone()[0]):
            assert time.monotonic() < ends, "a transaction of an earlier case does not end"
            time.sleep(0.002)
        self._beside.do(self._beside.database.write(self._restore))
        # What was sent before this answer came has been done.
        self.server.ping()
        self.scripts = SCRIPTS
        self.server.flushall()
        self.keeps = False
        self._kept.clear()
        return self

    def _restore(self, connection: Sql) -> None:
        for (name,) in connection.execute("SELECT name FROM typed_table WHERE name <> 'notices'").fetchall():
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        for statement in self._again:
            connection.execute(statement)

    def run(self, scene: Coroutine[Any, Any, T]) -> T:
        self._event = asyncio.Event()
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        try:
            return self._runner.run(self._play(scene))
        except AssertionError:
            raise
        except BaseException:
            # What a world that was stuck has left there would be in the way of the next one.
            self._end_loop()
            raise

    async def _play(self, scene: Coroutine[Any, Any, T]) -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.pace.moment, loop.pace.working = 0.0, 0
        loop.set_exception_handler(_tell)
        if self._database is None:
            self._database = TimedPostgres(parse_address(self.database_url))
        # The ids that it has in hand were given by an earlier case.
        self._database.blocks.clear()
        try:
            return await scene
        finally:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            with owed():
                await asyncio.gather(*left, return_exceptions=True)

    async def open(self, clock: VirtualClock, random: Random, lease_ms: int) -> Stores:
        assert self._database is not None
        self._clock = clock
        frontier = self._frontier(clock, random, lease_ms)
        await frontier.bind()
        return Stores(self._database, SqlLedger(self._database, clock), frontier, frontier.close)

    def _frontier(self, clock: VirtualClock, random: Random, lease_ms: int) -> RedisFrontier:
        return RedisFrontier(
            TimedConnection(self, clock),
            namespace=NAMESPACE,
            shards=1,
            lease_ms=lease_ms,
            random=random,
            scripts=self.scripts,
            monotonic=clock.monotonic,
        )

    @staticmethod
    def key(name: str) -> str:
        return f"{PREFIX}{name}"

    def read(self, call: Read[T]) -> T:
        return self._beside.do(self._beside.database.read(call))

    # --- Waking ---

    def changed(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def change(self, seconds: float) -> bool:
        """Whether a call ended within that time."""
        if seconds <= 0:
            return False
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        return True

    # --- Damage ---

    def expect(self, faults: Collection[Fault]) -> None:
        self.keeps = self.keeps or Fault.GONE_BACK in faults

    async def damage(self, fault: Fault) -> None:
        if fault is Fault.WIPED:
            self.server.flushall()
        elif fault is Fault.STREAM_DELETED:
            self.server.delete(STREAM)
        elif fault is Fault.GONE_BACK:
            self._go_back()
        elif fault is Fault.STREAM_TRIMMED:
            self.server.xtrim(STREAM, maxlen=0, approximate=False)
        else:
            await self._steal()

    def keep(self) -> None:
        """Remember what is in the server now, where a fault will ask for it."""
        if self.keeps:
            names = self.server.keys()
            self._kept.append({name: self._raw.dump(name) for name in names})

    def _go_back(self) -> None:
        """As after a fail-over to a replica that lagged: the last calls that wrote were not there."""
        before = self._kept[0] if self._kept else {}
        both = self._raw.pipeline(transaction=True)
        both.flushall()
        for name, dumped in before.items():
            if dumped is not None:
                both.restore(name, 0, dumped)
        both.execute()

    async def _steal(self) -> None:
        """All leases end at once, and another worker has the tasks; it dies with them."""
        assert self._clock is not None
        frontier = self._frontier(self._clock, Random(0), 1_000)
        try:
            await frontier.bind()
            ends = f"{PREFIX}ends"
            for key in self.server.zrange(ends, 0, -1):
                self.server.zadd(ends, {key: self._clock.now() - 1}, xx=True)
            await frontier.reap()
            await frontier.lease(64, 9_000, worker=THIEF)
        finally:
            await frontier.close()

    # --- The end ---

    def close(self) -> None:
        self._end_loop()
        self._beside.close()
        self.server.close()
        self._raw.close()

    def _end_loop(self) -> None:
        runner, self._runner = self._runner, None
        database, self._database = self._database, None
        if runner is None:
            return
        with contextlib.suppress(Exception):
            if database is not None:
                runner.run(_closed(database))
            runner.close()


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """That a task of a process that died has died with it is no news."""
    if not isinstance(context.get("exception"), Died):
        loop.default_exception_handler(context)


async def _closed(database: PostgresDatabase) -> None:
    await database.close()
    await asyncio.sleep(0.01)


def _remember(connection: Sql) -> list[str]:
    """Keep the rows that are there beside them; the statements that bring all tables and ids back to this."""
    again: list[str] = []
    tables = [*(name for name in METADATA.tables if name != "meta"), "meta", "notices", "effect_log"]
    for name in tables:
        table = f'"{name}"'
        again.append(f"DELETE FROM {table}")
        if connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
            connection.execute(f'CREATE TABLE "kept_{name}" AS TABLE {table}')
            again.append(f'INSERT INTO {table} SELECT * FROM "kept_{name}"')
    for name, last in connection.execute(SEQUENCES).fetchall():
        again.append(f"SELECT setval('\"{name}\"', {max(last, 1)}, {'true' if last else 'false'})")
    return again
