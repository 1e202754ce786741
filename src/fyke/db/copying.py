"""Moving all rows of a ledger from one database to another, whatever kind each is; plain functions of a connection.

Rows keep their ids. Each page is read, written, read back and compared, so that what arrives is what was there (P2).
Tables of the frontier are not moved: it is filled again from the ledger. Nor are workers: their processes have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from fyke.db.connection import Connection
from fyke.db.tables import METADATA
from fyke.db.typed import OWN_COLUMNS, TypedTable, bind, decode_table, quoted
from fyke.model import ColumnType

LEFT = frozenset({"meta", "typed_table", "worker"})
# What `meta` says about the ledger itself; the rest (cursors) is moved.
OWN_META = ("schema", "ledger_id", "epoch", "moved_to", "moved", "filled_from", "filled_id")
ROWS_FIRST, ROWS_MOST = 64, 2_000
BYTES_FEW, BYTES_MANY = 500_000, 4_000_000


# The highest id given so far, or nothing.
COUNTER = {
    "sqlite": "SELECT seq FROM sqlite_sequence WHERE name = ?",
    "postgres": "SELECT pg_sequence_last_value(CAST(pg_get_serial_sequence(quote_ident(?), 'id') AS regclass))",
    "mysql": "SELECT next - 1 FROM id_block WHERE name = ?",
}
SET_COUNTER = {
    "postgres": "SELECT setval(CAST(pg_get_serial_sequence(quote_ident(?), 'id') AS regclass), ?)",
    "mysql": "INSERT INTO id_block(name, next) VALUES (?, ? + 1) ON CONFLICT(name) DO UPDATE SET next = excluded.next",
}


class Part(Struct, frozen=True):
    """A table as it is moved: in order of its key, in pages."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    typed: TypedTable | None = None

    @property
    def insert(self) -> str:
        return (
            f"INSERT INTO {quoted(self.name)}({', '.join(map(quoted, self.columns))})"
            f" VALUES ({', '.join('?' * len(self.columns))})"
        )

    def after(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """Where the page after this row begins."""
        return tuple(row[self.columns.index(name)] for name in self.key)


class Sizes:
    """How many rows to read at once, so that neither short rows cost many rounds nor long ones much memory."""

    def __init__(self) -> None:
        self.rows = ROWS_FIRST

    def saw(self, rows: Sequence[Sequence[Any]]) -> None:
        size = sum(len(value) for row in rows for value in row if isinstance(value, str | bytes))
        if size > BYTES_MANY:
            self.rows = max(1, self.rows // 4)
        elif size < BYTES_FEW and len(rows) == self.rows:
            self.rows = min(ROWS_MOST, self.rows * 2)


def core_parts() -> list[Part]:
    """The core tables, in order of their names."""
    return [
        Part(table.name, tuple(column.name for column in table.columns), tuple(c.name for c in table.primary_key))
        for table in sorted(METADATA.tables.values(), key=lambda table: table.name)
        if table.name not in LEFT
    ]


def typed_parts(connection: Connection) -> list[Part]:
    """The typed tables of this ledger, from its registry."""
    rows = connection.execute("SELECT name, columns FROM typed_table ORDER BY name").fetchall()
    return [typed_part(decode_table(name, columns)) for name, columns in rows]


def typed_part(table: TypedTable) -> Part:
    return Part(table.name, (*OWN_COLUMNS, *(name for name, _ in table.columns)), ("_item_id",), table)


def count(connection: Connection, part: Part) -> int:
    (found,) = connection.execute(f"SELECT count(*) FROM {quoted(part.name)}").fetchone()
    return int(found)


def read_page(connection: Connection, part: Part, after: tuple[Any, ...] | None, limit: int) -> list[Any]:
    """Rows behind `after`, in order of the key."""
    names, keys = ", ".join(map(quoted, part.columns)), [quoted(name) for name in part.key]
    statement, values = f"SELECT {names} FROM {quoted(part.name)}", ()
    if after is not None:
        condition, values = _behind(connection, keys, after)
        statement += f" WHERE {condition}"
    return connection.execute(f"{statement} ORDER BY {', '.join(keys)} LIMIT ?", (*values, limit)).fetchall()


def _behind(connection: Connection, keys: list[str], after: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    if connection.dialect != "mysql" or len(keys) == 1:
        return f"({', '.join(keys)}) > ({', '.join('?' * len(keys))})", after
    # MariaDB finds no place in an index by a comparison of rows; by this it does.
    parts = [" AND ".join([*(f"{key} = ?" for key in keys[:at]), f"{keys[at]} > ?"]) for at in range(len(keys))]
    values = tuple(value for at in range(len(keys)) for value in after[: at + 1])
    return f"({' OR '.join(f'({part})' for part in parts)})", values


def plain(part: Part, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Rows that are equal where they say the same, whatever each database makes of numbers and truth values."""
    if part.typed is None:
        return [tuple(row) for row in rows]
    kinds = [None] * len(OWN_COLUMNS) + [kind for _, kind in part.typed.columns]
    return [
        tuple(value if value is None else _plain(kind, value) for kind, value in zip(kinds, row, strict=True))
        for row in rows
    ]


def _plain(kind: ColumnType | None, value: Any) -> Any:
    if kind is ColumnType.NUMBER:
        return Decimal(repr(value) if isinstance(value, float) else value)
    return bool(value) if kind is ColumnType.BOOLEAN else value


def write_page(connection: Connection, part: Part, rows: Sequence[Sequence[Any]]) -> None:
    """Write rows as `plain` has them."""
    if part.typed is not None:
        own = len(OWN_COLUMNS)
        rows = [
            [
                *row[:own],
                *(_bound(name, kind, value) for (name, kind), value in zip(part.typed.columns, row[own:], strict=True)),
            ]
            for row in rows
        ]
    connection.executemany(part.insert, rows)


def _bound(name: str, kind: ColumnType, value: Any) -> Any:
    # What is JSON is written already.
    if value is None or kind is ColumnType.JSON:
        return value
    return bind(name, kind, f"{value:f}" if kind is ColumnType.NUMBER else value)


def empty(connection: Connection, part: Part) -> None:
    """Throw away what a move has brought that did not end."""
    if part.typed is not None:
        connection.execute(f"DROP TABLE {quoted(part.name)}")
        connection.execute("DELETE FROM typed_table WHERE name = ?", (part.name,))
    else:
        connection.execute(f"DELETE FROM {quoted(part.name)}")


def registry(connection: Connection) -> list[tuple[str, str, int, int]]:
    """The typed tables: name, columns as JSON, when made and changed."""
    return connection.execute("SELECT name, columns, made_at, changed_at FROM typed_table ORDER BY name").fetchall()


# --- What `meta` says while a ledger is moved ---


class State(Struct, frozen=True):
    """What `meta` says of the ledger. `moved_to` and `filled_from` are addresses for people."""

    ledger_id: str = ""
    epoch: int = 0
    moved_to: str = ""
    moved: bool = False
    filled_from: str = ""
    filled_id: str = ""


def read_state(connection: Connection) -> State:
    meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
    return State(
        ledger_id=meta.get("ledger_id", ""),
        epoch=int(meta.get("epoch", 0)),
        moved_to=meta.get("moved_to", ""),
        moved="moved" in meta,
        filled_from=meta.get("filled_from", ""),
        filled_id=meta.get("filled_id", ""),
    )


def write_state(connection: Connection, values: dict[str, str | None]) -> None:
    """Set these names of `meta`; None takes one away."""
    connection.executemany("DELETE FROM meta WHERE name = ?", [(name,) for name in sorted(values)])
    rows = [(name, value) for name, value in sorted(values.items()) if value is not None]
    connection.executemany("INSERT INTO meta(name, value) VALUES (?, ?)", rows)


def close_ledger(connection: Connection, values: dict[str, str | None]) -> None:
    """Set what closes the ledger, once no transaction is left that has found it open.

    Each transaction on a ledger reads `meta` first, so that whoever has locked it alone has outlasted them all.
    """
    if connection.dialect == "postgres":
        connection.execute("LOCK TABLE meta IN ACCESS EXCLUSIVE MODE")
    if connection.dialect != "mysql":
        write_state(connection, values)
        return
    # This ends the transaction that it is in, and begins none; what follows is committed by the last statement.
    connection.execute("LOCK TABLES meta WRITE")
    try:
        write_state(connection, values)
    finally:
        connection.execute("UNLOCK TABLES")


def cursors(connection: Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name, value FROM meta ORDER BY name")
    return [(name, value) for name, value in rows if name not in OWN_META]


def in_use(connection: Connection) -> str:
    """The first table that has rows, or "" where the ledger is new."""
    names = [*(part.name for part in core_parts()), "typed_table"]
    return next((name for name in names if connection.execute(f"SELECT 1 FROM {quoted(name)} LIMIT 1").fetchone()), "")


# --- Ids ---


def given_ids(connection: Connection) -> dict[str, int]:
    """Of each table that numbers its rows, the highest number that was ever given."""
    return {part.name: _given(connection, part.name) for part in core_parts() if part.key == ("id",)}


def keep_ids(connection: Connection, given: dict[str, int]) -> None:
    """See to it that what was given in the old ledger is not given again, though its row may be gone."""
    for name, highest in given.items():
        if highest > _counter(connection, name):
            _keep(connection, name, highest)


def _given(connection: Connection, name: str) -> int:
    (highest,) = connection.execute(f"SELECT max(id) FROM {quoted(name)}").fetchone()
    return max(highest or 0, _counter(connection, name))


def _counter(connection: Connection, name: str) -> int:
    row = connection.execute(COUNTER[connection.dialect], (name,)).fetchone()
    return int(row[0]) if row and row[0] else 0


def _keep(connection: Connection, name: str, highest: int) -> None:
    if connection.dialect == "sqlite":
        # Where it keeps no counter, the highest row that is there is the counter.
        if METADATA.tables[name].dialect_options["sqlite"]["autoincrement"]:
            connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            connection.execute("INSERT INTO sqlite_sequence(name, seq) VALUES (?, ?)", (name, highest))
        return
    connection.execute(SET_COUNTER[connection.dialect], (name, highest))
    if connection.dialect == "mysql":
        # Where the counter is the table's own.
        connection.execute(f"ALTER TABLE {quoted(name)} AUTO_INCREMENT = {highest + 1}")
