"""What an entry does to its item: make it, renew it, open it again, refresh its request, or nothing.

Keeps P1 and P3: only what is missing is inserted, and an entry read before the item's last one changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from fyke.db.connection import Connection, Listed, listed
from fyke.ledgers.sql.cleaning import clean_json
from fyke.ledgers.sql.deaths import Death, close_letters, write_deaths
from fyke.ledgers.sql.fills import Fill
from fyke.ledgers.sql.letters import FRESH
from fyke.ledgers.sql.records import Draft, SourceFacts, write_drafts, write_tally
from fyke.ledgers.sql.revisits import write_relations
from fyke.ledgers.sql.state import plain, write_events
from fyke.model import Entry, Event, Fields, Outcome, Relation, Task, TaskKind

REOPEN_PAUSE_MS = 86_400_000
REOPEN_LIMIT = 7
REOPENED = frozenset({("dead", Outcome.NOT_FOUND), ("dead", Outcome.GAVE_UP), ("ignored", Outcome.ROBOTS)})

KNOWN = "SELECT id FROM item WHERE scope = ? AND key IN (SELECT value FROM json_each(?))"
MAKERS = "SELECT name FROM typed_table WHERE name = ? FOR UPDATE"
COLUMNS = """
key, id, source_id, state, outcome, generation, pending, attempts, entry_hash, entry_at, reopened, reopened_at, head_n,
head_hash, lane
"""
HELD = f"SELECT {COLUMNS} FROM item WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id FOR UPDATE"
# SQLite has one writer, and all is locked.
HELD_ALONE = f"SELECT {COLUMNS} FROM item WHERE scope = ? AND key IN (SELECT value FROM json_each(?))"
INSERT = """
INSERT INTO item(id, source_id, scope, key, url, lane, pool, priority, entry_hash, entry_at, published_at, state,
  pending, opened_at, due_at, closed_at, head_n, head_hash, entry)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
REQUEST = "url = ?, lane = ?, entry_hash = ?, entry_at = ?, published_at = ?, entry = ?"
REFRESH = f"UPDATE item SET {REQUEST} WHERE id = ?"
RENEW = f"UPDATE item SET {REQUEST}, generation = generation + 1, pending = 1, due_at = ?, {FRESH} WHERE id = ?"
REOPEN = f"""
UPDATE item SET {REQUEST}, generation = generation + 1, pending = 1, due_at = ?, {FRESH}, state = 'open', outcome = '',
  reason = '', closed_at = NULL, reopened = reopened + 1, reopened_at = ?
WHERE id = ?
"""
STORE = f"""
UPDATE item SET {REQUEST}, generation = generation + 1, pending = 0, {FRESH}, state = 'stored', outcome = '',
  reason = '', closed_at = ?, head_n = ?, head_hash = ?
WHERE id = ?
"""
REFUSE = "UPDATE item SET state = ?, outcome = ?, reason = ?, head_n = ?, head_hash = ? WHERE id = ?"


class Row(Struct):
    """An entry ready to be written: cleaned, its fields as JSON."""

    key: str
    url: str
    lane: str
    hash: bytes
    published_at: int | None
    position: int
    fields: Fields
    json: str
    relations: list[Relation] | None = None


class Item(Struct):
    """What the ledger has of a key."""

    key: str
    id: int
    source_id: int
    state: str
    outcome: str
    generation: int
    pending: int
    attempts: int
    entry_hash: bytes
    entry_at: int
    reopened: int
    reopened_at: int | None
    head_n: int
    head_hash: bytes | None
    lane: str


class PageWork(Struct):
    """One page in its transaction: what is to be written, and what it came to."""

    source: SourceFacts
    now: int
    read_at: int
    hand: bool
    aside: bool = False
    items: dict[str, int] = field(default_factory=dict)  # key -> item id
    inserts: list[tuple[Any, ...]] = field(default_factory=list)
    refreshes: list[tuple[Any, ...]] = field(default_factory=list)
    renewals: list[tuple[Any, ...]] = field(default_factory=list)
    reopenings: list[tuple[Any, ...]] = field(default_factory=list)
    stores: list[tuple[Any, ...]] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    relations: dict[int, list[Relation]] = field(default_factory=dict)  # by item id
    heads: dict[int, bytes | None] = field(default_factory=dict)  # item id -> hash of the head version before
    closed_letters: dict[int, str] = field(default_factory=dict)  # item id -> why
    counts: Counter[str] = field(default_factory=Counter)
    due: list[Task] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    changed: int = 0


def prepare(entries: list[Entry]) -> list[Row]:
    """Unique by key (the first one on the page counts) and in order of key."""
    rows: dict[str, Row] = {}
    for e in entries:
        if e.key not in rows:
            text, fields, _ = clean_json(e.fields)
            url, lane = plain(e.url), plain(e.lane)
            rows[e.key] = Row(e.key, url, lane, e.hash, e.published_at, e.position, fields, text, e.relations)
    return [rows[key] for key in sorted(rows)]


def hold_items(connection: Connection, source: SourceFacts, rows: list[Row]) -> dict[str, Item]:
    """What the ledger has of these keys, locked in order of id, as commits lock them (MariaDB locks as it reads).

    Whoever finds new ones has the right to make items of this table until its transaction ends: what another page has
    made before is known then (P1), and nobody is refused by the key again and again.
    """
    keys = listed([row.key for row in rows])
    if connection.dialect == "sqlite":
        return {row[0]: Item(*row) for row in connection.execute(HELD_ALONE, (source.scope, keys))}
    ids = _ids_of(connection, source.scope, keys)
    if len(ids) < len(rows):
        connection.execute(MAKERS, (source.table.name,))
        ids = _ids_of(connection, source.scope, keys)
    if not ids:
        return {}
    return {row[0]: Item(*row) for row in connection.execute(HELD, (listed(ids),))}


def _ids_of(connection: Connection, scope: str, keys: Listed) -> list[int]:
    return sorted(id for (id,) in connection.execute(KNOWN, (scope, keys)))


def take(work: PageWork, rows: list[Row], known: dict[str, Item], new_ids: Sequence[int]) -> None:
    """Decide for each row what it does to its item; `new_ids` are for those that are not known."""
    ids = iter(new_ids)
    for row in rows:
        item = known.get(row.key)
        if item is None:
            work.items[row.key] = id = next(ids)
            _insert(work, row, id)
            continue
        work.items[row.key] = item.id
        if item.source_id != work.source.id:
            continue
        # A person's address says less than a list's row: it must not replace what the list has said. A time in the
        # future was written before the clock was set back, and orders nothing.
        if not _says_less(work, row, item) and (work.read_at >= item.entry_at or item.entry_at > work.now):
            _meet(work, row, item)
        elif item.pending:
            _offer(work, item.id, item.generation, item.lane, item.attempts)


def _says_less(work: PageWork, row: Row, item: Item) -> bool:
    """Whether the row only proves that the item is there: its other fields would look like changes."""
    if work.aside:
        return item.state == "stored" or (item.state == "open" and not _direct(work, row))
    return work.hand


def _insert(work: PageWork, row: Row, id: int) -> None:
    source, direct = work.source, _direct(work, row)
    work.counts["new"] += 1
    work.counts["listed"] += 1
    work.counts["stored" if direct else "open"] += 1
    request = (row.url, row.lane, source.pool, source.priority, row.hash, work.read_at, row.published_at)
    state: tuple[Any, ...]
    if direct:
        state = ("stored", 0, work.now, work.now, work.now, 1, row.hash)
        _draft(work, row, id, 1)
    else:
        state = ("open", 1, work.now, work.now, None, 0, None)
        _offer(work, id, 1, row.lane, 0)
    work.inserts.append((id, source.id, source.scope, row.key, *request, *state, row.json))


def _meet(work: PageWork, row: Row, item: Item) -> None:
    request = (row.url, row.lane, row.hash, work.read_at, row.published_at, row.json)
    changed = row.hash != item.entry_hash
    if _direct(work, row):
        if item.state == "open" or (changed and (item.state == "stored" or item.outcome == Outcome.ROW_REFUSED)):
            _store(work, row, item, request)
        else:
            work.refreshes.append((*request, item.id))
        return
    generation, attempts, pending = item.generation, item.attempts, item.pending
    if item.state in ("open", "stored"):
        if changed:
            work.renewals.append((*request, work.now, item.id))
            generation, attempts, pending = generation + 1, 0, 1
            work.changed += 1
        else:
            work.refreshes.append((*request, item.id))
    elif _opens_again(item, work.now):
        work.reopenings.append((*request, work.now, work.now, item.id))
        work.closed_letters[item.id] = "listed again"
        work.counts[item.state] -= 1
        work.counts["open"] += 1
        generation, attempts, pending = generation + 1, 0, 1
    else:
        work.refreshes.append((*request, item.id))
    if pending:
        _offer(work, item.id, generation, row.lane, attempts)


def _direct(work: PageWork, row: Row) -> bool:
    """Whether the entry is the record: no detail page is to be fetched."""
    return not (work.source.has_detail and row.lane)


def _opens_again(item: Item, now: int) -> bool:
    if (item.state, item.outcome) not in REOPENED or item.reopened >= REOPEN_LIMIT:
        return False
    if item.reopened_at is None or item.reopened_at > now:
        return True
    return now - item.reopened_at >= REOPEN_PAUSE_MS


def _store(work: PageWork, row: Row, item: Item, request: tuple[Any, ...]) -> None:
    new = row.hash != item.head_hash
    n = item.head_n + new
    work.stores.append((*request, work.now, n, row.hash, item.id))
    work.changed += item.state == "stored"
    if item.state != "stored":
        work.counts[item.state] -= 1
        work.counts["stored"] += 1
        work.closed_letters[item.id] = "stored from a later entry"
    if new:
        work.heads[item.id] = item.head_hash
        _draft(work, row, item.id, n)


def _draft(work: PageWork, row: Row, item_id: int, n: int) -> None:
    record = work.source.record_of(row.fields)
    if row.relations is not None:
        work.relations[item_id] = row.relations
    content, record, _ = clean_json(record)
    work.drafts.append(Draft(item_id, work.source.scope, row.key, row.url, n, row.hash, record, content))


def _offer(work: PageWork, id: int, generation: int, lane: str, attempts: int) -> None:
    source = work.source
    if source.active:
        task = Task(TaskKind.ITEM, id, generation, lane, source.pool, source.priority, source.hash, attempts)
        work.due.append(task)


def write_work(connection: Connection, work: PageWork) -> None:
    """Write items, records and counts; a record that the database refuses makes its item dead, the rest goes on."""
    connection.executemany(INSERT, work.inserts)
    for statement, rows in (
        (REFRESH, work.refreshes),
        (RENEW, work.renewals),
        (REOPEN, work.reopenings),
        (STORE, work.stores),
    ):
        connection.executemany(statement, rows)
    refused = write_drafts(connection, work.source.table, work.drafts, work.now)
    work.counts["versions"] += len(work.drafts) - len(refused)
    close_letters(connection, {id: why for id, why in work.closed_letters.items() if id not in refused}, work.now)
    _refuse(connection, work, {item_id: plain(message) for item_id, message in refused.items()})
    write_relations(connection, {id: found for id, found in work.relations.items() if id not in refused})
    fill = Fill()
    for draft in work.drafts:
        if draft.item_id not in refused:
            fill.add(work.source.id, work.now, work.source.filled(draft.record))
    work.events += fill.write(connection)


def _refuse(connection: Connection, work: PageWork, refused: dict[int, str]) -> None:
    outcome, source = Outcome.ROW_REFUSED.value, work.source.name
    rows, deaths = [], []
    for draft in work.drafts:
        message = refused.get(draft.item_id)
        if message is None:
            continue
        # An older version of it stays stored.
        state, told = ("stored", ("", "")) if draft.n > 1 else ("dead", (outcome, message))
        rows.append((state, *told, draft.n - 1, work.heads.get(draft.item_id), draft.item_id))
        text = f"source '{source}', key '{draft.key}': the database refused its row: {message}"
        data = {"scope": draft.scope, "key": draft.key, "outcome": outcome, "reason": message}
        work.events.append(Event("dead", text, source, f"dead:{source}:{outcome}", 0, data))
        if state == "dead":
            deaths.append(Death(draft.item_id, outcome, message, 0, "", work.now, "{}"))
            work.counts["stored"] -= 1
            work.counts["dead"] += 1
    connection.executemany(REFUSE, rows)
    write_deaths(connection, deaths, work.now)


def write_counts(connection: Connection, work: PageWork) -> None:
    """The last writing of the transaction: events, then the tally."""
    write_events(connection, work.events, work.now)
    write_tally(connection, {work.source.id: work.counts})
