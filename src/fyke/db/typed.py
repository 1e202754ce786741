"""Typed tables: one per `store.table`, what users query. Made and widened from one registry row, not by alembic.

Names are checked before they reach SQL, and quoted in it. Numbers keep every digit: a value is bound as a number only
where that is exact, else as its text. A table is made or widened first and registered after, in one transaction;
MariaDB commits in between, so what is found there without being registered is taken up again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from fyke.db.connection import Connection, Dialect
from fyke.db.names import CORE_NAMES, SERVER_TABLES
from fyke.db.numbers import WHOLE_LIMIT, plain_number
from fyke.errors import UsageError
from fyke.model import Column, ColumnType, Fields

NAME = re.compile(r"[a-z_][a-z0-9_]*")
NAME_BYTES = 63
OWN_COLUMNS = ("_item_id", "_scope", "_key", "_url", "_version", "_first_at", "_updated_at")
OWN_TYPES: Mapping[Dialect, tuple[str, ...]] = {
    "sqlite": ("INTEGER PRIMARY KEY", *["TEXT NOT NULL"] * 3, *["INTEGER NOT NULL"] * 3),
    "postgres": ("BIGINT PRIMARY KEY", *["TEXT NOT NULL"] * 3, *["BIGINT NOT NULL"] * 3),
    "mysql": (
        *("BIGINT PRIMARY KEY", "VARCHAR(255) NOT NULL", "VARCHAR(255) NOT NULL", "LONGTEXT NOT NULL"),
        *["BIGINT NOT NULL"] * 3,
    ),
}
SQL_TYPES: Mapping[Dialect, Mapping[ColumnType, str]] = {
    "sqlite": {
        ColumnType.TEXT: "TEXT",
        ColumnType.INTEGER: "INTEGER",
        ColumnType.NUMBER: "ANY",
        ColumnType.DATETIME: "TEXT",
        ColumnType.BOOLEAN: "INTEGER",
        ColumnType.JSON: "TEXT",
    },
    "postgres": {
        ColumnType.TEXT: "TEXT",
        ColumnType.INTEGER: "BIGINT",
        ColumnType.NUMBER: "NUMERIC",
        ColumnType.DATETIME: "TEXT",
        ColumnType.BOOLEAN: "BOOLEAN",
        ColumnType.JSON: "TEXT",
    },
    "mysql": {
        ColumnType.TEXT: "LONGTEXT",
        ColumnType.INTEGER: "BIGINT",
        ColumnType.NUMBER: "DECIMAL(65, 30)",
        ColumnType.DATETIME: "VARCHAR(255)",
        ColumnType.BOOLEAN: "BOOLEAN",
        ColumnType.JSON: "LONGTEXT",
    },
}
# Whether anything has this name: a table or, elsewhere than in MariaDB, an index.
TAKEN: Mapping[Dialect, str] = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE name = ?",
    "postgres": "SELECT 1 WHERE to_regclass(quote_ident(?)) IS NOT NULL",
    "mysql": "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
}
THERE = """
SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?
ORDER BY ordinal_position
"""
LOCK_POSTGRES = "SELECT pg_advisory_xact_lock(hashtextextended('fyke:tables', 0))"
LOCK_MYSQL = "SELECT GET_LOCK(left(concat('fyke:', DATABASE()), 64), 8)"
UNLOCK_MYSQL = "SELECT RELEASE_LOCK(left(concat('fyke:', DATABASE()), 64))"
TABLES_REMEMBERED = 256


class TypedTable(Struct, frozen=True):
    """One registry row: the table's columns in their order, and its statements."""

    name: str
    columns: tuple[tuple[str, ColumnType], ...]

    @property
    def upsert(self) -> str:
        """Binds OWN_COLUMNS, then the columns. The first writing's `_first_at` stays."""
        return _upsert(self)

    @property
    def insert(self) -> str:
        """As `upsert`, for rows that are not there."""
        return _insert(self)

    @property
    def select(self) -> str:
        """Reads OWN_COLUMNS, then the columns; the caller adds its WHERE."""
        names = [*OWN_COLUMNS, *(name for name, _ in self.columns)]
        return f"SELECT {', '.join(map(quoted, names))} FROM {quoted(self.name)}"

    def bind(self, record: Fields) -> list[Any]:
        """The record's values as the database keeps them, in order of the columns; None where it has none.

        Raises:
            ValueError: a value is not of its column's type; names column and value.
        """
        found = []
        for name, kind in self.columns:
            value = record.get(name)
            # Nearly all are text, or not there.
            plain = value is None or (kind is ColumnType.TEXT and type(value) is str)
            found.append(value if plain else bind(name, kind, value))
        return found


@lru_cache(maxsize=TABLES_REMEMBERED)
def _insert(table: TypedTable) -> str:
    names = [*OWN_COLUMNS, *(name for name, _ in table.columns)]
    marks = ["?"] * len(OWN_COLUMNS) + ["number(?)" if kind is ColumnType.NUMBER else "?" for _, kind in table.columns]
    return f"INSERT INTO {quoted(table.name)}({', '.join(map(quoted, names))}) VALUES ({', '.join(marks)})"


@lru_cache(maxsize=TABLES_REMEMBERED)
def _upsert(table: TypedTable) -> str:
    names = [*OWN_COLUMNS, *(name for name, _ in table.columns)]
    changed = [name for name in names if name not in ("_item_id", "_first_at")]
    return (
        f"{_insert(table)}"
        f" ON CONFLICT(_item_id) DO UPDATE SET {', '.join(f'{quoted(n)} = excluded.{quoted(n)}' for n in changed)}"
    )


def quoted(name: str) -> str:
    """An identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def bind(name: str, kind: ColumnType, value: Any) -> Any:
    """One value as the database gives it back. Also what a stored value is compared with.

    Raises:
        ValueError: the value is not of the column's type.
    """
    if value is None or (kind is ColumnType.TEXT and type(value) is str):
        return value
    found = _BINDERS[kind](value)
    if found is None:
        raise ValueError(f"column '{name}': {_short(value)} is no {kind.value} that a database can hold")
    return found


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else None


def _integer(value: Any) -> int | None:
    try:
        found = (
            int(value) if isinstance(value, int | str) or (isinstance(value, float) and value == int(value)) else None
        )
    except (ValueError, OverflowError):
        return None
    return found if found is not None and -WHOLE_LIMIT <= found < WHOLE_LIMIT else None


def _number(value: Any) -> int | float | str | None:
    if type(value) is int and -WHOLE_LIMIT <= value < WHOLE_LIMIT:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        exact = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return None
    return plain_number(exact)


def _boolean(value: Any) -> int | None:
    return int(value) if value in (0, 1) and isinstance(value, int) else None


def _datetime(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_BINDERS: Mapping[ColumnType, Callable[[Any], Any]] = {
    ColumnType.TEXT: _text,
    ColumnType.INTEGER: _integer,
    ColumnType.NUMBER: _number,
    ColumnType.DATETIME: _datetime,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.JSON: _json,
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_table(connection: Connection, name: str) -> TypedTable | None:
    """The table as the registry has it."""
    row = connection.execute("SELECT columns FROM typed_table WHERE name = ?", (name,)).fetchone()
    return decode_table(name, row[0]) if row else None


@lru_cache(maxsize=TABLES_REMEMBERED)
def decode_table(name: str, columns: str) -> TypedTable:
    return TypedTable(name, msgspec.json.decode(columns, type=tuple[tuple[str, ColumnType], ...]))


def ensure_table(connection: Connection, name: str, columns: Sequence[Column], now: int) -> bool:
    """Make the typed table, or add what it lacks; True if anything was changed. Call inside a write transaction, before
    it writes and locks anything: on MariaDB a change commits what came before.

    Raises:
        UsageError: a name that no table or column may have; a column that would change its type.
    """
    check_names(name, columns)
    wanted = tuple((column.name, column.type) for column in columns)
    known = read_table(connection, name)
    if known is not None and not _missing(known, wanted):
        return False
    with _alone(connection):
        # Another scheduler may have come first; where its registering is not committed yet, this waits for it.
        row = connection.execute("SELECT columns FROM typed_table WHERE name = ? FOR UPDATE", (name,)).fetchone()
        known = decode_table(name, row[0]) if row else None
        if known is None:
            _make(connection, name, wanted)
            statement = "INSERT INTO typed_table(name, columns, made_at, changed_at) VALUES (?, ?, ?, ?)"
            connection.execute(statement, (name, _json(wanted), now, now))
            return True
        missing = _missing(known, wanted)
        if missing:
            _widen(connection, name, missing)
            values = (_json((*known.columns, *missing)), now, name)
            connection.execute("UPDATE typed_table SET columns = ?, changed_at = ? WHERE name = ?", values)
        return bool(missing)


def _missing(known: TypedTable, wanted: Sequence[tuple[str, ColumnType]]) -> list[tuple[str, ColumnType]]:
    types = dict(known.columns)
    for column, kind in wanted:
        if types.get(column, kind) is not kind:
            found = types[column].value
            raise UsageError(
                f"table '{known.name}' has column '{column}' as {found}, and the source wants {kind.value}",
                field=f"fields.{column}",
                hint=f"store into another table (`store.table`), or give the field another name than '{column}'",
            )
    return [(column, kind) for column, kind in wanted if column not in types]


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """One process at a time makes tables; SQLite has one writer anyway."""
    if connection.dialect == "postgres":
        connection.execute(LOCK_POSTGRES)
    if connection.dialect != "mysql":
        yield
        return
    if connection.execute(LOCK_MYSQL).fetchone() != (1,):
        connection.repeat("another process makes tables")
    try:
        yield
    finally:
        connection.execute(UNLOCK_MYSQL)


def _make(connection: Connection, name: str, columns: Sequence[tuple[str, ColumnType]]) -> None:
    dialect = connection.dialect
    if connection.execute(TAKEN[dialect], (name,)).fetchone():
        if dialect != "mysql" or not set(OWN_COLUMNS) <= set(_there(connection, name)):
            raise _taken(name, "in this database already, and not a source's table")
        _widen(connection, name, columns)
        return
    body = ", ".join(f"{quoted(n)} {t}" for n, t in zip(OWN_COLUMNS, OWN_TYPES[dialect], strict=True))
    body += "".join(f", {quoted(n)} {SQL_TYPES[dialect][t]}" for n, t in columns)
    options = " STRICT" if dialect == "sqlite" else ""
    if dialect == "mysql":
        # What compares byte for byte was set for the connection.
        (collation,) = connection.execute("SELECT @@collation_connection").fetchone()
        options = f" ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = {collation}"
    connection.execute(f"CREATE TABLE {quoted(name)}({body}){options}")


def _widen(connection: Connection, name: str, columns: Sequence[tuple[str, ColumnType]]) -> None:
    there = _there(connection, name) if connection.dialect == "mysql" else []
    for column, kind in columns:
        if column not in there:
            definition = f"{quoted(column)} {SQL_TYPES[connection.dialect][kind]}"
            connection.execute(f"ALTER TABLE {quoted(name)} ADD COLUMN {definition}")


def _there(connection: Connection, name: str) -> list[str]:
    return [column for (column,) in connection.execute(THERE, (name,))]


def _taken(name: str, why: str) -> UsageError:
    return UsageError(f"'{name}' is {why}", field="store.table", hint=f"choose another name, e.g. '{name}_items'")


def check_names(name: str, columns: Sequence[Column]) -> None:
    """Refuse what SQL, users or we would stumble over.

    Raises:
        UsageError: names the field and the rule.
    """
    rule = f"small letters, digits and _, no digit first, at most {NAME_BYTES} bytes"
    if not NAME.fullmatch(name) or len(name) > NAME_BYTES or name.startswith("sqlite_"):
        raise UsageError(f"'{name}' cannot be the name of a table", field="store.table", hint=rule)
    if name in CORE_NAMES | SERVER_TABLES:
        raise _taken(name, "a table of Fyke itself")
    found: set[str] = set()
    for column in columns:
        where = f"fields.{column.name}"
        if column.name.startswith("_"):
            raise UsageError(f"field '{column.name}' begins with _", field=where, hint="_ is for columns of Fyke")
        if not NAME.fullmatch(column.name) or len(column.name) > NAME_BYTES:
            raise UsageError(f"'{column.name}' cannot be the name of a column", field=where, hint=rule)
        if column.name in found:
            raise UsageError(f"field '{column.name}' is there twice", field=where, hint="give one of them another name")
        found.add(column.name)
