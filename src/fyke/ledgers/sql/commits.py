"""What visits came to: one conditional update decides "once", in the record's own transaction.

Keeps P3: the first result of a generation wins, anything else is late and changes nothing; keeps P2: what does not
become a record becomes a dead letter or an ignored item, with its reason.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.cleaning import clean_json, to_json
from fyke.ledgers.sql.entries import LETTER
from fyke.ledgers.sql.fills import Fill
from fyke.ledgers.sql.letters import FRESH
from fyke.ledgers.sql.records import Draft, SourceFacts, read_facts, write_drafts, write_tally
from fyke.ledgers.sql.state import plain, write_events
from fyke.model import Committed, Event, ItemState, Outcome, Result

ITEMS = """
SELECT id, source_id, scope, key, url, state, entry_hash, head_n, head_hash, first_started_at FROM item
WHERE id IN (SELECT value FROM json_each(?))
"""
LIVE = "id = ? AND generation = ? AND pending = 1"
STORED = f"""
UPDATE item SET state = 'stored', pending = 0, closed_at = ?, outcome = '', reason = '', head_n = ?, head_hash = ?
WHERE {LIVE}
"""
CLOSED = f"UPDATE item SET state = ?, pending = 0, closed_at = ?, outcome = ?, reason = ? WHERE {LIVE}"
UNREVISITED = f"UPDATE item SET pending = 0 WHERE {LIVE}"
ATTEMPTED = f"""
UPDATE item SET attempts = attempts + ?, soft_failures = soft_failures + ?, soft_ms = soft_ms + ?,
  paused_base = CASE WHEN first_started_at IS NULL THEN ? ELSE paused_base END,
  first_started_at = coalesce(first_started_at, ?)
WHERE {LIVE}
"""
TOLD_BEFORE = """
SELECT 1 FROM visit WHERE item_id = ? AND generation = ? AND started_at = ? AND ended_at = ? AND worker = ?
  AND final IS NULL
"""
ENTRY_MOVED = f"UPDATE item SET generation = generation + 1, pending = 1, due_at = ?, {FRESH} WHERE id = ?"
REFUSED = "UPDATE item SET state = ?, outcome = ?, reason = ?, head_n = ?, head_hash = ? WHERE id = ?"
VISIT = """
INSERT INTO visit(id, item_id, generation, outcome, final, reason, worker, started_at, ended_at, starts, costs,
  delay_ms, evidence)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
UNBLOCKED = "UPDATE source SET blocks = 0 WHERE id = ? AND blocks > 0"
NO_RECORD = "the visit brought no record, and the item has none"


class Visit(Struct):
    """A result ready to be written: cleaned, its record as JSON."""

    index: int  # place in the caller's batch
    result: Result
    record: Any
    content: str
    cleaned: int
    id: int = 0


class Target(Struct):
    """The item of a result as it was before the batch."""

    id: int
    source_id: int
    scope: str
    key: str
    url: str
    state: str
    entry_hash: bytes
    head_n: int
    head_hash: bytes | None
    first_started_at: int | None


class Batch(Struct):
    """Results in one transaction, and what they came to."""

    now: int
    sources: dict[int, SourceFacts]
    answers: dict[int, tuple[Committed, str]] = field(default_factory=dict)
    drafts: dict[int, list[Draft]] = field(default_factory=lambda: defaultdict(list))
    stored: list[tuple[Visit, Target]] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)
    letters: list[tuple[Any, ...]] = field(default_factory=list)
    visits: list[tuple[Any, ...]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    counts: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    fill: Fill = field(default_factory=Fill)
    good: set[int] = field(default_factory=set)  # sources that gave a good answer: not blocked any more


class CommitStatements(Statements):
    async def commit(self, results: Sequence[Result]) -> list[tuple[Committed, str]]:
        now = self._clock.now()
        visits = [_prepare(index, result) for index, result in enumerate(results)]
        visits.sort(key=lambda visit: visit.result.item_id)
        answers = await self._write(lambda connection: _commit(connection, visits, now))
        return [answers[index] for index in range(len(results))]


def _prepare(index: int, result: Result) -> Visit:
    if result.record is None:
        return Visit(index, result, None, "", 0)
    content, record, cleaned = clean_json(result.record)
    return Visit(index, result, record, content, cleaned)


def _commit(connection: sqlite3.Connection, visits: list[Visit], now: int) -> dict[int, tuple[Committed, str]]:
    ids = to_json(sorted({visit.result.item_id for visit in visits}))
    targets = {row[0]: Target(*row) for row in connection.execute(ITEMS, (ids,))}
    batch = Batch(now, read_facts(connection, {target.source_id for target in targets.values()}))
    (next_id,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM visit").fetchone()
    for offset, visit in enumerate(visits):
        visit.id = next_id + offset
        target = targets.get(visit.result.item_id)
        if target is None or not _take(connection, batch, visit, target):
            batch.answers[visit.index] = (Committed.LATE, "the item is closed or due at another generation")
    for source_id in sorted(batch.drafts):
        batch.rejected |= write_drafts(connection, batch.sources[source_id].table, batch.drafts[source_id], now)
    for visit, target in batch.stored:
        _settle(connection, batch, visit, target)
    connection.executemany(LETTER, batch.letters)
    connection.executemany(VISIT, batch.visits)
    write_events(connection, batch.events, now)
    connection.executemany(UNBLOCKED, [(source_id,) for source_id in sorted(batch.good)])
    batch.fill.write(connection)
    write_tally(connection, batch.counts)
    return batch.answers


def _take(connection: sqlite3.Connection, batch: Batch, visit: Visit, target: Target) -> bool:
    """Apply a result to its item by the conditional update; False where it is late."""
    result = visit.result
    if result.final is None:
        return _attempted(connection, batch, visit, target)
    if result.final is ItemState.STORED:
        return _stored(connection, batch, visit, target)
    return _closed(connection, batch, visit, target, result.final)


def _hits(connection: sqlite3.Connection, statement: str, values: tuple[Any, ...]) -> bool:
    # SQLite counts the rows that its WHERE has found, and here that is the answer; RETURNING takes twice the time.
    return connection.execute(statement, values).rowcount == 1


def _attempted(connection: sqlite3.Connection, batch: Batch, visit: Visit, target: Target) -> bool:
    r = visit.result
    same = (r.item_id, r.generation, r.started_at, r.ended_at, r.worker)
    if connection.execute(TOLD_BEFORE, same).fetchone():
        batch.answers[visit.index] = (Committed.COMMITTED, "told before")
        return True
    soft = 0 if r.costs else 1
    lost = soft * max(0, r.ended_at - r.started_at + r.delay_ms - r.hold_ms)
    paused = batch.sources[target.source_id].paused_total
    values = (1 - soft, soft, lost, paused, r.started_at, r.item_id, r.generation)
    if not _hits(connection, ATTEMPTED, values):
        return False
    _record_visit(batch, visit, target)
    return True


def _stored(connection: sqlite3.Connection, batch: Batch, visit: Visit, target: Target) -> bool:
    r = visit.result
    new = visit.record is not None and r.record_hash != target.head_hash
    n, hash = (target.head_n + 1, r.record_hash) if new else (target.head_n, target.head_hash)
    if not _hits(connection, STORED, (batch.now, n, hash, r.item_id, r.generation)):
        return False
    batch.stored.append((visit, target))
    if new:
        draft = Draft(
            target.id, target.scope, target.key, target.url, n, r.record_hash, visit.record, visit.content, visit.id
        )
        batch.drafts[target.source_id].append(draft)
    elif not target.head_n:
        batch.rejected[target.id] = NO_RECORD
    return True


def _settle(connection: sqlite3.Connection, batch: Batch, visit: Visit, target: Target) -> None:
    """After the records are written: what becomes of each item that was to be stored."""
    r, counts = visit.result, batch.counts[target.source_id]
    if target.id in batch.rejected:
        message = plain(batch.rejected[target.id])
        _reject(connection, batch, visit, target, message)
        return
    if target.state == "open":
        counts["open"] -= 1
        counts["stored"] += 1
    counts["versions"] += visit.record is not None and r.record_hash != target.head_hash
    if r.entry_hash and r.entry_hash != target.entry_hash:
        # The entry moved on while the page was read: what was stored is older than what the list says.
        connection.execute(ENTRY_MOVED, (batch.now, target.id))
    if r.outcome in (Outcome.OK, Outcome.UNCHANGED):
        batch.good.add(target.source_id)
    _record_visit(batch, visit, target)


def _reject(connection: sqlite3.Connection, batch: Batch, visit: Visit, target: Target, message: str) -> None:
    outcome, dead = Outcome.ROW_REFUSED, target.state == "open"
    told = (outcome.value, message) if dead else ("", "")
    values = ("dead" if dead else target.state, *told, target.head_n, target.head_hash, target.id)
    connection.execute(REFUSED, values)
    _record_visit(batch, visit, target, outcome=outcome, final=ItemState.DEAD, reason=message)
    _died(batch, visit, target, outcome, message, dead=dead)
    batch.answers[visit.index] = (Committed.REJECTED, message)


def _closed(connection: sqlite3.Connection, batch: Batch, visit: Visit, target: Target, final: ItemState) -> bool:
    r, reason = visit.result, plain(visit.result.reason)
    first = target.state == "open"
    live = (r.item_id, r.generation)
    if first:
        hit = _hits(connection, CLOSED, (final.value, batch.now, r.outcome.value, reason, *live))
    else:
        hit = _hits(connection, UNREVISITED, live)
    if not hit:
        return False
    _record_visit(batch, visit, target)
    if final is ItemState.DEAD:
        _died(batch, visit, target, r.outcome, reason, dead=first)
    elif first:
        batch.counts[target.source_id]["open"] -= 1
        batch.counts[target.source_id]["ignored"] += 1
    return True


def _died(batch: Batch, visit: Visit, target: Target, outcome: Outcome, reason: str, *, dead: bool) -> None:
    """Letter, count and event of an item that ended dead; a stored one that failed its revisit has the event only."""
    r, source = visit.result, batch.sources[target.source_id].name
    what = outcome.value.replace("_", " ")
    text = f"source '{source}', key '{target.key}': {'dead' if dead else 'the revisit failed'}, {what}: {reason}"
    data = {"scope": target.scope, "key": target.key, "url": target.url, "outcome": outcome.value, "reason": reason}
    batch.events.append(Event("dead", text, source, f"dead:{source}:{outcome.value}", 0, data))
    if dead:
        first_at = target.first_started_at or r.started_at
        evidence = to_json(r.evidence)
        letter = (outcome.value, reason, r.starts, plain(r.worker), first_at, batch.now, evidence, target.id)
        batch.letters.append(letter)
        batch.counts[target.source_id]["open"] -= 1
        batch.counts[target.source_id]["dead"] += 1


def _record_visit(
    batch: Batch,
    visit: Visit,
    target: Target,
    *,
    outcome: Outcome | None = None,
    final: ItemState | None = None,
    reason: str | None = None,
) -> None:
    r = visit.result
    ended = final or r.final
    evidence = to_json(r.evidence | {"cleaned": visit.cleaned} if visit.cleaned else r.evidence)
    said = ((outcome or r.outcome).value, ended.value if ended else None, plain(reason or r.reason), plain(r.worker))
    batch.visits.append(
        (
            *(visit.id, r.item_id, r.generation, *said, r.started_at, r.ended_at),
            *(r.starts, int(r.costs), r.delay_ms, evidence),
        )
    )
    batch.fill.add(target.source_id, r.ended_at, r.filled)
    batch.answers[visit.index] = (Committed.COMMITTED, "")
