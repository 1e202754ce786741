"""How often each expected field has a value: by day for people, and against what was usual for an alert."""

from __future__ import annotations

import sqlite3
from collections import Counter

from fyke.ledgers.sql.state import write_events
from fyke.model import Event
from fyke.policy.filling import WINDOW, fall_text, fallen

DAY_MS = 86_400_000
FILL = """
INSERT INTO fill(source_id, day, field, filled, total) VALUES (?, ?, ?, ?, ?)
ON CONFLICT(source_id, day, field) DO UPDATE SET filled = filled + excluded.filled, total = total + excluded.total
"""
MARK = """
INSERT INTO fill_mark(source_id, field, base_filled, base_total, filled, total) VALUES (?, ?, 0, 0, ?, ?)
ON CONFLICT(source_id, field) DO UPDATE SET filled = filled + excluded.filled, total = total + excluded.total
RETURNING base_filled, base_total, filled, total, fallen
"""
NEXT_WINDOW = """
UPDATE fill_mark SET base_filled = base_filled + filled, base_total = base_total + total, filled = 0, total = 0,
  fallen = 0 WHERE source_id = ? AND field = ?
"""
# A window that shows a fall does not become the base: the base is what was usual before.
STAYS_FALLEN = "UPDATE fill_mark SET filled = 0, total = 0, fallen = 1 WHERE source_id = ? AND field = ?"
NAME = "SELECT name FROM source WHERE id = ?"


class Fill:
    """How often each expected field had a value, added up over one transaction."""

    def __init__(self) -> None:
        self._filled: Counter[tuple[int, int, str]] = Counter()
        self._total: Counter[tuple[int, int, str]] = Counter()
        self._at = 0

    def add(self, source: int, at: int, filled: dict[str, bool]) -> None:
        day, self._at = at // DAY_MS, at
        for field, has_value in filled.items():
            self._total[source, day, field] += 1
            self._filled[source, day, field] += has_value

    def write(self, connection: sqlite3.Connection) -> None:
        """Add the counts; a fall is an event in the same transaction, told once until the field is back."""
        events = []
        for key in sorted(self._total):
            source, _, field = key
            connection.execute(FILL, (*key, self._filled[key], self._total[key]))
            mark = connection.execute(MARK, (source, field, self._filled[key], self._total[key])).fetchone()
            base, now, told = (mark[0], mark[1]), (mark[2], mark[3]), mark[4]
            if now[1] < WINDOW:
                continue
            if not fallen(*base, *now):
                connection.execute(NEXT_WINDOW, (source, field))
                continue
            connection.execute(STAYS_FALLEN, (source, field))
            if not told:
                (name,) = connection.execute(NAME, (source,)).fetchone()
                data = {"field": field, "before": base[0] / base[1], "now": now[0] / now[1]}
                text = fall_text(name, field, base, now)
                events.append(Event("coverage", text, source_id=name, group=field, at=self._at, data=data))
        if events:
            write_events(connection, events, self._at)
