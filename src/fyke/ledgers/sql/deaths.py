"""Dead letters as visits and pages write them: at most one open letter of an item.

Keeps P2: an item that dies has its letter in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from fyke.db.connection import Connection, Listed, listed

ITEMS = """
SELECT id, source_id, scope, key, url, generation, first_started_at, entry FROM item
WHERE id IN (SELECT value FROM json_each(?))
"""
OPEN = "SELECT item_id, id FROM dead WHERE closed_at IS NULL AND item_id IN (SELECT value FROM json_each(?))"
LETTER = """
INSERT INTO dead(item_id, source_id, scope, key, url, generation, entry, outcome, reason, attempts, worker, first_at,
  died_at, evidence)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
CLOSE = "UPDATE dead SET closed_at = ?, closed_reason = ? WHERE id = ?"


class Death(Struct):
    """Why an item is dead. `first_at` counts where the item itself knows no first start."""

    item_id: int
    outcome: str
    reason: str
    attempts: int
    worker: str
    first_at: int
    evidence: str


def write_deaths(connection: Connection, deaths: Sequence[Death], now: int) -> None:
    """Write the letters of items that this transaction holds; one that has an open letter keeps that."""
    if not deaths:
        return
    ids = listed(sorted(death.item_id for death in deaths))
    written = _open_letters(connection, ids)
    items = {row[0]: row[1:] for row in connection.execute(ITEMS, (ids,))}
    rows = []
    for d in sorted(deaths, key=lambda death: death.item_id):
        if d.item_id not in written:
            source, scope, key, url, generation, started, entry = items[d.item_id]
            first_at = d.first_at if started is None else started
            told = (d.outcome, d.reason, d.attempts, d.worker, first_at, now, d.evidence)
            rows.append((d.item_id, source, scope, key, url, generation, entry, *told))
    connection.executemany(LETTER, rows)


def close_letters(connection: Connection, reasons: Mapping[int, str], now: int) -> None:
    """Close the open letters of items that this transaction holds; the reason for each item."""
    if not reasons:
        return
    letters = _open_letters(connection, listed(sorted(reasons)))
    connection.executemany(CLOSE, [(now, reasons[item], id) for item, id in sorted(letters.items())])


def _open_letters(connection: Connection, items: Listed) -> dict[int, int]:
    """item -> its open letter"""
    return dict(connection.execute(OPEN, (items,)).fetchall())
