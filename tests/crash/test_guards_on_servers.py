"""Each guard of the frontier on Redis, taken out of its scripts, lets a promise break on Redis and PostgreSQL.

`test_guards_matter` does so with the guards of the ledger and the pipeline, there too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeAlias

import pytest

from fyke.errors import TransientError
from fyke.frontiers.redis import RedisFrontier
from fyke.frontiers.redis.mending import Mended
from fyke.model import Task, TaskKind
from fyke.testing.frontier_fences import FencesContract
from fyke.testing.frontier_harness import LEASE
from tests.crash import scenes
from tests.crash.asking import item_task
from tests.crash.pair import STREAM, Pair, altered
from tests.crash.scenes import differing
from tests.crash.virtual import VirtualClock
from tests.crash.world import LANE, World

Patch: TypeAlias = pytest.MonkeyPatch
Scene: TypeAlias = Callable[[Pair], Coroutine[Any, Any, list[str]]]


def without(old: str, new: str, *names: str) -> Callable[[Pair, Patch], None]:
    def remove(pair: Pair, patch: Patch) -> None:
        pair.scripts = altered(pair.scripts, {old: new}, *names)

    return remove


def no_pause(pair: Pair, patch: Patch) -> None:
    patch.setattr(RedisFrontier, "_pause", lambda self: None)


class Harness:
    """The least that the frontier's contract asks for."""

    movable = True

    def __init__(self, pair: Pair, clock: VirtualClock) -> None:
        self._pair, self._clock = pair, clock

    async def open(self) -> RedisFrontier:
        raise NotImplementedError("these cases have one handle")

    def now(self) -> int:
        return self._clock.now()

    async def pass_time(self, ms: int) -> None:
        self._clock.jump(ms)

    def step(self, ms: int) -> None:
        self._clock.step(ms)


async def stale_delivery(pair: Pair) -> list[str]:
    """A case of the frontier's contract."""
    clock = VirtualClock()
    stores = await pair.open(clock, Random(1), LEASE)
    try:
        await stores.frontier.rebuild("", 0)
        await FencesContract().test_a_stale_delivery_changes_nothing_after_its_task_was_leased_again(
            stores.frontier, Harness(pair, clock)
        )
    except AssertionError as error:
        return [str(error) or "the case failed"]
    finally:
        await stores.close()
    return []


async def frontier_of_another_ledger(pair: Pair) -> list[str]:
    """A namespace is given to another ledger while a process of the first one works."""
    world = World(pair)
    await world.live()
    async with world.process() as mine, world.process(made=False) as other:
        await other.stores.frontier.rebuild("another ledger", 1)
        with contextlib.suppress(TransientError):
            await mine.frontier.offer([item_task(world, key) for key in ("a", "b")])
        return differing("offered to another ledger's workers", await other.stores.frontier.keys(), [])


async def group_lost(pair: Pair) -> list[str]:
    """What is leased stands in the stream's pending list, also after somebody has removed the group."""
    world = World(pair)
    async with world.process() as process:
        frontier: Any = process.stores.frontier
        await world.configure(process)
        await frontier.offer([Task(TaskKind.ITEM, ref, 1, LANE) for ref in (1, 2, 3)])
        held = (await frontier.lease(2, world.lease, worker="first")).deliveries
        pair.server.xgroup_destroy(STREAM, "w")
        held += (await frontier.lease(1, world.lease, worker="second")).deliveries
        found = differing("leased", len(held), 3) + differing("mended", await frontier.mend(), Mended())
        return found + differing("pending", pair.server.xpending(STREAM, "w")["pending"], 3)


async def mark_without_a_place(pair: Pair) -> list[str]:
    """A task that is marked as live stands nowhere, as after a script that broke half-way."""
    world = World(pair)
    async with world.process() as process:
        frontier = process.stores.frontier
        await world.configure(process)
        task = Task(TaskKind.ITEM, 1, 1, LANE)
        await frontier.offer([task])
        pair.server.delete(pair.key(f"r:text:{LANE}"))
        await frontier.offer([task])
        leased = await frontier.lease(1, world.lease, worker="w")
        return differing("leased", [one.task.key for one in leased.deliveries], [task.key])


GUARDS: list[tuple[str, Callable[[Pair, Patch], None], Scene]] = [
    (
        "the lease's token, in all that ends a lease",
        without("if lease.token == asked[i][2] then", "if true then", "finish", "retry", "release"),
        stale_delivery,
    ),
    (
        "the lease's token, in what goes on with one",
        without("lease.token == one[2] and lease or false", "lease or false", "begin", "extend"),
        stale_delivery,
    ),
    (
        "the look-up of the live entry in offer",
        without(
            "local newer = not text or one[2] > generation_of(text)",
            "local newer = not text or one[2] >= generation_of(text)",
            "offer",
        ),
        scenes.quiet_life,
    ),
    (
        "the mark is not trusted in offer",
        without("if newer or not place or place == 'hidden' then", "if newer then", "offer"),
        mark_without_a_place,
    ),
    (
        "the count at begin",
        without("starts = starts + 1", "starts = starts + 0", "begin"),
        scenes.page_that_kills_each_worker,
    ),
    (
        "the epoch check",
        without("if meta[1] ~= ARGV[1] then", "if false then", "offer"),
        frontier_of_another_ledger,
    ),
    ("the pause of reaping", no_pause, scenes.servers_away),
    (
        "the group is made at 0",
        without("stream, 'w', '0', 'MKSTREAM'", "stream, 'w', '$', 'MKSTREAM'", "lease"),
        group_lost,
    ),
]


@pytest.mark.parametrize(("remove", "scene"), [guard[1:] for guard in GUARDS], ids=[name for name, *_ in GUARDS])
def test_without_its_guard_a_promise_breaks_and_with_it_none(
    remove: Callable[[Pair, Patch], None], scene: Scene, the_pair: Pair, monkeypatch: Patch
) -> None:
    pair = the_pair.emptied()
    assert pair.run(scene(pair)) == []
    remove(the_pair.emptied(), monkeypatch)
    assert pair.run(scene(pair)) != []
