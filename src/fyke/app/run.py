"""Collecting: one invocation, for ever with worker processes, or one worker process of those."""

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
from random import Random

from msgspec import Struct

from fyke import __version__
from fyke.alerts import Alerter, AlertFailed
from fyke.app.sources import configure_lanes, pick
from fyke.app.stores import Stores, open_stores
from fyke.errors import TransientError
from fyke.model import SourceCounts, WorkerRow
from fyke.pipeline.heart import WorkerConfig
from fyke.pipeline.once import OnceParts, OnceReport, run_once
from fyke.pipeline.pace import Pace
from fyke.pipeline.requests import Sender
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.stages import Stages
from fyke.pipeline.supervisor import Round, Supervisor, SupervisorConfig
from fyke.pipeline.worker import Worker
from fyke.settings import Settings

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
async def crew(stores: Stores, *, pool: str = "text") -> AsyncIterator[Crew]:
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
                pool=pool,
                slots=settings.worker.concurrency,
                lease=settings.lease,
                grace=settings.worker.grace,
                blocks_to_pause=settings.blocks_to_pause,
            ),
            stores.ledger,
            sender,
            shelf,
            clock,
            random,
            settings.limits,
            stages,
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


def make_shelf(stores: Stores) -> SourceShelf:
    from fyke.sources.compile import compile_text

    return SourceShelf(stores.ledger, compile_text)


async def run_once_here(
    stores: Stores, ids: Sequence[str], wait_ms: int, progress: Progress | None = None
) -> OnceReport:
    """`fyke run --once`: all in this process, until nothing of these sources is due or delayed, at most `wait_ms`.

    Raises:
        UsageError: no such source, or it is paused.
    """
    names = pick(await stores.ledger.sources(), ids)
    await configure_lanes(stores)
    stop = asyncio.Event()
    async with crew(stores) as parts, not_hanging():
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
                ),
                names,
                stop,
                progress,
                named=bool(ids),
            )
    await _tell_the_rest(stores)
    return report


async def _tell_the_rest(stores: Stores) -> None:
    """Alerts of this invocation go out before it ends; what cannot be told now is told by the next one."""
    alerter = _alerter(stores)
    if alerter is None:
        return
    try:
        await alerter.tell(flush=True)
    except (AlertFailed, TransientError) as error:
        log.warning("alerts wait for the next run: %s", error)


def _alerter(stores: Stores) -> Alerter | None:
    url = stores.settings.alerts.webhook
    return Alerter(stores.ledger, url, stores.clock) if url else None


async def run_worker(settings: Settings) -> None:
    """One worker process of `fyke run`: ends when told to, or when its standard input closes (the supervisor is
    gone).
    """
    async with open_stores(settings) as stores, crew(stores) as parts, not_hanging():
        parent = asyncio.create_task(_parent_gone())
        parent.add_done_callback(lambda _: parts.worker.stop())
        with stopping(parts.worker.stop):
            await parts.worker.run()
        parent.cancel()


async def _parent_gone() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while await reader.read(1024):
            pass
    finally:
        transport.close()


async def run_for_ever(
    settings: Settings, child_command: Sequence[str], progress: Callable[[Stores], Awaitable[None]] | None = None
) -> None:
    """`fyke run`: scheduler, reaper, reconciler, watch and alerts here, workers in processes of their own."""
    async with open_stores(settings) as stores:
        await configure_lanes(stores)
        stages = Stages()
        scheduler = Scheduler(stores.ledger, stores.frontier, make_shelf(stores), stages)
        supervisor = Supervisor(
            SupervisorConfig(
                child_command=tuple(child_command),
                processes=settings.worker.processes,
                grace=settings.worker.grace / 1000,
                reap_every=min(settings.reap.every, settings.lease) / 1000,
                reconcile_every=settings.reconcile.every / 1000,
                reconcile_grace=settings.reconcile.grace / 1000,
            ),
            stores.ledger,
            stores.frontier,
            scheduler,
            stores.clock,
            Random(),
            extra=_extra_rounds(stores, stages, progress),
        )
        with stopping(supervisor.stop):
            await supervisor.run()
        await _tell_the_rest(stores)


def _extra_rounds(
    stores: Stores, stages: Stages, progress: Callable[[Stores], Awaitable[None]] | None
) -> list[tuple[str, Round, float]]:
    host, pid, started_at = socket.gethostname(), os.getpid(), stores.clock.now()

    async def beat() -> None:
        """The scheduler's own stage is counted here, beside its workers' in `fyke status`."""
        await stores.ledger.beat(
            WorkerRow(
                worker=f"{host}:{pid}:scheduler",
                host=host,
                pid=pid,
                version=__version__,
                pool="scheduler",
                started_at=started_at,
                beat_at=stores.clock.now(),
                stage=stages.snapshot(),
            )
        )

    rounds: list[tuple[str, Round, float]] = [("beat", beat, 5.0)]
    if progress is not None:

        async def show() -> None:
            await progress(stores)

        rounds.append(("progress", show, 1.0))
    alerter = _alerter(stores)
    if alerter is not None:

        async def tell() -> float | None:
            return await alerter.run_once()

        rounds.append(("alerts", tell, 5.0))
    return rounds


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
