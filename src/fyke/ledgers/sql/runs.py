"""Runs and passes: one slot is one run, and one fence at a time may walk a listing.

Keeps P1 by UNIQUE(source, slot), with any number of schedulers; a pass that has ended or moved on refuses its old
walkers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from fyke.db.connection import Connection, listed
from fyke.errors import UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.cleaning import to_json
from fyke.ledgers.sql.coverage import read_coverage
from fyke.ledgers.sql.sources import ACTIVE, lock_source
from fyke.ledgers.sql.state import plain, spaces
from fyke.ledgers.sql.walks import cut_runs, end_run, finish_pass, hold_run_of, read_runs
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

LOW = 2  # the last of the priorities
PASS_GENERATION = 1  # a pass is one walk: what runs again is another pass
# Windows of the past wait behind the lists that show what is new.
PRIORITY = f"CASE WHEN r.started_by = 'fill' THEN {LOW} ELSE s.priority END"
TASKS_OF_RUN = f"""
SELECT p.id, p.lane, s.pool, {PRIORITY}, s.hash, p.attempts
FROM pass p JOIN source s ON s.id = p.source_id JOIN run r ON r.id = p.run_id
WHERE p.run_id = ? AND p.state = 'running' AND {ACTIVE} ORDER BY p.id
"""
SLOT = "SELECT id, state FROM run WHERE source_id = ? AND slot = ?"
# What overlaps with a planned run that would make up for the slots since one: a run of such a slot, or a later one
# that has made up for this slot.
MADE_UP = """
SELECT id, state FROM run
WHERE source_id = ? AND started_by = 'cron' AND (slot BETWEEN ? AND ? OR slot > ? AND covers_from <= ?)
ORDER BY slot DESC LIMIT 1
"""
# A row of a later slot covers those that it stands for, so that a late scheduler does not take one of them again.
LAST_PLANNED = """
SELECT id, state, slot, covers_from, reason FROM run WHERE source_id = ? AND started_by = 'cron' AND slot < ?
ORDER BY slot DESC LIMIT 2
"""
GATHER = "UPDATE run SET covers_from = ?, reason = ? WHERE id = ?"
SLOTS = re.compile(r" \((\d+) slots in a row\)$")
# One that fills goes beside the others, and so does not keep a slot from being taken.
GOING = "SELECT id FROM run WHERE source_id = ? AND state = 'running' AND started_by <> 'fill'"
FILLING = "SELECT id FROM run WHERE source_id = ? AND state = 'running' AND started_by = 'fill'"
STOPPED = "SELECT paused_at, paused_reason, removed_at FROM source WHERE id = ?"
NEW_RUN = """
INSERT INTO run(source_id, slot, covers_from, started_by, state, reason, started_at, ended_at, limit_ms, deadline)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
NEW_PASS = """
INSERT INTO pass(run_id, source_id, listing_id, state, lane, opened_at, due_at) VALUES (?, ?, ?, 'running', ?, ?, ?)
"""
LISTINGS = """
SELECT name, id, inputs FROM listing WHERE source_id = ? AND name IN (SELECT value FROM json_each(?))
"""
NEW_LISTING = "INSERT INTO listing(source_id, name, inputs, created_at) VALUES (?, ?, ?, ?)"
INPUTS = "UPDATE listing SET inputs = ? WHERE id = ?"
NOT_CONNECTED = "UPDATE pass SET connected = 0 WHERE id = ?"
HOLD = """
SELECT fence, run_id, source_id, listing_id, started_at, attempts, soft_failures, checkpoint, checkpoint_at FROM pass
WHERE id = ? AND state = 'running' FOR UPDATE
"""
OWNER = f"SELECT s.name, s.hash FROM source s WHERE s.id = ? AND {ACTIVE}"
OWNER_OF_PASS = "SELECT s.name FROM pass p JOIN source s ON s.id = p.source_id WHERE p.id = ?"
START = "UPDATE pass SET fence = ?, worker = ?, started_at = ?, read_hash = ? WHERE id = ?"
FENCED = "SELECT attempts, soft_failures FROM pass WHERE id = ? AND state = 'running' AND fence = ? FOR UPDATE"
FAILED = "UPDATE pass SET attempts = ?, soft_failures = ?, failure = ? WHERE id = ?"
# A clock that was ahead when the run began: it ends after its own length, not after that and the error.
OVERLONG = """
SELECT id, limit_ms FROM run WHERE state = 'running' AND deadline > ? + limit_ms ORDER BY id FOR UPDATE
"""
SHORTEN = "UPDATE run SET deadline = ? WHERE id = ?"
OVERDUE = "SELECT id FROM run WHERE state = 'running' AND deadline <= ? ORDER BY id FOR UPDATE"
TO_LOOK_AT = "SELECT 1 FROM run WHERE state = 'running' AND (deadline <= ? OR deadline > ? + limit_ms) LIMIT 1"
PLACE = "SELECT p.listing_id, s.scope, s.id FROM pass p JOIN source s ON s.id = p.source_id WHERE p.id = ?"
KNOWN = """
SELECT key, source_id, entry_hash, state, pending FROM item WHERE scope = ? AND key IN (SELECT value FROM json_each(?))
"""
ANCHORS = """
SELECT key FROM sighting
WHERE listing_id = ? AND key IN (SELECT value FROM json_each(?)) AND stretch_id IS NOT NULL
"""


def task_of_pass(row: tuple[Any, ...]) -> Task:
    """From (pass id, lane, pool, priority, source hash, attempts)."""
    return Task(TaskKind.PASS, row[0], PASS_GENERATION, *row[1:])


def listing_number(connection: Connection, source: int, listing: Listing, now: int) -> int:
    """The listing's row id; it is made where the source shows it for the first time."""
    return listing_numbers(connection, source, [listing], now)[0]


def listing_numbers(connection: Connection, source: int, listings: Sequence[Listing], now: int) -> list[int]:
    """As `listing_number`, for listings of different names."""
    wanted = {listing.name: to_json(listing.values) for listing in listings}
    names = listed(sorted(wanted))

    def read() -> dict[str, tuple[int, str]]:
        return {name: (id, inputs) for name, id, inputs in connection.execute(LISTINGS, (source, names))}

    found = read()
    missing = [name for name in wanted if name not in found]
    if missing:
        connection.executemany(NEW_LISTING, [(source, name, wanted[name], now) for name in missing])
        found = read()
    changed = [(wanted[name], id) for name, (id, inputs) in found.items() if inputs != wanted[name]]
    connection.executemany(INPUTS, sorted(changed, key=lambda row: row[1]))
    return [found[listing.name][0] for listing in listings]


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

        def call(connection: Connection) -> int | None:
            row = connection.execute(
                "SELECT r.slot FROM run r JOIN source s ON s.id = r.source_id"
                " WHERE s.name = ? AND r.started_by = 'cron' AND r.slot <= ? ORDER BY r.slot DESC LIMIT 1",
                (source_id, now),
            ).fetchone()
            return row[0] if row else None

        return await self._read(call)

    async def running(self, source_id: str | None = None) -> list[RunRow]:
        if source_id is None:
            rest, values = "WHERE r.state = 'running' ORDER BY r.id", []
        else:
            rest, values = "WHERE r.state = 'running' AND s.name = ? ORDER BY r.id", [source_id]
        return await self._read(lambda connection: read_runs(connection, rest, values))

    async def expire_runs(self) -> list[RunRow]:
        now = self._clock.now()

        def call(connection: Connection) -> list[RunRow]:
            overlong = connection.execute(OVERLONG, (now,)).fetchall()
            connection.executemany(SHORTEN, [(now + limit, run_id) for run_id, limit in overlong])
            overdue = [run_id for (run_id,) in connection.execute(OVERDUE, (now,))]
            ended = cut_runs(connection, overdue, "the run's time limit was reached", now)
            return read_runs(
                connection, "WHERE r.id IN (SELECT value FROM json_each(?)) ORDER BY r.id", (listed(ended),)
            )

        if not await self._read(lambda connection: connection.execute(TO_LOOK_AT, (now, now)).fetchone()):
            return []
        return await self._write(call)

    async def cancel_run(self, run_id: int, reason: str) -> None:
        now = self._clock.now()
        await self._write(lambda connection: cut_runs(connection, [run_id], plain(reason), now))

    async def start_pass(self, pass_id: int, worker: str) -> PassLease | None:
        now = self._clock.now()
        return await self._write(lambda connection: _start(connection, pass_id, worker, now))

    async def recognise(self, pass_id: int, keys: Sequence[str]) -> dict[str, Standing]:
        wanted = sorted(set(keys))
        asked = listed(wanted)

        def call(connection: Connection) -> dict[str, Standing]:
            listing, scope, source = connection.execute(PLACE, (pass_id,)).fetchone()
            known = {
                key: (bytes(hash) if owner == source else b"", state == "stored" and not pending)
                for key, owner, hash, state, pending in connection.execute(KNOWN, (scope, asked))
            }
            anchors = {key for (key,) in connection.execute(ANCHORS, (listing, asked))}
            return {key: Standing(key in known, key in anchors, *known.get(key, ())) for key in wanted}

        return await self._read(call)

    async def pass_failed(
        self, pass_id: int, fence: int, *, outcome: str, reason: str, costs: bool, evidence: Fields
    ) -> bool:
        failure = {"outcome": outcome, "reason": plain(reason), "at": self._clock.now(), "evidence": evidence}
        text = to_json(failure)

        def call(connection: Connection) -> bool:
            row = connection.execute(FENCED, (pass_id, fence)).fetchone()
            if row is not None:
                attempts, soft_failures = row[0] + int(costs), row[1] + int(not costs)
                connection.execute(FAILED, (attempts, soft_failures, text, pass_id))
            return row is not None

        return await self._write(call)

    async def end_pass(self, pass_id: int, fence: int, end: PassEnd) -> RunState | None:
        now = self._clock.now()

        def call(connection: Connection) -> RunState | None:
            hold_run_of(connection, pass_id)
            if not finish_pass(connection, pass_id, fence, end, now):
                return None
            (run_id,) = connection.execute("SELECT run_id FROM pass WHERE id = ?", (pass_id,)).fetchone()
            return end_run(connection, run_id, now)

        return await self._write(call)

    async def spread(
        self, pass_id: int, fence: int, end: PassEnd, listings: Sequence[Listing], lanes: Sequence[str]
    ) -> list[Task] | None:
        now = self._clock.now()
        # Sorted, so that two runs that make the same listings do it in one order.
        found = sorted(zip(listings, lanes, strict=True), key=lambda pair: pair[0].name)
        return await self._write(lambda connection: _spread(connection, pass_id, fence, end, found, now))


def _spread(
    connection: Connection, pass_id: int, fence: int, end: PassEnd, found: list[tuple[Listing, str]], now: int
) -> list[Task] | None:
    # The source before the run, as where it is paused or removed: new listings refer to it.
    owner = connection.execute(OWNER_OF_PASS, (pass_id,)).fetchone()
    source = lock_source(connection, owner[0]) if owner is not None else 0
    hold_run_of(connection, pass_id)
    if not finish_pass(connection, pass_id, fence, end, now):
        return None
    (run_id,) = connection.execute("SELECT run_id FROM pass WHERE id = ?", (pass_id,)).fetchone()
    numbers = listing_numbers(connection, source, [listing for listing, _ in found], now) if found else []
    walked = {number for (number,) in connection.execute("SELECT listing_id FROM pass WHERE run_id = ?", (run_id,))}
    pairs = zip(numbers, (lane for _, lane in found), strict=True)
    rows = [(run_id, source, number, lane, now, now) for number, lane in pairs if number not in walked]
    (last,) = connection.execute("SELECT max(id) FROM pass WHERE run_id = ?", (run_id,)).fetchone()
    connection.executemany(NEW_PASS, rows)
    if not end.connected:
        # What the pass did not show, those that it has found are to show.
        connection.execute(NOT_CONNECTED, (pass_id,))
    end_run(connection, run_id, now)
    return [task for task in _tasks(connection, run_id) if task.ref > last]


def _open(connection: Connection, run: NewRun, now: int) -> OpenedRun:
    source = lock_source(connection, run.source_id)
    taken = connection.execute(SLOT, (source, run.slot)).fetchone()
    if taken is None and run.trigger == "cron":
        # A scheduler that was away looked before another one took slots of these: it plans anew at its next look.
        since = run.slot if run.covers_from is None else run.covers_from
        taken = connection.execute(MADE_UP, (source, since, run.slot, run.slot, run.slot)).fetchone()
    if taken is not None:
        run_id, state = taken
        return OpenedRun(run_id, False, RunState(state), _tasks(connection, run_id))
    paused, why, removed = connection.execute(STOPPED, (source,)).fetchone()
    skipped = run.skipped or ("the source is removed" if removed else f"the source is paused: {why}" if paused else "")
    going = connection.execute(FILLING if run.trigger == "fill" else GOING, (source,)).fetchone()
    if going is not None and not skipped:
        return OpenedRun(going[0], False, RunState.RUNNING, _tasks(connection, going[0]))
    if skipped and run.trigger == "cron":
        _gather_skipped(connection, source, run.slot)
    state = RunState.SKIPPED if skipped else RunState.RUNNING
    values = (source, run.slot, run.covers_from, run.trigger, state.value, plain(skipped), now)
    run_id = connection.insert(NEW_RUN, (*values, now if skipped else None, run.limit_ms, now + run.limit_ms))
    if not skipped:
        numbers = listing_numbers(connection, source, run.listings, now)
        rows = [(run_id, source, number, lane, now, now) for number, lane in zip(numbers, run.lanes, strict=True)]
        connection.executemany(NEW_PASS, rows)
    return OpenedRun(run_id, True, state, _tasks(connection, run_id))


def _gather_skipped(connection: Connection, source: int, slot: int) -> None:
    """Slots that are skipped in a row are two rows at most: the last one, and one for those before, with their number.

    The last one stays alone: the clock may have been ahead, and then the slots before it are what the calendar goes by.
    """
    rows = connection.execute(LAST_PLANNED, (source, slot)).fetchall()
    if [state for _, state, *_ in rows] != [RunState.SKIPPED.value] * 2:
        return
    (last, _, _, _, reason), (first, _, old_slot, covers_from, told) = rows
    found = SLOTS.search(told)
    count = 1 + (int(found[1]) if found else 1)
    since = old_slot if covers_from is None else covers_from
    connection.execute("DELETE FROM run WHERE id = ?", (first,))
    connection.execute(GATHER, (since, f"{reason} ({count} slots in a row)", last))


def _tasks(connection: Connection, run_id: int) -> list[Task]:
    return [task_of_pass(row) for row in connection.execute(TASKS_OF_RUN, (run_id,))]


def _start(connection: Connection, pass_id: int, worker: str, now: int) -> PassLease | None:
    row = connection.execute(HOLD, (pass_id,)).fetchone()
    if row is None:
        return None
    fence, run_id, source, listing_id, started_at, attempts, soft_failures, checkpoint, checkpoint_at = row
    owner = connection.execute(OWNER, (source,)).fetchone()
    if owner is None:
        return None
    source_id, source_hash = owner
    fence, started_at = fence + 1, now if started_at is None else started_at
    connection.execute(START, (fence, worker, started_at, source_hash, pass_id))
    name, inputs, etag, last_modified, read_hash = connection.execute(
        "SELECT name, inputs, etag, last_modified, read_hash FROM listing WHERE id = ?", (listing_id,)
    ).fetchone()
    if read_hash != source_hash:
        # "Not modified" would hide what these rules read out of the same page.
        etag = last_modified = ""
    (deadline,) = connection.execute("SELECT deadline FROM run WHERE id = ?", (run_id,)).fetchone()
    space, known_space = spaces(connection)
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
        space=space,
        known_space=known_space,
    )
