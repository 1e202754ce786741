"""Counts what really reaches a typed table, by triggers: UNIQUE alone would hide a second writing of a key (P3)."""

from __future__ import annotations

import sqlite3

from msgspec import Struct

from fyke.db.typed import quoted

LOG = "effect_log"
TABLE = f"""
CREATE TABLE IF NOT EXISTS {LOG}(
  id INTEGER PRIMARY KEY, table_name TEXT NOT NULL, kind TEXT NOT NULL, item_id INTEGER NOT NULL, scope TEXT NOT NULL,
  key TEXT NOT NULL, version INTEGER NOT NULL
) STRICT
"""
ROW = "INSERT INTO {log}(table_name, kind, item_id, scope, key, version) VALUES ({table}, {kind}, {values})"


class Effect(Struct, frozen=True):
    """One writing of a typed row: `kind` is insert, update (one that changed something) or delete."""

    table: str
    kind: str
    item_id: int
    scope: str
    key: str
    version: int


def install_effect_log(connection: sqlite3.Connection, table: str) -> None:
    """Log each insert, delete and changing update of a typed table from now on, whoever makes it.

    Install it again after the table was widened, else a change of the new column alone is not seen. Call inside a
    write transaction.
    """
    connection.execute(TABLE)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})")]
    changed = " OR ".join(f"OLD.{quoted(name)} IS NOT NEW.{quoted(name)}" for name in columns)
    for kind, row, condition in (("insert", "NEW", ""), ("update", "NEW", f"WHEN {changed}"), ("delete", "OLD", "")):
        values = ", ".join(f"{row}.{name}" for name in ("_item_id", "_scope", "_key", "_version"))
        body = ROW.format(log=LOG, table=_text(table), kind=_text(kind), values=values)
        trigger = quoted(f"{LOG}_{table}_{kind}")
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        connection.execute(f"CREATE TRIGGER {trigger} AFTER {kind} ON {quoted(table)} {condition} BEGIN {body}; END")


def read_effects(connection: sqlite3.Connection) -> list[Effect]:
    """All effects in order of time."""
    rows = connection.execute(f"SELECT table_name, kind, item_id, scope, key, version FROM {LOG} ORDER BY id")
    return [Effect(*row) for row in rows]


def written_twice(connection: sqlite3.Connection) -> list[tuple[str, str, int, int]]:
    """(scope, key, version, times) of what was written more than once; empty where P3 was kept."""
    return connection.execute(
        f"SELECT scope, key, version, count(*) FROM {LOG} WHERE kind <> 'delete'"
        " GROUP BY table_name, scope, key, version HAVING count(*) > 1 ORDER BY scope, key, version"
    ).fetchall()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
