"""Values of many rows as PostgreSQL's driver wants them; no digit is lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any

from fyke.db.batches import array_of_numbers


def columns_of(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Any]:
    """The rows as one array a column."""
    # Unequal rows would be filled up with NULL.
    return [_array(kind, column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]


def exact_rows(kinds: Sequence[str], rows: list[Any]) -> list[Any]:
    places = [(place, kind) for place, kind in enumerate(kinds) if kind in ("numeric", "bool")]
    if not places:
        return rows
    found = [list(row) for row in rows]
    for place, kind in places:
        for row in found:
            row[place] = exact(kind, row[place])
    return found


def exact(kind: str, value: Any) -> Any:
    """A number or a truth value as the driver wants it."""
    if value is None:
        return None
    if kind == "numeric":
        return Decimal(repr(value) if isinstance(value, float) else value)
    return bool(value) if kind == "bool" else value


def in_waves(rows: list[Any], unique: tuple[int, ...]) -> list[list[Any]]:
    """Rows in such order that one statement never meets a key twice; SQLite would take them one after the other."""
    if not unique:
        return [rows]
    key = itemgetter(*unique)
    if len({key(row) for row in rows}) == len(rows):
        return [rows]
    waves: list[list[Any]] = []
    met: dict[Any, int] = {}
    for row in rows:
        wave = met[key(row)] = met.get(key(row), -1) + 1
        if wave == len(waves):
            waves.append([])
        waves[wave].append(row)
    return waves


def _array(kind: str, column: Sequence[Any]) -> Any:
    if kind == "int8":
        return array_of_numbers(column)
    return [exact(kind, value) for value in column] if kind in ("numeric", "bool") else column
