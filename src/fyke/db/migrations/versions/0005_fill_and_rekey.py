"""A run that fills by date windows may go beside a planned one; keys that an item had before are remembered."""

import sqlalchemy as sa
from alembic import op

from fyke.db.migrations.making import index, make, text, whole

revision = "0005"
down_revision: str | None = "0004"


def upgrade() -> None:
    if any(found["name"] == "run_one" for found in sa.inspect(op.get_bind()).get_indexes("run")):
        op.drop_index("run_one", "run")
    index(
        "run_one",
        "run",
        ["source_id", "started_by"],
        where="state = 'running'",
        unique=True,
        mysql=["running_source", "started_by"],
    )
    make(
        "former_key",
        *(text("scope", key=True), text("key", key=True), whole("item_id", key=True), whole("at")),
        rowid=False,
    )
    index("former_key_item", "former_key", ["item_id"])
