"""Pairs of faults and lives full of them, drawn by seed, for as long as there is time: `make crash`.

FYKE_CRASH_SECONDS (290) for each test and place; FYKE_CRASH_SEED begins at that seed, which the test prints.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeAlias

import pytest

from fyke.model import DeadFilter, Outcome
from tests.crash.calls import DAMAGES, OF_CALLS, Fault
from tests.crash.pair import Pair
from tests.crash.places import Place
from tests.crash.scenario import AFTER_EDIT, CHANGES, READS, Plan, broken_promises, play, points
from tests.crash.world import World

SECONDS = float(os.environ.get("FYKE_CRASH_SECONDS", "290"))
ALL = points(CHANGES | READS)
MOST_LIVES = 6
DAY_MS = 86_400_000


Told: TypeAlias = list[object]
Scene: TypeAlias = Callable[[Place, Random, Told], Coroutine[Any, Any, list[str]]]


def fault_at(place: Place, random: Random, name: str) -> Fault:
    """What may happen there: others damage a server, and only the frontier's."""
    damaged = isinstance(place, Pair) and name.startswith("frontier.")
    faults: list[Fault] = [*OF_CALLS, *(DAMAGES if damaged else ())]
    return random.choice(faults)


def drawn(place: Place, random: Random, count: int, *, spread: int = 1) -> Plan:
    """So many faults at calls of one life. `spread`: how much later than in a life without faults they may be."""
    found = {}
    for _ in range(count):
        name, n = random.choice(ALL)
        found[name, random.randint(1, n * spread)] = fault_at(place, random, name)
    return found


def until_time_is_up(fresh: Callable[[], Place], scene: Scene) -> None:
    """Play a scene seed after seed, each on a fresh place."""
    first = int(os.environ.get("FYKE_CRASH_SEED", "0")) or Random().randrange(10**9)
    print(f"seeds from {first}")
    ends, seed = time.monotonic() + SECONDS, first
    while time.monotonic() < ends:
        place, told = fresh(), Told()
        try:
            found = place.run(scene(place, Random(seed), told))
        except BaseException as error:
            raise AssertionError(f"FYKE_CRASH_SEED={seed}: {told}") from error
        assert found == [], f"FYKE_CRASH_SEED={seed}: {told}"
        seed += 1
    print(f"{seed - first} seeds")
    assert seed > first


async def two_faults(place: Place, random: Random, told: Told) -> list[str]:
    """Two faults: in one life, in two, or one of them after the edit."""
    kind = random.choice(("one life", "two lives", "after the edit"))
    first, second = drawn(place, random, 1), drawn(place, random, 1)
    told += [kind, first, second]
    if kind == "one life":
        world = await play(place, {**first, **second})
    elif kind == "two lives":
        world = await play(place, first, second)
    else:
        name, n = random.choice(points(AFTER_EDIT))
        after = {(name, n): fault_at(place, random, name)}
        told.append(after)
        world = await play(place, first, after_edit=after)
    return await broken_promises(world)


async def many_lives(place: Place, random: Random, told: Told) -> list[str]:
    """Life after life with several faults each, some at once, some after all leases ran out, with edits between."""
    world = World(place)
    edits = 0
    for _ in range(random.randint(2, MOST_LIVES)):
        plan = drawn(place, random, random.randint(1, 4), spread=2)
        told.append(plan)
        await world.live(plan)
        if random.random() < 0.5:
            world.clock.jump(world.lease * 3)
        if random.random() < 0.3:
            edits += 1
            world.site.edit_again(edits)
    await world.recover()
    # A page that met three deaths is dead by right, whoever's fault they were; a person replays it.
    async with world.process() as desk:
        died = DeadFilter(reason=Outcome.WORKER_DIED.value)
        _, tasks = await desk.ledger.replay(died)
        await desk.frontier.offer(tasks)
    for _ in range(2):
        await world.recover()
        # What is gone may be listed into life once a day.
        world.clock.jump(DAY_MS)
    return await broken_promises(world, deaths=True)


@pytest.mark.crash_long
def test_pairs_of_faults_break_no_promise(fresh_place: Callable[[], Place]) -> None:
    until_time_is_up(fresh_place, two_faults)


@pytest.mark.crash_long
def test_many_faulty_lives_break_no_promise(fresh_place: Callable[[], Place]) -> None:
    until_time_is_up(fresh_place, many_lives)
