"""New keys for stored items, when a source's key rule or scope has changed.

Keeps P1: while items move the source is paused and nothing is added to it, each batch is one transaction, and the rule
is changed with the last one. Keeps P2: the old key is remembered, and who asks for it finds the item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fyke.db.connection import Connection, listed
from fyke.db.typed import quoted
from fyke.errors import TransientError, UsageError
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.cleaning import to_json
from fyke.ledgers.sql.forget import BY_ITEM, PARTS, VERSIONS
from fyke.ledgers.sql.records import write_tally
from fyke.ledgers.sql.sources import MARKED, PAUSE, RESUME, lock_source, write_source
from fyke.ledgers.sql.state import SET_META, end_space
from fyke.model import ItemState, KeyItem, KeyMove, ResolvedSource

MARK = "rekey:"
UNMARK = "DELETE FROM meta WHERE name = ?"
GOING = "SELECT id, started_by FROM run WHERE source_id = ? AND state = 'running' ORDER BY id"
ITEM = """
SELECT i.id, s.name, i.scope, i.key, i.url, i.state, i.entry, v.content
FROM item i JOIN source s ON s.id = i.source_id LEFT JOIN version v ON v.item_id = i.id AND v.n = i.head_n
"""
OF_SOURCE = f"{ITEM} WHERE s.name = ? AND i.id > ? ORDER BY i.id LIMIT ?"
OF_KEYS = f"{ITEM} WHERE i.scope = ? AND i.key IN (SELECT value FROM json_each(?)) ORDER BY i.id"
UNDER = f"{ITEM} WHERE i.scope = ? AND i.key >= ? AND i.key < ? ORDER BY i.id"
VALUES = """
SELECT g.key, l.inputs FROM source s JOIN listing l ON l.source_id = s.id JOIN sighting g ON g.listing_id = l.id
WHERE s.scope = ? AND g.key IN (SELECT value FROM json_each(?)) ORDER BY g.last_at
"""
HELD = """
SELECT id, scope, key, source_id, state FROM item WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id FOR UPDATE
"""
TAKEN = "SELECT id, key FROM item WHERE scope = ? AND key IN (SELECT value FROM json_each(?))"
LISTINGS = "SELECT l.id FROM listing l JOIN source s ON s.id = l.source_id WHERE s.scope = ? ORDER BY l.id"
SIGHTINGS = """
SELECT listing_id, key, item_id, first_at, last_at FROM sighting
WHERE listing_id IN (SELECT value FROM json_each(?)) AND key IN (SELECT value FROM json_each(?))
ORDER BY listing_id, key
"""
MOVE_SIGHTING = "UPDATE sighting SET key = ?, item_id = ? WHERE listing_id = ? AND key = ?"
FOLD_SIGHTING = """
UPDATE sighting SET first_at = least(first_at, ?), last_at = greatest(last_at, ?) WHERE listing_id = ? AND key = ?
"""
DROP_SIGHTING = "DELETE FROM sighting WHERE listing_id = ? AND key = ?"
REMEMBER = """
INSERT INTO former_key(scope, key, item_id, at) VALUES (?, ?, ?, ?)
ON CONFLICT(scope, key, item_id) DO UPDATE SET at = excluded.at
"""
FORMERS = "SELECT scope, key, at FROM former_key WHERE item_id = ?"
MOVE = "UPDATE item SET scope = ?, key = ? WHERE id = ?"
EDGES = (("stretch", "newest_key"), ("stretch", "oldest_key"), ("hole", "newer_key"), ("hole", "older_key"))
FORMER = """
SELECT i.key FROM former_key f JOIN item i ON i.id = f.item_id WHERE f.scope = ? AND f.key = ?
ORDER BY f.at DESC, i.id LIMIT 1
"""


def marked(connection: Connection, source_id: str) -> str | None:
    """What `begin_rekey` has noted of the source; None where its keys are not being changed."""
    row = connection.execute(MARKED, (MARK + source_id,)).fetchone()
    return str(row[0]) if row else None


class RekeyStatements(Statements):
    async def rekeying(self, source_id: str) -> bool:
        return await self._read(lambda connection: marked(connection, source_id) is not None)

    async def begin_rekey(self, sources: Sequence[ResolvedSource]) -> None:
        now = self._clock.now()
        await self._write(lambda connection: _begin(connection, sources, now))

    async def key_items(self, source_id: str, after: int, limit: int) -> list[KeyItem]:
        return await self._read(lambda connection: _items(connection, OF_SOURCE, (source_id, after, limit)))

    async def items_of_keys(self, scope: str, keys: Iterable[str]) -> list[KeyItem]:
        wanted = (scope, listed(sorted(set(keys))))
        return await self._read(lambda connection: _items(connection, OF_KEYS, wanted))

    async def items_under(self, scope: str, first: str, behind: str) -> list[KeyItem]:
        return await self._read(lambda connection: _items(connection, UNDER, (scope, first, behind)))

    async def move_keys(self, source: ResolvedSource, moves: Sequence[KeyMove]) -> int:
        now = self._clock.now()
        return await self._write(lambda connection: _move(connection, source, moves, now))

    async def end_rekey(self, sources: Sequence[ResolvedSource]) -> None:
        now = self._clock.now()

        def call(connection: Connection) -> None:
            for source in sorted(sources, key=lambda one: one.id):
                number = lock_source(connection, source.id)
                _target(connection, source)
                (scope,) = connection.execute("SELECT scope FROM source WHERE id = ?", (number,)).fetchone()
                _move_edges(connection, number, scope)
                write_source(connection, number, source, now)
                value = marked(connection, source.id)
                if value is not None and value.startswith("1 "):
                    (at,) = connection.execute("SELECT paused_at FROM source WHERE id = ?", (number,)).fetchone()
                    connection.execute(RESUME, (max(0, now - (at or now)), number))
                connection.execute(UNMARK, (MARK + source.id,))
            end_space(connection)

        await self._write(call)


def _begin(connection: Connection, sources: Sequence[ResolvedSource], now: int) -> None:
    for source in sorted(sources, key=lambda one: one.id):
        number = lock_source(connection, source.id)
        going = connection.execute(GOING, (number,)).fetchone()
        if going is not None:
            raise UsageError(
                f"run {going[0]} of source '{source.id}' is going", hint="let it end, or pause the source and wait"
            )
        (paused_at,) = connection.execute("SELECT paused_at FROM source WHERE id = ?", (number,)).fetchone()
        before = marked(connection, source.id)
        ours = paused_at is None if before is None else before.startswith("1 ")
        if paused_at is None:
            why = f"its items get new keys: `fyke source rekey {source.id}` goes on with it"
            connection.execute(PAUSE, (now, why, number))
        connection.execute(SET_META, (MARK + source.id, f"{int(ours)} {source.hash}"))
    end_space(connection)


def _target(connection: Connection, source: ResolvedSource) -> None:
    value = marked(connection, source.id)
    if value is None or value[2:] != source.hash:
        raise UsageError(
            f"the keys of source '{source.id}' are being changed by another command",
            hint=f"`fyke source rekey {source.id}` again does what the file says now",
        )


def _items(connection: Connection, statement: str, values: tuple[Any, ...]) -> list[KeyItem]:
    rows = connection.execute(statement, values).fetchall()
    by_scope: dict[str, list[str]] = {}
    for row in rows:
        by_scope.setdefault(row[2], []).append(row[3])
    inputs: dict[tuple[str, str], str] = {}
    for scope, keys in by_scope.items():
        found = connection.execute(VALUES, (scope, listed(keys)))
        inputs |= {(scope, key): text for key, text in found}
    return [
        KeyItem(
            id,
            source,
            scope,
            key,
            url,
            ItemState(state),
            msgspec.json.decode(entry),
            msgspec.json.decode(content) if content else {},
            msgspec.json.decode(inputs.get((scope, key), "{}")),
        )
        for id, source, scope, key, url, state, entry, content in rows
    ]


def _move(connection: Connection, source: ResolvedSource, moves: Sequence[KeyMove], now: int) -> int:
    """One batch. What another run of the command has moved already is left as it is."""
    _target(connection, source)
    wanted = {move.item_id: move for move in moves}
    rows = connection.execute(
        HELD, (listed(sorted({*wanted, *(move.into for move in moves if move.into)})),)
    ).fetchall()
    held = {row[0]: row for row in rows}
    moves = [move for id, move in sorted(wanted.items()) if id in held and held[id][1:3] == (move.scope, move.key)]
    movers, losers = [move for move in moves if not move.into], [move for move in moves if move.into]
    _refuse_taken(connection, moves)
    former = [(move.scope, move.key, move.item_id, now) for move in movers]
    former += [(move.scope, move.key, move.into, now) for move in losers]
    connection.executemany(REMEMBER, former)
    # Through names that nobody has: one may get the key that another of them has now.
    connection.executemany(MOVE, [(move.scope, _between(move), move.item_id) for move in moves])
    connection.executemany(MOVE, [(move.new_scope, move.new_key, move.item_id) for move in movers])
    _move_sightings(connection, moves)
    for move in movers:
        table = quoted(move.table)
        connection.execute(
            f"UPDATE {table} SET _scope = ?, _key = ? WHERE _item_id = ?", (move.new_scope, move.new_key, move.item_id)
        )
        if move.entry is not None:
            _new_parent(connection, move, table)
    connection.executemany(
        "UPDATE dead SET scope = ?, key = ? WHERE item_id = ?",
        [(move.new_scope, move.new_key, move.item_id) for move in movers],
    )
    connection.executemany(
        "DELETE FROM shown_before WHERE item_id = ?", [(move.item_id,) for move in moves]
    )  # nothing that was paused is accepted under a key that is gone
    if losers:
        _remove(connection, losers, held, now)
    return len(moves)


def _between(move: KeyMove) -> str:
    return f"fyke rekey {move.item_id}"


def _refuse_taken(connection: Connection, moves: Sequence[KeyMove]) -> None:
    ids, by_scope = {move.item_id for move in moves}, dict[str, list[str]]()
    for move in moves:
        if move.into:
            continue
        by_scope.setdefault(move.new_scope, []).append(move.new_key)
    for scope, keys in by_scope.items():
        for id, key in connection.execute(TAKEN, (scope, listed(keys))):
            if id not in ids:
                raise UsageError(f"the key {key!r} of scope '{scope}' has an item already", hint="begin again")


def _move_sightings(connection: Connection, moves: Sequence[KeyMove]) -> None:
    for scope in sorted({move.scope for move in moves}):
        listings = listed([id for (id,) in connection.execute(LISTINGS, (scope,))])
        here = {move.key: move for move in moves if move.scope == scope}
        found = connection.execute(SIGHTINGS, (listings, listed(sorted(here)))).fetchall()
        connection.executemany(
            MOVE_SIGHTING, [(_between(here[key]), item, listing, key) for listing, key, item, *_ in found]
        )
        targets = listed(sorted({move.new_key for move in here.values()}))
        taken = {(listing, key) for listing, key, *_ in connection.execute(SIGHTINGS, (listings, targets)).fetchall()}
        # Those whose item stays come first, so that the others are folded into theirs.
        for listing, key, _, first_at, last_at in sorted(found, key=lambda row: bool(here[row[1]].into)):
            move, target = here[key], (listing, here[key].new_key)
            if target in taken:
                connection.execute(FOLD_SIGHTING, (first_at, last_at, *target))
                connection.execute(DROP_SIGHTING, (listing, _between(move)))
            else:
                taken.add(target)
                connection.execute(MOVE_SIGHTING, (move.new_key, move.into or move.item_id, listing, _between(move)))


def _new_parent(connection: Connection, move: KeyMove, table: str) -> None:
    """An attachment names the item that it belongs to, in each of its versions."""
    entry, parent = move.entry or {}, (move.entry or {}).get("parent")
    connection.execute(
        "UPDATE item SET entry = ?, entry_hash = ? WHERE id = ?", (to_json(entry), move.entry_hash, move.item_id)
    )
    connection.execute(f"UPDATE {table} SET parent = ? WHERE _item_id = ?", (parent, move.item_id))
    versions = connection.execute("SELECT id, content FROM version WHERE item_id = ?", (move.item_id,)).fetchall()
    for id, content in versions:
        text = to_json(msgspec.json.decode(content) | {"parent": parent})
        connection.execute("UPDATE version SET content = ? WHERE id = ?", (text, id))


def _remove(connection: Connection, losers: Sequence[KeyMove], held: dict[int, Any], now: int) -> None:
    """Items that are the same as others: these keep what they have, and those go with all that is theirs."""
    items = listed([move.item_id for move in losers])
    for move in losers:
        for scope, key, at in connection.execute(FORMERS, (move.item_id,)).fetchall():
            connection.execute(REMEMBER, (scope, key, move.into, at))
    connection.execute(f"DELETE FROM former_key WHERE {BY_ITEM}", (items,))
    tally: dict[int, Counter[str]] = {}
    for move in losers:
        _, _, _, number, state = held[move.item_id]
        tally.setdefault(number, Counter()).update({"listed": -1, state: -1})
    for number, versions in connection.execute(VERSIONS, (items,)):
        tally[number]["versions"] -= versions
    for name in PARTS:
        connection.execute(f"DELETE FROM {name} WHERE {BY_ITEM}", (items,))
    for name in sorted({move.table for move in losers}):
        connection.execute(f"DELETE FROM {quoted(name)} WHERE _{BY_ITEM}", (items,))
    connection.execute("DELETE FROM item WHERE id IN (SELECT value FROM json_each(?))", (items,))
    write_tally(connection, tally)


def _move_edges(connection: Connection, number: int, scope: str) -> None:
    """The edges of what is covered are keys, too: they are shown to people."""
    for table, column in EDGES:
        rows = connection.execute(
            f"SELECT t.id, t.{column} FROM {table} t JOIN listing l ON l.id = t.listing_id"
            f" WHERE l.source_id = ? AND t.{column} IS NOT NULL",
            (number,),
        ).fetchall()
        for id, key in rows:
            found = connection.execute(FORMER, (scope, key)).fetchone()
            if found is not None:
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (found[0], id))


def refuse_while_moving(connection: Connection, source_id: str) -> None:
    """Nothing is added to a source whose keys are being changed: it would get an old one.

    Raises:
        TransientError: they are.
    """
    if marked(connection, source_id) is not None:
        raise TransientError(f"the items of source '{source_id}' get new keys just now (`fyke source rekey`)")
