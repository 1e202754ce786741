"""Typed tables: one per `store.table`, what users query. Made and widened from one registry row, not by alembic.

Names are checked before they reach SQL, and quoted in it. Numbers keep every digit: a value is bound as a number only
where that is exact, else as its text.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from fyke.db.names import CORE_NAMES
from fyke.db.numbers import WHOLE_LIMIT, plain_number
from fyke.errors import UsageError
from fyke.model import Column, ColumnType, Fields

NAME = re.compile(r"[a-z_][a-z0-9_]*")
NAME_BYTES = 63
OWN_COLUMNS = ("_item_id", "_scope", "_key", "_url", "_version", "_first_at", "_updated_at")
OWN_TYPES = ("INTEGER PRIMARY KEY", *["TEXT NOT NULL"] * 3, *["INTEGER NOT NULL"] * 3)
SQL_TYPES: Mapping[ColumnType, str] = {
    ColumnType.TEXT: "TEXT",
    ColumnType.INTEGER: "INTEGER",
    ColumnType.NUMBER: "ANY",
    ColumnType.DATETIME: "TEXT",
    ColumnType.BOOLEAN: "INTEGER",
    ColumnType.JSON: "TEXT",
}
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
    def select(self) -> str:
        """Reads OWN_COLUMNS, then the columns; the caller adds its WHERE."""
        names = [*OWN_COLUMNS, *(name for name, _ in self.columns)]
        return f"SELECT {', '.join(map(quoted, names))} FROM {quoted(self.name)}"

    def bind(self, record: Fields) -> list[Any]:
        """The record's values as the database keeps them, in order of the columns; None where it has none.

        Raises:
            ValueError: a value is not of its column's type; names column and value.
        """
        return [bind(name, kind, record.get(name)) for name, kind in self.columns]


@lru_cache(maxsize=TABLES_REMEMBERED)
def _upsert(table: TypedTable) -> str:
    names = [*OWN_COLUMNS, *(name for name, _ in table.columns)]
    changed = [name for name in names if name not in ("_item_id", "_first_at")]
    return (
        f"INSERT INTO {quoted(table.name)}({', '.join(map(quoted, names))}) VALUES ({', '.join('?' * len(names))})"
        f" ON CONFLICT(_item_id) DO UPDATE SET {', '.join(f'{quoted(n)} = excluded.{quoted(n)}' for n in changed)}"
    )


def quoted(name: str) -> str:
    """An identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def bind(name: str, kind: ColumnType, value: Any) -> Any:
    """One value as SQLite keeps it. Also what a stored value is compared with.

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


def read_table(connection: sqlite3.Connection, name: str) -> TypedTable | None:
    """The table as the registry has it."""
    row = connection.execute("SELECT columns FROM typed_table WHERE name = ?", (name,)).fetchone()
    return decode_table(name, row[0]) if row else None


@lru_cache(maxsize=TABLES_REMEMBERED)
def decode_table(name: str, columns: str) -> TypedTable:
    return TypedTable(name, msgspec.json.decode(columns, type=tuple[tuple[str, ColumnType], ...]))


def ensure_table(connection: sqlite3.Connection, name: str, columns: Sequence[Column], now: int) -> bool:
    """Make the typed table, or add what it lacks; True if anything was changed. Call inside a write transaction.

    Raises:
        UsageError: a name that no table or column may have; a column that would change its type.
    """
    check_names(name, columns)
    wanted = tuple((column.name, column.type) for column in columns)
    known = read_table(connection, name)
    if known is None:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone():
            raise _taken(name, "in this database already, and not a source's table")
        body = ", ".join(f"{quoted(n)} {t}" for n, t in zip(OWN_COLUMNS, OWN_TYPES, strict=True))
        body += "".join(f", {quoted(n)} {SQL_TYPES[t]}" for n, t in wanted)
        connection.execute(f"CREATE TABLE {quoted(name)}({body}) STRICT")
        connection.execute("INSERT INTO typed_table VALUES (?, ?, ?, ?)", (name, _json(wanted), now, now))
        return True
    types = dict(known.columns)
    for column, kind in wanted:
        if types.get(column, kind) is not kind:
            raise UsageError(
                f"table '{name}' has column '{column}' as {types[column].value}, and the source wants {kind.value}",
                field=f"fields.{column}",
                hint=f"store into another table (`store.table`), or give the field another name than '{column}'",
            )
    missing = [(column, kind) for column, kind in wanted if column not in types]
    for column, kind in missing:
        connection.execute(f"ALTER TABLE {quoted(name)} ADD COLUMN {quoted(column)} {SQL_TYPES[kind]}")
    if missing:
        values = (_json((*known.columns, *missing)), now, name)
        connection.execute("UPDATE typed_table SET columns = ?, changed_at = ? WHERE name = ?", values)
    return bool(missing)


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
    if name in CORE_NAMES:
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
