"""Sources as rows of the ledger: what workers follow, whatever is on their own disks.

A changed identity, scope or table is refused, for it would make known items new (P1).
"""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from fyke.db.typed import ensure_table
from fyke.errors import UsageError, nearest
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.state import plain
from fyke.model import Column, LanePolicy, ResolvedSource, SourceRow

# What a source's row holds of the source, in the order of SOURCE_VALUES.
SOURCE_VALUES = (
    "title", "text", "hash", "scope", "table_name", "identity", "columns", "has_detail", "lanes", "pool", "priority",
)  # fmt: skip
ACTIVE = "s.paused_at IS NULL AND s.removed_at IS NULL"
WAY_OUT = "restore the old rule, or give the source a new id to begin anew"


def values_of(source: ResolvedSource) -> tuple[Any, ...]:
    return (
        source.title,
        source.text,
        source.hash,
        source.scope,
        source.table,
        source.identity,
        msgspec.json.encode(source.columns).decode(),
        int(source.has_detail),
        msgspec.json.encode(source.lanes).decode(),
        source.pool,
        source.priority,
    )


def number_of(connection: sqlite3.Connection, source_id: str) -> int:
    """The source's row id.

    Raises:
        UsageError: the ledger has no such source; the hint has the nearest name.
    """
    row = connection.execute("SELECT id FROM source WHERE name = ?", (source_id,)).fetchone()
    if row is None:
        names = [name for (name,) in connection.execute("SELECT name FROM source")]
        hint = nearest(source_id, names) or "`fyke source list` shows what there is"
        raise UsageError(f"no source '{source_id}' in the ledger", hint=hint)
    return int(row[0])


# A clock that was ahead when the source came would stop its calendar until that time.
CLAMP_APPLIED = "UPDATE source SET applied_at = ?1 WHERE applied_at > ?1"


class SourceStatements(Statements):
    async def apply_source(self, source: ResolvedSource) -> str:
        now = self._clock.now()
        return await self._write(lambda connection: _apply(connection, source, now))

    async def sources(self, *, removed: bool = False) -> list[SourceRow]:
        def call(connection: sqlite3.Connection) -> list[SourceRow]:
            rows = connection.execute(
                f"SELECT name, {', '.join(SOURCE_VALUES)}, id, applied_at, paused_at, paused_reason, paused_total,"
                f" removed_at FROM source {'' if removed else 'WHERE removed_at IS NULL'} ORDER BY id"
            )
            return [_source_row(row) for row in rows]

        found, now = await self._read(call), self._clock.now()
        if all(row.applied_at <= now for row in found):
            return found
        await self._write(lambda connection: connection.execute(CLAMP_APPLIED, (now,)).rowcount)
        return await self._read(call)

    async def pause_source(self, source_id: str, reason: str) -> bool:
        values = (self._clock.now(), plain(reason))
        return await self._set(source_id, "paused_at = ?, paused_reason = ?", values, "paused_at IS NULL")

    async def resume_source(self, source_id: str) -> bool:
        # The clock may have been set back meanwhile: a pause is never shorter than nothing.
        change = "paused_total = paused_total + max(0, ? - paused_at), paused_at = NULL, paused_reason = '', blocks = 0"
        return await self._set(source_id, change, (self._clock.now(),), "paused_at IS NOT NULL")

    async def remove_source(self, source_id: str) -> bool:
        return await self._set(source_id, "removed_at = ?", (self._clock.now(),), "removed_at IS NULL")

    async def _set(self, source_id: str, change: str, values: tuple[Any, ...], condition: str) -> bool:
        def call(connection: sqlite3.Connection) -> bool:
            number = number_of(connection, source_id)
            statement = f"UPDATE source SET {change} WHERE id = ? AND {condition} RETURNING id"
            return connection.execute(statement, (*values, number)).fetchone() is not None

        return await self._write(call)


def _source_row(row: tuple[Any, ...]) -> SourceRow:
    name, title, text, hash, scope, table, identity, columns, has_detail, lanes, pool, priority, *rest = row
    source = ResolvedSource(
        id=name,
        title=title,
        text=text,
        hash=hash,
        scope=scope,
        table=table,
        identity=identity,
        columns=msgspec.json.decode(columns, type=tuple[Column, ...]),
        has_detail=bool(has_detail),
        lanes=msgspec.json.decode(lanes, type=tuple[LanePolicy, ...]),
        pool=pool,
        priority=priority,
    )
    number, applied_at, paused_at, paused_reason, paused_total, removed_at = rest
    return SourceRow(number, source, applied_at, paused_at, paused_reason, paused_total, removed_at)


def _apply(connection: sqlite3.Connection, source: ResolvedSource, now: int) -> str:
    stored = connection.execute(
        f"SELECT id, removed_at, {', '.join(SOURCE_VALUES)} FROM source WHERE name = ?", (source.id,)
    ).fetchone()
    if stored is not None:
        old = dict(zip(SOURCE_VALUES, stored[2:], strict=True))
        _refuse_change(source, "scope", old["scope"], source.scope)
        _refuse_change(source, "store.table", old["table_name"], source.table)
        _refuse_change(source, "identity", old["identity"], source.identity)
    _refuse_disagreement(connection, source)
    widened = ensure_table(connection, source.table, source.columns, now)
    values = values_of(source)
    if stored is None:
        names = ", ".join((*SOURCE_VALUES, "name", "applied_at", "changed_at"))
        marks = ", ".join("?" * (len(SOURCE_VALUES) + 3))
        found = connection.execute(f"INSERT INTO source({names}) VALUES ({marks})", (*values, source.id, now, now))
        connection.execute("INSERT INTO tally(source_id) VALUES (?)", (found.lastrowid,))
        return "created"
    number, removed_at = stored[:2]
    if values == stored[2:] and removed_at is None and not widened:
        return "unchanged"
    change = ", ".join(f"{name} = ?" for name in SOURCE_VALUES)
    connection.execute(
        f"UPDATE source SET {change}, changed_at = ?, removed_at = NULL WHERE id = ?", (*values, now, number)
    )
    return "changed"


def _refuse_change(source: ResolvedSource, field: str, old: str, new: str) -> None:
    if old != new:
        raise UsageError(
            f"source '{source.id}' has '{old}' in the ledger, and now '{new}': its items would be new ones",
            field=field,
            hint=WAY_OUT,
        )


def _refuse_disagreement(connection: sqlite3.Connection, source: ResolvedSource) -> None:
    others = connection.execute(
        "SELECT name, table_name, identity FROM source WHERE scope = ? AND name != ? ORDER BY id",
        (source.scope, source.id),
    )
    for name, table, identity in others:
        for field, theirs, ours in (("store.table", table, source.table), ("identity", identity, source.identity)):
            if theirs != ours:
                raise UsageError(
                    f"source '{source.id}' has '{ours}', and source '{name}' of the same scope '{source.scope}' has"
                    f" '{theirs}'",
                    field=field,
                    hint=f"use '{theirs}' here too, or give one of the two another scope",
                )
