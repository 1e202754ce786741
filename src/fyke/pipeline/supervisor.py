"""Worker processes with what is done beside them: kept running, and ended in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct

from fyke.errors import TransientError
from fyke.model import Event
from fyke.pipeline.children import Child, ending
from fyke.pipeline.services import Round, Services
from fyke.ports import Clock, Ledger

log = logging.getLogger("fyke.supervisor")

RESTART_GRACE_S = 5.0


class ChildrenConfig(Struct, frozen=True):
    """`command`, `environ` and `count_flag` as in `Child`. `grace` in seconds. `host`: names this machine in events."""

    command: tuple[str, ...]
    environ: Mapping[str, str]
    count_flag: str = ""
    host: str = ""
    processes: int = 1
    grace: float = 25.0


class Supervisor:
    """Runs until `stop`; a second stop kills the children at once. Rounds are added before `run`."""

    def __init__(self, config: ChildrenConfig, ledger: Ledger, clock: Clock, random: Random) -> None:
        self._config, self._ledger, self._clock, self._random = config, ledger, clock, random
        self._children = [
            Child(index, config.command, clock, self._died, environ=config.environ, count_flag=config.count_flag)
            for index in range(config.processes)
        ]
        self._rounds: list[Round] = []
        self._stop = asyncio.Event()

    def add(self, rounds: Sequence[Round]) -> None:
        self._rounds += rounds

    def stop(self) -> None:
        """First call: finish within the grace time. Second: at once."""
        if self._stop.is_set():
            for child in self._children:
                child.kill()
        self._stop.set()

    @property
    def restarts(self) -> int:
        return sum(child.restarts for child in self._children)

    async def run(self) -> None:
        """Raises LedgerClosed, after the children have ended, where their work is of no use any more."""
        services = Services(self._rounds, self._clock, self._random)
        serving = asyncio.create_task(services.run())
        # Whatever ends the services ends the children, too.
        serving.add_done_callback(lambda _: self._stop.set())
        running = [asyncio.create_task(child.run()) for child in self._children]
        await self._stop.wait()
        services.stop()
        # A little more than the children's own grace, so that they end by themselves.
        await asyncio.gather(*(child.stop(self._config.grace + 5) for child in self._children))
        await asyncio.gather(serving, *running)

    async def restart_all(self) -> None:
        """End all children, for each to be started anew."""
        # A process that hangs hears no signal that it has to handle: the wait is short.
        await asyncio.gather(*(child.restart(RESTART_GRACE_S) for child in self._children))

    async def _died(self, index: int, code: int) -> None:
        where = f" on {self._config.host}" if self._config.host else ""
        text = f"worker process {index}{where} ended ({ending(code)}) and is started again"
        try:
            await self._ledger.add_events([Event("worker_died", text, group=f"{self._config.host}:{index}")])
        except TransientError as error:
            log.warning("the event could not be written: %s", error)
