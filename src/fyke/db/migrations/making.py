"""How the steps make tables and indexes on all three databases; on MariaDB a step that was cut short is repeated."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from fyke.db.kinds import BIG, SHORT, bytes_kind, collation, text_kind


def on_mysql() -> bool:
    return op.get_bind().dialect.name == "mysql"


def whole(name: str, *, nullable: bool = False, default: str | None = None, key: bool = False) -> sa.Column[Any]:
    given = None if default is None else sa.text(default)
    return sa.Column(name, BIG, nullable=nullable, server_default=given, primary_key=key, autoincrement=name == "id")


def text(name: str, *, nullable: bool = False, default: str | None = None, key: bool = False) -> sa.Column[Any]:
    if default is not None and name not in SHORT and on_mysql():
        default = f"({default})"  # MySQL takes only expressions for long text
    given = None if default is None else sa.text(default)
    return sa.Column(name, text_kind(name), nullable=nullable, server_default=given, primary_key=key)


def blob(name: str, *, nullable: bool = False, key: bool = False) -> sa.Column[Any]:
    return sa.Column(name, bytes_kind(name), nullable=nullable, primary_key=key)


def unique(table: str, *columns: str) -> sa.UniqueConstraint:
    # Named on servers, so that an error tells whose it is.
    on_server = op.get_bind().dialect.name != "sqlite"
    return sa.UniqueConstraint(*columns, name="_".join((table, *columns)) if on_server else None)


def only_where(name: str, condition: str, column: str) -> list[sa.Column[Any]]:
    """MariaDB has no partial indexes: a column that is NULL elsewhere, for a unique index over it."""
    if not on_mysql():
        return []
    return [sa.Column(name, BIG, sa.Computed(f"CASE WHEN {condition} THEN {column} END", persisted=True))]


def make(name: str, *parts: Any, rowid: bool = True, once: bool = False) -> None:
    if on_mysql() and sa.inspect(op.get_bind()).has_table(name):
        return  # each of its steps is committed by itself: an upgrade that was cut short is taken up again
    op.create_table(
        name,
        *parts,
        sqlite_strict=True,
        sqlite_with_rowid=rowid,
        sqlite_autoincrement=once,
        mysql_engine="InnoDB",
        mysql_default_charset="utf8mb4",
        mysql_collate=collation(op.get_bind().dialect),
        mysql_row_format="DYNAMIC",
    )


def index(
    name: str,
    table: str,
    columns: list[str],
    *,
    where: str | None = None,
    unique: bool = False,
    mysql: list[str] | None = None,
) -> None:
    """`mysql`: what the index has there, for it has no partial ones; none at all if empty."""
    if on_mysql():
        known = sa.inspect(op.get_bind()).get_indexes(table)
        found = columns if mysql is None else mysql
        if found and name not in {index["name"] for index in known}:
            op.create_index(name, table, found, unique=unique)
    elif where is None:
        op.create_index(name, table, columns, unique=unique)
    else:
        condition = sa.text(where)
        op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
