"""The ledger on one SQLite file: the embedded default.

One writer thread, WAL, a full fsync before each answer. Each part of the port is a file of its own.
"""

from fyke.db.sqlite import SqliteDatabase
from fyke.ledgers.sqlite.state import StateStatements

__all__ = ["SqliteDatabase", "SqliteLedger"]


class SqliteLedger(StateStatements):
    """`ports.Ledger` on SQLite: ``SqliteLedger(SqliteDatabase(path), clock)``. Call `migrate` first."""
