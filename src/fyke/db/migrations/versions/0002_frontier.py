"""The sql frontier's tables, in the ledger's database but never in one transaction with the ledger's rows."""

from alembic import op

from fyke.db.frontier_tables import statements

revision = "0002"
down_revision: str | None = "0001"


def upgrade() -> None:
    for statement in statements(op.get_bind().dialect):
        op.execute(statement)
