"""The scenario of the enumeration, and what must hold after it.

Two walks with an edit between them; of six notices one is gone for good (dead), one answers 503 once, one is edited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from fyke.db.connection import Connection
from fyke.pipeline.auditor import audit
from fyke.testing.effects import Effect, read_effects, written_twice
from tests.crash.asking import ask, live_tasks, rows, states
from tests.crash.calls import DAMAGES, OF_CALLS, Fault, Point
from tests.crash.places import Place
from tests.crash.world import World

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
    "ledger.revisit": 1,
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
    "frontier.damaged": 1,
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


class Case(NamedTuple):
    """One fault of the enumeration. `after_edit`: in the second walk."""

    point: Point
    fault: Fault
    after_edit: bool = False

    def __str__(self) -> str:
        return f"{'after edit ' if self.after_edit else ''}{self.point[0]}#{self.point[1]}-{self.fault}"


def points(names: Mapping[str, int]) -> list[Point]:
    return [(name, n) for name, most in names.items() for n in range(1, most + 1)]


FIRST = [Case(point, fault) for point in points(CHANGES) for fault in OF_CALLS]
FIRST += [Case(point, fault) for point in points(READS) for fault in FAULTS_OF_READS]
SECOND = [Case(point, fault, after_edit=True) for point in points(AFTER_EDIT) for fault in OF_CALLS]
"""All single faults of any place."""


DAMAGED = [
    Case(point, fault, after_edit)
    for names, after_edit in ((CHANGES | READS, False), (AFTER_EDIT, True))
    for point in points(names)
    if point[0].startswith("frontier.")
    for fault in DAMAGES
]
ALL = [*FIRST, *SECOND, *DAMAGED]
"""All single faults on Redis and PostgreSQL."""
SAMPLED, SEED = 60, 3


def sample() -> list[Case]:
    """A fixed choice: each call with one of its faults, each fault with one of its calls, and more."""
    mixed = Random(SEED).sample(ALL, len(ALL))
    by_name = {case.point[0]: case for case in mixed}
    by_fault = {case.fault: case for case in mixed}
    found = dict.fromkeys([*by_name.values(), *by_fault.values(), *mixed])
    return list(found)[:SAMPLED]


async def play(place: Place, first: Plan, second: Plan | None = None, after_edit: Plan | None = None) -> World:
    """A life with the faults of `first`, one with those of `second`, recovery; an edit; a second walk, recovery."""
    world = World(place)
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
    versions = dict(ask(world, "SELECT _key, _version FROM notices"))
    walks = Counter(state for (state,) in ask(world, "SELECT state FROM pass"))
    effects, twice = world.place.read(_written)
    if (stored := rows(world)) != wanted:
        found.append(f"rows {stored}, wanted {wanted}")
    expected = {key: "dead" if key in world.site.gone else "stored" for key in world.site.titles}
    if (ended := states(world)) != expected:
        found.append(f"states {ended}, wanted {expected}")
    found += [f"version {version} of {key} was written {times} times" for _, key, version, times in twice]
    found += [f"{effect.key}: {effect.kind}" for effect in effects if effect.kind == "delete"]
    written = [(effect.key, effect.version) for effect in effects]
    if _went_back(written):
        found.append(f"an older version was written over a newer one: {written}")
    edited = {key for key, version in versions.items() if version > 1} - world.site.edited
    if edited:
        found.append(f"new versions of what was not edited: {sorted(edited)}")
    if set(walks) - {"complete", *(["failed"] if deaths else [])}:
        found.append(f"passes {dict(walks)}")
    return found


async def broken_balance(world: World) -> list[str]:
    """What the audit finds, and what is left open or in the frontier."""
    stores = await world.place.open(world.clock, Random(1), 1000)
    try:
        report = await audit(stores.ledger, stores.frontier)
    finally:
        await stores.close()
    found = [f"audit: {finding.kind} {finding.key}: {finding.message}" for finding in report.findings]
    if not report.balanced or report.open:
        found.append(f"not balanced: {report}")
    if live := await live_tasks(world):
        found.append(f"left in the frontier: {live}")
    return found


def _written(connection: Connection) -> tuple[list[Effect], list[tuple[str, str, int, int]]]:
    return read_effects(connection), written_twice(connection)


def _went_back(written: list[tuple[str, int]]) -> bool:
    newest: dict[str, int] = {}
    for key, version in written:
        if version < newest.get(key, 0):
            return True
        newest[key] = version
    return False
