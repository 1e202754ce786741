"""Results gather before they are committed, as long as nobody waits for what their commit sets free."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from fyke.model import Committed, Delivery, ItemState, Outcome, Result, Task, TaskKind
from fyke.pipeline.collector import Visited
from fyke.pipeline.committer import GATHER_S, Committer
from fyke.pipeline.hand import Hand
from fyke.pipeline.stages import Stages
from fyke.policy.outcome import Effect, Limits
from tests.crash.virtual import VirtualClock, run_virtual


class Desk:
    """Ledger and frontier of one committer: what came, in batches, and when."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.batches: list[list[int]] = []
        self.times: list[float] = []
        self.came = asyncio.Event()

    async def commit(self, results: Sequence[Result]) -> list[tuple[Committed, str]]:
        self.batches.append([result.item_id for result in results])
        self.times.append(self.clock.monotonic())
        return [(Committed.COMMITTED, "")] * len(results)

    async def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        return [True] * len(deliveries)


class World:
    def __init__(self, enough: int) -> None:
        self.desk = desk = Desk()
        desk_: Any = desk
        hand = Hand(desk_, desk.clock, 30_000)
        self.committer = Committer(
            desk_, desk_, desk.clock, Random(1), Limits(), hand, Stages(), blocks_to_pause=5, enough=enough
        )
        self.work = asyncio.create_task(self.committer.run(lambda: None))

    def put(self, *items: int) -> Delivery:
        for item in items:
            delivery = Delivery(Task(TaskKind.ITEM, item, 1, "a.example"), item, "w", 0)
            result = Result(item, 1, Outcome.OK, ItemState.STORED, "w", 0, 0, 1)
            self.committer.put(Visited(delivery, result, Effect(ItemState.STORED), "a.example"), "s")
        return delivery

    async def end(self) -> None:
        await self.committer.flushed()
        self.work.cancel()
        await asyncio.wait([self.work])


def test_a_result_that_others_may_join_waits_for_them_but_not_for_long() -> None:
    async def main() -> None:
        world = World(enough=3)
        world.committer.gathers = True
        world.put(1)
        await asyncio.sleep(GATHER_S / 2)
        assert world.desk.batches == []
        world.put(2)
        await world.end()
        assert world.desk.batches == [[1, 2]]
        assert world.desk.times == [GATHER_S]

    run_virtual(main())


def test_enough_results_wait_for_no_more() -> None:
    async def main() -> None:
        world = World(enough=3)
        world.committer.gathers = True
        world.put(1)
        await asyncio.sleep(GATHER_S / 4)
        world.put(2, 3)
        await world.end()
        assert (world.desk.batches, world.desk.times) == ([[1, 2, 3]], [GATHER_S / 4])

    run_virtual(main())


def test_no_result_waits_while_somebody_waits_for_its_commit() -> None:
    async def main() -> None:
        world = World(enough=3)
        world.put(1)
        await world.committer.flushed()
        world.committer.gathers = True
        world.put(2)
        await asyncio.sleep(GATHER_S / 4)
        world.committer.gathers = False
        await world.committer.flushed()
        world.put(3)
        await world.end()
        assert (world.desk.batches, world.desk.times) == ([[1], [2], [3]], [0, GATHER_S / 4, GATHER_S / 4])

    run_virtual(main())


def test_whoever_waits_for_one_result_to_be_written_waits_for_it_alone() -> None:
    """A task that may kill its worker starts only when the result of the one before it cannot be lost any more."""

    async def main() -> None:
        world = World(enough=3)
        world.committer.gathers = True
        delivery = world.put(1)
        waiting = asyncio.create_task(world.committer.written(delivery))
        await asyncio.sleep(0)
        assert not waiting.done()
        await waiting
        assert world.desk.batches == [[1]]
        world.put(2)
        await world.committer.written(delivery)
        assert world.desk.batches == [[1]]
        await world.end()

    run_virtual(main())
