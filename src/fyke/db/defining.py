"""How core tables are defined for all databases: their kinds of columns, and indexes over a part of the rows."""

from __future__ import annotations

from sqlalchemy import Column, Index, MetaData, Table, UniqueConstraint, text

from fyke.db.kinds import BIG, bytes_kind, text_kind

METADATA = MetaData()


def row_id(name: str = "id") -> Column[int]:
    return Column(name, BIG, primary_key=True)


def whole(name: str, default: int | None = None, *, key: bool = False) -> Column[int]:
    """A whole number that is always there."""
    given = None if default is None else text(str(default))
    return Column(name, BIG, nullable=False, server_default=given, primary_key=key, autoincrement=False)


def maybe_whole(name: str) -> Column[int]:
    """A time, an id or a number that may be missing."""
    return Column(name, BIG)


def words(name: str, *, default: bool = False, key: bool = False) -> Column[str]:
    """Text that is always there; with `default` it is empty where nothing was given."""
    given = text("''") if default else None
    return Column(name, text_kind(name), nullable=False, server_default=given, primary_key=key)


def maybe_words(name: str) -> Column[str]:
    """Text that may be missing."""
    return Column(name, text_kind(name))


def octets(name: str, *, key: bool = False) -> Column[bytes]:
    return Column(name, bytes_kind(name), nullable=False, primary_key=key)


def maybe_octets(name: str) -> Column[bytes]:
    return Column(name, bytes_kind(name))


def table(
    name: str,
    *parts: Column[int] | Column[str] | Column[bytes] | UniqueConstraint,
    rowid: bool = True,
    once: bool = False,
) -> Table:
    """A core table. `once`: an id is never given twice, even after its row was removed."""
    return Table(name, METADATA, *parts, sqlite_strict=True, sqlite_with_rowid=rowid, sqlite_autoincrement=once)


def where(name: str, owner: Table, columns: tuple[str, ...], condition: str, *, unique: bool = False) -> Index:
    """A partial index. The condition is one literal: `state IN (…)` would not serve `state = …`."""
    found = [owner.c[column] for column in columns]
    return Index(name, *found, unique=unique, sqlite_where=text(condition), postgresql_where=text(condition))
