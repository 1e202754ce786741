"""SCENARIOS 6: tasks wait and none is started: it is told once, and the caller restarts the workers."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fyke.app import SystemClock
from fyke.frontiers.sql import SqlFrontier
from fyke.model import FrontierStats, Task, TaskKind
from fyke.pipeline.children import Child
from fyke.pipeline.watch import Watch
from tests.pipeline.conftest import Servers

TASKS = [Task(TaskKind.ITEM, n, 1, "a.example") for n in range(50)]


async def test_a_stall_is_told_once_after_two_minutes(servers: Servers) -> None:
    watch = Watch(servers.ledger, servers.frontier, servers.clock)
    await servers.frontier.offer(TASKS)
    found = []
    for _ in range(20):
        found.append(await watch.run_once())
        servers.clock.advance(10_000)
    assert found.count(True) == 1
    assert 11 <= found.index(True) <= 13
    (event,) = await servers.ledger.events()
    assert event.kind == "stalled"
    assert "50 task(s)" in event.message


async def test_tasks_that_may_not_go_are_no_stall(servers: Servers) -> None:
    watch = Watch(servers.ledger, servers.frontier, servers.clock)
    await servers.frontier.offer(TASKS)
    await servers.frontier.hold("a.example", servers.clock.now() + 3_600_000, "blocked")
    for _ in range(30):
        assert not await watch.run_once()
        servers.clock.advance(10_000)


async def test_a_worker_that_starts_tasks_is_no_stall(servers: Servers) -> None:
    watch = Watch(servers.ledger, servers.frontier, servers.clock)
    await servers.frontier.offer(TASKS)
    for _ in range(20):
        leased = await servers.frontier.lease(1, 30_000, worker="w")
        await servers.frontier.ack(leased.deliveries)
        assert not await watch.run_once()
        servers.clock.advance(10_000)


class Full:
    """A frontier whose server uses so much of its memory, look after look."""

    def __init__(self, inner: SqlFrontier, *shares: float) -> None:
        self._inner, self._shares = inner, list(shares)

    async def stats(self) -> FrontierStats:
        return replace(await self._inner.stats(), memory=self._shares.pop(0))


async def test_a_full_memory_is_told_when_it_begins_and_when_it_ends_however_many_look(servers: Servers) -> None:
    shares = (0.5, 1.0, 1.2, 0.97, 1.0, 0.9, 0.5)
    watches: list[Watch] = []
    for _ in range(2):
        frontier: Any = Full(servers.frontier, *shares)
        watches.append(Watch(servers.ledger, frontier, servers.clock))
    seen = []
    for _ in shares:
        await asyncio.gather(*(watch.run_once() for watch in watches))
        seen.append(len([event for event in await servers.ledger.events() if event.kind == "frontier_full"]))
        servers.clock.advance(10_001)
    assert seen == [0, 1, 1, 1, 1, 2, 2]
    first, last = await servers.ledger.events()
    assert "is full" in first.message
    assert "room again" in last.message


async def test_a_process_that_hears_no_signal_is_killed_and_started_again(tmp_path: Path) -> None:
    """The consume loop is blocked: SIGTERM does nothing there."""
    marks = tmp_path / "marks"
    code = (
        "import os,signal,sys,time;signal.signal(signal.SIGTERM,signal.SIG_IGN);"
        f"open({str(marks)!r},'a').write('x');time.sleep(60)"
    )
    deaths: list[int] = []

    async def died(_: int, exit_code: int) -> None:
        deaths.append(exit_code)

    clock = SystemClock()
    child = Child(0, [sys.executable, "-c", code], clock, died)
    running = asyncio.create_task(child.run())
    while not marks.exists():
        await clock.sleep(0.01)
    await child.restart(0.2)
    while len(marks.read_text()) < 2:
        await clock.sleep(0.01)
    assert deaths == [-9]
    assert child.restarts == 1
    child.kill()
    await child.stop(0.1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
