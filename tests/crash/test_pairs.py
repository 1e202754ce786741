"""Pairs of faults and lives full of them, drawn by seed, for as long as there is time: `make crash`.

FYKE_CRASH_SECONDS (290) for each test; FYKE_CRASH_SEED begins at that seed, which the test prints.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from fyke.model import DeadFilter, Outcome
from tests.crash.scenario import AFTER_EDIT, CHANGES, READS, Plan, broken_promises, play, points
from tests.crash.virtual import run_virtual
from tests.crash.world import Fault, World

SECONDS = float(os.environ.get("FYKE_CRASH_SECONDS", "290"))
ALL = points(CHANGES | READS)
MOST_LIVES = 6
DAY_MS = 86_400_000


def drawn(random: Random, count: int, *, spread: int = 1) -> Plan:
    """So many faults at calls of one life. `spread`: how much later than in a life without faults they may be."""
    found = {}
    for _ in range(count):
        name, n = random.choice(ALL)
        found[name, random.randint(1, n * spread)] = random.choice(list(Fault))
    return found


def until_time_is_up(
    made: Path, folder: Path, scene: Callable[[Path, Random, list[object]], Awaitable[list[str]]]
) -> None:
    """Play a scene seed after seed, each on a file of its own."""
    first = int(os.environ.get("FYKE_CRASH_SEED", "0")) or Random().randrange(10**9)
    print(f"seeds from {first}")
    ends, seed = time.monotonic() + SECONDS, first
    while time.monotonic() < ends:
        path, plan = Path(shutil.copy(made, folder / f"{seed}.db")), list[object]()
        try:
            found = run_virtual(_play(scene, path, Random(seed), plan))
        except BaseException as error:
            raise AssertionError(f"FYKE_CRASH_SEED={seed}: {plan}") from error
        assert found == [], f"FYKE_CRASH_SEED={seed}: {plan}"
        for left in folder.glob(f"{seed}.db*"):
            left.unlink()
        seed += 1
    print(f"{seed - first} seeds")
    assert seed > first


async def _play(
    scene: Callable[[Path, Random, list[object]], Awaitable[list[str]]], path: Path, random: Random, plan: list[object]
) -> list[str]:
    return await scene(path, random, plan)


async def two_faults(path: Path, random: Random, told: list[object]) -> list[str]:
    """Two faults: in one life, in two, or one of them after the edit."""
    kind = random.choice(("one life", "two lives", "after the edit"))
    first, second = drawn(random, 1), drawn(random, 1)
    told += [kind, first, second]
    if kind == "one life":
        world = await play(path, {**first, **second})
    elif kind == "two lives":
        world = await play(path, first, second)
    else:
        name, n = random.choice(points(AFTER_EDIT))
        after = {(name, n): random.choice(list(Fault))}
        told.append(after)
        world = await play(path, first, after_edit=after)
    return await broken_promises(world)


async def many_lives(path: Path, random: Random, told: list[object]) -> list[str]:
    """Life after life with several faults each, some at once, some after all leases ran out, with edits between."""
    world = World(path)
    edits = 0
    for _ in range(random.randint(2, MOST_LIVES)):
        plan = drawn(random, random.randint(1, 4), spread=2)
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
def test_pairs_of_faults_break_no_promise(made: Path, tmp_path: Path) -> None:
    until_time_is_up(made, tmp_path, two_faults)


@pytest.mark.crash_long
def test_many_faulty_lives_break_no_promise(made: Path, tmp_path: Path) -> None:
    until_time_is_up(made, tmp_path, many_lives)
