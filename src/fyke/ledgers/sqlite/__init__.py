"""The ledger on one SQLite file: the embedded default.

One writer thread, WAL, a full fsync before each answer. Each part of the port is a file of its own.
"""

from fyke.db.sqlite import SqliteDatabase
from fyke.ledgers.sqlite.commits import CommitStatements
from fyke.ledgers.sqlite.due import DueStatements
from fyke.ledgers.sqlite.pages import PageStatements
from fyke.ledgers.sqlite.runs import RunStatements
from fyke.ledgers.sqlite.sources import SourceStatements
from fyke.ledgers.sqlite.state import StateStatements

__all__ = ["SqliteDatabase", "SqliteLedger"]


class SqliteLedger(
    SourceStatements,
    RunStatements,
    PageStatements,
    CommitStatements,
    DueStatements,
    StateStatements,
):
    """`ports.Ledger` on SQLite: ``SqliteLedger(SqliteDatabase(path), clock)``. Call `migrate` first."""
