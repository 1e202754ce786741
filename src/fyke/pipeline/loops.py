"""Running small services in loops: each survives the outage of its servers and any error of one round."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from fyke.errors import LedgerClosed, TransientError
from fyke.ports import Clock

log = logging.getLogger("fyke.loops")

CAP_S = 5.0


async def every(
    name: str,
    round_: Callable[[], Awaitable[float | None]],
    seconds: float,
    *,
    clock: Clock,
    random: Random,
    stop: asyncio.Event,
) -> None:
    """Call `round_` until `stop`, `seconds` apart or what it returns; back off while its servers are away.

    One log line when an outage begins and one when it ends.

    Raises:
        LedgerClosed: nothing that this process does is of use any more.
    """
    failures = 0
    while not stop.is_set():
        wait: float | None = None
        try:
            wait = await round_()
        except TransientError as error:
            if failures == 0:
                log.warning("%s: parked: %s", name, error)
            failures += 1
            wait = min(0.2 * 2 ** min(failures, 6), CAP_S) * (0.5 + random.random() / 2)
        except LedgerClosed:
            raise
        except Exception:
            # A service that ended would be missed by nobody; this round is lost, not the loop.
            log.exception("%s: this round failed", name)
        else:
            if failures:
                log.warning("%s: working again", name)
            failures = 0
        sleeping = asyncio.create_task(clock.sleep(seconds if wait is None else wait))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([sleeping, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sleeping, stopping):
                task.cancel()
            await asyncio.gather(sleeping, stopping, return_exceptions=True)


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of them ends; the others are cancelled. What they raise is not told."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
