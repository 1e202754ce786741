"""Brings a ledger's core tables to the schema of this release, once, whoever comes first.

A ledger that is up to date costs one SELECT; alembic is imported only where a step is missing. On SQLite and PostgreSQL
all steps are one transaction, so a process that dies leaves the old schema, and one that comes second finds the new;
MariaDB commits each step, so each can be taken up again. On servers a lock lets one process at a time upgrade.
"""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fyke.db.connection import Connection, Database, Dialect
from fyke.db.sqlite_connection import SqliteConnection
from fyke.errors import LedgerClosed, UsageError


@runtime_checkable
class ServerSide(Protocol):
    """A database that brings its own way of upgrading: not in a transaction of ours."""

    async def upgrade(self) -> None: ...


MIGRATIONS = Path(__file__).with_name("migrations")


def newest_schema() -> str:
    """The number of the last step that this release has, e.g. ``"0002"``."""
    return max(path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9][0-9][0-9][0-9]_*.py"))


CLOSING = "SELECT name, value FROM meta WHERE name IN ('moved_to', 'filled_from')"
# For a column of a statement that is asked too often for a question of its own.
CLOSED = "(SELECT count(*) FROM meta WHERE name IN ('moved_to', 'filled_from'))"


def refuse_closed(connection: Any) -> None:
    """Raise LedgerClosed where `fyke ledger copy` has moved this ledger away, or has not ended filling it."""
    # A process that still runs on a ledger that was copied away would write what nobody reads.
    for name, place in connection.execute(CLOSING):
        if name == "moved_to":
            raise LedgerClosed(f"this ledger was moved to {place}", hint="name the new one in the setting 'ledger'")
        raise LedgerClosed(
            f"this ledger is being filled from {place}, and that has not ended",
            hint="wait for `fyke ledger copy`; where that was broken off, do it once more with --again",
        )


def refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Raise UsageError for a file that has tables, but none of ours: a ledger's, or those of a frontier alone."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    meta = {row[1] for row in connection.execute("PRAGMA table_info(meta)")}
    _refuse(tables, meta, str(path), "name another file with --ledger sqlite:///PATH")


def refuse_others(connection: Connection, place: str) -> None:
    """The same on a server; `place` is the database's address for people."""
    schema = "DATABASE()" if connection.dialect == "mysql" else "current_schema()"
    columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = "
    rows = connection.execute(columns + schema).fetchall()
    meta = {column for table, column in rows if table == "meta"}
    _refuse({table for table, _ in rows}, meta, place, "make a database of its own for Fyke, and name that one")


def _refuse(tables: set[str], meta: set[str], place: str, hint: str) -> None:
    # MariaDB keeps what an upgrade of ours had begun with.
    if tables <= {"alembic_version"} or "task_meta" in tables or {"name", "value"} <= meta:
        return
    raise UsageError(f"{place} is a database of another program: it has tables, and none of them is Fyke's", hint=hint)


HAS_META: Mapping[Dialect, str] = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'",
    "postgres": "SELECT 1 WHERE to_regclass('meta') IS NOT NULL",
    "mysql": "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'meta'",
}


def schema_of(connection: Connection) -> str:
    """The ledger's schema; "" for an empty database.

    Raises:
        LedgerClosed: the ledger was moved away, or is being filled.
        UsageError: a newer release has upgraded it.
    """
    if connection.execute(HAS_META[connection.dialect]).fetchone() is None:
        return ""
    refuse_closed(connection)
    row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    found, newest = str(row[0]) if row else "", newest_schema()
    if found > newest:
        raise UsageError(
            f"this ledger has schema {found}, and this release of Fyke knows none later than {newest}",
            hint="a newer release has upgraded it: install that release here too",
        )
    return found


async def migrate(database: Database) -> None:
    """Bring the core tables of any database to this release; safe from any number of processes at once.

    Raises:
        LedgerClosed: the ledger was moved away, or is being filled.
        UsageError: another program's database; a newer release's ledger; no right to make tables.
        TransientError: it cannot be reached, or another process has held the upgrade up.
    """
    if await database.read(schema_of) == newest_schema():
        return
    await asyncio.to_thread(load_alembic)
    if isinstance(database, ServerSide):
        await database.upgrade()
    else:
        await database.write(upgrade)


def upgrade(connection: SqliteConnection) -> bool:
    """Run the missing steps; True if there were any. Call inside a write transaction."""
    if schema_of(connection) == newest_schema():
        return False
    _run_steps(connection)
    note_schema(connection)
    return True


def note_schema(connection: Connection) -> None:
    """After the last step: this release's schema, and a new ledger's identity."""
    names = (("schema", newest_schema()), ("ledger_id", uuid.uuid4().hex), ("epoch", "1"))
    for name, value in names:
        known = connection.execute("SELECT 1 FROM meta WHERE name = ?", (name,)).fetchone()
        if known is None:
            connection.execute("INSERT INTO meta(name, value) VALUES (?, ?)", (name, value))
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (newest_schema(),))


def load_alembic() -> None:
    """Import what `upgrade` needs, for it takes seconds in which no transaction should be open."""
    import alembic.command
    import alembic.config  # noqa: F401


def run_steps(lent: Any) -> None:
    """Run the missing steps on a connection of SQLAlchemy's."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = lent
    command.upgrade(config, "head")


def _run_steps(connection: sqlite3.Connection) -> None:
    from sqlalchemy import create_engine
    from sqlalchemy.pool import StaticPool

    engine = create_engine("sqlite://", creator=lambda: _Lent(connection), poolclass=StaticPool)
    with engine.connect() as lent:
        run_steps(lent)
    engine.dispose()


class _Lent:
    """The caller's connection as SQLAlchemy sees it: it may not end the transaction that the steps run in."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...
