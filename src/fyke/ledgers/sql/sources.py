"""Sources as rows of the ledger: what workers follow, whatever is on their own disks.

A changed identity, scope or table is refused, for it would make known items new (P1).
"""

from __future__ import annotations

from typing import Any

import msgspec

from fyke.db.connection import Connection
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
STORED = f"SELECT id, removed_at, {', '.join(SOURCE_VALUES)} FROM source WHERE name = ?"
# Two new sources of one scope would not see each other's rules.
ONE_AT_A_TIME = "SELECT value FROM meta WHERE name = 'schema' FOR UPDATE"
# A clock that was ahead when the source came would stop its calendar until that time.
CLAMP_APPLIED = "UPDATE source SET applied_at = ? WHERE applied_at > ?"
PAUSE = "UPDATE source SET paused_at = ?, paused_reason = ? WHERE id = ?"
RESUME = """
UPDATE source SET paused_total = paused_total + ?, paused_at = NULL, paused_reason = '', blocks = 0 WHERE id = ?
"""
REMOVE = "UPDATE source SET removed_at = ? WHERE id = ?"
STOPPED = "SELECT paused_at, removed_at FROM source WHERE id = ?"
OLD_RULE = "restore the old rule, or give the source a new id to begin anew"
MARKED = "SELECT value FROM meta WHERE name = ?"


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


def number_of(connection: Connection, source_id: str) -> int:
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


def lock_source(connection: Connection, source_id: str) -> int:
    """As `number_of`; nobody else opens a run of the source, pauses or changes it until this transaction ends."""
    number = number_of(connection, source_id)
    connection.execute("SELECT id FROM source WHERE id = ? FOR UPDATE", (number,))
    return number


class SourceStatements(Statements):
    async def apply_source(self, source: ResolvedSource) -> str:
        now = self._clock.now()
        return await self._write(lambda connection: _apply(connection, source, now))

    async def sources(self, *, removed: bool = False) -> list[SourceRow]:
        def call(connection: Connection) -> list[SourceRow]:
            rows = connection.execute(
                f"SELECT name, {', '.join(SOURCE_VALUES)}, id, applied_at, paused_at, paused_reason, paused_total,"
                f" removed_at FROM source {'' if removed else 'WHERE removed_at IS NULL'} ORDER BY id"
            )
            return [_source_row(row) for row in rows]

        found, now = await self._read(call), self._clock.now()
        if all(row.applied_at <= now for row in found):
            return found

        def clamp(connection: Connection) -> None:
            connection.execute(CLAMP_APPLIED, (now, now))

        await self._write(clamp)
        return await self._read(call)

    async def pause_source(self, source_id: str, reason: str) -> bool:
        now, why = self._clock.now(), plain(reason)

        def call(connection: Connection) -> bool:
            number, paused_at, _ = _locked(connection, source_id)
            if paused_at is None:
                connection.execute(PAUSE, (now, why, number))
            return paused_at is None

        return await self._write(call)

    async def resume_source(self, source_id: str) -> bool:
        now = self._clock.now()

        def call(connection: Connection) -> bool:
            number, paused_at, _ = _locked(connection, source_id)
            _refuse_while_moving(connection, source_id)
            if paused_at is not None:
                # The clock may have been set back meanwhile: a pause is never shorter than nothing.
                connection.execute(RESUME, (max(0, now - paused_at), number))
            return paused_at is not None

        return await self._write(call)

    async def remove_source(self, source_id: str) -> bool:
        now = self._clock.now()

        def call(connection: Connection) -> bool:
            number, _, removed_at = _locked(connection, source_id)
            if removed_at is None:
                connection.execute(REMOVE, (now, number))
            return removed_at is None

        return await self._write(call)


def _locked(connection: Connection, source_id: str) -> tuple[int, int | None, int | None]:
    """The source's row id, and since when it is paused and removed."""
    number = lock_source(connection, source_id)
    paused_at, removed_at = connection.execute(STOPPED, (number,)).fetchone()
    return number, paused_at, removed_at


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


def _apply(connection: Connection, source: ResolvedSource, now: int) -> str:
    # Twice: a table that is made ends the transaction on MariaDB, and a source that is refused must make none.
    _check(connection, source, STORED)
    widened = ensure_table(connection, source.table, source.columns, now)
    connection.execute(ONE_AT_A_TIME)
    stored = _check(connection, source, f"{STORED} FOR UPDATE")
    values = values_of(source)
    if stored is None:
        names = ", ".join((*SOURCE_VALUES, "name", "applied_at", "changed_at"))
        marks = ", ".join("?" * (len(SOURCE_VALUES) + 3))
        number = connection.insert(f"INSERT INTO source({names}) VALUES ({marks})", (*values, source.id, now, now))
        connection.execute("INSERT INTO tally(source_id) VALUES (?)", (number,))
        return "created"
    number, removed_at = stored[:2]
    _refuse_while_moving(connection, source.id)
    if values == tuple(stored[2:]) and removed_at is None and not widened:
        return "unchanged"
    write_source(connection, number, source, now)
    return "changed"


def write_source(connection: Connection, number: int, source: ResolvedSource, now: int) -> None:
    """Write what is known of a source over what was; the caller holds its row."""
    change = ", ".join(f"{name} = ?" for name in SOURCE_VALUES)
    connection.execute(
        f"UPDATE source SET {change}, changed_at = ?, removed_at = NULL WHERE id = ?",
        (*values_of(source), now, number),
    )


def _refuse_while_moving(connection: Connection, source_id: str) -> None:
    if connection.execute(MARKED, (f"rekey:{source_id}",)).fetchone() is not None:
        raise UsageError(
            f"the items of source '{source_id}' get new keys, and that has not ended",
            hint=f"`fyke source rekey {source_id}` goes on with it",
        )


def _check(connection: Connection, source: ResolvedSource, statement: str) -> tuple[Any, ...] | None:
    """The source's row; refuses what would make its items new ones."""
    stored: tuple[Any, ...] | None = connection.execute(statement, (source.id,)).fetchone()
    if stored is not None:
        old = dict(zip(SOURCE_VALUES, stored[2:], strict=True))
        way_out = f"`fyke source rekey {source.id} --dry-run` shows what their new keys would be; or {OLD_RULE}"
        _refuse_change(source, "scope", old["scope"], source.scope, way_out)
        _refuse_change(source, "store.table", old["table_name"], source.table, OLD_RULE)
        _refuse_change(source, "identity", old["identity"], source.identity, way_out)
    _refuse_disagreement(connection, source)
    return stored


def _refuse_change(source: ResolvedSource, field: str, old: str, new: str, way_out: str) -> None:
    if old != new:
        raise UsageError(
            f"source '{source.id}' has '{old}' in the ledger, and now '{new}': its items would be new ones",
            field=field,
            hint=way_out,
        )


def _refuse_disagreement(connection: Connection, source: ResolvedSource) -> None:
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
