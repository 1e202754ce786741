"""The heartbeat of a worker: who it is, what it holds and what its stages counted, for `fyke status`.

Nothing is decided by it: liveness is per task, by its lease.
"""

from __future__ import annotations

import logging
import time
from collections import deque

from msgspec import Struct

from fyke.errors import TransientError
from fyke.model import WorkerRow
from fyke.pipeline.committer import Committer
from fyke.pipeline.hand import Hand
from fyke.pipeline.stages import Stages
from fyke.ports import Clock, Ledger

log = logging.getLogger("fyke.worker")

BEAT_S = 5.0
MINUTE_S = 60.0
PROCESS = "process"
"""The key in `WorkerRow.stage` that is no stage: done and failed in the last minute, restarts, clock."""
ENDED = "ended"
"""Set beside them in the last beat of a process that ended in order: it is not waited for."""


class WorkerConfig(Struct, frozen=True):
    """`slots`: tasks worked on at once. Times in ms; `grace`: for finishing after a stop; `task_limit`: for one
    visit.
    """

    name: str
    host: str
    pid: int
    version: str
    pool: str = "text"
    slots: int = 8
    lease: int = 30_000
    grace: int = 25_000
    task_limit: int = 300_000
    blocks_to_pause: int = 5
    restarts: int = 0  # of this worker's place, before this process
    frontier: int = 0  # which one the settings name, see `app.one_frontier`


class Heart:
    """Beats every 5 s; a beat that fails is left out."""

    def __init__(
        self, config: WorkerConfig, ledger: Ledger, clock: Clock, hand: Hand, committer: Committer, stages: Stages
    ) -> None:
        self._config, self._ledger, self._clock = config, ledger, clock
        self._hand, self._committer, self._stages = hand, committer, stages
        self._started_at = clock.now()
        self._minute: deque[tuple[float, int, int]] = deque([(clock.monotonic(), 0, 0)])

    async def run(self) -> None:
        """Beat until it is cancelled."""
        while True:
            await self.beat()
            await self._clock.sleep(BEAT_S)

    async def beat(self, *, last: bool = False) -> None:
        """`last`: the process ends in order, and is not missed."""
        config = self._config
        row = WorkerRow(
            worker=config.name,
            host=config.host,
            pid=config.pid,
            version=config.version,
            pool=config.pool,
            started_at=self._started_at,
            beat_at=self._clock.now(),
            in_hand=len(self._hand),
            done=self._committer.done,
            failed=self._committer.failed,
            memory=resident_bytes(),
            stage=self._stages.snapshot() | {PROCESS: self._process() | ({ENDED: 1} if last else {})},
        )
        try:
            await self._ledger.beat(row)
        except TransientError as error:
            log.debug("no heartbeat: %s", error)

    def _process(self) -> dict[str, int]:
        """What is said of the process beside its stages: done and failed in the last minute, restarts."""
        now, minute = self._clock.monotonic(), self._minute
        minute.append((now, self._committer.done, self._committer.failed))
        # The first entry is the youngest that is at least a minute old.
        while len(minute) > 2 and minute[1][0] <= now - MINUTE_S:
            minute.popleft()
        _, done, failed = minute[0]
        return {
            "done": self._committer.done - done,
            "failed": self._committer.failed - failed,
            "restarts": self._config.restarts,
            "clock_off": clock_off(self._clock),
            "frontier": self._config.frontier,
            "made": self._hand.frontier_made,
        }


def clock_off(clock: Clock) -> int:
    """How much later it is on this host than by the clock that decides, in ms; for `fyke doctor` alone."""
    return time.time_ns() // 1_000_000 - clock.now()


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - one read a beat, no path to build
            return int(file.read().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return 0
