"""What the audit compares: a row with its head version cell by cell, an item's state with what is there of it.

Pure functions: the audit reads, these decide (P2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fyke.db.numbers import FLOAT_DIGITS
from fyke.db.typed import TypedTable, bind
from fyke.ledgers.sql.findings import LETTER, ROW, ROW_EQUAL, Kind
from fyke.model import ColumnType

_decode = msgspec.json.Decoder().decode
_TEXTS = (ColumnType.TEXT, ColumnType.DATETIME)


def is_head(table: TypedTable, row: list[Any], head: list[Any]) -> bool:
    """Whether a row (scope, key, version, cells) is its item's head version (source, scope, key, number, content)."""
    scope, key, version, *cells = row
    _, item_scope, item_key, number, content = head
    if content is None or (scope, key, version) != (item_scope, item_key, number):
        return False
    return _equal(table, content, cells)


def _equal(table: TypedTable, content: str, cells: list[Any]) -> bool:
    """Whether the row's cells are what the commit would bind for this content."""
    try:
        record = _decode(content)
        return all(
            _same(name, kind, record.get(name), cell) for (name, kind), cell in zip(table.columns, cells, strict=True)
        )
    except (ValueError, AttributeError):  # the version itself is damaged
        return False


def _same(name: str, kind: ColumnType, value: Any, cell: Any) -> bool:
    # Short cuts for what nearly all cells are; `bind` has the last word, and costs ten times as much.
    if value is None or cell is None:
        return value is cell
    if kind in _TEXTS and type(value) is str:
        return bool(value == cell)
    # Of so few digits a number is never kept as text.
    if kind is ColumnType.NUMBER and str(cell) == value and len(value) < FLOAT_DIGITS and type(cell) is not str:
        return True
    return bool(bind(name, kind, value) == cell)


def wrong_with(state: str, pending: bool, lane: str, head: int, versions: Sequence[int], flag: int) -> Iterator[Kind]:
    """What is wrong with an item, from its states and flags. Without a detail page it has no lane, and is never due."""
    if state == "stored":
        has_head = head in versions
        if not flag & ROW:
            yield Kind.ROW_MISSING if has_head else Kind.STORED_NOTHING
        elif not has_head:
            yield Kind.VERSION_MISSING
        elif not flag & ROW_EQUAL:
            yield Kind.ROW_DIFFERS
        if has_head and len(versions) != head:
            yield Kind.HISTORY_MISSING
    elif flag & ROW or versions:
        yield Kind.NOT_MARKED_STORED
    elif state == "open" and lane and not pending:
        yield Kind.NOT_PENDING
    if state in ("dead", "ignored") and pending:
        yield Kind.PENDING_CLOSED
    if state == "dead" and not flag & LETTER:
        yield Kind.LETTER_MISSING
    if state != "dead" and flag & LETTER:
        yield Kind.LETTER_ORPHAN
