"""Questions to a world, for tests that look at what a fault has left."""

from __future__ import annotations

from random import Random
from typing import Any

from fyke.model import Task, TaskKind, TaskView
from tests.crash import places
from tests.crash.site import detail
from tests.crash.world import LANE, World


def ask(world: World, question: str, *values: Any) -> list[tuple[Any, ...]]:
    return places.ask(world.place, question, values)


async def live_tasks(world: World) -> dict[str, TaskView]:
    """What is in the frontier, by key: of items their keys, of passes `pass` and the id."""
    names = {f"i{ref}": key for ref, key in ask(world, "SELECT id, key FROM item")}
    stores = await world.place.open(world.clock, Random(0), world.lease)
    try:
        keys = [key for key, _, _ in await stores.frontier.keys()]
        views = {names.get(key, f"pass {key[1:]}"): await stores.frontier.view(key) for key in keys}
    finally:
        await stores.close()
    return {key: view for key, view in views.items() if view is not None}


def states(world: World) -> dict[str, str]:
    return dict(ask(world, "SELECT key, state FROM item"))


def rows(world: World) -> dict[str, str]:
    return dict(ask(world, "SELECT _key, title FROM notices"))


def passes(world: World) -> list[str]:
    return [state for (state,) in ask(world, "SELECT state FROM pass ORDER BY id")]


def details(world: World) -> dict[str, int]:
    """How often each notice was asked for."""
    return {key: world.fetches[detail(key)] for key in world.site.titles}


def item_task(world: World, key: str) -> Task:
    """The task with which the item was offered."""
    ((ref, generation),) = ask(world, "SELECT id, generation FROM item WHERE key = ?", key)
    return Task(TaskKind.ITEM, ref, generation, LANE)
