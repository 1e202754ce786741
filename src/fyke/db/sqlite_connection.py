"""A SQLite connection that takes the SQL of all three databases, and keeps what only SQLite knows.

The texts are SQLite's own but for few pieces, which are dropped once per text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NoReturn

from fyke.db.connection import Dialect, RepeatTransaction, Values
from fyke.db.dialect import TEXTS_REMEMBERED, for_sqlite

_text = lru_cache(maxsize=TEXTS_REMEMBERED)(for_sqlite)


class SqliteConnection(sqlite3.Connection):
    """`db.connection.Connection`; made by `db.sqlite.open_connection`."""

    dialect: Dialect = "sqlite"
    waited = 0.0

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        return super().execute(_text(sql), values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        return super().executemany(_text(sql), rows)

    def together(self, parts: Iterable[tuple[str, Iterable[Any]]], /) -> None:
        for sql, rows in parts:
            super().executemany(_text(sql), rows)

    def insert(self, sql: str, values: Values = (), /) -> int:
        found = super().execute(_text(sql), values).lastrowid
        assert found is not None
        return found

    def new_ids(self, table: str, count: int, /) -> list[int]:
        # The sequence outlives removed rows; the highest id does for tables whose rows are never removed.
        given: dict[str, int] = self.__dict__.setdefault("_given", {})
        last = max(self._last_id(table), given.get(table, 0))
        given[table] = last + count
        return list(range(last + 1, last + 1 + count))

    def _last_id(self, table: str) -> int:
        kept = super().execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchone()
        row = kept and super().execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        row = row or super().execute(f'SELECT max(rowid) FROM "{table}"').fetchone()
        return int(row[0] or 0)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        super().execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            # The engine itself may have rolled everything back (disk full, I/O).
            if self.in_transaction:
                super().execute("ROLLBACK TO part")
                super().execute("RELEASE part")
            raise
        super().execute("RELEASE part")

    def repeat(self, why: str) -> NoReturn:
        raise RepeatTransaction(why)

    def notify(self) -> None:
        """Each commit wakes."""
