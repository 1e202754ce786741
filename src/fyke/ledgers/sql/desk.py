"""What a person reads and decides: counts, runs, holes, rows.

Keeps P5: a hole ends only when it is filled or closed with a reason, and a suspicious walk covers only once a person
has accepted it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from fyke.db.connection import Connection, listed
from fyke.db.typed import OWN_COLUMNS, bind, quoted, read_table
from fyke.errors import UsageError, nearest
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.coverage import cover
from fyke.ledgers.sql.letters import reason_given
from fyke.ledgers.sql.sources import number_of
from fyke.ledgers.sql.walks import STATES_OF_RUN, WORST, read_runs
from fyke.model import Column, ColumnType, Fields, GapRow, PassState, RunRow, SourceCounts

ROWS_CHUNK = 1_000
RUNS_LIMIT = 10_000
OWN_TEXT = ("_scope", "_key", "_url")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")

# The open item with the lowest id is the one that was listed first: no walk over all that is open.
COUNTS = """
SELECT s.id, s.name, s.title, s.table_name, coalesce(s.paused_at, s.removed_at),
  CASE WHEN s.removed_at IS NOT NULL THEN 'removed' ELSE s.paused_reason END,
  t.entries, t.listed, t.stored, t.dead, t.ignored, t.open, t.refused, t.versions,
  (SELECT i.opened_at FROM item i WHERE i.source_id = s.id AND i.state = 'open' ORDER BY i.id LIMIT 1)
FROM source s JOIN tally t ON t.source_id = s.id
WHERE s.removed_at IS NULL OR t.listed > 0 ORDER BY s.name
"""
LAST_RUNS = "SELECT (SELECT r.id FROM run r WHERE r.source_id = o.id ORDER BY r.slot DESC LIMIT 1) FROM source o"
THESE_RUNS = "WHERE r.id IN (SELECT value FROM json_each(?))"
GAPS = """
SELECT h.id, s.name, l.name, h.found_at, h.newer_key, h.newer_at, h.older_key, h.older_at, h.reason, h.closed_at,
  h.closed_reason
FROM hole h JOIN listing l ON l.id = h.listing_id JOIN source s ON s.id = l.source_id
{where} ORDER BY h.found_at DESC, h.id DESC
"""
SUSPICIOUS = """
SELECT id, listing_id, source_id, connected, entries, first_page_rows FROM pass
WHERE run_id = ? AND state = 'suspicious' ORDER BY id FOR UPDATE
"""
REFUSED = """
SELECT DISTINCT r.fingerprint FROM refused r WHERE r.pass_id = ? AND NOT EXISTS (
  SELECT 1 FROM accepted_refusal a WHERE a.source_id = ? AND a.fingerprint = r.fingerprint)
"""
ACCEPT = "INSERT INTO accepted_refusal(source_id, fingerprint, reason, at) VALUES (?, ?, ?, ?)"


class DeskStatements(Statements):
    async def counts(self) -> list[SourceCounts]:
        def call(connection: Connection) -> list[SourceCounts]:
            runs = [run for (run,) in connection.execute(LAST_RUNS) if run is not None]
            last = {run.source_id: run for run in read_runs(connection, THESE_RUNS, (listed(runs),))}
            return [SourceCounts(*(*row[1:], last.get(row[1]))) for row in connection.execute(COUNTS)]

        return await self._read(call)

    async def runs(self, source_id: str | None = None, limit: int = 20) -> list[RunRow]:
        rest = f"{'WHERE s.name = ?' if source_id else ''} ORDER BY r.started_at DESC, r.id DESC LIMIT ?"
        values = (*([source_id] if source_id else []), min(limit, RUNS_LIMIT))
        return await self._read(lambda connection: read_runs(connection, rest, values))

    async def accept_run(self, run_id: int, reason: str) -> int:
        why, now = reason_given(reason, "accept a run"), self._clock.now()
        return await self._write(lambda connection: _accept(connection, run_id, why, now))

    async def gaps(self, *, closed: bool = False) -> list[GapRow]:
        statement = GAPS.format(where="" if closed else "WHERE h.closed_at IS NULL")
        return await self._read(lambda connection: [GapRow(*row) for row in connection.execute(statement)])

    async def close_gap(self, gap_id: int, reason: str) -> bool:
        now, why = self._clock.now(), reason_given(reason, "close a gap")

        def call(connection: Connection) -> bool:
            row = connection.execute("SELECT closed_at FROM hole WHERE id = ? FOR UPDATE", (gap_id,)).fetchone()
            if row is None or row[0] is not None:
                return False
            connection.execute("UPDATE hole SET closed_at = ?, closed_reason = ? WHERE id = ?", (now, why, gap_id))
            return True

        return await self._write(call)

    async def rows(self, source_id: str, *, where: Sequence[tuple[str, str, Any]] = ()) -> AsyncIterator[list[Fields]]:
        wanted = await self._read(lambda connection: _select(connection, source_id, where))
        after = 0
        while True:
            chunk = await self._read(partial(wanted.chunk, after=after))
            if not chunk:
                return
            after = chunk[-1][0]
            yield [wanted.fields(row) for row in chunk]
            if len(chunk) < ROWS_CHUNK:
                return


class _Select(Struct, frozen=True):
    statement: str
    values: list[Any]
    columns: list[tuple[str, ColumnType]]

    def chunk(self, connection: Connection, *, after: int) -> list[tuple[Any, ...]]:
        return connection.execute(self.statement, (after, *self.values, after, ROWS_CHUNK)).fetchall()

    def fields(self, row: tuple[Any, ...]) -> Fields:
        return {name: shown(kind, value) for (name, kind), value in zip(self.columns, row[1:], strict=True)}


def shown(kind: ColumnType, value: Any) -> Any:
    """A stored value as people and programs read it."""
    if value is None:
        return None
    if kind is ColumnType.BOOLEAN:
        return bool(value)
    return msgspec.json.decode(value) if kind is ColumnType.JSON else value


def _select(connection: Connection, source_id: str, where: Sequence[tuple[str, str, Any]]) -> _Select:
    source = number_of(connection, source_id)
    table_name, scope, text = connection.execute(
        "SELECT table_name, scope, columns FROM source WHERE id = ?", (source,)
    ).fetchone()
    table = read_table(connection, table_name)
    if table is None:
        raise UsageError(f"source '{source_id}' has no table '{table_name}'", hint="`fyke source apply` makes it")
    own = [(name, ColumnType.TEXT if name in OWN_TEXT else ColumnType.INTEGER) for name in OWN_COLUMNS]
    declared = [(column.name, column.type) for column in msgspec.json.decode(text, type=tuple[Column, ...])]
    columns = [*declared, *own]
    kinds = dict(columns)
    conditions = ["t._scope = ?", "(i.id IS NULL OR i.source_id = ?)"]
    values: list[Any] = [scope, source]
    for name, operator, value in where:
        if name not in kinds:
            raise UsageError(
                f"table '{table_name}' has no column '{name}'", hint=nearest(name, kinds) or ", ".join(kinds)
            )
        if operator not in OPERATORS:
            raise UsageError(f"'{operator}' is no comparison", hint=" ".join(OPERATORS))
        try:
            values.append(bind(name, kinds[name], value))
        except ValueError as error:
            raise UsageError(str(error)) from None
        conditions.append(f"t.{quoted(name)} {operator} ?")
    names = ", ".join(f"t.{quoted(name)}" for name, _ in columns)
    # Without a bound of its own the items would be joined from the first one on for each chunk, on some servers.
    statement = (
        f"SELECT t._item_id, {names} FROM {quoted(table.name)} t LEFT JOIN item i ON i.id = t._item_id AND i.id > ?"
        f" WHERE {' AND '.join(conditions)} AND t._item_id > ? ORDER BY t._item_id LIMIT ?"
    )
    return _Select(statement, values, columns)


def _accept(connection: Connection, run_id: int, reason: str, now: int) -> int:
    run = connection.execute("SELECT state, reason FROM run WHERE id = ? FOR UPDATE", (run_id,)).fetchone()
    if run is None:
        raise UsageError(f"there is no run {run_id}", hint="`fyke runs` shows their numbers")
    passes = connection.execute(SUSPICIOUS, (run_id,)).fetchall()
    for pass_id, listing, source, connected, entries, rows in passes:
        # What had not met the known rows before the checks spoke is right as far as it went: its hole stays. A list
        # that is rightly empty has none.
        joined = bool(connected) or entries == 0
        state = PassState.COMPLETE if joined else PassState.GAP
        connection.execute("UPDATE pass SET state = ? WHERE id = ?", (state.value, pass_id))
        cover(connection, pass_id, joined=joined, now=now, reason="accepted, but it met nothing known")
        connection.execute("UPDATE listing SET usual_rows = ? WHERE id = ?", (rows, listing))
        refused = connection.execute(REFUSED, (pass_id, source)).fetchall()
        connection.executemany(ACCEPT, [(source, found, reason, now) for (found,) in refused])
    if passes:
        connection.execute(
            "UPDATE run SET accepted_at = ?, accepted_reason = ?, state = ?, reason = ? WHERE id = ?",
            (now, reason, *_run_now(connection, run_id, *run), run_id),
        )
    return len(passes)


def _run_now(connection: Connection, run_id: int, state: str, reason: str) -> tuple[str, str]:
    """The run's state and reason, after its passes have changed."""
    if state == "running":
        # It ends, and gets its state, with its last pass.
        return state, reason
    states = [(PassState(found), why) for found, why in connection.execute(STATES_OF_RUN, (run_id,))]
    worst, why = max(states, key=lambda found: WORST.index(found[0]))
    return worst.value, why if worst is not PassState.COMPLETE else ""
