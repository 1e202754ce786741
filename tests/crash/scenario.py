"""The scenario of the enumeration, and what must hold after it.

Two walks with an edit between them; of six notices one is gone for good (dead), one answers 503 once, one is edited.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sqlite import SqliteLedger
from fyke.pipeline.auditor import audit
from tests.crash.world import Fault, Point, World, shorten_looks

# How often each call happens in a life without faults varies a little with timing; later ones repeat the earlier.
POINTS: dict[str, int] = {
    "ledger.running": 2,
    "ledger.sources": 2,
    "ledger.open_run": 1,
    "ledger.start_pass": 1,
    "ledger.recognise": 4,
    "ledger.page": 4,
    "ledger.still_due": 4,
    "ledger.commit": 5,
    "ledger.lane_ok": 2,
    "ledger.end_pass": 1,
    "frontier.configure": 1,
    "frontier.offer": 4,
    "frontier.lease": 8,
    "frontier.begin": 5,
    "frontier.permit": 3,
    "frontier.ack": 4,
    "frontier.retry": 3,
    "frontier.bury": 1,
    "fetcher.fetch": 10,
}
ALL_POINTS: list[Point] = [(name, n) for name, most in POINTS.items() for n in range(1, most + 1)]


async def play(path: Path, plan: Mapping[Point, Fault], second: Mapping[Point, Fault] | None = None) -> World:
    """A life with the faults of `plan`, one with those of `second`, recovery; an edit; a second walk, recovery."""
    shorten_looks()
    world = World(path)
    await world.prepare()
    await world.live(plan)
    if second is not None:
        world.clock.jump(10_000)
        await world.live(second)
    await world.recover()
    world.site.edit()
    await world.recover()
    await world.recover()
    return world


async def broken_promises(world: World) -> list[str]:
    """What does not hold; empty is good (P1-P3, P5, and the frontier is empty)."""
    database = SqliteDatabase(world.path)
    try:
        frontier = SqlFrontier(database, world.clock, Random(1), lease_ms=1000)
        report = await audit(SqliteLedger(database, world.clock), frontier)
    finally:
        await database.close()
    found = [f"audit: {finding.kind} {finding.key}: {finding.message}" for finding in report.findings]
    with sqlite3.connect(world.path) as connection:
        rows = dict(connection.execute("SELECT _key, title FROM notices"))
        states = dict(connection.execute("SELECT key, state FROM item"))
        versions = dict(connection.execute("SELECT _key, _version FROM notices"))
        live = connection.execute("SELECT key, state FROM task").fetchall()
        passes = Counter(state for (state,) in connection.execute("SELECT state FROM pass"))
        writes = written(connection)
    wanted = {key: title for key, title in world.site.titles.items() if key not in world.site.gone}
    if rows != wanted:
        found.append(f"rows {rows}, wanted {wanted}")
    expected = {key: "dead" if key in world.site.gone else "stored" for key in world.site.titles}
    if states != expected:
        found.append(f"states {states}, wanted {expected}")
    found += [
        f"{key} was written {n} times for {versions[key]} version(s)" for key, n in writes.items() if n != versions[key]
    ]
    edited = {key for key, version in versions.items() if version > 1} - {"d"}
    if edited:
        found.append(f"new versions of what was not edited: {sorted(edited)}")
    if live:
        found.append(f"left in the frontier: {live}")
    if set(passes) - {"complete"}:
        found.append(f"passes {dict(passes)}")
    if not report.balanced or report.open:
        found.append(f"not balanced: {report}")
    return found


def written(connection: sqlite3.Connection) -> Counter[str]:
    """How often each row was written with an effect, counted by triggers."""
    from fyke.testing.effects import effects

    return Counter(key for key, _ in effects(connection, "notices"))
