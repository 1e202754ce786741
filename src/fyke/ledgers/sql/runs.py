"""Runs and passes: one slot is one run, and one fence at a time may walk a listing.

Keeps P1 by UNIQUE(source, slot), with any number of schedulers; a pass that has ended or moved on refuses its old
walkers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.cleaning import to_json
from fyke.ledgers.sql.coverage import read_coverage
from fyke.ledgers.sql.sources import ACTIVE, number_of
from fyke.ledgers.sql.state import plain
from fyke.ledgers.sql.walks import cut_run, end_run, finish_pass, read_runs
from fyke.model import (
    Fields,
    Listing,
    NewRun,
    OpenedRun,
    PassEnd,
    PassLease,
    RunRow,
    RunState,
    Standing,
    Task,
    TaskKind,
)

PASS_GENERATION = 1  # a pass is one walk: what runs again is another pass
TASKS_OF_RUN = f"""
SELECT p.id, p.lane, s.pool, s.priority, s.hash, p.attempts FROM pass p JOIN source s ON s.id = p.source_id
WHERE p.run_id = ? AND p.state = 'running' AND {ACTIVE} ORDER BY p.id
"""
GOING = "SELECT id FROM run WHERE source_id = ? AND state = 'running'"
START = f"""
UPDATE pass SET fence = fence + 1, worker = ?, started_at = coalesce(started_at, ?),
  read_hash = (SELECT hash FROM source o WHERE o.id = pass.source_id)
WHERE id = ? AND state = 'running' AND EXISTS (SELECT 1 FROM source s WHERE s.id = pass.source_id AND {ACTIVE})
RETURNING fence, run_id, source_id, listing_id, started_at, attempts, soft_failures, checkpoint, checkpoint_at
"""
FAILED = """
UPDATE pass SET attempts = attempts + ?, soft_failures = soft_failures + ?, failure = ?
WHERE id = ? AND state = 'running' AND fence = ? RETURNING id
"""
RECOGNISE = """
SELECT j.value, i.id IS NOT NULL, g.stretch_id IS NOT NULL
FROM json_each(?) j
LEFT JOIN item i ON i.scope = ? AND i.key = j.value
LEFT JOIN sighting g ON g.listing_id = ? AND g.key = j.value
"""


def task_of_pass(row: tuple[Any, ...]) -> Task:
    """From (pass id, lane, pool, priority, source hash, attempts)."""
    return Task(TaskKind.PASS, row[0], PASS_GENERATION, *row[1:])


def listing_number(connection: sqlite3.Connection, source: int, listing: Listing, now: int) -> int:
    """The listing's row id; it is made where the source shows it for the first time."""
    inputs = to_json(listing.values)
    row = connection.execute(
        "SELECT id, inputs FROM listing WHERE source_id = ? AND name = ?", (source, listing.name)
    ).fetchone()
    if row is None:
        found = connection.execute(
            "INSERT INTO listing(source_id, name, inputs, created_at) VALUES (?, ?, ?, ?)",
            (source, listing.name, inputs, now),
        )
        assert found.lastrowid is not None
        return found.lastrowid
    if row[1] != inputs:
        connection.execute("UPDATE listing SET inputs = ? WHERE id = ?", (inputs, row[0]))
    return int(row[0])


class RunStatements(Statements):
    async def open_run(self, run: NewRun) -> OpenedRun:
        if len(run.lanes) != len(run.listings) or not (run.listings or run.skipped):
            raise UsageError(f"a run of '{run.source_id}' has {len(run.listings)} listings and {len(run.lanes)} lanes")
        if len({listing.name for listing in run.listings}) < len(run.listings):
            raise UsageError(f"source '{run.source_id}' has two listings of one name", hint="name each differently")
        now = self._clock.now()
        return await self._write(lambda connection: _open(connection, run, now))

    async def last_run(self, source_id: str) -> RunRow | None:
        rest = "WHERE s.name = ? ORDER BY r.slot DESC LIMIT 1"
        runs = await self._read(lambda connection: read_runs(connection, rest, (source_id,)))
        return runs[0] if runs else None

    async def last_cron_slot(self, source_id: str) -> int | None:
        now = self._clock.now()

        def call(connection: sqlite3.Connection) -> int | None:
            row = connection.execute(
                "SELECT r.slot FROM run r JOIN source s ON s.id = r.source_id"
                " WHERE s.name = ? AND r.started_by = 'cron' AND r.slot <= ? ORDER BY r.slot DESC LIMIT 1",
                (source_id, now),
            ).fetchone()
            return row[0] if row else None

        return await self._read(call)

    async def running(self, source_id: str | None = None) -> list[RunRow]:
        rest = "WHERE r.state = 'running' AND (? IS NULL OR s.name = ?) ORDER BY r.id"
        return await self._read(lambda connection: read_runs(connection, rest, (source_id, source_id)))

    async def expire_runs(self) -> list[RunRow]:
        now = self._clock.now()

        def call(connection: sqlite3.Connection) -> list[RunRow]:
            # The clock was ahead when the run began: it ends after its own length, not after that and the error.
            connection.execute(
                "UPDATE run SET deadline = ?1 + limit_ms WHERE state = 'running' AND deadline > ?1 + limit_ms", (now,)
            )
            rows = connection.execute("SELECT id FROM run WHERE state = 'running' AND deadline <= ?", (now,)).fetchall()
            reason = "the run's time limit was reached"
            ended = [run_id for (run_id,) in rows if cut_run(connection, run_id, reason, now)]
            return read_runs(
                connection, "WHERE r.id IN (SELECT value FROM json_each(?)) ORDER BY r.id", (to_json(ended),)
            )

        due = "SELECT 1 FROM run WHERE state = 'running' AND (deadline <= ?1 OR deadline > ?1 + limit_ms) LIMIT 1"
        if not await self._read(lambda connection: connection.execute(due, (now,)).fetchone()):
            return []
        return await self._write(call)

    async def cancel_run(self, run_id: int, reason: str) -> None:
        now = self._clock.now()
        await self._write(lambda connection: cut_run(connection, run_id, plain(reason), now))

    async def start_pass(self, pass_id: int, worker: str) -> PassLease | None:
        now = self._clock.now()
        return await self._write(lambda connection: _start(connection, pass_id, worker, now))

    async def recognise(self, pass_id: int, keys: Sequence[str]) -> dict[str, Standing]:
        def call(connection: sqlite3.Connection) -> dict[str, Standing]:
            listing, scope = connection.execute(
                "SELECT p.listing_id, s.scope FROM pass p JOIN source s ON s.id = p.source_id WHERE p.id = ?",
                (pass_id,),
            ).fetchone()
            rows = connection.execute(RECOGNISE, (to_json(sorted(set(keys))), scope, listing))
            return {key: Standing(bool(known), bool(anchor)) for key, known, anchor in rows}

        return await self._read(call)

    async def pass_failed(
        self, pass_id: int, fence: int, *, outcome: str, reason: str, costs: bool, evidence: Fields
    ) -> bool:
        failure = {"outcome": outcome, "reason": plain(reason), "at": self._clock.now(), "evidence": evidence}
        values = (int(costs), int(not costs), to_json(failure), pass_id, fence)
        return await self._write(lambda connection: connection.execute(FAILED, values).fetchone() is not None)

    async def end_pass(self, pass_id: int, fence: int, end: PassEnd) -> RunState | None:
        now = self._clock.now()

        def call(connection: sqlite3.Connection) -> RunState | None:
            if not finish_pass(connection, pass_id, fence, end, now):
                return None
            (run_id,) = connection.execute("SELECT run_id FROM pass WHERE id = ?", (pass_id,)).fetchone()
            return end_run(connection, run_id, now)

        return await self._write(call)


def _open(connection: sqlite3.Connection, run: NewRun, now: int) -> OpenedRun:
    source = number_of(connection, run.source_id)
    taken = connection.execute(
        "SELECT id, state FROM run WHERE source_id = ? AND slot = ?", (source, run.slot)
    ).fetchone()
    if taken is not None:
        run_id, state = taken
        return OpenedRun(run_id, False, RunState(state), _tasks(connection, run_id))
    paused, why, removed = connection.execute(
        "SELECT paused_at, paused_reason, removed_at FROM source WHERE id = ?", (source,)
    ).fetchone()
    skipped = run.skipped or ("the source is removed" if removed else f"the source is paused: {why}" if paused else "")
    going = connection.execute(GOING, (source,)).fetchone()
    if going is not None and not skipped:
        return OpenedRun(going[0], False, RunState.RUNNING, _tasks(connection, going[0]))
    state = RunState.SKIPPED if skipped else RunState.RUNNING
    found = connection.execute(
        "INSERT INTO run(source_id, slot, covers_from, started_by, state, reason, started_at, ended_at, limit_ms,"
        " deadline) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(source, run.slot, run.covers_from, run.trigger, state.value, plain(skipped), now),
            *(now if skipped else None, run.limit_ms, now + run.limit_ms),
        ),
    )
    assert found.lastrowid is not None
    if not skipped:
        for listing, lane in zip(run.listings, run.lanes, strict=True):
            number = listing_number(connection, source, listing, now)
            connection.execute(
                "INSERT INTO pass(run_id, source_id, listing_id, state, lane, opened_at, due_at)"
                " VALUES (?, ?, ?, 'running', ?, ?, ?)",
                (found.lastrowid, source, number, lane, now, now),
            )
    return OpenedRun(found.lastrowid, True, state, _tasks(connection, found.lastrowid))


def _tasks(connection: sqlite3.Connection, run_id: int) -> list[Task]:
    return [task_of_pass(row) for row in connection.execute(TASKS_OF_RUN, (run_id,))]


def _start(connection: sqlite3.Connection, pass_id: int, worker: str, now: int) -> PassLease | None:
    row = connection.execute(START, (worker, now, pass_id)).fetchone()
    if row is None:
        return None
    fence, run_id, source, listing_id, started_at, attempts, soft_failures, checkpoint, checkpoint_at = row
    source_id, source_hash = connection.execute("SELECT name, hash FROM source WHERE id = ?", (source,)).fetchone()
    name, inputs, etag, last_modified, read_hash = connection.execute(
        "SELECT name, inputs, etag, last_modified, read_hash FROM listing WHERE id = ?", (listing_id,)
    ).fetchone()
    if read_hash != source_hash:
        # "Not modified" would hide what these rules read out of the same page.
        etag = last_modified = ""
    (deadline,) = connection.execute("SELECT deadline FROM run WHERE id = ?", (run_id,)).fetchone()
    accepted = connection.execute("SELECT fingerprint FROM accepted_refusal WHERE source_id = ?", (source,))
    return PassLease(
        pass_id=pass_id,
        fence=fence,
        run_id=run_id,
        source_id=source_id,
        source_hash=source_hash,
        listing=Listing(name, msgspec.json.decode(inputs)),
        coverage=read_coverage(connection, listing_id),
        deadline=deadline,
        started_at=started_at,
        attempts=attempts,
        soft_failures=soft_failures,
        checkpoint=checkpoint,
        checkpoint_at=checkpoint_at,
        etag=etag,
        last_modified=last_modified,
        accepted_refusals=frozenset(fingerprint for (fingerprint,) in accepted),
    )
