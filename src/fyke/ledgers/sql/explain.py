"""The whole life of one item in plain words, from sightings, visits, versions, dead letters, events and runs.

Keeps P2 visible: whatever became of a key, these rows say it, and why it waits if it does.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from fyke.db.connection import Connection, Values
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.cleaning import to_json
from fyke.ledgers.sql.revisits import next_visit, relations_of
from fyke.model import Explanation, ItemState
from fyke.policy.attaching import attached_scope, keys_under

Row = dict[str, Any]
Lines = list[tuple[int, str]]

NEAR_LIMIT = 5
NEAR_CANDIDATES = 50
ROWS_LIMIT = 500  # of each kind, the newest

# Each of these is the names of its columns, as `explain` gives them out, and what follows SELECT and them.
ITEM = {
    **dict.fromkeys(("id", "url", "lane", "state", "outcome", "reason", "generation", "pending", "due_at"), "i"),
    **dict.fromkeys(("closed_at", "reopened", "reopened_at"), "i"),
    **dict.fromkeys(("table_name", "paused_at", "paused_reason", "removed_at"), "s"),
    "source": "s.name",
}
FROM_ITEM = "FROM item i JOIN source s ON s.id = i.source_id WHERE i.scope = ? AND i.key = ?"
SIGHTING = {
    **dict.fromkeys(("first_at", "last_at", "page", "position", "url", "first_pass", "last_pass", "stretch_id"), "g"),
    **{"listing": "l.name", "source": "s.name", "first_run": "f.run_id", "first_slot": "r.slot"},
    **{"first_trigger": "r.started_by", "last_run": "z.run_id", "last_slot": "q.slot"},
}
FROM_SIGHTING = """
FROM source s JOIN listing l ON l.source_id = s.id JOIN sighting g ON g.listing_id = l.id AND g.key = :key
LEFT JOIN pass f ON f.id = g.first_pass LEFT JOIN run r ON r.id = f.run_id
LEFT JOIN pass z ON z.id = g.last_pass LEFT JOIN run q ON q.id = z.run_id
WHERE s.scope = :scope ORDER BY g.first_at, l.id
"""
VISIT = dict.fromkeys(
    (
        *("id", "generation", "outcome", "final", "reason", "worker", "started_at", "ended_at", "starts", "costs"),
        *("delay_ms", "evidence"),
    ),
    "v",
)
FROM_VISIT = "FROM visit v WHERE v.item_id = ? ORDER BY v.id DESC LIMIT ?"
VERSION = dict.fromkeys(("n", "at", "hash", "content", "visit_id", "pos"), "v")
FROM_VERSION = "FROM version v WHERE v.item_id = ? ORDER BY v.n DESC LIMIT ?"
DEAD = dict.fromkeys(
    (
        *("id", "outcome", "reason", "generation", "attempts", "worker", "first_at", "died_at", "evidence"),
        *("closed_at", "closed_reason"),
    ),
    "d",
)
FROM_DEAD = "FROM dead d WHERE d.item_id = ? ORDER BY d.id DESC LIMIT ?"
# What is told about one item names its key; other events of the source have nothing to say here. Whether a text is in
# another is asked by taking it out: the databases' own functions for that have different names.
EVENTS = """
SELECT at, kind, message, data FROM event WHERE source = ? AND replace(data, ?, '') <> data ORDER BY id DESC LIMIT ?
"""
ATTACHED = """
SELECT scope, key, url, state FROM item WHERE scope = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?
"""
# The newest of the items that had this key: an item that has it now was found before.
NOW_AS = """
SELECT i.scope, i.key FROM former_key f JOIN item i ON i.id = f.item_id WHERE f.scope = ? AND f.key = ?
ORDER BY f.at DESC, i.id LIMIT 1
"""
FORMERLY = "SELECT scope, key, at FROM former_key WHERE item_id = ? ORDER BY at, key"
HOLD = "SELECT hold_until, hold_reason FROM lane WHERE lane = ?"


class ExplainStatements(Statements):
    async def explain(self, scope: str, key: str) -> Explanation | None:
        now = self._clock.now()
        return await self._read(lambda connection: _explain(connection, scope, key, now))

    async def near_keys(self, scope: str, key: str) -> tuple[list[str], list[str]]:
        def call(connection: Connection) -> tuple[list[str], list[str]]:
            scopes = [name for (name,) in connection.execute("SELECT DISTINCT scope FROM source ORDER BY scope")]
            return scopes, _near(connection, scope, key) if scope in scopes else []

        return await self._read(call)


def moment(at: int) -> str:
    """``2025-06-27 09:52:00 UTC``; the only zone that all readers of a ledger share."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def length(ms: int) -> str:
    """A time span as people say it: ``230 ms``, ``12 s``, ``10 min``, ``2.5 h``."""
    if ms < 1_000:
        return f"{ms} ms"
    for size, unit, limit in ((1_000, "s", 120), (60_000, "min", 120), (3_600_000, "h", 72)):
        if ms < size * limit:
            return f"{ms / size:.3g} {unit}"
    return f"{ms / 86_400_000:.3g} days"


def _rows(connection: Connection, columns: Mapping[str, str], rest: str, values: Values) -> list[Row]:
    """Rows by name. `columns`: a name and the table that has it, or the column where it has another name there."""
    chosen = ", ".join(place if "." in place else f"{place}.{name}" for name, place in columns.items())
    found = connection.execute(f"SELECT {chosen} {rest}", values)
    return [dict(zip(columns, row, strict=True)) for row in found]


def _explain(connection: Connection, scope: str, key: str, now: int) -> Explanation | None:
    found = _rows(connection, ITEM, FROM_ITEM, (scope, key))
    if not found:
        now_as = connection.execute(NOW_AS, (scope, key)).fetchone()
        return _explain(connection, now_as[0], now_as[1], now) if now_as is not None else None
    (item,) = found
    sightings = _rows(connection, SIGHTING, FROM_SIGHTING, {"scope": scope, "key": key})
    visits = _rows(connection, VISIT, FROM_VISIT, (item["id"], ROWS_LIMIT))[::-1]
    versions = _rows(connection, VERSION, FROM_VERSION, (item["id"], ROWS_LIMIT))[::-1]
    dead = _rows(connection, DEAD, FROM_DEAD, (item["id"], ROWS_LIMIT))[::-1]
    for row in sightings:
        row["covered"] = row.pop("stretch_id") is not None
    for row in (*visits, *dead):
        row["evidence"] = msgspec.json.decode(row["evidence"])
    for row in versions:
        row["content"], row["hash"] = msgspec.json.decode(row["content"]), row["hash"].hex()
    relations = relations_of(connection, scope, item["id"], ROWS_LIMIT)
    attachments = _attached(connection, scope, key)
    revisit_at = next_visit(connection, item["id"])
    lines: Lines = [
        *(line for row in sightings for line in _listed(row)),
        *(line for row in visits for line in _visited(row)),
        *(_written(row) for row in versions),
        *(line for row in dead for line in _died(row)),
        *_told(connection, item["source"], scope, key),
        *_renamed(connection, item["source"], item["id"]),
        *_item_lines(item),
    ]
    # Python's sort is stable: what has one time stays in the order of cause and effect above.
    lines.sort(key=lambda line: line[0])
    lines += [(now, f"attachment {row['key']}: {row['state']}: {row['url']}") for row in attachments]
    lines += [(now, _related(row)) for row in relations]
    lines.append((now, _waits(connection, item, visits, now, revisit_at)))
    return Explanation(
        scope=scope,
        key=key,
        item_id=item["id"],
        source_id=item["source"],
        state=ItemState(item["state"]),
        generation=item["generation"],
        pending=bool(item["pending"]),
        url=item["url"],
        table=item["table_name"],
        lines=lines,
        sightings=sightings,
        visits=visits,
        versions=versions,
        dead=dead,
        relations=relations,
        attachments=attachments,
        revisit_at=revisit_at,
    )


def _told(connection: Connection, source: str, scope: str, key: str) -> Lines:
    """Events about this item, newest first."""
    found: Lines = []
    for at, kind, message, text in connection.execute(EVENTS, (source, f'"key":{to_json(key)}', ROWS_LIMIT)):
        data = msgspec.json.decode(text)
        if data.get("key") == key and data.get("scope", scope) == scope:
            found.append((at, f"told ({kind}): {message}"))
    return found


def _renamed(connection: Connection, source: str, item: int) -> Lines:
    """The keys that the item had before, and what was told of it under them."""
    found: Lines = []
    for scope, key, at in connection.execute(FORMERLY, (item,)).fetchall():
        found += _told(connection, source, scope, key)
        found.append((at, f"got a new key from `fyke source rekey`: it was {key} in scope {scope}"))
    return found


def _attached(connection: Connection, scope: str, key: str) -> list[Row]:
    values = (attached_scope(scope), *keys_under(key), ROWS_LIMIT)
    names = ("scope", "key", "url", "state")
    return [dict(zip(names, row, strict=True)) for row in connection.execute(ATTACHED, values)]


def _related(row: Row) -> str:
    by = f"both have {row['field']} {row['shared']}"
    return f"{row['key']} {row['kind']} this one ({by})" if row["inverse"] else f"{row['kind']} {row['key']} ({by})"


def _run(number: int | None, slot: int | None, pass_id: int) -> str:
    if not pass_id:
        return "put on record again by `fyke audit --repair`"
    if number is None:
        return "added by hand"
    return f"run {number}" if slot is None else f"run {number} of {moment(slot)}"


def _listed(row: Row) -> Lines:
    where = f"listing '{row['listing']}' of source '{row['source']}'"
    place = f"page {row['page']}, row {row['position']}"
    address = f": {row['url']}" if row["url"] else ""
    first = f"{_run(row['first_run'], row['first_slot'], row['first_pass'])}, pass {row['first_pass']}"
    last = f"{_run(row['last_run'], row['last_slot'], row['last_pass'])}, pass {row['last_pass']}, {place}{address}"
    if row["last_pass"] == row["first_pass"]:
        return [(row["first_at"], f"{where} listed it for the first time: {last}")]
    return [
        (row["first_at"], f"{where} listed it for the first time: {first}"),
        (row["last_at"], f"{where} listed it for the last time so far: {last}"),
    ]


def _visited(row: Row) -> Lines:
    text = f"visit of generation {row['generation']} by {row['worker']}, start {row['starts']}: {row['outcome']}"
    text += f" after {length(max(0, row['ended_at'] - row['started_at']))}"
    if row["reason"]:
        text += f": {row['reason']}"
    evidence = ", ".join(f"{name} {value}" for name, value in row["evidence"].items() if value not in (None, "", {}))
    if evidence:
        text += f" ({evidence})"
    if row["final"] is not None:
        text += f" → {row['final']}"
    elif row["delay_ms"]:
        text += f" → again after {length(row['delay_ms'])}"
    else:
        text += " → again"
    cost = ", costs an attempt" if row["costs"] else ""
    return [(row["started_at"], f"a worker began: {row['worker']}"), (row["ended_at"], text + cost)]


def _written(row: Row) -> tuple[int, str]:
    by = "by a list page" if row["visit_id"] is None else "by the visit"
    fields = sum(value not in (None, "") for value in row["content"].values())
    return row["at"], f"version {row['n']} was written {by}: {fields} of {len(row['content'])} fields have a value"


def _died(row: Row) -> Lines:
    starts = f"{row['attempts']} attempt{'' if row['attempts'] == 1 else 's'}"
    lines = [(row["died_at"], f"dead letter {row['id']}: {row['outcome']} after {starts}: {row['reason']}")]
    if row["closed_at"] is not None:
        lines.append((row["closed_at"], f"dead letter {row['id']} was closed: {row['closed_reason']}"))
    return lines


def _item_lines(item: Row) -> Lines:
    lines: Lines = []
    if item["reopened_at"] is not None:
        times = "once" if item["reopened"] == 1 else f"{item['reopened']} times"
        lines.append((item["reopened_at"], f"opened again, for a listing showed it again ({times} so far)"))
    if item["state"] == "ignored" and item["closed_at"] is not None:
        lines.append((item["closed_at"], f"ignored: {item['reason'] or item['outcome']}"))
    return lines


def _waits(connection: Connection, item: Row, visits: list[Row], now: int, revisit_at: int | None) -> str:
    state = f"now {item['state']}, generation {item['generation']}"
    if item["state"] == "open" and not item["lane"]:
        return f"{state}; waits: it has no detail page, so the next listing that shows it brings its record"
    if not item["pending"]:
        return f"{state}; " + ("nothing is due" if revisit_at is None else f"visited again at {moment(revisit_at)}")
    if item["removed_at"] is not None:
        return f"{state}; waits: its source was removed at {moment(item['removed_at'])} (`fyke ignore` closes it)"
    if item["paused_at"] is not None:
        reason = f": {item['paused_reason']}" if item["paused_reason"] else ""
        return f"{state}; waits: its source is paused since {moment(item['paused_at'])}{reason}"
    hold = connection.execute(HOLD, (item["lane"],)).fetchone()
    if hold is not None and hold[0] > now:
        return f"{state}; waits: {item['lane']} is held until {moment(hold[0])}: {hold[1] or 'no reason given'}"
    last = visits[-1] if visits else None
    if last is not None and last["generation"] == item["generation"] and last["ended_at"] + last["delay_ms"] > now:
        again = moment(last["ended_at"] + last["delay_ms"])
        return f"{state}; waits: it is tried again after {again}, for the last visit failed ({last['outcome']})"
    return f"{state}; due since {moment(item['due_at'])}, waits for its turn at {item['lane']}"


def _near(connection: Connection, scope: str, key: str) -> list[str]:
    """Keys that look like `key`: those that hold it, its neighbours in order, and of these the most alike."""
    values = {"scope": scope, "key": key, "limit": NEAR_CANDIDATES}
    inside = "SELECT key FROM item WHERE scope = :scope AND replace(key, :key, '') <> key LIMIT :limit"
    after = "SELECT key FROM item WHERE scope = :scope AND key >= :key ORDER BY key LIMIT :limit"
    before = "SELECT key FROM item WHERE scope = :scope AND key < :key ORDER BY key DESC LIMIT :limit"
    holding = [name for (name,) in connection.execute(inside, values)] if key else []
    candidates = [name for statement in (after, before) for (name,) in connection.execute(statement, values)]
    alike = difflib.get_close_matches(key, [*holding, *candidates], n=NEAR_LIMIT, cutoff=0.6)
    return list(dict.fromkeys([*alike, *sorted(holding, key=len)]))[:NEAR_LIMIT]
