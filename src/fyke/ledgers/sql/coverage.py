"""What is known of a listing: stretches with holes between, and the anchors inside them.

Keeps P5: only a walk that ended complete or with a gap covers; a hole stays until it is filled or closed by a person.
"""

from __future__ import annotations

from collections.abc import Iterable

from fyke.db.connection import Connection, listed
from fyke.model import Coverage, Listing

DAY_MS = 86_400_000
ANCHOR_LIMIT = 10_000
ANCHORS = """
SELECT count(*) FROM (SELECT 1 FROM sighting WHERE listing_id = ? AND stretch_id IS NOT NULL LIMIT ?) AS found
"""
LOCK_LISTING = "SELECT id FROM listing WHERE id = ? FOR UPDATE"
SHOWN = """
SELECT p.listing_id, l.name, p.entries - p.refused, p.newest_key, p.newest_at, p.oldest_key, p.oldest_at
FROM pass p JOIN listing l ON l.id = p.listing_id WHERE p.id = ?
"""
TOP = """
SELECT id, newest_key, newest_at, oldest_key, oldest_at FROM stretch WHERE listing_id = ? ORDER BY id DESC LIMIT 1
"""
COVERED = "UPDATE sighting SET stretch_id = ? WHERE last_pass = ? AND stretch_id IS NULL"
BEFORE = "SELECT key FROM shown_before WHERE pass_id = ?"
COVERED_BEFORE = """
UPDATE sighting SET stretch_id = coalesce(stretch_id, ?)
WHERE listing_id = ? AND key IN (SELECT value FROM json_each(?))
"""
# What a page shows gets its last pass from it. Where the one before is suspicious, a person may still accept it, and
# only then does it cover: what it has shown stays on record.
# (Not `stretch_id IS NULL`: PostgreSQL would walk the index of all such sightings, thinking that they are few.)
SHOWN_LAST = """
SELECT last_pass, key, item_id FROM sighting
WHERE listing_id = ? AND key IN (SELECT value FROM json_each(?)) AND coalesce(stretch_id, 0) = 0 AND last_pass <> ?
"""
SUSPICIOUS = "SELECT id FROM pass WHERE state = 'suspicious' AND id IN (SELECT value FROM json_each(?))"
KEEP_SHOWN = """
INSERT INTO shown_before(pass_id, key, item_id) VALUES (?, ?, ?)
ON CONFLICT(pass_id, key) DO UPDATE SET item_id = excluded.item_id
"""
FORGET_SHOWN = "DELETE FROM shown_before WHERE pass_id = ?"
SOURCES_OF = "SELECT id FROM source WHERE scope IN (SELECT value FROM json_each(?))"
TO_READ_ANEW = """
SELECT id FROM {table} WHERE {condition} AND source_id IN (SELECT value FROM json_each(?)) ORDER BY id FOR UPDATE
"""
READ_ANEW = "UPDATE {table} SET read_hash = '' WHERE id = ?"
HOLE = """
INSERT INTO hole(listing_id, pass_id, newer_stretch_id, older_stretch_id, newer_key, newer_at, older_key, older_at,
  found_at, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

Edge = tuple[str | None, int | None]
Top = tuple[int, str | None, int | None, str | None, int | None]


def read_coverage(connection: Connection, listing_id: int) -> Coverage:
    """The listing's coverage; anchors are counted up to ANCHOR_LIMIT, which no walk needs more of."""
    (stretches,) = connection.execute("SELECT count(*) FROM stretch WHERE listing_id = ?", (listing_id,)).fetchone()
    (holes,) = connection.execute(
        "SELECT count(*) FROM hole WHERE listing_id = ? AND closed_at IS NULL", (listing_id,)
    ).fetchone()
    (anchors,) = connection.execute(ANCHORS, (listing_id, ANCHOR_LIMIT)).fetchone()
    (usual,) = connection.execute("SELECT usual_rows FROM listing WHERE id = ?", (listing_id,)).fetchone()
    top = connection.execute(TOP, (listing_id,)).fetchone() or (None,) * 5
    return Coverage(stretches, holes, anchors, top[1], top[2], usual)


def cover(connection: Connection, pass_id: int, *, joined: bool, now: int, reason: str = "") -> None:
    """Let a pass cover what it has shown; its edges are in its row. `joined`: it met what was covered before.

    The caller's transaction holds the pass. Joined to the newest stretch, or the first one; else a new stretch, and a
    hole between it and the one before. What the pass has shown becomes anchors. A pass that has shown no key covers
    nothing new, and one of a date window says nothing of what its listing shows.
    """
    listing_id, name, keys, *edges = connection.execute(SHOWN, (pass_id,)).fetchone()
    if not keys or Listing(name).filled:
        return
    newest, oldest = _edge(*edges[:2], now=now), _edge(*edges[2:], now=now)
    connection.execute(LOCK_LISTING, (listing_id,))
    top = connection.execute(TOP, (listing_id,)).fetchone()
    if joined and top:
        stretch = int(top[0])
        _join(connection, top, newest, oldest, now)
    else:
        stretch = _new_stretch(connection, pass_id, listing_id, newest, oldest, now)
        if not joined:
            older_id, older = (top[0], top[1:3]) if top else (None, (None, None))
            values = (listing_id, pass_id, stretch, older_id, *oldest, *older, now, reason)
            connection.execute(HOLE, values)
    connection.execute("UPDATE pass SET stretch_id = ? WHERE id = ?", (stretch, pass_id))
    connection.execute(COVERED, (stretch, pass_id))
    before = listed(sorted(key for (key,) in connection.execute(BEFORE, (pass_id,))))
    if before.values:
        connection.execute(COVERED_BEFORE, (stretch, listing_id, before))
        connection.execute(FORGET_SHOWN, (pass_id,))


def keep_shown(connection: Connection, pass_id: int, listing_id: int, keys: Iterable[str]) -> None:
    """Before a page's sightings are written: keep what suspicious passes have shown of these keys."""
    loose = connection.execute(SHOWN_LAST, (listing_id, listed(keys), pass_id)).fetchall()
    if loose:
        passes = listed(sorted({row[0] for row in loose}))
        suspicious = {id for (id,) in connection.execute(SUSPICIOUS, (passes,))}
        connection.executemany(KEEP_SHOWN, sorted(row for row in loose if row[0] in suspicious))


def read_anew(connection: Connection, scopes: Iterable[str]) -> None:
    """Something of these scopes waits to be listed again: no list of theirs may be answered "not modified"."""
    asked = sorted(set(scopes))
    if not asked:
        return
    sources = listed([id for (id,) in connection.execute(SOURCES_OF, (listed(asked),))])
    for table, condition in (("pass", "state = 'running'"), ("listing", "read_hash <> ''")):
        rows = connection.execute(TO_READ_ANEW.format(table=table, condition=condition), (sources,)).fetchall()
        connection.executemany(READ_ANEW.format(table=table), rows)


def _edge(key: str | None, at: int | None, *, now: int) -> Edge:
    # A date later than tomorrow is a slip of the site: as a watermark it would hide all that comes until then.
    return (None, None) if at is not None and at > now + DAY_MS else (key, at)


def _new_stretch(connection: Connection, pass_id: int, listing_id: int, newest: Edge, oldest: Edge, now: int) -> int:
    names = "listing_id, pass_id, newest_key, newest_at, oldest_key, oldest_at, made_at, joined_at"
    values = (listing_id, pass_id, *newest, *oldest, now, now)
    return connection.insert(f"INSERT INTO stretch({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)


def _join(connection: Connection, top: Top, newest: Edge, oldest: Edge, now: int) -> None:
    stretch, known_newest, known_newest_at, known_oldest, known_oldest_at = top
    older = newest[1] is not None and known_newest_at is not None and newest[1] < known_newest_at
    if newest[0] is None or older:
        newest = (known_newest, known_newest_at)
    deeper = oldest[1] is not None and known_oldest_at is not None and oldest[1] < known_oldest_at
    if not deeper or _hole_below(connection, stretch):
        oldest = (known_oldest, known_oldest_at)
    connection.execute(
        "UPDATE stretch SET newest_key = ?, newest_at = ?, oldest_key = ?, oldest_at = ?, joined_at = ? WHERE id = ?",
        (*newest, *oldest, now, stretch),
    )


def _hole_below(connection: Connection, stretch: int) -> bool:
    # One old row among new ones (a pinned one) must not draw the stretch over a hole that nobody has read.
    found = connection.execute("SELECT 1 FROM hole WHERE newer_stretch_id = ? LIMIT 1", (stretch,)).fetchone()
    return found is not None
