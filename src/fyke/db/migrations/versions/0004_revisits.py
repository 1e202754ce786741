"""Items that are visited again on a calendar, and what relates items to each other."""

from fyke.db.migrations.making import index, make, text, whole

revision = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
    make("revisit", whole("item_id", key=True), whole("at"))
    index("revisit_at", "revisit", ["at"])
    make(
        "relation",
        *(whole("item_id", key=True), whole("n", key=True), text("kind"), text("field"), text("shared")),
        rowid=False,
    )
    index("relation_shared", "relation", ["shared"])
