"""Counts what really reaches a typed table, by triggers: UNIQUE alone would hide a second writing of a key (P3)."""

from __future__ import annotations

from msgspec import Struct

from fyke.db.connection import Connection
from fyke.db.typed import quoted

LOG = "effect_log"
COLUMNS = "table_name, kind, item_id, scope, key, version"
TABLE = {
    "sqlite": f"""
    CREATE TABLE IF NOT EXISTS {LOG}(
      id INTEGER PRIMARY KEY, table_name TEXT NOT NULL, kind TEXT NOT NULL, item_id INTEGER NOT NULL,
      scope TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL
    ) STRICT
    """,
    "postgres": f"""
    CREATE TABLE IF NOT EXISTS {LOG}(
      id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, table_name TEXT NOT NULL, kind TEXT NOT NULL,
      item_id BIGINT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL, version BIGINT NOT NULL
    )
    """,
    "mysql": f"""
    CREATE TABLE IF NOT EXISTS {LOG}(
      id BIGINT AUTO_INCREMENT PRIMARY KEY, table_name VARCHAR(255) NOT NULL, kind VARCHAR(255) NOT NULL,
      item_id BIGINT NOT NULL, scope VARCHAR(255) NOT NULL, key VARCHAR(255) NOT NULL, version BIGINT NOT NULL
    ) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin
    """,
}
COLUMNS_OF = {
    "sqlite": "SELECT name FROM pragma_table_info(?)",
    "mysql": "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?",
}
FUNCTION = f"""
CREATE OR REPLACE FUNCTION {LOG}_row() RETURNS trigger LANGUAGE plpgsql AS
'DECLARE found record; BEGIN
  IF TG_OP = ''DELETE'' THEN found = OLD; ELSE found = NEW; END IF;
  INSERT INTO {LOG}({COLUMNS})
  VALUES (TG_TABLE_NAME, lower(TG_OP), found._item_id, found._scope, found._key, found._version);
  RETURN NULL;
END'
"""


class Effect(Struct, frozen=True):
    """One writing of a typed row: `kind` is insert, update (one that changed something) or delete."""

    table: str
    kind: str
    item_id: int
    scope: str
    key: str
    version: int


def install_effect_log(connection: Connection, table: str) -> None:
    """Log each insert, delete and changing update of a typed table from now on, whoever makes it.

    Install it again after the table was widened, else a change of the new column alone is not seen. Call inside a
    write transaction, before it writes anything.
    """
    connection.execute(TABLE[connection.dialect])
    if connection.dialect == "postgres":
        connection.execute(FUNCTION)
    for kind, row in (("insert", "NEW"), ("update", "NEW"), ("delete", "OLD")):
        trigger = quoted(f"{LOG}_{table}_{kind}")
        on_table = f" ON {quoted(table)}" if connection.dialect == "postgres" else ""
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}{on_table}")
        connection.execute(
            f"CREATE TRIGGER {trigger} AFTER {kind.upper()} ON {quoted(table)}{_body(connection, table, kind, row)}"
        )


def _body(connection: Connection, table: str, kind: str, row: str) -> str:
    if connection.dialect == "postgres":
        changed = " WHEN (OLD.* IS DISTINCT FROM NEW.*)" if kind == "update" else ""
        return f" FOR EACH ROW{changed} EXECUTE FUNCTION {LOG}_row()"
    values = ", ".join(f"{row}.{name}" for name in ("_item_id", "_scope", "_key", "_version"))
    logged = f"INSERT INTO {LOG}({COLUMNS}) SELECT {_text(table)}, {_text(kind)}, {values}"
    names = [name for (name,) in connection.execute(COLUMNS_OF[connection.dialect], (table,))]
    same = " AND ".join(f"OLD.{quoted(name)} IS NOT DISTINCT FROM NEW.{quoted(name)}" for name in names)
    if connection.dialect == "mysql":
        return f" FOR EACH ROW {logged} FROM DUAL" + (f" WHERE NOT ({same})" if kind == "update" else "")
    return (f" WHEN NOT ({same})" if kind == "update" else "") + f" BEGIN {logged}; END"


def read_effects(connection: Connection) -> list[Effect]:
    """All effects in order of time."""
    return [Effect(*row) for row in connection.execute(f"SELECT {COLUMNS} FROM {LOG} ORDER BY id")]


def written_twice(connection: Connection) -> list[tuple[str, str, int, int]]:
    """(scope, key, version, times) of what was written more than once; empty where P3 was kept."""
    return connection.execute(
        f"SELECT scope, key, version, count(*) FROM {LOG} WHERE kind <> 'delete'"
        " GROUP BY table_name, scope, key, version HAVING count(*) > 1 ORDER BY scope, key, version"
    ).fetchall()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
