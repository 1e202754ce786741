"""The ledger on one SQLite file: the embedded default.

One writer thread, WAL, a full fsync before each answer. Each part of the port is a file of its own.
"""

from fyke.db.sqlite import SqliteDatabase
from fyke.ledgers.sqlite.audit import AuditStatements
from fyke.ledgers.sqlite.commits import CommitStatements
from fyke.ledgers.sqlite.desk import DeskStatements
from fyke.ledgers.sqlite.due import DueStatements
from fyke.ledgers.sqlite.explain import ExplainStatements
from fyke.ledgers.sqlite.forget import ForgetStatements
from fyke.ledgers.sqlite.letters import LetterStatements
from fyke.ledgers.sqlite.pages import PageStatements
from fyke.ledgers.sqlite.repair import RepairStatements
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
    DeskStatements,
    LetterStatements,
    ForgetStatements,
    ExplainStatements,
    AuditStatements,
    RepairStatements,
):
    """`ports.Ledger` on SQLite: ``SqliteLedger(SqliteDatabase(path), clock)``. Call `migrate` first."""
