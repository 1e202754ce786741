"""Questions to a world's file, for tests that look at what a fault has left."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fyke.model import Task, TaskKind
from tests.crash.site import detail
from tests.crash.virtual import run_virtual
from tests.crash.world import LANE, World

Scene = Callable[[World], Awaitable[None]]


def ask(world: World, question: str, *values: Any) -> list[tuple[Any, ...]]:
    with sqlite3.connect(world.path) as connection:
        return connection.execute(question, values).fetchall()


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


def in_a_world(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(scene())
