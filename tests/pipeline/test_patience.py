"""Further requests of a task on a slow host: they wait in hand as long as the host's gap wants, else no visit ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fyke.errors import Deferred
from fyke.model import LanePolicy, Task, TaskKind
from fyke.pipeline.gate import PermitGate
from fyke.pipeline.pace import Pace
from tests.pipeline.conftest import Servers

SLOW = LanePolicy("slow.example", gap=10_000, jitter=0, concurrency=2)


def pace(servers: Servers, **gaps: int) -> Pace:
    return Pace(servers.frontier, servers.clock, gaps)


async def begun(servers: Servers) -> Any:
    await servers.frontier.offer([Task(TaskKind.ITEM, 1, 1, "slow.example")])
    (delivery,) = (await servers.frontier.lease(1, 30_000, worker="w")).deliveries
    (started,) = await servers.frontier.begin([delivery])
    assert started.wait_ms == 0
    return delivery


async def test_the_second_hop_on_a_slow_host_waits_in_hand(servers: Servers) -> None:
    hops = pace(servers)
    await hops.tighten([SLOW])
    delivery = await begun(servers)
    gate = PermitGate(servers.frontier, servers.clock, delivery, hops)
    admitted = asyncio.create_task(gate.admit("http://slow.example/second"))
    while not servers.clock.sleeping:  # noqa: ASYNC110 - the database's thread answers in its own time
        await asyncio.sleep(0.001)
    assert not admitted.done()
    servers.clock.advance(10_000)
    await admitted


async def test_a_hop_to_a_host_on_hold_gives_the_task_back(servers: Servers) -> None:
    hops = pace(servers)
    delivery = await begun(servers)
    await servers.frontier.hold("other.example", servers.clock.now() + 600_000, "blocked")
    gate = PermitGate(servers.frontier, servers.clock, delivery, hops)
    with pytest.raises(Deferred) as raised:
        await gate.admit("http://other.example/second")
    assert raised.value.lane == "other.example"
    assert raised.value.wait_ms > 500_000


async def test_a_crawl_delay_slows_a_lane_and_lengthens_the_wait(servers: Servers) -> None:
    hops = pace(servers)
    await hops.tighten([LanePolicy("slow.example", gap=1_000, jitter=0, concurrency=2)])
    assert hops.patience("slow.example") == 5_000
    await hops.slow_down("slow.example", 30_000, LanePolicy("slow.example", gap=1_000, jitter=0, concurrency=2))
    assert hops.patience("slow.example") == 90_000
    delivery = await begun(servers)
    assert await servers.frontier.permit(delivery, "slow.example", 90_000) >= 29_000


async def test_a_lane_set_by_hand_is_not_tightened_by_its_sources(servers: Servers) -> None:
    await servers.frontier.configure([LanePolicy("slow.example", gap=0, jitter=0, concurrency=8)])
    await pace(servers, **{"slow.example": 0}).tighten([SLOW])
    await servers.frontier.offer([Task(TaskKind.ITEM, n, 1, "slow.example") for n in range(8)])
    assert len((await servers.frontier.lease(8, 30_000, worker="w")).deliveries) == 8
