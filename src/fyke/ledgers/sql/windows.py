"""Holes and the date windows that fill them.

Keeps P5: a hole is filled only where windows that were read whole hold all of it and show rows of what is covered on
both of its sides.
"""

from __future__ import annotations

import msgspec

from fyke.db.connection import Connection, listed
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.sources import number_of
from fyke.ledgers.sql.state import plain
from fyke.model import Hole, Holes, Listing
from fyke.policy.windows import window_of

OPEN_HOLES = """
SELECT h.id, l.name, l.inputs, h.newer_at, h.older_at, h.older_stretch_id, h.found_at
FROM hole h JOIN listing l ON l.id = h.listing_id
WHERE h.closed_at IS NULL AND l.source_id = ? ORDER BY h.id
"""
LAST_FILL = "SELECT max(started_at) FROM run WHERE source_id = ? AND started_by = 'fill' AND state <> 'skipped'"
GOING = "SELECT id FROM run WHERE source_id = ? AND started_by = 'fill' AND state = 'running'"
WALKED = """
SELECT l.name, l.inputs, r.started_at FROM run r JOIN pass p ON p.run_id = r.id JOIN listing l ON l.id = p.listing_id
WHERE r.source_id = ? AND r.started_by = 'fill' AND r.started_at >= ? AND p.state = 'complete' AND p.connected = 1
ORDER BY p.id
"""
LISTINGS = "SELECT name, inputs FROM listing WHERE source_id = ? ORDER BY id"
HOLE = """
SELECT listing_id, newer_stretch_id, older_stretch_id FROM hole WHERE id = ? AND closed_at IS NULL FOR UPDATE
"""
WINDOWS = """
SELECT w.id FROM listing w JOIN listing l ON l.source_id = w.source_id
WHERE l.id = ? AND w.name IN (SELECT value FROM json_each(?)) ORDER BY w.id
"""
# Rows that a window shows and the listing itself has shown inside what is covered.
SHARED = """
SELECT 1 FROM sighting w JOIN sighting g ON g.listing_id = ? AND g.key = w.key
WHERE w.listing_id IN (SELECT value FROM json_each(?)) AND g.stretch_id IS NOT NULL AND g.stretch_id {side} ? LIMIT 1
"""
CLOSE = "UPDATE hole SET closed_at = ?, closed_reason = ? WHERE id = ?"


class WindowStatements(Statements):
    async def holes(self, source_id: str) -> Holes:
        return await self._read(lambda connection: _holes(connection, number_of(connection, source_id)))

    async def listings(self, source_id: str) -> list[Listing]:
        def call(connection: Connection) -> list[Listing]:
            rows = connection.execute(LISTINGS, (number_of(connection, source_id),))
            found = [Listing(name, msgspec.json.decode(inputs)) for name, inputs in rows]
            return [listing for listing in found if not listing.filled and not listing.discovers]

        return await self._read(call)

    async def fill_hole(self, hole_id: int, windows: list[str], reason: str) -> str:
        now = self._clock.now()

        def call(connection: Connection) -> str:
            row = connection.execute(HOLE, (hole_id,)).fetchone()
            if row is None:
                return ""
            listing, newer, older = row
            shown = listed([id for (id,) in connection.execute(WINDOWS, (listing, listed(windows)))])
            sides = [(">=", newer, "newer"), ("<=", older, "older")]
            for side, stretch, which in sides if older is not None else sides[:1]:
                if connection.execute(SHARED.format(side=side), (listing, shown, stretch)).fetchone() is None:
                    return f"the windows show no row of what is covered on its {which} side"
            connection.execute(CLOSE, (now, plain(reason), hole_id))
            return ""

        return await self._write(call)


def _holes(connection: Connection, source: int) -> Holes:
    holes = [
        Hole(id, Listing(name, msgspec.json.decode(inputs)), newer_at, older_at, older_stretch is None, found_at)
        for id, name, inputs, newer_at, older_at, older_stretch, found_at in connection.execute(OPEN_HOLES, (source,))
    ]
    (tried_at,) = connection.execute(LAST_FILL, (source,)).fetchone()
    going = connection.execute(GOING, (source,)).fetchone()
    walked = []
    if holes and tried_at is not None:
        since = min(hole.found_at for hole in holes)
        for name, inputs, at in connection.execute(WALKED, (source, since)):
            window = Listing(name, msgspec.json.decode(inputs))
            if window.filled:
                walked.append((window, *window_of(window), at))
    return Holes(holes, walked, tried_at or 0, going[0] if going else None)
