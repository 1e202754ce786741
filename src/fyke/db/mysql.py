"""MariaDB and MySQL through asyncmy, by prepared statements alone: values never become SQL text.

Many rows go in one round trip where the server can (MariaDB), else as rows of one INSERT. There are no notifications:
whoever waits looks once a second.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from fyke.db.address import Address
from fyke.db.batches import repeated_row, without
from fyke.db.connection import Dialect, RepeatTransaction, Rows, Values
from fyke.db.dialect import Text, for_mysql
from fyke.db.errors import is_busy, is_lost
from fyke.db.numbers import for_mariadb
from fyke.db.upgrading import upgrade_server
from fyke.errors import UsageError

try:
    import asyncmy

    from fyke.db.bridge import ask
    from fyke.db.mysql_session import Session, bindable, bound, in_powers, rows_of, size_of, timed
    from fyke.db.server import COMMAND_S, CONNECT_S, CONNECTIONS, IDLE_S, LOCK_S, READ_S, ServerDatabase
except ImportError as error:
    raise UsageError(f"MariaDB and MySQL need {error.name}", hint="pip install 'fyke[mysql]'") from error

BLOCK = 256
VALUES_AT_ONCE = 16_000
BULK_BYTES = 8_000_000
SQL_MODE = (
    "STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,"
    "NO_ENGINE_SUBSTITUTION"
)
SESSION = (
    f"SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00', innodb_lock_wait_timeout = {LOCK_S},"
    f" lock_wait_timeout = {LOCK_S}, wait_timeout = 600"
)
MARIADB = f"SET SESSION max_statement_time = {READ_S}, in_predicate_conversion_threshold = 0"
# Its limit for transactions that write would leave out one that has only locked rows so far.
STANDS_STILL = f"SET SESSION idle_transaction_timeout = {IDLE_S}"
COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# The same, and a limit of a read, which locks nothing, in one round trip.
MARIADB_SNAPSHOT = (
    f"SET @@tx_isolation = 'REPEATABLE-READ', @@tx_read_only = 1, @@session.idle_transaction_timeout = {READ_S:.0f}"
)
NOW = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)"
FACTS = "SELECT VERSION(), @@max_allowed_packet"
NUMBERED = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = ? AND column_key = 'PRI'
"""


class MysqlConnection:
    """`db.connection.Connection`: lives as long as its transaction."""

    dialect: Dialect = "mysql"
    waited = 0.0
    notified = False

    def __init__(self, database: MysqlDatabase, session: Session, seconds: float) -> None:
        self._database, self._session, self._seconds, self._depth = database, session, seconds, 0

    def execute(self, sql: str, values: Values = (), /) -> Rows:
        found = self._run(*bound(self._database.text(sql), values))
        return Rows(rows_of(found))

    def _run(self, sql: str, values: Sequence[Any]) -> Any:
        values = [bindable(value) for value in values]
        self._check_size(values)
        return ask(self._session.run(sql, values, self._seconds))

    def _check_size(self, values: Sequence[Any]) -> None:
        size = size_of(values)
        if size > self._session.packet:
            raise ValueError(f"a row of {size} bytes is more than the server takes at once (max_allowed_packet)")

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        found = [[bindable(value) for value in row] for row in rows]
        if not found:
            return
        text = self._database.text(sql)
        if not text.plain:
            raise ValueError(f"many rows take plain `?` only: {sql}")
        for place in text.numbers:
            for row in found:
                row[place] = for_mariadb(row[place])
        if len({len(row) for row in found}) > 1:
            raise ValueError(f"rows of different lengths: {sql}")
        if len(found) == 1:
            self._run(text.sql, found[0])
            return
        kinds = [{type(row[place]) for row in found if row[place] is not None} for place in range(len(found[0]))]
        for place, kind in enumerate(kinds):
            if len(kind) > 1 and kind <= {int, str}:
                for row in found:
                    row[place] = None if row[place] is None else str(row[place])
        for part in self._parts(found):
            self._write_part(text, part)

    def together(self, parts: Iterable[tuple[str, Sequence[Sequence[Any]]]], /) -> None:
        for sql, rows in parts:
            self.executemany(sql, rows)

    def _parts(self, rows: list[list[Any]]) -> Iterator[list[list[Any]]]:
        """As many rows at once as the server takes."""
        limit = min(self._session.packet, BULK_BYTES)
        part: list[list[Any]] = []
        size = 0
        for row in rows:
            more = size_of(row)
            if part and size + more > limit:
                yield part
                part, size = [], 0
            if more > limit:
                self._check_size(row)
            part.append(row)
            size += more
        yield part

    def _write_part(self, text: Text, rows: list[list[Any]]) -> None:
        # A column that is NULL in all rows has no kind that a server could be told.
        empty = [place for place in range(len(rows[0])) if all(row[place] is None for row in rows)]
        final = text.sql
        if empty:
            final = self._database.without(text.sql, tuple(empty))
            rows = [[value for place, value in enumerate(row) if place not in empty] for row in rows]
        if self._session.mariadb and rows[0]:
            ask(self._session.run_many(final, rows, self._seconds))
            return
        for part, count in in_powers(rows, VALUES_AT_ONCE // max(1, len(rows[0]))):
            many = self._database.repeated(final, count)
            if many is None:
                for row in part:
                    ask(self._session.run(final, row, self._seconds))
            else:
                ask(self._session.run(many, [value for row in part for value in row], self._seconds))

    def insert(self, sql: str, values: Values = (), /) -> int:
        return int(self._run(*bound(self._database.text(sql), values)).insert_id)

    def new_ids(self, table: str, count: int, /) -> list[int]:
        block = self._database.blocks.setdefault(table, [])
        while len(block) < count:
            block += ask(self._database.take_block(table, max(count - len(block), BLOCK)))
        found, block[:count] = sorted(block[:count]), []
        return found

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._depth += 1
        name = f"part{self._depth}"
        self.execute(f"SAVEPOINT {name}")
        try:
            yield
        except Exception as error:
            # A deadlock has rolled everything back.
            if not is_lost(error) and not is_busy(error):
                self.execute(f"ROLLBACK TO SAVEPOINT {name}")
            raise
        finally:
            self._depth -= 1
        self.execute(f"RELEASE SAVEPOINT {name}")

    def repeat(self, why: str) -> NoReturn:
        raise RepeatTransaction(why)

    def notify(self) -> None:
        """Wakes this process only."""
        self.notified = True

    def reads_much(self) -> None:
        """A plan is made for each statement anew."""


class MysqlDatabase(ServerDatabase):
    """Use from one event loop; close it at the end."""

    dialect: Dialect = "mysql"

    def __init__(self, address: Address, *, connections: int = CONNECTIONS) -> None:
        super().__init__(address, connections=connections)
        self._texts: dict[str, Text] = {}
        self._without: dict[tuple[str, tuple[int, ...]], str] = {}
        self._many_rows: dict[tuple[str, int], str | None] = {}
        self._numbering = asyncio.Lock()
        self._numberer: Session | None = None

    def text(self, sql: str) -> Text:
        found = self._texts.get(sql)
        if found is None:
            found = self._texts[sql] = for_mysql(sql)
        return found

    def without(self, text: str, places: tuple[int, ...]) -> str:
        """The text with NULL in these places."""
        found = self._without.get((text, places))
        if found is None:
            found = self._without[text, places] = without(text, places)
        return found

    def repeated(self, text: str, count: int) -> str | None:
        """An INSERT of that many rows; None for another kind of statement."""
        if (text, count) not in self._many_rows:
            self._many_rows[text, count] = repeated_row(text, count)
        return self._many_rows[text, count]

    async def take_block(self, table: str, count: int) -> list[int]:
        """Ids from the counter, in a transaction of its own on a connection of its own."""
        async with self._numbering:
            try:
                if self._numberer is None or not self._is_open(self._numberer):
                    self._numberer = await self._connect()
                return await self._count_up(self._numberer, table, count)
            except BaseException:
                if self._numberer is not None:
                    self._terminate(self._numberer)
                    self._numberer = None
                raise

    async def _count_up(self, session: Session, table: str, count: int) -> list[int]:
        found = await session.run("SELECT next FROM id_block WHERE name = ? FOR UPDATE", (table,), COMMAND_S)
        if found.rows:
            first = found.rows[0][0]
            await session.run("UPDATE id_block SET next = ? WHERE name = ?", (first + count, table), COMMAND_S)
        else:
            (column,) = (await session.run(NUMBERED, (table,), COMMAND_S)).rows[0]
            highest = await session.run(f"SELECT max(`{column}`) FROM `{table}`", (), COMMAND_S)
            first = (highest.rows[0][0] or 0) + 1
            # Whoever comes second is refused by the key, and begins again.
            await session.run("INSERT INTO id_block(name, next) VALUES (?, ?)", (table, first + count), COMMAND_S)
        await timed(session.raw.commit(), COMMAND_S)
        return list(range(first, first + count))

    def _arguments(self) -> dict[str, Any]:
        address = self.address
        secure = address.options.get("ssl") or address.options.get("sslmode")
        return {
            "host": address.host,
            "port": address.port,
            "user": address.user or None,
            # The driver would write it as latin1.
            "password": address.password.encode(),
            "database": address.database,
            "charset": "utf8mb4",
            "ssl": ssl.create_default_context() if secure in ("1", "true", "require", "verify-full") else None,
            "connect_timeout": CONNECT_S,
        }

    async def upgrade(self) -> None:
        """Bring the core tables to this release; see `db.migrate`."""
        await upgrade_server(self.address, self.dialect, self._arguments())

    async def _connect(self) -> Session:
        raw = await timed(asyncmy.connect(**self._arguments(), autocommit=False), CONNECT_S)
        session = Session(raw)
        try:
            version, session.packet = (await session.run(FACTS, (), CONNECT_S)).rows[0]
            session.mariadb = "mariadb" in version.lower()
            names = "utf8mb4_nopad_bin" if session.mariadb else "utf8mb4_0900_bin"
            for statement in (f"SET NAMES utf8mb4 COLLATE {names}", SESSION, COMMITTED):
                await session.say(statement, CONNECT_S)
            if session.mariadb:
                await session.say(MARIADB, CONNECT_S)
                await session.say(STANDS_STILL, CONNECT_S)
            await timed(raw.rollback(), CONNECT_S)
        except BaseException:
            raw.close()
            raise
        return session

    def _terminate(self, raw: Session) -> None:
        raw.raw.close()

    def _is_open(self, raw: Session) -> bool:
        return bool(raw.raw.connected) and not raw.raw._stream_broken

    def _connection(self, raw: Session, *, read: bool) -> MysqlConnection:
        return MysqlConnection(self, raw, READ_S if read else COMMAND_S)

    async def _begin(self, raw: Session, *, read: bool, durable: bool) -> None:
        # A transaction begins by itself with its first statement.
        if read:
            await raw.say(MARIADB_SNAPSHOT if raw.mariadb else SNAPSHOT, COMMAND_S)
            raw.patient = raw.mariadb
        elif raw.patient:
            await raw.say(STANDS_STILL, COMMAND_S)
            raw.patient = False

    async def _commit(self, raw: Session, *, notify: bool) -> None:
        await timed(raw.raw.commit(), COMMAND_S)

    async def _rollback(self, raw: Session) -> None:
        await timed(raw.raw.rollback(), COMMAND_S)

    async def _server_ms(self, raw: Session) -> int:
        found = await raw.run(NOW, (), COMMAND_S)
        return int(found.rows[0][0])

    async def close(self) -> None:
        await super().close()
        if self._numberer is not None:
            self._terminate(self._numberer)
