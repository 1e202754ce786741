"""A worker alone brings back what its frontier lost: nobody else need be there (P2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from fyke.errors import TransientError
from fyke.model import Leased
from fyke.pipeline.heart import WorkerConfig
from fyke.pipeline.pace import Pace
from fyke.pipeline.refill import Refill
from fyke.pipeline.requests import Sender
from fyke.pipeline.scheduler import open_by_hand
from fyke.pipeline.stages import Stages
from fyke.pipeline.worker import Worker
from fyke.policy.outcome import Limits
from tests.crash.virtual import VirtualClock, run_virtual
from tests.pipeline.network import DETAIL, SITE, HostSource, PlayedNetwork, list_page, office

KEYS = [f"k{number}" for number in range(30)]


class Forgetful:
    """A frontier that refuses to lease while it is nobody's, as Redis does after FLUSHALL."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.wiped = inner, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def wipe(self) -> None:
        for statement in ("DELETE FROM task", "UPDATE task_lane SET ready_text = 0, leased = 0, delayed = 0"):
            await self._inner._db.write(lambda connection, text=statement: connection.execute(text))
        self.wiped = True

    async def lease(self, *values: Any, **named: Any) -> Leased:
        if self.wiped:
            raise TransientError("the frontier is empty; it is made again from the ledger")
        answer: Leased = await self._inner.lease(*values, **named)
        return answer

    async def rebuild(self, ledger_id: str, epoch: int) -> bool:
        was, self.wiped = self.wiped, False
        return was


def test_a_worker_that_finds_its_frontier_empty_fills_it_and_goes_on(tmp_path: Path) -> None:
    async def scene() -> None:
        clock = VirtualClock()
        source = HostSource(SITE)
        network = PlayedNetwork(clock, lambda url: DETAIL if "/detail/" in url else list_page(*KEYS))
        async with office(tmp_path / "ledger.db", clock, network, source) as process:
            await process.apply(source)
            frontier: Any = Forgetful(process.frontier)
            sender = Sender(frontier, network, process.sender.robots, clock, Pace(frontier, clock))
            worker = Worker(
                WorkerConfig("w", "here", 1, "test", slots=2),
                process.ledger,
                sender,
                process.parts.shelf,
                clock,
                Random(1),
                Limits(),
                Stages(),
                Refill(process.ledger, frontier, process.configure),
            )
            await open_by_hand(process.scheduler, process.ledger, process.parts.shelf, ["played"])
            working = asyncio.create_task(worker.run())
            while len(network.log) < 6:
                await clock.sleep(0.1)
            await frontier.wipe()
            async with asyncio.timeout(120):
                while await process.ledger.open_count():
                    await clock.sleep(0.5)
            worker.stop()
            await working
            (counts,) = await process.ledger.counts()
            (event,) = [event for event in await process.ledger.events() if event.kind == "lost"]
        assert (counts.listed, counts.stored) == (len(KEYS), len(KEYS))
        assert event.data["offered"] > 0

    run_virtual(scene())
