"""Where a log says that something is away it says, too, when it works again."""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Any

import pytest

from fyke.errors import TransientError
from fyke.model import Delivery, Task, TaskKind
from fyke.pipeline.committer import Committer
from fyke.pipeline.loops import every
from fyke.pipeline.stages import Stages
from fyke.policy.outcome import Limits
from tests.crash.virtual import VirtualClock, run_virtual


def test_a_loop_says_so_also_after_an_error_that_nobody_foresaw(caplog: pytest.LogCaptureFixture) -> None:
    left = [TransientError("away"), TransientError("away"), ValueError("?"), None]

    async def scene() -> None:
        stop = asyncio.Event()

        async def turn() -> float:
            error = left.pop(0)
            if error is not None:
                raise error
            stop.set()
            return 0.0

        await every("reaper", turn, 1.0, clock=VirtualClock(), random=Random(1), stop=stop)

    with caplog.at_level(logging.WARNING, logger="fyke"):
        run_virtual(scene())
    said = [record.getMessage() for record in caplog.records]
    assert said == ["reaper: parked: away", "reaper: this round failed", "reaper: working again"]


class Away:
    """A frontier that does not answer so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def ack(self, _: object) -> list[bool]:
        self.times -= 1
        if self.times >= 0:
            raise TransientError("away")
        return [True]


def test_acknowledgements_that_wait_are_told_once_and_when_they_go_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        clock, frontier, ledger = VirtualClock(), Away(7), None
        parts: Any = (ledger, frontier, clock, Random(1), Limits(), None, Stages())
        committer = Committer(*parts, blocks_to_pause=5)
        delivery = Delivery(Task(TaskKind.ITEM, 1, 1, "a.example"), token=7, worker="w", deadline=0)
        for _ in range(3):
            await committer._tell([delivery], [], [])

    with caplog.at_level(logging.WARNING, logger="fyke"):
        run_virtual(scene())
    said = [record.getMessage() for record in caplog.records]
    assert said == ["acknowledgements wait: away", "acknowledgements: working again"]
