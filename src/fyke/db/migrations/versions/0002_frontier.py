"""The sql frontier's tables, in the ledger's file but never in one transaction with the ledger's rows."""

from alembic import op

from fyke.db.frontier_tables import STATEMENTS

revision = "0002"
down_revision: str | None = "0001"


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
