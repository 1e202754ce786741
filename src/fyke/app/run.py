"""Collecting: what a process is made of, and one invocation that ends by itself. `app.roles`: what runs for good."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import platform
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from fyke import __version__
from fyke.app.one_frontier import named, refuse_another
from fyke.app.sources import configure_lanes, pick, restore_lanes
from fyke.app.stores import Stores
from fyke.errors import TransientError
from fyke.model import Listing, OpenedRun, SourceCounts
from fyke.pipeline.backlog import Backlog
from fyke.pipeline.filling import open_windows
from fyke.pipeline.heart import WorkerConfig
from fyke.pipeline.once import OnceParts, OnceReport, run_once
from fyke.pipeline.pace import Pace
from fyke.pipeline.refill import Refill
from fyke.pipeline.requests import Sender
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.stages import Stages
from fyke.pipeline.worker import Worker
from fyke.ports import Source

if TYPE_CHECKING:
    from fyke.alerts import Alerter

log = logging.getLogger("fyke.run")

HANGS_AFTER_S = 120

Progress = Callable[[list[SourceCounts]], None]


class Crew(Struct, frozen=True):
    """What a process that collects is made of."""

    stores: Stores
    shelf: SourceShelf
    scheduler: Scheduler
    stages: Stages
    worker: Worker


@asynccontextmanager
async def crew(stores: Stores, *, restarts: int = 0) -> AsyncIterator[Crew]:
    """The parts of one worker with its fetcher; closes the fetcher at the end."""
    from fyke.fetchers.http import HttpFetcher
    from fyke.fetchers.robots import RobotsRules

    settings, clock, random = stores.settings, stores.clock, Random()
    fetcher = HttpFetcher(
        clock,
        user_agent=settings.fetch.user_agent,
        replay=settings.fetch.replay,
        concurrency=settings.worker.concurrency,
    )
    try:
        robots = RobotsRules(stores.ledger, fetcher, clock)
        gaps = {lane: chosen.delay or 0 for lane, chosen in settings.lanes.items()}
        sender = Sender(stores.frontier, fetcher, robots, clock, Pace(stores.frontier, clock, gaps))
        shelf, stages = make_shelf(stores), Stages()
        worker = Worker(
            WorkerConfig(
                name=f"{socket.gethostname()}:{os.getpid()}:{random.getrandbits(24):06x}",
                host=socket.gethostname(),
                pid=os.getpid(),
                version=__version__,
                pool=settings.worker.pool,
                slots=settings.worker.concurrency,
                lease=settings.lease,
                grace=settings.worker.grace,
                blocks_to_pause=settings.blocks_to_pause,
                restarts=restarts,
                frontier=named(settings),
            ),
            stores.ledger,
            sender,
            shelf,
            clock,
            random,
            settings.limits,
            stages,
            make_refill(stores),
            make_backlog(stores),
            stores.known_filter,
        )
        scheduler = Scheduler(stores.ledger, stores.frontier, shelf, stages)
        yield Crew(stores, shelf, scheduler, stages, worker)
    finally:
        await fetcher.close()


@asynccontextmanager
async def not_hanging() -> AsyncIterator[None]:
    """End this process, with its stack on standard error, when its loop does not turn for two minutes.

    A source's own code that does not return (a regular expression without end) holds the interpreter: no signal and no
    other thread is heard. The start was counted, so an item that does this three times is dead.
    """
    watching = asyncio.create_task(_turn_the_loop())
    try:
        yield
    finally:
        watching.cancel()
        faulthandler.cancel_dump_traceback_later()


async def _turn_the_loop() -> None:
    if sys.__stderr__ is None:
        return
    while True:
        faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True, file=sys.__stderr__)
        await asyncio.sleep(HANGS_AFTER_S / 8)


def make_refill(stores: Stores) -> Refill:
    """What fills the frontier again when it has lost its content."""
    return Refill(stores.ledger, stores.frontier, lambda: restore_lanes(stores))


def make_backlog(stores: Stores) -> Backlog:
    limits = stores.settings.backpressure
    return Backlog(stores.ledger, stores.frontier, stores.clock, high=limits.high, low=limits.low)


def make_shelf(stores: Stores) -> SourceShelf:
    from fyke.sources.compile import compile_any

    return SourceShelf(stores.ledger, compile_any)


async def run_once_here(
    stores: Stores,
    ids: Sequence[str],
    wait_ms: int,
    progress: Progress | None = None,
    *,
    windows: tuple[Source, list[Listing]] | None = None,
) -> OnceReport:
    """`fyke run --once`: all in this process, until nothing of these sources is due or delayed, at most `wait_ms`.

    `windows`: instead of usual runs, one that reads these date windows of a source.

    Raises:
        UsageError: no such source, or it is paused.
    """
    names = pick(await stores.ledger.sources(), ids)
    await refuse_another(stores)
    await configure_lanes(stores)
    stop = asyncio.Event()
    async with crew(stores) as parts, not_hanging():

        async def open_run(source: Source, listings: list[Listing]) -> list[OpenedRun]:
            return [await open_windows(stores.ledger, parts.scheduler.offer, source.resolved.id, source, listings)]

        with stopping(stop.set):
            report = await run_once(
                OnceParts(
                    ledger=stores.ledger,
                    frontier=stores.frontier,
                    shelf=parts.shelf,
                    scheduler=parts.scheduler,
                    worker=parts.worker,
                    clock=stores.clock,
                    random=Random(),
                    wait=wait_ms,
                    reap_s=min(stores.settings.reap.every, stores.settings.lease) / 1000,
                    prepare=lambda: restore_lanes(stores),
                ),
                names,
                stop,
                progress,
                named=bool(ids),
                opening=partial(open_run, *windows) if windows is not None else None,
            )
    await tell_the_rest(stores)
    return report


async def tell_the_rest(stores: Stores) -> None:
    """Alerts of this invocation go out before it ends; what cannot be told now is told by the next one."""
    alerter = make_alerter(stores)
    if alerter is None:
        return
    from fyke.alerts import AlertFailed

    try:
        await alerter.tell(flush=True)
    except (AlertFailed, TransientError) as error:
        log.warning("alerts wait for the next run: %s", error)


def make_alerter(stores: Stores) -> Alerter | None:
    url = stores.settings.alerts.webhook
    if not url:
        return None
    from fyke.alerts import Alerter

    return Alerter(stores.ledger, url, stores.clock)


class stopping:
    """SIGTERM and SIGINT call `stop`; a second one ends the process at once."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop, self._told = stop, False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal, number)

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(RuntimeError):
                loop.remove_signal_handler(number)

    def _signal(self, number: int) -> None:
        if self._told:
            self._stop()
            os._exit(128 + number)
        self._told = True
        self._stop()


def run_loop(main: Callable[[], Awaitable[int]]) -> int:
    """Run a coroutine on the fastest loop that this platform has."""
    # A page makes thousands of short-lived objects and hardly a cycle: the usual threshold of 700 costs 6 % of time.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    if platform.system() == "Windows":
        return asyncio.run(_await(main))
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_await(main))


async def _await(main: Callable[[], Awaitable[int]]) -> int:
    return await main()
