"""Each lane counts what was acknowledged and buried: one row for all would be waited for by all."""

import sqlalchemy as sa
from alembic import op

from fyke.db.frontier_tables import counters

revision = "0003"
down_revision: str | None = "0002"


def upgrade() -> None:
    columns = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("task_lane")}
    for statement in counters(columns):
        op.execute(statement)
