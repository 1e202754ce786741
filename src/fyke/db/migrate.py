"""Brings a ledger's core tables to the schema of this release, once, whoever comes first.

A ledger that is up to date costs one SELECT; alembic is imported only where a step is missing. All steps run in the
caller's write transaction, so a process that dies leaves the old schema, and one that comes second finds the new.
"""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import Any

from fyke.errors import LedgerClosed, UsageError

MIGRATIONS = Path(__file__).with_name("migrations")


def newest_schema() -> str:
    """The number of the last step that this release has, e.g. ``"0002"``."""
    return max(path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9][0-9][0-9][0-9]_*.py"))


CLOSING = "SELECT name, value FROM meta WHERE name IN ('moved_to', 'filled_from')"


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
    """Raise UsageError for a database that has tables, but none of ours: a ledger's, or those of a frontier alone."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables or "task_meta" in tables:
        return
    if not {"name", "value"} <= {row[1] for row in connection.execute("PRAGMA table_info(meta)")}:
        raise UsageError(
            f"{path} is a database of another program: it has tables, and none of them is Fyke's",
            hint="name another file with --ledger sqlite:///PATH",
        )


def schema_of(connection: sqlite3.Connection) -> str:
    """The ledger's schema; "" for an empty file.

    Raises:
        LedgerClosed: the ledger was moved away, or is being filled.
        UsageError: a newer release has upgraded it.
    """
    if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'").fetchone() is None:
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


def upgrade(connection: sqlite3.Connection) -> bool:
    """Run the missing steps; True if there were any. Call inside a write transaction."""
    if schema_of(connection) == newest_schema():
        return False
    _run_steps(connection)
    names = (("schema", newest_schema()), ("ledger_id", uuid.uuid4().hex), ("epoch", "1"))
    for name, value in names:
        known = connection.execute("SELECT 1 FROM meta WHERE name = ?", (name,)).fetchone()
        if known is None:
            connection.execute("INSERT INTO meta(name, value) VALUES (?, ?)", (name, value))
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (newest_schema(),))
    return True


def load_alembic() -> None:
    """Import what `upgrade` needs, for it takes seconds in which no transaction should be open."""
    import alembic.command
    import alembic.config  # noqa: F401


def _run_steps(connection: sqlite3.Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.pool import StaticPool

    engine = create_engine("sqlite://", creator=lambda: _Lent(connection), poolclass=StaticPool)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    with engine.connect() as lent:
        config.attributes["connection"] = lent
        command.upgrade(config, "head")
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
