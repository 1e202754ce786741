"""The scenario of the enumeration, and what must hold after it.

Two walks with an edit between them; of six notices one is gone for good (dead), one answers 503 once, one is edited.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

from fyke.db.sqlite import open_connection
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger
from fyke.pipeline.auditor import audit
from fyke.testing.effects import read_effects, written_twice
from tests.crash.virtual import TimedDatabase
from tests.crash.world import Fault, Point, World

Plan = Mapping[Point, Fault]

READS = {
    "ledger.identity": 2,
    "ledger.now": 2,
    "ledger.counts": 2,
    "ledger.running": 2,
    "ledger.sources": 2,
    "ledger.open_count": 2,
    "ledger.expire_runs": 2,
    "ledger.beat": 2,
    "ledger.due": 2,
    "ledger.due_keys": 1,
    "ledger.recognise": 3,
    "ledger.still_due": 3,
    "ledger.runs": 1,
    "ledger.cursor": 1,
    "ledger.events": 1,
    "frontier.rebuild": 2,
    "frontier.keys": 2,
    "frontier.known": 1,
    "frontier.stats": 1,
}
"""Calls that change nothing here, and how many of each are tried: what comes later repeats it."""
CHANGES = {
    "ledger.open_run": 1,
    "ledger.start_pass": 2,
    "ledger.pass_failed": 1,
    "ledger.page": 4,
    "ledger.commit": 5,
    "ledger.hold_lane": 2,
    "ledger.lane_ok": 1,
    "ledger.end_pass": 1,
    "frontier.configure": 1,
    "frontier.offer": 4,
    "frontier.lease": 5,
    "frontier.begin": 4,
    "frontier.permit": 2,
    "frontier.extend": 1,
    "frontier.hold": 2,
    "frontier.ack": 4,
    "frontier.retry": 4,
    "frontier.bury": 1,
    "frontier.reap": 1,
    "fetcher.fetch": 6,
}
AFTER_EDIT = {
    "ledger.start_pass": 1,
    "ledger.page": 1,
    "ledger.commit": 1,
    "ledger.end_pass": 1,
    "frontier.offer": 2,
    "frontier.begin": 2,
    "frontier.ack": 2,
    "fetcher.fetch": 2,
}
"""The second walk: it meets anchors, one item has a new generation, one is new."""
FAULTS_OF_READS = (Fault.DIE_BEFORE, Fault.NO_EFFECT, Fault.STOP_BEFORE)


def points(names: Mapping[str, int]) -> list[Point]:
    return [(name, n) for name, most in names.items() for n in range(1, most + 1)]


async def play(path: Path, first: Plan, second: Plan | None = None, after_edit: Plan | None = None) -> World:
    """A life with the faults of `first`, one with those of `second`, recovery; an edit; a second walk, recovery."""
    world = World(path)
    await world.live(first)
    if second is not None:
        world.clock.jump(world.lease * 3)
        await world.live(second)
    await world.recover()
    world.site.edit()
    if after_edit is not None:
        world.clock.jump(world.lease * 3)
        await world.live(after_edit)
    await world.recover()
    return world


async def broken_promises(world: World, *, deaths: bool = False) -> list[str]:
    """What does not hold; empty is good (P1-P3, P5, and the frontier is empty).

    `deaths`: there were so many that walks may have ended as failed.
    """
    found = await broken_balance(world)
    wanted = {key: title for key, title in world.site.titles.items() if key not in world.site.gone}
    with open_connection(world.path) as connection:
        rows = dict(connection.execute("SELECT _key, title FROM notices"))
        versions = dict(connection.execute("SELECT _key, _version FROM notices"))
        states = dict(connection.execute("SELECT key, state FROM item"))
        passes = Counter(state for (state,) in connection.execute("SELECT state FROM pass"))
        effects, twice = read_effects(connection), written_twice(connection)
    if rows != wanted:
        found.append(f"rows {rows}, wanted {wanted}")
    expected = {key: "dead" if key in world.site.gone else "stored" for key in world.site.titles}
    if states != expected:
        found.append(f"states {states}, wanted {expected}")
    found += [f"version {version} of {key} was written {times} times" for _, key, version, times in twice]
    found += [f"{effect.key}: {effect.kind}" for effect in effects if effect.kind == "delete"]
    written = [(effect.key, effect.version) for effect in effects]
    if _went_back(written):
        found.append(f"an older version was written over a newer one: {written}")
    edited = {key for key, version in versions.items() if version > 1} - world.site.edited
    if edited:
        found.append(f"new versions of what was not edited: {sorted(edited)}")
    if set(passes) - {"complete", *(["failed"] if deaths else [])}:
        found.append(f"passes {dict(passes)}")
    return found


async def broken_balance(world: World) -> list[str]:
    """What the audit finds, and what is left open or in the frontier."""
    database = TimedDatabase(world.path)
    try:
        frontier = SqlFrontier(database, world.clock, Random(1), lease_ms=1000)
        report = await audit(SqlLedger(database, world.clock), frontier)
    finally:
        await database.close()
    found = [f"audit: {finding.kind} {finding.key}: {finding.message}" for finding in report.findings]
    if not report.balanced or report.open:
        found.append(f"not balanced: {report}")
    with sqlite3.connect(world.path) as connection:
        live = connection.execute("SELECT key, state FROM task").fetchall()
    if live:
        found.append(f"left in the frontier: {live}")
    return found


def _went_back(written: list[tuple[str, int]]) -> bool:
    newest: dict[str, int] = {}
    for key, version in written:
        if version < newest.get(key, 0):
            return True
        newest[key] = version
    return False
