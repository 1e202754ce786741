"""How walks and runs end, and how runs are read back.

A run's state is its worst pass, and it ends with its last one; what a person should know is written in the same
transaction as an event (P5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fyke.db.connection import Connection, listed
from fyke.ledgers.sql.coverage import cover
from fyke.ledgers.sql.state import plain, write_events
from fyke.model import Event, PassEnd, PassRow, PassState, RunRow, RunState

RUN_COLUMNS = """
r.id, s.name, r.slot, r.covers_from, r.started_by, r.state, r.reason, r.started_at, r.ended_at, r.deadline,
r.accepted_at
"""
PASSES = """
SELECT p.run_id, p.id, l.name, p.state, p.reason, p.failure, p.note, p.pages, p.entries, p.new, p.known, p.refused,
  p.started_at, p.ended_at
FROM pass p JOIN listing l ON l.id = p.listing_id
WHERE p.run_id IN (SELECT value FROM json_each(?)) ORDER BY p.run_id, p.id
"""
RUN_OF_PASS = "SELECT run_id FROM pass WHERE id = ?"
LOCK_RUN = "SELECT state FROM run WHERE id = ? FOR UPDATE"
RUNNING = "SELECT run_id, listing_id, pages, read_hash FROM pass WHERE id = ? AND state = 'running' FOR UPDATE"
FENCED = """
SELECT run_id, listing_id, pages, read_hash FROM pass WHERE id = ? AND state = 'running' AND fence = ? FOR UPDATE
"""
LOCK_RUNS = "SELECT id FROM run WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id FOR UPDATE"
RUNNING_OF_RUNS = """
SELECT id FROM pass WHERE run_id IN (SELECT value FROM json_each(?)) AND state = 'running' ORDER BY id FOR UPDATE
"""
END_PASS = """
UPDATE pass SET state = ?, reason = ?, note = ?, ended_at = ?, connected = ?, first_page_rows = ?, newest_key = ?,
  newest_at = ?, oldest_key = ?, oldest_at = ?
WHERE id = ?
"""
END_RUN = "UPDATE run SET state = ?, reason = ?, ended_at = ? WHERE id = ?"
STATES_OF_RUN = "SELECT state, reason FROM pass WHERE run_id = ? ORDER BY id"
WORST = tuple(PassState)  # from best to worst
TOLD = (PassState.GAP, PassState.SUSPICIOUS, PassState.FAILED, PassState.TIMED_OUT)


def read_runs(connection: Connection, rest: str, values: Sequence[Any] = ()) -> list[RunRow]:
    """Runs with their passes; `rest` is what follows ``FROM run r JOIN source s``."""
    runs = connection.execute(
        f"SELECT {RUN_COLUMNS} FROM run r JOIN source s ON s.id = r.source_id {rest}", values
    ).fetchall()
    passes: dict[int, list[PassRow]] = {row[0]: [] for row in runs}
    for run_id, id, listing, state, said, failure, *more in connection.execute(PASSES, (listed(passes),)):
        reason = _not_read_yet(failure) if state == PassState.RUNNING and failure is not None else said
        passes[run_id].append(PassRow(id, listing, PassState(state), reason, *more))
    return [_run_row(row, passes[row[0]]) for row in runs]


def _not_read_yet(failure: str) -> str:
    last = msgspec.json.decode(failure)
    return f"not read yet: {last['outcome']}: {last['reason']}"


def _run_row(row: tuple[Any, ...], passes: list[PassRow]) -> RunRow:
    id, source_id, slot, covers_from, trigger, state, reason, started_at, ended_at, deadline, accepted_at = row
    return RunRow(
        id=id,
        source_id=source_id,
        slot=slot,
        covers_from=covers_from,
        trigger=trigger,
        state=RunState(state),
        reason=reason,
        started_at=started_at,
        ended_at=ended_at,
        deadline=deadline,
        accepted_at=accepted_at,
        entries=sum(walk.entries for walk in passes),
        new=sum(walk.new for walk in passes),
        known=sum(walk.known for walk in passes),
        refused=sum(walk.refused for walk in passes),
        passes=passes,
    )


def hold_run_of(connection: Connection, pass_id: int) -> None:
    """Lock the pass's run, before the pass. Two passes that end at once wait here, so one of them is the last."""
    row = connection.execute(RUN_OF_PASS, (pass_id,)).fetchone()
    if row is not None and row[0] is not None:
        connection.execute(LOCK_RUN, row)


def finish_pass(connection: Connection, pass_id: int, fence: int | None, end: PassEnd, now: int) -> bool:
    """End a running pass with all that hangs on it; False where it is not running or `fence` is not the live one.

    The caller holds its run. Without a fence whoever walks it is cut off: its pages are refused from now on.
    """
    if fence is None:
        row = connection.execute(RUNNING, (pass_id,)).fetchone()
    else:
        row = connection.execute(FENCED, (pass_id, fence)).fetchone()
    if row is None:
        return False
    run_id, listing_id, pages, read_hash = row
    connection.execute(END_PASS, (*_ending(end, now), pass_id))
    name, listing, usual = connection.execute(
        "SELECT s.name, l.name, l.usual_rows FROM listing l JOIN source s ON s.id = l.source_id WHERE l.id = ?",
        (listing_id,),
    ).fetchone()
    if end.state in (PassState.COMPLETE, PassState.GAP):
        cover(connection, pass_id, joined=end.state is PassState.COMPLETE, now=now, reason=plain(end.reason))
    if end.state is PassState.COMPLETE:
        _remember_page(connection, listing_id, end, pages, read_hash)
    if end.state in TOLD:
        write_events(connection, [_event(end, name, listing, usual, run_id, pass_id)], now)
    return True


def _ending(end: PassEnd, now: int) -> tuple[Any, ...]:
    connected = int(end.connected or end.state is PassState.COMPLETE)
    edges = (end.newest_key, end.newest_at, end.oldest_key, end.oldest_at)
    return (end.state.value, plain(end.reason), plain(end.note), now, connected, end.first_page_rows, *edges)


def end_run(connection: Connection, run_id: int, now: int) -> RunState | None:
    """End the run if its last pass has ended; returns its state if this ended it. The caller holds the run."""
    states = [(PassState(state), reason) for state, reason in connection.execute(STATES_OF_RUN, (run_id,))]
    if not states or any(state is PassState.RUNNING for state, _ in states):
        return None
    (state,) = connection.execute(LOCK_RUN, (run_id,)).fetchone()
    if state != RunState.RUNNING:
        return None
    worst, reason = max(states, key=lambda found: WORST.index(found[0]))
    connection.execute(END_RUN, (worst.value, reason, now, run_id))
    return RunState(worst.value)


def cut_runs(connection: Connection, run_ids: Sequence[int], reason: str, now: int) -> list[int]:
    """End the runs' running passes as timed out, and with them the runs; the ids of those that this ended."""
    chosen = listed(sorted(run_ids))
    # All are held before the first event is written, as everywhere: runs, then passes, then events.
    connection.execute(LOCK_RUNS, (chosen,))
    for (pass_id,) in connection.execute(RUNNING_OF_RUNS, (chosen,)).fetchall():
        finish_pass(connection, pass_id, None, PassEnd(PassState.TIMED_OUT, reason), now)
    return [run_id for run_id in sorted(run_ids) if end_run(connection, run_id, now) is not None]


def _remember_page(connection: Connection, listing_id: int, end: PassEnd, pages: int, read_hash: str) -> None:
    # No page was read where the site answered "not modified": what was kept before still holds.
    if pages or end.etag or end.last_modified:
        # They stand for what this reading made of the page: other rules may make more of the same bytes.
        connection.execute(
            "UPDATE listing SET etag = ?, last_modified = ?, read_hash = ? WHERE id = ?",
            (end.etag, end.last_modified, read_hash, listing_id),
        )
    if end.first_page_rows:
        connection.execute("UPDATE listing SET usual_rows = ? WHERE id = ?", (end.first_page_rows, listing_id))


def _event(end: PassEnd, source: str, listing: str, usual: int, run_id: int | None, pass_id: int) -> Event:
    message = f"source '{source}', listing '{listing}': {end.state.value.replace('_', ' ')}"
    message += f": {end.reason}" if end.reason else ""
    data: dict[str, Any] = {"listing": listing, "run": run_id, "pass": pass_id, "reason": end.reason}
    if end.state is PassState.SUSPICIOUS:
        message += f" (usual are {usual} rows on page one, found were {end.first_page_rows})"
        data |= {"usual": usual, "found": end.first_page_rows}
    if end.state is PassState.GAP:
        data |= {"newest_key": end.newest_key, "oldest_key": end.oldest_key}
    return Event(end.state.value, message, source, f"{end.state.value}:{source}", 0, data)
