"""What visits came to: one conditional update decides "once", in the record's own transaction.

Keeps P3: the first result of a generation wins, anything else is late and changes nothing; keeps P2: what does not
become a record becomes a dead letter or an ignored item, with its reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from fyke.db.connection import Connection, listed
from fyke.db.errors import is_row_error
from fyke.db.migrate import CLOSED as LEDGER_CLOSED
from fyke.db.migrate import refuse_closed
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.cleaning import clean_json, to_json
from fyke.ledgers.sql.deaths import Death, write_deaths
from fyke.ledgers.sql.fills import Fill
from fyke.ledgers.sql.letters import FRESH
from fyke.ledgers.sql.records import (
    Draft,
    SourceFacts,
    draft_parts,
    read_facts,
    tally_part,
    unblock,
    write_drafts,
    write_tally,
)
from fyke.ledgers.sql.revisits import write_relations, write_revisits
from fyke.ledgers.sql.state import plain, write_events
from fyke.model import AS_PLANNED, Committed, Event, ItemState, Outcome, Relation, Result

# Who has these rows decides alone: what is live is read under the lock, and asked once more by each update.
ITEMS = f"""
SELECT id, source_id, scope, key, url, state, entry_hash, head_n, head_hash, first_started_at, paused_base, generation,
  pending, {LEDGER_CLOSED} FROM item WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id FOR UPDATE
"""
# What is pending comes as a value, which is 1: PostgreSQL would begin at all pending items, of which it has seen none
# when it last counted them.
LIVE = "id = ? AND generation = ? AND pending = ?"
DUE = 1
STORED = f"""
UPDATE item SET state = 'stored', pending = 0, closed_at = ?, outcome = '', reason = '', head_n = ?, head_hash = ?
WHERE {LIVE}
"""
CLOSED = f"UPDATE item SET state = ?, pending = 0, closed_at = ?, outcome = ?, reason = ? WHERE {LIVE}"
UNREVISITED = f"UPDATE item SET pending = 0 WHERE {LIVE}"
ATTEMPTED = f"""
UPDATE item SET attempts = attempts + ?, soft_failures = soft_failures + ?, soft_ms = soft_ms + ?, paused_base = ?,
  first_started_at = ?
WHERE {LIVE}
"""
TOLD_BEFORE = """
SELECT item_id, generation, started_at, ended_at, worker FROM visit
WHERE item_id IN (SELECT value FROM json_each(?)) AND final IS NULL
"""
ENTRY_MOVED = f"UPDATE item SET generation = generation + 1, pending = 1, due_at = ?, {FRESH} WHERE id = ?"
REFUSED = "UPDATE item SET state = ?, outcome = ?, reason = ?, head_n = ?, head_hash = ? WHERE id = ?"
VISIT = """
INSERT INTO visit(id, item_id, generation, outcome, final, reason, worker, started_at, ended_at, starts, costs,
  delay_ms, evidence)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
LATE = (Committed.LATE, "the item is closed or due at another generation")
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
    paused_base: int
    generation: int
    pending: int
    lost: list[int] = field(default_factory=lambda: [0, 0, 0])  # attempts, soft failures, ms of those, in this batch


class Batch(Struct):
    """Results in one transaction, and what they came to."""

    now: int
    sources: dict[int, SourceFacts]
    told: set[tuple[Any, ...]]  # failed attempts on record
    answers: dict[int, tuple[Committed, str]] = field(default_factory=dict)
    updates: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))  # by statement
    attempted: dict[int, Target] = field(default_factory=dict)
    drafts: dict[str, list[Draft]] = field(default_factory=lambda: defaultdict(list))  # by table
    stored: list[tuple[Visit, Target]] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)
    visits: list[tuple[Any, ...]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    counts: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    fill: Fill = field(default_factory=Fill)
    revisits: dict[int, int] = field(default_factory=dict)  # by item: when it is visited again
    relations: dict[int, list[Relation]] = field(default_factory=dict)  # by item
    good: set[int] = field(default_factory=set)  # sources that gave a good answer: not blocked any more


class CommitStatements(Statements):
    async def commit(self, results: Sequence[Result]) -> list[tuple[Committed, str]]:
        now = self._clock.now()
        visits = [_prepare(index, result) for index, result in enumerate(results)]
        visits.sort(key=lambda visit: visit.result.item_id)
        try:
            # No question of its own whether the ledger is closed: see ITEMS.
            answers = await self._db.write(lambda connection: _commit(connection, visits, now, doubtful=False))
        except Exception as error:
            if not is_row_error(error):
                raise
            # The database refuses a row: it is found, and the others are written.
            answers = await self._db.write(lambda connection: _commit(connection, visits, now, doubtful=True))
        return [answers[index] for index in range(len(results))]


def _prepare(index: int, result: Result) -> Visit:
    if result.record is None:
        return Visit(index, result, None, "", 0)
    content, record, cleaned = clean_json(result.record)
    return Visit(index, result, record, content, cleaned)


def _commit(
    connection: Connection, visits: list[Visit], now: int, *, doubtful: bool
) -> dict[int, tuple[Committed, str]]:
    ids = listed(sorted({visit.result.item_id for visit in visits}))
    targets: dict[int, Target] = {}
    for *row, closed in connection.execute(ITEMS, (ids,)).fetchall():
        if closed:
            refuse_closed(connection)
        targets[row[0]] = Target(*row)
    if not targets:
        return {visit.index: LATE for visit in visits}
    sources = read_facts(connection, {target.source_id for target in targets.values()})
    batch = Batch(now, sources, _told_before(connection, visits))
    for visit, id in zip(visits, connection.new_ids("visit", len(visits)), strict=True):
        visit.id = id
    for visit in visits:
        target = targets.get(visit.result.item_id)
        if target is None or not _take(batch, visit, target):
            batch.answers[visit.index] = LATE
    _write(connection, batch, doubtful=doubtful)
    return batch.answers


def _told_before(connection: Connection, visits: list[Visit]) -> set[tuple[Any, ...]]:
    """Failed attempts that are on record: one whose answer was lost is told again, and counts once."""
    items = sorted({visit.result.item_id for visit in visits if visit.result.final is None})
    return set(connection.execute(TOLD_BEFORE, (listed(items),)).fetchall()) if items else set()


def _write(connection: Connection, batch: Batch, *, doubtful: bool) -> None:
    """Items, records, what became of those that were refused, history; the tally last.

    `doubtful`: the database has refused a row of them, and each record is written so that it may.
    """
    for item in batch.attempted.values():
        row = (*item.lost, item.paused_base, item.first_started_at, item.id, item.generation, DUE)
        batch.updates[ATTEMPTED].append(row)
    for statement in (ATTEMPTED, CLOSED, UNREVISITED):
        connection.executemany(statement, batch.updates[statement])
    parts: list[tuple[str, list[Any]]] = [(STORED, batch.updates[STORED])]
    tables = {source.table.name: source.table for source in batch.sources.values()}
    for name in sorted(batch.drafts):
        if doubtful:
            batch.rejected |= write_drafts(connection, tables[name], batch.drafts[name], batch.now)
        else:
            parts += draft_parts(tables[name], batch.drafts[name], batch.now, batch.rejected)
    for visit, target in batch.stored:
        _settle(batch, visit, target)
    parts += [(VISIT, batch.visits), *batch.fill.parts()]
    blocked = [source for source_id in batch.good if (source := batch.sources[source_id]).blocks]
    # The tally is what all wait for: nothing that another one may hold is asked for after it.
    last = not (batch.events or blocked or batch.revisits or batch.relations)
    connection.together([*parts, tally_part(batch.counts)] if last else parts)
    for statement in (REFUSED, ENTRY_MOVED):
        connection.executemany(statement, batch.updates[statement])
    write_deaths(connection, batch.deaths, batch.now)
    write_revisits(connection, batch.revisits)
    write_relations(connection, batch.relations)
    unblock(connection, blocked)
    events = batch.events + batch.fill.look(connection)
    write_events(connection, events, batch.now)
    if not last:
        write_tally(connection, batch.counts)


def _take(batch: Batch, visit: Visit, target: Target) -> bool:
    """Decide what a result does to its item; False where it is late."""
    result = visit.result
    if result.final is None:
        return _attempted(batch, visit, target)
    if not is_live(target, result):
        return False
    target.pending = 0
    if result.revisit_at != AS_PLANNED:
        batch.revisits[target.id] = result.revisit_at
    if result.final is ItemState.STORED:
        _stored(batch, visit, target)
    else:
        _closed(batch, visit, target, result.final)
    return True


def is_live(target: Target, result: Result) -> bool:
    """P3: whether the item waits for just this result. Asked under the item's lock."""
    return bool(target.pending) and target.generation == result.generation


def _attempted(batch: Batch, visit: Visit, target: Target) -> bool:
    r = visit.result
    same = (r.item_id, r.generation, r.started_at, r.ended_at, plain(r.worker))
    if same in batch.told:
        batch.answers[visit.index] = (Committed.COMMITTED, "told before")
        return True
    if not is_live(target, r):
        return False
    batch.told.add(same)
    batch.attempted[target.id] = target
    if r.costs:
        target.lost[0] += 1
    else:
        target.lost[1] += 1
        target.lost[2] += max(0, r.ended_at - r.started_at + r.delay_ms - r.hold_ms)
    if target.first_started_at is None:
        target.first_started_at, target.paused_base = r.started_at, batch.sources[target.source_id].paused_total
    _record_visit(batch, visit, target)
    return True


def _stored(batch: Batch, visit: Visit, target: Target) -> None:
    r, source = visit.result, batch.sources[target.source_id]
    new = visit.record is not None and r.record_hash != target.head_hash
    n, hash = (target.head_n + 1, r.record_hash) if new else (target.head_n, target.head_hash)
    batch.updates[STORED].append((batch.now, n, hash, r.item_id, r.generation, DUE))
    batch.stored.append((visit, target))
    if new:
        draft = Draft(
            target.id, target.scope, target.key, target.url, n, r.record_hash, visit.record, visit.content, visit.id
        )
        batch.drafts[source.table.name].append(draft)
    elif not target.head_n:
        batch.rejected[target.id] = NO_RECORD


def _settle(batch: Batch, visit: Visit, target: Target) -> None:
    """After the records are written: what becomes of each item that was to be stored."""
    r, counts = visit.result, batch.counts[target.source_id]
    if target.id in batch.rejected:
        message = plain(batch.rejected[target.id])
        _reject(batch, visit, target, message)
        return
    if target.state == "open":
        counts["open"] -= 1
        counts["stored"] += 1
    if r.relations is not None:
        batch.relations[target.id] = r.relations
    counts["versions"] += visit.record is not None and r.record_hash != target.head_hash
    if r.entry_hash and r.entry_hash != target.entry_hash:
        # The entry moved on while the page was read: what was stored is older than what the list says.
        batch.updates[ENTRY_MOVED].append((batch.now, target.id))
    if r.outcome in (Outcome.OK, Outcome.UNCHANGED):
        batch.good.add(target.source_id)
    _record_visit(batch, visit, target)


def _reject(batch: Batch, visit: Visit, target: Target, message: str) -> None:
    outcome, dead = Outcome.ROW_REFUSED, target.state == "open"
    told = (outcome.value, message) if dead else ("", "")
    values = ("dead" if dead else target.state, *told, target.head_n, target.head_hash, target.id)
    batch.updates[REFUSED].append(values)
    _record_visit(batch, visit, target, outcome=outcome, final=ItemState.DEAD, reason=message)
    _died(batch, visit, target, outcome, message, dead=dead)
    batch.answers[visit.index] = (Committed.REJECTED, message)


def _closed(batch: Batch, visit: Visit, target: Target, final: ItemState) -> None:
    r, reason = visit.result, plain(visit.result.reason)
    first = target.state == "open"
    if first:
        row = (final.value, batch.now, r.outcome.value, reason, r.item_id, r.generation, DUE)
        batch.updates[CLOSED].append(row)
    else:
        batch.updates[UNREVISITED].append((r.item_id, r.generation, DUE))
    _record_visit(batch, visit, target)
    if final is ItemState.DEAD:
        _died(batch, visit, target, r.outcome, reason, dead=first)
    elif first:
        batch.counts[target.source_id]["open"] -= 1
        batch.counts[target.source_id]["ignored"] += 1


def _died(batch: Batch, visit: Visit, target: Target, outcome: Outcome, reason: str, *, dead: bool) -> None:
    """Letter, count and event of an item that ended dead; a stored one that failed its revisit has the event only."""
    r, source = visit.result, batch.sources[target.source_id].name
    what = outcome.value.replace("_", " ")
    text = f"source '{source}', key '{target.key}': {'dead' if dead else 'the revisit failed'}, {what}: {reason}"
    data = {"scope": target.scope, "key": target.key, "url": target.url, "outcome": outcome.value, "reason": reason}
    batch.events.append(Event("dead", text, source, f"dead:{source}:{outcome.value}", 0, data))
    if dead:
        worker, evidence = plain(r.worker), to_json(r.evidence)
        batch.deaths.append(Death(target.id, outcome.value, reason, r.starts, worker, r.started_at, evidence))
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
    evidence = r.evidence | {"cleaned": visit.cleaned} if visit.cleaned else r.evidence
    said = ((outcome or r.outcome).value, ended.value if ended else None, plain(reason or r.reason), plain(r.worker))
    batch.visits.append(
        (
            *(visit.id, r.item_id, r.generation, *said, r.started_at, r.ended_at),
            *(r.starts, int(r.costs), r.delay_ms, to_json(evidence) if evidence else "{}"),
        )
    )
    batch.fill.add(target.source_id, r.ended_at, r.filled)
    batch.answers[visit.index] = (Committed.COMMITTED, "")
