"""The ledger in a SQL database: SQLite (the embedded default), PostgreSQL or MariaDB, one code for all of them.

Every call is one transaction (or one snapshot) of plain statements. Each part of the port is a file of its own.
"""

from fyke.ledgers.sql.audit import AuditStatements
from fyke.ledgers.sql.commits import CommitStatements
from fyke.ledgers.sql.desk import DeskStatements
from fyke.ledgers.sql.due import DueStatements
from fyke.ledgers.sql.explain import ExplainStatements
from fyke.ledgers.sql.forget import ForgetStatements
from fyke.ledgers.sql.letters import LetterStatements
from fyke.ledgers.sql.pages import PageStatements
from fyke.ledgers.sql.rekey import RekeyStatements
from fyke.ledgers.sql.repair import RepairStatements
from fyke.ledgers.sql.revisits import RevisitStatements
from fyke.ledgers.sql.runs import RunStatements
from fyke.ledgers.sql.sources import SourceStatements
from fyke.ledgers.sql.state import StateStatements
from fyke.ledgers.sql.windows import WindowStatements

__all__ = ["SqlLedger"]


class SqlLedger(
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
    RevisitStatements,
    WindowStatements,
    RekeyStatements,
):
    """`ports.Ledger` on a SQL database: ``SqlLedger(database, clock)``. Call `migrate` first."""
