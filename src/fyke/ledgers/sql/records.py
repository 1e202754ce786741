"""Records on their way into the database: the typed row and the version, together or not at all.

Keeps P3: one version per content. A row that the database refuses is found by halving; its neighbours are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from fyke.db.connection import Connection, listed
from fyke.db.errors import is_row_error, row_message
from fyke.db.typed import OWN_COLUMNS, TypedTable, decode_table
from fyke.model import Column, Fields

T = TypeVar("T")
TEXTS_REMEMBERED = 256
FACTS = """
SELECT s.id, s.name, s.scope, s.hash, s.has_detail, s.pool, s.priority, s.columns, s.paused_total,
  s.paused_at, s.removed_at, s.blocks, s.table_name, t.columns
FROM source s JOIN typed_table t ON t.name = s.table_name WHERE s.id IN (SELECT value FROM json_each(?))
"""
VERSION = "INSERT INTO version(item_id, n, at, hash, visit_id, content) VALUES (?, ?, ?, ?, ?, ?)"
VERSION_PLACE = OWN_COLUMNS.index("_version")
TALLY_NAMES = ("entries", "new", "known", "refused", "listed", "open", "stored", "dead", "ignored", "versions")
TALLY = (
    f"INSERT INTO tally(source_id, {', '.join(TALLY_NAMES)}) VALUES (?{', ?' * len(TALLY_NAMES)})"
    " ON CONFLICT(source_id) DO UPDATE SET "
    + ", ".join(f"{name} = tally.{name} + excluded.{name}" for name in TALLY_NAMES)
)
UNBLOCKED = "UPDATE source SET blocks = 0 WHERE id = ? AND blocks > 0"


class SourceFacts(Struct):
    """What the hot path needs of a source."""

    id: int
    name: str
    scope: str
    hash: str
    has_detail: bool
    pool: str
    priority: int
    columns: tuple[Column, ...]
    paused_total: int
    active: bool
    blocks: int
    table: TypedTable

    def record_of(self, fields: Fields) -> Fields:
        """The entry as a record: what the source's columns hold of it."""
        return {column.name: fields.get(column.name) for column in self.columns}

    def filled(self, record: Fields) -> dict[str, bool]:
        return {c.name: record.get(c.name) not in (None, "") for c in self.columns if c.expected}


class Draft(Struct):
    """A new version of an item, not yet written."""

    item_id: int
    scope: str
    key: str
    url: str
    n: int
    hash: bytes
    record: Fields
    content: str
    visit_id: int | None = None


def read_facts(connection: Connection, sources: Iterable[int]) -> dict[int, SourceFacts]:
    found = {}
    for row in connection.execute(FACTS, (listed(sorted(set(sources))),)):
        id, name, scope, hash, detail, pool, priority, columns, paused_total, *more = row
        paused_at, removed_at, blocks, table, layout = more
        active = paused_at is None and removed_at is None
        declared, typed = _columns(columns), decode_table(table, layout)
        found[id] = SourceFacts(
            id, name, scope, hash, bool(detail), pool, priority, declared, paused_total, active, blocks, typed
        )  # fmt: skip
    return found


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _columns(text: str) -> tuple[Column, ...]:
    return msgspec.json.decode(text, type=tuple[Column, ...])


def bind_drafts(
    table: TypedTable, drafts: Sequence[Draft], now: int, refused: dict[int, str]
) -> list[tuple[list[Any], tuple[Any, ...]]]:
    """A typed row and a version for each draft; what cannot be bound goes into `refused`, by its item."""
    rows: list[tuple[list[Any], tuple[Any, ...]]] = []
    for d in drafts:
        try:
            values = table.bind(d.record)
        except ValueError as error:
            refused[d.item_id] = str(error)
            continue
        typed = [d.item_id, d.scope, d.key, d.url, d.n, now, now, *values]
        rows.append((typed, (d.item_id, d.n, now, d.hash, d.visit_id, d.content)))
    return rows


def draft_parts(
    table: TypedTable, drafts: Sequence[Draft], now: int, refused: dict[int, str]
) -> list[tuple[str, list[Any]]]:
    """As `write_drafts`, as statements and rows: for a transaction that is written anew where the database refuses a
    row.
    """
    rows = bind_drafts(table, drafts, now, refused)
    first = all(typed[VERSION_PLACE] == 1 for typed, _ in rows)
    statement = table.insert if first else table.upsert
    return [(statement, [typed for typed, _ in rows]), (VERSION, [version for _, version in rows])]


def write_drafts(connection: Connection, table: TypedTable, drafts: Sequence[Draft], now: int) -> dict[int, str]:
    """Write typed rows and versions; returns the database's message for each item whose row it refused."""
    refused: dict[int, str] = {}
    rows = bind_drafts(table, drafts, now, refused)

    def write(statement: str, part: Sequence[tuple[list[Any], tuple[Any, ...]]]) -> None:
        connection.executemany(statement, [typed for typed, _ in part])
        connection.executemany(VERSION, [version for _, version in part])

    # Where all are first versions there is a quicker way; whatever it stumbles over, the other one is sure.
    first = len(rows) > 1 and all(typed[VERSION_PLACE] == 1 for typed, _ in rows)
    if first and not isolate(connection, [rows], lambda whole: write(table.insert, whole[0])):
        return refused
    for (typed, _), message in isolate(connection, rows, lambda part: write(table.upsert, part)):
        refused[typed[0]] = message
    return refused


def isolate(connection: Connection, rows: Sequence[T], write: Callable[[Sequence[T]], None]) -> list[tuple[T, str]]:
    """Write rows in one go; where the database refuses one, halve until it is alone. Returns what was refused."""
    if not rows:
        return []
    try:
        with connection.savepoint():
            write(rows)
    except Exception as error:
        if not is_row_error(error):
            raise
        if len(rows) == 1:
            return [(rows[0], row_message(error))]
        middle = len(rows) // 2
        return isolate(connection, rows[:middle], write) + isolate(connection, rows[middle:], write)
    return []


def unblock(connection: Connection, sources: Iterable[SourceFacts]) -> None:
    """A good answer came: blocks in a row are 0 again."""
    connection.executemany(UNBLOCKED, [(source.id,) for source in sorted(sources, key=lambda s: s.id) if source.blocks])


def tally_part(counts: dict[int, Counter[str]]) -> tuple[str, list[tuple[int, ...]]]:
    """Statement and rows that add counts per source."""
    return TALLY, [(source, *(counts[source][name] for name in TALLY_NAMES)) for source in sorted(counts)]


def write_tally(connection: Connection, counts: dict[int, Counter[str]]) -> None:
    """Add counts per source. The last statement of a transaction: on a server this row is what all wait for."""
    connection.executemany(*tally_part(counts))
