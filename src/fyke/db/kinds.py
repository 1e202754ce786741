"""Kinds of columns: the same text and numbers on all three databases, compared byte for byte and without padding."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

KEY_LENGTH = 255
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TEXT = _BYTEWISE.with_variant(mysql.LONGTEXT(), "mysql")
BYTES = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")
KEY_BYTES = sa.LargeBinary().with_variant(mysql.VARBINARY(KEY_LENGTH), "mysql")

# Texts that stand in an index, or are short: MariaDB has no index over long text. The lengths are more than the rules
# for names and keys allow; a lane is a host and a port.
SHORT: dict[str, int] = {
    **dict.fromkeys(("scope", "key", "state", "pool", "outcome", "final", "field", "kind", "worker"), KEY_LENGTH),
    **dict.fromkeys(("hash", "read_hash", "table_name", "started_by", "version"), KEY_LENGTH),
    "shared": KEY_LENGTH,
    "lane": 300,
    "name": 700,
}


def text_kind(name: str) -> Any:
    """The kind of a text column of a core table, by its name."""
    return _BYTEWISE.with_variant(sa.String(SHORT[name]), "mysql") if name in SHORT else TEXT


def bytes_kind(name: str) -> Any:
    """The kind of a bytes column: all but the checkpoint are hashes."""
    return BYTES if name == "checkpoint" else KEY_BYTES


def collation(dialect: Any) -> str:
    """MariaDB's, or MySQL's, that compares byte for byte and does not take 'x ' for 'x'."""
    return "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"
