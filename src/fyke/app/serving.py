"""A process that serves: what it says of itself at its start, in `fyke status`, to probes, and at its end."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Final

from fyke import __version__
from fyke.app.health import Health
from fyke.app.one_frontier import MADE, NAMED, named, refuse_another
from fyke.app.stores import Stores, open_stores
from fyke.app.waiting import Patience
from fyke.errors import FykeError
from fyke.model import WorkerRow
from fyke.pipeline.heart import BEAT_S, ENDED, PROCESS, clock_off, resident_bytes
from fyke.pipeline.services import Round
from fyke.pipeline.stages import Stages
from fyke.settings import Settings, masked

log = logging.getLogger("fyke.start")

LAST_BEAT_S: Final = 3.0


class Begun:
    """A process that has begun to serve: counted beside the workers in `fyke status` until it ends."""

    def __init__(self, stores: Stores) -> None:
        self._stores, self._started_at = stores, stores.clock.now()
        self._role, self._stages = "", Stages()

    def beating(self, role: str, stages: Stages | None = None) -> Round:
        """The round of its heartbeats, under the name of its role."""
        self._role, self._stages = role, stages or self._stages
        return ("beat", self.beat, BEAT_S)

    async def beat(self, *, last: bool = False) -> None:
        stores, host, pid = self._stores, socket.gethostname(), os.getpid()
        process = {
            "clock_off": clock_off(stores.clock),
            NAMED: named(stores.settings),
            MADE: stores.frontier.made,
        } | ({ENDED: 1} if last else {})
        await stores.ledger.beat(
            WorkerRow(
                worker=f"{host}:{pid}:{self._role}",
                host=host,
                pid=pid,
                version=__version__,
                pool=self._role,
                started_at=self._started_at,
                beat_at=stores.clock.now(),
                memory=resident_bytes(),
                stage=self._stages.snapshot() | {PROCESS: process},
            )
        )

    async def end(self) -> None:
        """It ends in order, and is not missed. Where the ledger is away it is missed for a minute."""
        if self._role:
            with suppress(FykeError, TimeoutError):
                await asyncio.wait_for(self.beat(last=True), LAST_BEAT_S)


@asynccontextmanager
async def serving(settings: Settings, role: str) -> AsyncIterator[tuple[Stores, Begun]]:
    """Open the stores for a process that serves, say in one line what begins, and in the ledger that it has ended."""
    async with Health(settings).listening() as health, open_stores(settings, wait=True) as stores:
        await refuse_another(stores)
        health.stores = stores
        begun = Begun(stores)
        await _say_what_begins(stores, role)
        try:
            yield stores, begun
        finally:
            health.stores = None
            await begun.end()


async def _say_what_begins(stores: Stores, role: str) -> None:
    settings = stores.settings
    patience = Patience(settings.servers.wait, stores.clock, Random())
    rows = await patience.reach(masked(settings.ledger), stores.ledger.sources)
    paused = sum(row.paused_at is not None for row in rows)
    worker = settings.worker
    works = f", {worker.processes} process(es) of pool {worker.pool}" if role in ("run", "worker") else ""
    sources = f"{len(rows) - paused} source(s)" + (f" and {paused} paused" if paused else "")
    where = f"ledger {masked(settings.ledger)}, frontier {masked(settings.frontier)}"
    log.info("fyke %s %s: %s%s, %s", role, __version__, where, works, sources)
