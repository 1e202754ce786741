"""Tasks that another release wrote: what this one cannot read is set aside whole, and nothing waits for it (P2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fyke.app import open_stores
from fyke.app.stores import Stores, open_database
from fyke.lab.servers.redis import ask
from fyke.model import LanePolicy, Task, TaskKind
from fyke.pipeline.watch import Watch
from fyke.settings import Settings, load_settings
from tests.servers import DATABASES

LANE = "a.example"
TASKS = [Task(TaskKind.ITEM, ref, 1, LANE) for ref in (1, 2, 3)]
LATER = "999 written by a later release"


@pytest.fixture(params=["sqlite", *DATABASES, "valkey-9"])
async def stores(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    fresh_database: Callable[[str], str],
    fresh_redis: Callable[[str], str],
) -> AsyncIterator[Stores]:
    kind = request.param
    environ = {"FYKE_LEDGER": f"sqlite:///{tmp_path / 'fyke.db'}"}
    if kind in DATABASES:
        environ["FYKE_LEDGER"] = fresh_database(kind)
    elif kind != "sqlite":
        environ["FYKE_FRONTIER"] = fresh_redis(kind)
    async with open_stores(load_settings(tmp_path, environ).settings) as found:
        await found.frontier.configure([LanePolicy(LANE, gap=0, jitter=0, concurrency=10)])
        await found.frontier.offer(TASKS)
        yield found


async def write_by_another_release(settings: Settings, key: str) -> None:
    """Another kind of task, or a value of another form."""
    if settings.frontier_kind == "redis":
        ask(settings.frontier, "HSET", "{fyke:fyke:0}:t", key, LATER)
        return
    async with open_database(settings) as database:
        await database.write(lambda connection: connection.execute("UPDATE task SET kind = 'z' WHERE key = ?", (key,)))


async def kept(settings: Settings) -> list[Any]:
    if settings.frontier_kind == "redis":
        return list(ask(settings.frontier, "HVALS", "{fyke:fyke:0}:aside"))
    async with open_database(settings) as database:
        return await database.read(
            lambda connection: connection.execute("SELECT key FROM task WHERE kind = 'z'").fetchall()
        )


async def test_a_task_that_cannot_be_read_is_kept_and_the_others_go_on(stores: Stores) -> None:
    frontier = stores.frontier
    await write_by_another_release(stores.settings, "i2")
    leased = await frontier.lease(10, 30_000, worker="w")
    assert sorted(one.task.ref for one in leased.deliveries) == [1, 3]
    stats = await frontier.stats()
    assert (stats.aside, stats.ready, stats.leased) == (1, 0, 2)
    assert [key for key, _, _ in await frontier.keys()] == ["i1", "i3"]
    assert await frontier.known(["i2"]) == [None]
    (text,) = await kept(stores.settings)
    assert "i2" in str(text) or LATER in str(text)
    # What it stood for is offered anew, and that is another task.
    assert await frontier.offer([TASKS[1]]) == 1
    (again,) = (await frontier.lease(10, 30_000, worker="w")).deliveries
    assert again.task == TASKS[1]
    assert await frontier.ack([again, *leased.deliveries]) == [True, True, True]
    assert (await frontier.stats()).aside == 1
    assert await frontier.reap() == []


async def test_it_is_told_once(stores: Stores) -> None:
    await write_by_another_release(stores.settings, "i2")
    await stores.frontier.lease(10, 30_000, worker="w")
    for _ in range(2):
        await Watch(stores.ledger, stores.frontier, stores.clock).run_once()
    (event,) = [event for event in await stores.ledger.events() if event.kind == "aside"]
    assert event.data == {"aside": 1}
