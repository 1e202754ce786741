"""Finished visits → ledger → frontier, in batches and in this order (P2): commit, and only then acknowledge.

While the ledger is away the results wait here, bounded, and only the write is repeated: no page is fetched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from random import Random

from fyke.errors import TransientError
from fyke.model import Committed, Delivery, ItemState, Outcome, Retry
from fyke.pipeline.attaching import keep_attachments
from fyke.pipeline.blocks import hold_blocked, hold_named
from fyke.pipeline.collector import Visited
from fyke.pipeline.hand import Hand
from fyke.pipeline.stages import Stages
from fyke.policy.outcome import Limits
from fyke.ports import Clock, Frontier, Ledger

log = logging.getLogger("fyke.worker")

MOST_WAITING = 500
MOST_BATCHED = 200
# A batch costs nearly the same whether it holds three results or thirty.
GATHER_S = 0.1
ACK_REPEATS = 5
# Another worker may have counted a block meanwhile: a good answer is said again after this time.
GOOD_FOR_S = 10.0


class Committer:
    """Commits what a worker's visits came to.

    Args:
        blocks_to_pause: blocks in a row that pause a source.
        enough: so many results are written at once, fewer wait for others while `gathers` is set.
    """

    def __init__(
        self,
        ledger: Ledger,
        frontier: Frontier,
        clock: Clock,
        random: Random,
        limits: Limits,
        hand: Hand,
        stages: Stages,
        *,
        blocks_to_pause: int,
        enough: int = 1,
    ) -> None:
        self._ledger, self._frontier, self._clock, self._random = ledger, frontier, clock, random
        self._limits, self._hand, self._stages = limits, hand, stages
        self._blocks_to_pause = blocks_to_pause
        self._waiting: list[tuple[Visited, str]] = []
        self._filled, self._emptied, self._written = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._emptied.set()
        self._good: dict[str, float] = {}
        self._enough, self._gathers, self._due = min(enough, MOST_BATCHED), False, asyncio.Event()
        self.parked = self._alone = False
        self.done, self.failed, self.late = 0, 0, 0

    @property
    def full(self) -> bool:
        return len(self._waiting) >= MOST_WAITING

    def put(self, visited: Visited, source_id: str) -> None:
        self._waiting.append((visited, source_id))
        self._emptied.clear()
        self._filled.set()
        if not self._gathers or len(self._waiting) >= self._enough:
            self._due.set()

    @property
    def gathers(self) -> bool:
        """Whether results may wait for others: as long as nobody waits for what their commit sets free."""
        return self._gathers

    @gathers.setter
    def gathers(self, may: bool) -> None:
        self._gathers = may
        if not may and self._waiting:
            self._due.set()

    async def written(self, delivery: Delivery) -> None:
        """Return when the result of this delivery, which was put, is committed; it waits for no others."""
        self._due.set()
        while any(visited.delivery is delivery for visited, _ in self._waiting):
            self._written.clear()
            await self._written.wait()

    async def flushed(self) -> None:
        """Return when everything that was put is committed and acknowledged."""
        await self._emptied.wait()

    async def run(self, on_room: Callable[[], None]) -> None:
        """Commit what waits; runs until it is cancelled."""
        while True:
            await self._filled.wait()
            await self._gather()
            batch = self._waiting[:MOST_BATCHED]
            await self._commit(batch)
            del self._waiting[: len(batch)]
            self._written.set()
            if not self._waiting:
                self._filled.clear()
                self._emptied.set()
            on_room()

    async def _gather(self) -> None:
        self._due.clear()
        if not self._gathers or len(self._waiting) >= self._enough:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GATHER_S):
                await self._due.wait()

    async def _commit(self, batch: list[tuple[Visited, str]]) -> None:
        answers = await self._until_written(batch)
        acks: list[Delivery] = []
        buries: list[Delivery] = []
        retries: list[Retry] = []
        for (visited, source_id), (committed, message) in zip(batch, answers, strict=True):
            self._count(visited, committed)
            result, effect, delivery = visited.result, visited.effect, visited.delivery
            if committed is Committed.REJECTED:
                log.warning("row refused by the database: item %s of %s: %s", result.item_id, source_id, message)
            if committed is Committed.COMMITTED and result.final is None:
                retries.append(Retry(delivery, effect.delay_ms, result.reason[:500], counted=effect.costs))
            elif committed is Committed.REJECTED or result.final is ItemState.DEAD:
                buries.append(delivery)
            else:
                acks.append(delivery)
        await self._holds(batch)
        await self._tell(acks, buries, retries)
        for visited, _ in batch:
            self._hand.drop(visited.delivery)

    async def _until_written(self, batch: list[tuple[Visited, str]]) -> list[tuple[Committed, str]]:
        """Repeat the write until the ledger takes it: an unknown outcome is safe, for the first result wins."""
        failures = 0
        while True:
            try:
                await keep_attachments(self._ledger, self._frontier, batch)
                answers = await self._ledger.commit([visited.result for visited, _ in batch])
            except TransientError as error:
                if failures == 0:
                    log.warning("the ledger is away, %d results wait: %s", len(self._waiting), error)
                self.parked = True
                failures += 1
                await self._clock.sleep(min(0.1 * 2 ** min(failures, 6), 5.0) * (0.5 + self._random.random()))
            else:
                if self.parked:
                    log.warning("the ledger is back")
                self.parked = False
                return answers

    async def _holds(self, batch: list[tuple[Visited, str]]) -> None:
        told: set[str] = set()
        for visited, source_id in batch:
            effect, lane, reason = visited.effect, visited.lane, visited.result.reason
            if lane in told or not (effect.blocked or effect.hold_ms):
                continue
            told.add(lane)
            try:
                if effect.blocked:
                    await hold_blocked(
                        self._ledger,
                        self._frontier,
                        self._clock,
                        self._limits,
                        lane,
                        source_id,
                        reason,
                        self._blocks_to_pause,
                    )
                else:
                    await hold_named(self._ledger, self._frontier, self._clock, lane, effect.hold_ms, reason)
            except TransientError as error:
                log.warning("lane %s could not be held: %s", lane, error)
        for lane in told:
            self._good.pop(lane, None)
        now = self._clock.monotonic()
        for lane in {lane for visited, _ in batch for lane in visited.good} - told:
            if now - self._good.get(lane, -GOOD_FOR_S) < GOOD_FOR_S:
                continue
            try:
                await self._ledger.lane_ok(lane)
                self._good[lane] = now
            except TransientError as error:
                log.warning("lane %s could not be marked good: %s", lane, error)

    async def _tell(self, acks: list[Delivery], buries: list[Delivery], retries: list[Retry]) -> None:
        """Tell the frontier; where that fails the reaper finds the tasks and the next worker meets a closed item."""
        for attempt in range(ACK_REPEATS):
            try:
                if acks:
                    await self._frontier.ack(acks)
                if buries:
                    await self._frontier.bury(buries)
                if retries:
                    await self._frontier.retry(retries)
            except TransientError as error:
                if not self._alone:
                    log.warning("acknowledgements wait: %s", error)
                self._alone = True
                await self._clock.sleep(min(0.2 * 2**attempt, 2.0))
            else:
                if self._alone:
                    log.warning("acknowledgements: working again")
                self._alone = False
                return

    def _count(self, visited: Visited, committed: Committed) -> None:
        if committed is Committed.LATE:
            self.late += 1
        stored = committed is Committed.COMMITTED and visited.result.final is ItemState.STORED
        self.done += stored
        self.failed += not stored and committed is not Committed.LATE
        self._stages.add("collect", took=1, gave=visited.result.outcome is Outcome.OK)
        self._stages.add("collect", failed=visited.result.outcome is not Outcome.OK)
        if visited.result.outcome is Outcome.OK:
            self._stages.add("store", took=1, gave=stored, failed=committed is Committed.REJECTED)
