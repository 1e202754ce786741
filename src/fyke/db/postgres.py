"""PostgreSQL through asyncpg: statements prepared once, many rows as arrays, LISTEN and NOTIFY for waiting."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NoReturn

from msgspec import Struct

from fyke.db.address import Address
from fyke.db.arrays import columns_of, exact, exact_rows, in_waves
from fyke.db.batches import batch_for_postgres, copied_columns, together
from fyke.db.connection import Dialect, RepeatTransaction, Rows, Values
from fyke.db.dialect import LIST, Text, for_postgres
from fyke.db.errors import is_lost
from fyke.db.numbers import plain_number
from fyke.db.upgrading import upgrade_server
from fyke.errors import UsageError

try:
    import asyncpg

    from fyke.db.bridge import ask
    from fyke.db.server import (
        COMMAND_S,
        CONNECT_S,
        CONNECTIONS,
        IDLE_S,
        LOCK_S,
        LOOK_S,
        READ_S,
        SERVER_S,
        ServerDatabase,
    )
except ImportError as error:
    raise UsageError(f"PostgreSQL needs {error.name}", hint="pip install 'fyke[postgres]'") from error

CHANNEL = "fyke"
STATEMENTS = 1_024
ROWS_AT_ONCE = 5_000
COPIED_FROM = 64  # rows: COPY takes two round trips
BLOCK = 512
SESSION = f"""
SET timezone = 'UTC'; SET statement_timeout = '{SERVER_S}s'; SET lock_timeout = '{LOCK_S}s';
SET idle_in_transaction_session_timeout = '{IDLE_S}s'; SET default_transaction_isolation = 'read committed';
SET jit = off; SET tcp_user_timeout = '{IDLE_S}s'; SET enable_seqscan = off
"""
# The last: a plan is made once, perhaps while a table is as good as empty, and kept while a million rows come: not one
# that reads all of it.
BEGIN = "BEGIN"
BEGIN_LOOSE = f"{BEGIN}; SET LOCAL synchronous_commit = off"
BEGIN_READ = (
    f"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL statement_timeout = '{READ_S:.0f}s';"
    " SET LOCAL idle_in_transaction_session_timeout = 0"
)
READS_MUCH = "SET LOCAL enable_seqscan = on"
NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
SEQUENCE = """
SELECT pg_get_serial_sequence(quote_ident($1), attname) FROM pg_attribute
WHERE attrelid = quote_ident($1)::regclass AND attnum > 0 AND NOT attisdropped
  AND pg_get_serial_sequence(quote_ident($1), attname) IS NOT NULL
"""
# Our numbers are 64 bits wide, but beside a literal PostgreSQL takes a parameter for 32 bits.
WIDENED = {"int2": "int8", "int4": "int8", "int2[]": "int8[]", "int4[]": "int8[]"}
_PARAMETER = re.compile(r"'(?:[^']|'')*'|\$(\d+)")


class Statement(Struct, frozen=True):
    """A text that PostgreSQL has seen once: parameters typed, numeric columns known."""

    sql: str
    text: Text
    types: tuple[str, ...]
    exact: bool  # some of its parameters are numeric or boolean
    numerics: bool  # some of its columns are numeric


class Many(Struct, frozen=True):
    """A statement for many rows at once. `copied`: table and columns, where COPY does the same."""

    sql: str
    types: tuple[str, ...]
    unique: tuple[int, ...]
    copied: tuple[str, tuple[str, ...]] | None


class PostgresConnection:
    """`db.connection.Connection`: lives as long as its transaction."""

    dialect: Dialect = "postgres"
    waited = 0.0
    notified = False

    def __init__(self, database: PostgresDatabase, raw: Any, timeout: float) -> None:
        self._database, self._raw, self._timeout, self._depth = database, raw, timeout, 0

    def execute(self, sql: str, values: Values = (), /) -> Rows:
        statement = self._database.known.get(sql) or self._learn(sql)
        return Rows(self._fetch(statement, _bound(statement, values)))

    def _fetch(self, statement: Statement, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        found = ask(self._raw.fetch(statement.sql, *values, timeout=self._timeout))
        rows = [tuple(row) for row in found]
        if not statement.numerics:
            return rows
        return [tuple(plain_number(value) if isinstance(value, Decimal) else value for value in row) for row in rows]

    def _learn(self, sql: str, text: Text | None = None) -> Statement:
        text = text or for_postgres(sql)
        prepared = ask(self._raw.prepare(text.sql))
        types = [parameter.name for parameter in prepared.get_parameters()]
        wide = {str(n + 1): WIDENED[name] for n, name in enumerate(types) if name in WIDENED}

        def widen(found: re.Match[str]) -> str:
            return f"{found[0]}::{wide[found[1]]}" if found[1] in wide else found[0]

        numerics = any(column.type.name == "numeric" for column in prepared.get_attributes())
        exact = not {"numeric", "bool"}.isdisjoint(types)
        final = _PARAMETER.sub(widen, text.sql) if wide else text.sql
        statement = Statement(final, text, tuple(WIDENED.get(name, name) for name in types), exact, numerics)
        self._database.known[sql] = statement
        return statement

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        found = rows if isinstance(rows, list) else list(rows)
        if len(found) < 2:
            for row in found:
                self.execute(sql, row)
            return
        many = self._database.batches.get(sql) or self._learn_many(sql)
        if many.copied is not None and len(found) >= COPIED_FROM:
            table, columns = many.copied
            records = exact_rows(many.types, found)
            ask(self._raw.copy_records_to_table(table, records=records, columns=columns, timeout=self._timeout))
            return
        for wave in in_waves(found, many.unique):
            for start in range(0, len(wave), ROWS_AT_ONCE):
                arrays = columns_of(many.types, wave[start : start + ROWS_AT_ONCE])
                ask(self._raw.fetch(many.sql, *arrays, timeout=self._timeout))

    def together(self, parts: Iterable[tuple[str, Sequence[Sequence[Any]]]], /) -> None:
        joined: list[tuple[str, Many]] = []
        values: list[Any] = []
        for sql, given in parts:
            rows = list(given)
            many = (self._database.batches.get(sql) or self._learn_many(sql)) if rows else None
            if many is None:
                continue
            copied = many.copied is not None and len(rows) >= COPIED_FROM
            if copied or len(rows) > ROWS_AT_ONCE or len(in_waves(rows, many.unique)) > 1:
                self.executemany(sql, rows)
            else:
                joined.append((sql, many))
                values += columns_of(many.types, rows)
        if joined:
            key = tuple(sql for sql, _ in joined)
            text = self._database.joined.get(key)
            if text is None:
                text = self._database.joined[key] = together([(many.sql, len(many.types)) for _, many in joined])
            ask(self._raw.fetch(text, *values, timeout=self._timeout))

    def _learn_many(self, sql: str) -> Many:
        batch = batch_for_postgres(sql)
        statement = self._database.known.get(sql) or self._learn(sql)
        arrays = ", ".join(
            f"${n + 1}::text::int8[]" if name == "int8" else f"${n + 1}::{name}[]"
            for n, name in enumerate(statement.types)
        )
        many = Many(batch.sql.replace(LIST, arrays), statement.types, batch.unique, copied_columns(sql))
        self._database.batches[sql] = many
        return many

    def insert(self, sql: str, values: Values = (), /) -> int:
        key = f"{sql} RETURNING id"
        statement = self._database.known.get(key)
        if statement is None:
            text = for_postgres(sql)
            statement = self._learn(key, Text(f"{text.sql} RETURNING id", text.keys, text.lists, text.plain))
        ((found,),) = self._fetch(statement, _bound(statement, values))
        return int(found)

    def new_ids(self, table: str, count: int, /) -> list[int]:
        # What a sequence has given stays given, whatever becomes of the transaction.
        block = self._database.blocks.setdefault(table, [])
        while len(block) < count:
            asked = max(count - len(block), BLOCK)
            sequence = self._sequence(table)
            block += [
                id for (id,) in self.execute(f"SELECT nextval('{sequence}') FROM generate_series(1, ?)", (asked,))
            ]
        found, block[:count] = sorted(block[:count]), []
        return found

    def _sequence(self, table: str) -> str:
        known = self._database.sequences.get(table)
        if known is None:
            rows = ask(self._raw.fetch(SEQUENCE, table))
            if not rows:
                raise ValueError(f"table {table} has no sequence")
            known = self._database.sequences[table] = rows[0][0].replace("'", "''")
        return known

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._depth += 1
        name = f"part{self._depth}"
        ask(self._raw.execute(f"SAVEPOINT {name}"))
        try:
            yield
        except Exception as error:
            if not is_lost(error) and not self._raw.is_closed():
                ask(self._raw.execute(f"ROLLBACK TO {name}; RELEASE {name}"))
            raise
        else:
            ask(self._raw.execute(f"RELEASE {name}"))
        finally:
            self._depth -= 1

    def repeat(self, why: str) -> NoReturn:
        raise RepeatTransaction(why)

    def notify(self) -> None:
        self.notified = True

    def reads_much(self) -> None:
        """What follows counts whole tables."""
        ask(self._raw.execute(READS_MUCH))


class PostgresDatabase(ServerDatabase):
    """Use from one event loop; close it at the end."""

    dialect: Dialect = "postgres"
    looks = True

    def __init__(self, address: Address, *, connections: int = CONNECTIONS) -> None:
        super().__init__(address, connections=connections)
        self.known: dict[str, Statement] = {}
        self.batches: dict[str, Many] = {}
        self.joined: dict[tuple[str, ...], str] = {}
        self.sequences: dict[str, str] = {}
        self._listener: Any = None
        self._tried = 0.0

    def _arguments(self) -> dict[str, Any]:
        address = self.address
        return {
            "host": address.host,
            "port": address.port,
            "user": address.user or None,
            "password": address.password or None,
            "database": address.database,
            "ssl": address.options.get("sslmode"),
            "timeout": CONNECT_S,
            "server_settings": {"application_name": "fyke"},
        }

    async def upgrade(self) -> None:
        """Bring the core tables to this release; see `db.migrate`."""
        await upgrade_server(self.address, self.dialect, self._arguments())

    async def _connect(self) -> Any:
        address = self.address
        raw = await asyncpg.connect(
            **self._arguments(),
            command_timeout=COMMAND_S,
            statement_cache_size=STATEMENTS,
            max_cached_statement_lifetime=0,
        )
        try:
            await raw.execute(SESSION)
            encoding = raw.get_settings().server_encoding
        except BaseException:
            raw.terminate()
            raise
        if encoding != "UTF8":
            raw.terminate()
            raise UsageError(
                f"{address} keeps text as {encoding}, which has no place for most of what sites say",
                hint="make a database with ENCODING 'UTF8' and name that one",
            )
        return raw

    def _terminate(self, raw: Any) -> None:
        raw.terminate()

    def _is_open(self, raw: Any) -> bool:
        return not raw.is_closed()

    def _connection(self, raw: Any, *, read: bool) -> PostgresConnection:
        return PostgresConnection(self, raw, READ_S if read else COMMAND_S)

    async def _begin(self, raw: Any, *, read: bool, durable: bool) -> None:
        await raw.execute(BEGIN_READ if read else BEGIN if durable else BEGIN_LOOSE)

    async def _commit(self, raw: Any, *, notify: bool) -> None:
        if await raw.execute(f"NOTIFY {CHANNEL}; COMMIT" if notify else "COMMIT") != "COMMIT":
            raise RuntimeError("a call has gone on after a refused statement: PostgreSQL takes back all that it did")

    async def _rollback(self, raw: Any) -> None:
        await raw.execute("ROLLBACK")

    async def _server_ms(self, raw: Any) -> int:
        return int(await raw.fetchval(NOW))

    async def _listening(self) -> bool:
        if self._listener is not None and not self._listener.is_closed():
            return True
        if time.monotonic() - self._tried < LOOK_S:
            return False
        self._tried = time.monotonic()
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self._listener = await self._connect()
            await self._listener.add_listener(CHANNEL, lambda *_: self.changed())
            self._listener.add_termination_listener(lambda _: self._changed.set())
            # What came before was not heard.
            self.changed()
            return True
        return False

    async def close(self) -> None:
        await super().close()
        if self._listener is not None:
            self._listener.terminate()


def _bound(statement: Statement, values: Values) -> Sequence[Any]:
    text = statement.text
    asked: Any = values
    found: Sequence[Any] = asked if text.plain else [asked[key] for key in text.keys]
    if text.lists:
        found = [value.values if place in text.lists else value for place, value in enumerate(found)]
    if statement.exact:
        found = [exact(statement.types[place], value) for place, value in enumerate(found)]
    return found
