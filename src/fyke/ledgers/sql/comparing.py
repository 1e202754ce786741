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
# Of which columns a value is kept as it is.
_PLAIN: dict[type, tuple[ColumnType, ...]] = {
    str: (ColumnType.TEXT, ColumnType.DATETIME),
    bool: (ColumnType.BOOLEAN,),
    int: (ColumnType.INTEGER,),
}


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
        get = _decode(content).get
        for (name, kind), cell in zip(table.columns, cells, strict=True):
            value = get(name)
            if value is None or cell is None:
                if value is not cell:
                    return False
            # Short cuts for what nearly all cells are; `bind` has the last word, and costs ten times as much.
            elif type(value) in _PLAIN and kind in _PLAIN[type(value)]:
                if value != cell:
                    return False
            elif not _same_number(kind, value, cell) and bind(name, kind, value) != cell:
                return False
    except (ValueError, AttributeError):  # the version itself is damaged
        return False
    return True


def _same_number(kind: ColumnType, value: Any, cell: Any) -> bool:
    # Of so few digits a number is never kept as text.
    return kind is ColumnType.NUMBER and str(cell) == value and len(value) < FLOAT_DIGITS and type(cell) is not str


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
