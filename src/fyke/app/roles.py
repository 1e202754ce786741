"""What runs for good: everything on one machine, or one role of many machines."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

from msgspec import Struct

from fyke.app.run import crew, make_alerter, make_refill, make_shelf, not_hanging, stopping, tell_the_rest
from fyke.app.serving import serving
from fyke.app.sources import restore_lanes, wanted_lanes
from fyke.app.stores import Stores, open_stores
from fyke.app.waiting import Patience
from fyke.pipeline.announce import Announcer
from fyke.pipeline.lead import Lead
from fyke.pipeline.reaper import Reaper
from fyke.pipeline.reconciler import Reconciler
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.services import (
    Round,
    Services,
    announcing,
    keeping,
    led,
    planning,
    reconciling,
    refilling,
    watching,
)
from fyke.pipeline.stages import Stages
from fyke.pipeline.supervisor import ChildrenConfig, Supervisor
from fyke.pipeline.watch import Watch
from fyke.settings import Settings, masked

Progress = Callable[[Stores], Awaitable[None]]


class ChildCommand(Struct, frozen=True):
    """How a worker process is started: it gets `count_flag` and the number of its restarts."""

    command: Sequence[str]
    environ: Mapping[str, str]
    count_flag: str = ""


async def run_for_ever(settings: Settings, child: ChildCommand, progress: Progress | None = None) -> None:
    """`fyke run`: all roles on this machine, workers in processes of their own."""
    async with serving(settings, "run") as (stores, begun):
        await _lanes(stores)
        lead, stages = make_lead(stores), Stages()
        supervisor = make_supervisor(stores, child)
        supervisor.add(plans(stores, lead, stages))
        supervisor.add([*keeps(stores), *led(lead, reconciles(stores))])
        supervisor.add([*watching(make_watch(stores), supervisor.restart_all), begun.beating("scheduler", stages)])
        if progress is not None:
            supervisor.add([showing(stores, progress)])
        try:
            with stopping(supervisor.stop):
                await supervisor.run()
        finally:
            await give_up(lead)
        await tell_the_rest(stores)


async def run_scheduler(settings: Settings, *, reconcile: bool = True, progress: Progress | None = None) -> None:
    """`fyke scheduler`: slots, leases that ran out, what the frontier lost, stalls, events and alerts."""
    async with serving(settings, "scheduler") as (stores, begun):
        await _lanes(stores)
        lead, stages = make_lead(stores), Stages()
        rounds = [*plans(stores, lead, stages), *keeps(stores), *led(lead, watching(make_watch(stores)))]
        if reconcile:
            rounds += led(lead, reconciles(stores))
        if progress is not None:
            rounds.append(showing(stores, progress))
        services = Services([*rounds, begun.beating("scheduler", stages)], stores.clock, Random())
        try:
            with stopping(services.stop):
                await services.run()
        finally:
            await give_up(lead)
        await tell_the_rest(stores)


async def run_reconciler(settings: Settings) -> None:
    """`fyke reconciler`: leases that ran out, and what the frontier lost; nothing is planned here."""
    async with serving(settings, "reconciler") as (stores, begun):
        await _lanes(stores)
        rounds = [*keeps(stores), *reconciles(stores), begun.beating("reconciler")]
        services = Services(rounds, stores.clock, Random())
        with stopping(services.stop):
            await services.run()


async def run_workers(settings: Settings, child: ChildCommand, progress: Progress | None = None) -> None:
    """`fyke worker`: worker processes, kept running."""
    async with serving(settings, "worker") as (stores, begun):
        supervisor = make_supervisor(stores, child)
        supervisor.add(watching(make_watch(stores, tell=False), supervisor.restart_all))
        supervisor.add([begun.beating("supervisor")])
        if progress is not None:
            supervisor.add([showing(stores, progress)])
        with stopping(supervisor.stop):
            await supervisor.run()


async def run_worker(settings: Settings, *, restarts: int = 0) -> None:
    """One worker process: ends when told to, or when its standard input closes (its supervisor is gone)."""
    async with open_stores(settings, wait=True) as stores, crew(stores, restarts=restarts) as parts, not_hanging():
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


# --- The parts ---


async def _lanes(stores: Stores) -> None:
    """A server that goes away while this process starts is waited for like one that is not there yet."""
    settings = stores.settings
    patience = Patience(settings.servers.wait, stores.clock, Random())
    lanes = await patience.reach(masked(settings.ledger), lambda: wanted_lanes(settings, stores.ledger))
    where = masked(settings.ledger if settings.frontier_kind == "sql" else settings.frontier)
    await patience.reach(where, lambda: stores.frontier.configure(lanes))


def make_lead(stores: Stores) -> Lead | None:
    """The lead among all schedulers of this ledger; None where `scheduler.lock` is off."""
    scheduler = stores.settings.scheduler
    if not scheduler.lock:
        return None
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
    return Lead(stores.lock, stores.clock, name="scheduler", owner=owner, length_ms=scheduler.lease)


async def give_up(lead: Lead | None) -> None:
    if lead is not None:
        await lead.give_up()


def make_supervisor(stores: Stores, child: ChildCommand) -> Supervisor:
    settings = stores.settings
    config = ChildrenConfig(
        command=tuple(child.command),
        environ=child.environ,
        count_flag=child.count_flag,
        host=socket.gethostname(),
        processes=settings.worker.processes,
        grace=settings.worker.grace / 1000,
    )
    return Supervisor(config, stores.ledger, stores.clock, Random())


def make_watch(stores: Stores, *, tell: bool = True) -> Watch:
    return Watch(stores.ledger, stores.frontier, stores.clock, tell=tell)


def plans(stores: Stores, lead: Lead | None, stages: Stages) -> list[Round]:
    """Slots, events to the log, alerts."""
    scheduler = Scheduler(stores.ledger, stores.frontier, make_shelf(stores), stages, lead)
    rounds = announcing(Announcer(stores.ledger))
    alerter = make_alerter(stores)
    if alerter is not None:

        async def tell() -> float | None:
            return await alerter.run_once()

        rounds.append(("alerts", tell, 5.0))
    return [*planning(scheduler, lead), *led(lead, rounds)]


def keeps(stores: Stores) -> list[Round]:
    settings = stores.settings
    rounds = keeping(Reaper(stores.ledger, stores.frontier), min(settings.reap.every, settings.lease) / 1000)
    return [*rounds, *refilling(make_refill(stores))]


def reconciles(stores: Stores) -> list[Round]:
    settings = stores.settings.reconcile
    reconciler = Reconciler(stores.ledger, stores.frontier, settings.grace, lambda: restore_lanes(stores))
    return reconciling(reconciler, settings.every / 1000, stores.clock)


def showing(stores: Stores, progress: Progress) -> Round:
    async def show() -> None:
        await progress(stores)

    return ("progress", show, 1.0)
