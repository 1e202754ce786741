"""The migrations make just the tables that the definitions say; a ledger is upgraded once, and never by surprise."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from fyke.db.migrate import newest_schema, schema_of, upgrade
from fyke.db.names import CORE_NAMES
from fyke.db.sqlite import SqliteDatabase, open_connection
from fyke.db.sqlite_connection import SqliteConnection
from fyke.db.tables import METADATA
from fyke.errors import UsageError


def migrated(path: Path) -> SqliteConnection:
    connection = open_connection(path)
    connection.execute("BEGIN IMMEDIATE")
    assert upgrade(connection)
    connection.execute("COMMIT")
    return connection


def shape(connection: sqlite3.Connection) -> dict[str, Any]:
    """Columns and options of each table, and the text of each index."""
    tables = connection.execute("SELECT name, type, ncol, wr, strict FROM pragma_table_list WHERE schema = 'main'")
    found: dict[str, Any] = {row[0]: row[1:] for row in tables if not row[0].startswith(("sqlite_", "alembic_"))}
    for name in list(found):
        found[name] = (found[name], connection.execute(f'PRAGMA table_xinfo("{name}")').fetchall())
        unique = connection.execute(f'PRAGMA index_list("{name}")').fetchall()
        found[f"{name}: unique"] = sorted(
            [column[2] for column in connection.execute(f'PRAGMA index_info("{row[1]}")')] for row in unique if row[2]
        )
    for name, text in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql <> ''"):
        found[name] = " ".join(text.split())
    return found


def test_the_migrations_make_the_tables_that_are_defined(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'defined.db'}")
    METADATA.create_all(engine)
    engine.dispose()
    defined, made = open_connection(tmp_path / "defined.db"), migrated(tmp_path / "made.db")
    wanted, found = shape(defined), shape(made)
    assert {name: found.get(name) for name in wanted} == wanted
    once = "SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%' ORDER BY name"
    assert set(defined.execute(once)) <= set(made.execute(once))
    defined.close()
    made.close()


def test_every_core_table_is_strict(tmp_path: Path) -> None:
    connection = migrated(tmp_path / "made.db")
    loose = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND strict = 0"
        " AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'alembic_%'"
    ).fetchall()
    connection.close()
    assert loose == []


def test_every_partial_index_has_one_literal(tmp_path: Path) -> None:
    # SQLite does not use an index on `state IN (…)` for `state = …`.
    connection = migrated(tmp_path / "made.db")
    partial = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql LIKE '%WHERE%'")]
    connection.close()
    assert partial
    assert [text for text in partial if " IN " in text or " OR " in text] == []


def test_an_upgraded_ledger_is_left_alone(tmp_path: Path) -> None:
    connection = migrated(tmp_path / "ledger.db")
    before = connection.execute("SELECT name, value FROM meta ORDER BY name").fetchall()
    assert not upgrade(connection)
    assert connection.execute("SELECT name, value FROM meta ORDER BY name").fetchall() == before
    assert schema_of(connection) == newest_schema() == dict(before)["schema"]
    connection.close()


def test_a_ledger_of_a_newer_release_is_refused_with_the_way_out(tmp_path: Path) -> None:
    connection = migrated(tmp_path / "ledger.db")
    connection.execute("UPDATE meta SET value = '9999' WHERE name = 'schema'")
    with pytest.raises(UsageError, match="9999") as caught:
        upgrade(connection)
    connection.close()
    assert "newer release" in str(caught.value.hint)


def test_an_upgrade_that_is_cut_short_leaves_the_old_schema(tmp_path: Path) -> None:
    connection = open_connection(tmp_path / "ledger.db")
    connection.execute("BEGIN IMMEDIATE")
    upgrade(connection)
    connection.execute("ROLLBACK")
    assert schema_of(connection) == ""
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    connection.close()


async def test_connections_that_upgrade_at_once_make_one_ledger(tmp_path: Path) -> None:
    databases = [SqliteDatabase(tmp_path / "ledger.db") for _ in range(6)]
    answers = [database.write(upgrade) for database in databases]
    assert sorted([await answer for answer in answers]) == [False] * 5 + [True]
    identity = "SELECT value FROM meta WHERE name = 'ledger_id'"
    found = {await database.read(lambda connection: connection.execute(identity).fetchone()) for database in databases}
    assert len(found) == 1
    for database in databases:
        await database.close()


START = """
import asyncio, sys
from pathlib import Path
from fyke.db.sqlite import SqliteDatabase
from fyke.ledgers.sql import SqlLedger
from fyke.testing.clock import FakeClock

async def main():
    ledger = SqlLedger(SqliteDatabase(Path(sys.argv[1])), FakeClock())
    await ledger.migrate()
    print((await ledger.identity())[0], *sorted({"alembic", "sqlalchemy"} & set(sys.modules)))
    await ledger.close()

asyncio.run(main())
"""


def test_a_current_ledger_costs_no_import_of_what_upgrades_it(tmp_path: Path) -> None:
    connection = migrated(tmp_path / "ledger.db")
    (identity,) = connection.execute("SELECT value FROM meta WHERE name = 'ledger_id'").fetchone()
    connection.close()
    command = [sys.executable, "-c", START, str(tmp_path / "ledger.db")]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.split() == [identity]


def test_no_source_may_take_the_name_of_a_table_or_index_of_ours(tmp_path: Path) -> None:
    connection = migrated(tmp_path / "made.db")
    found = {row[0] for row in connection.execute("SELECT name FROM sqlite_master") if not row[0].startswith("sqlite_")}
    connection.close()
    assert found == CORE_NAMES
