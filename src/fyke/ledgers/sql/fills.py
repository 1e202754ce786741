"""How often each expected field has a value: by day for people, and against what was usual for an alert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fyke.db.connection import Connection, listed
from fyke.model import Event
from fyke.policy.filling import WINDOW, fall_text, fallen

DAY_MS = 86_400_000
FILL = """
INSERT INTO fill(source_id, day, field, filled, total) VALUES (?, ?, ?, ?, ?)
ON CONFLICT(source_id, day, field) DO UPDATE SET filled = fill.filled + excluded.filled,
  total = fill.total + excluded.total
"""
MARK = """
INSERT INTO fill_mark(source_id, field, base_filled, base_total, filled, total) VALUES (?, ?, 0, 0, ?, ?)
ON CONFLICT(source_id, field) DO UPDATE SET filled = fill_mark.filled + excluded.filled,
  total = fill_mark.total + excluded.total
"""
FULL_MARKS = """
SELECT m.source_id, m.field, s.name, m.base_filled, m.base_total, m.filled, m.total, m.fallen
FROM fill_mark m JOIN source s ON s.id = m.source_id
WHERE m.source_id IN (SELECT value FROM json_each(?)) AND m.total >= ? ORDER BY m.source_id, m.field
"""
NEXT_WINDOW = """
UPDATE fill_mark SET base_filled = base_filled + filled, base_total = base_total + total, filled = 0, total = 0,
  fallen = 0 WHERE source_id = ? AND field = ?
"""
# A window that shows a fall does not become the base: the base is what was usual before.
STAYS_FALLEN = "UPDATE fill_mark SET filled = 0, total = 0, fallen = 1 WHERE source_id = ? AND field = ?"


class Fill:
    """How often each expected field had a value, added up over one transaction."""

    def __init__(self) -> None:
        # (source, day, (field, has a value) …) -> how many records: nearly all of a batch are filled alike.
        self._alike: Counter[tuple[int, int, tuple[tuple[str, bool], ...]]] = Counter()
        self._at = 0
        self._written: Collection[tuple[int, str]] = ()

    def add(self, source: int, at: int, filled: dict[str, bool]) -> None:
        if filled:
            self._at = at
            self._alike[source, at // DAY_MS, tuple(filled.items())] += 1

    def write(self, connection: Connection) -> list[Event]:
        """Add the counts. Returns the events of what has fallen, told once until the field is back."""
        connection.together(self.parts())
        return self.look(connection)

    def parts(self) -> list[tuple[str, list[tuple[int | str, ...]]]]:
        """Statements and rows that add the counts; `look` comes after them."""
        if not self._alike:
            return []
        counts: dict[tuple[int, int, str], list[int]] = {}
        marks: dict[tuple[int, str], list[int]] = {}
        for (source, day, fields), records in self._alike.items():
            for field, has_value in fields:
                for count in (
                    counts.setdefault((source, day, field), [0, 0]),
                    marks.setdefault((source, field), [0, 0]),
                ):
                    count[0] += records if has_value else 0
                    count[1] += records
        self._written = marks.keys()
        return [
            (FILL, [(*key, *count) for key, count in sorted(counts.items())]),
            (MARK, [(*key, *mark) for key, mark in sorted(marks.items())]),
        ]

    def look(self, connection: Connection) -> list[Event]:
        """The events of what has fallen, told once until the field is back."""
        written = self._written
        if not written:
            return []
        # This transaction holds these rows: nobody else adds to them until it ends.
        sources = listed(sorted({source for source, _ in written}))
        events, next_window, stays_fallen = [], [], []
        for source, field, name, *numbers in connection.execute(FULL_MARKS, (sources, WINDOW)).fetchall():
            if (source, field) not in written:
                continue
            base, now, told = (numbers[0], numbers[1]), (numbers[2], numbers[3]), numbers[4]
            if not fallen(*base, *now):
                next_window.append((source, field))
                continue
            stays_fallen.append((source, field))
            if not told:
                data = {"field": field, "before": base[0] / base[1], "now": now[0] / now[1]}
                text = fall_text(name, field, base, now)
                events.append(Event("coverage", text, source_id=name, group=field, at=self._at, data=data))
        connection.executemany(NEXT_WINDOW, next_window)
        connection.executemany(STAYS_FALLEN, stays_fallen)
        return events
