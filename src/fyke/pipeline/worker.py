"""A worker: leases no more than it can start now, works, commits in batches, renews what it holds, and stops cleanly.

Nothing accepted lives only here: a worker that is killed leaves leases that end by themselves, and an item's result
counts only through the ledger's conditional update (P2, P3).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from random import Random

from fyke.errors import Deferred, LeaseLost, TransientError
from fyke.model import Delivery, DueItem, Outcome, Retry, TaskKind
from fyke.pipeline.backlog import Backlog, Paused
from fyke.pipeline.collector import Collector
from fyke.pipeline.committer import Committer
from fyke.pipeline.hand import Hand
from fyke.pipeline.heart import Heart, WorkerConfig
from fyke.pipeline.lister import Lister
from fyke.pipeline.loops import first_of
from fyke.pipeline.refill import Refill
from fyke.pipeline.requests import Sender
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.slots import Slots
from fyke.pipeline.stages import Stages
from fyke.pipeline.suspects import Suspects
from fyke.policy.outcome import Limits
from fyke.ports import Clock, KnownFilter, Ledger, Source

log = logging.getLogger("fyke.worker")

MOST_LEASED = 64
GATHER_S = 0.01
AWAY_CAP_S = 5.0


class Worker:
    """One worker process' worth of work. `run` returns after `stop` was called and everything in hand is settled."""

    def __init__(
        self,
        config: WorkerConfig,
        ledger: Ledger,
        sender: Sender,
        shelf: SourceShelf,
        clock: Clock,
        random: Random,
        limits: Limits,
        stages: Stages,
        refill: Refill | None = None,
        backlog: Backlog | None = None,
        known_filter: KnownFilter | None = None,
    ) -> None:
        self.config, self._ledger, self._frontier, self._shelf = config, ledger, sender.frontier, shelf
        self._clock, self._random, self._stages, self._refill = clock, random, stages, refill
        self._hand = Hand(sender.frontier, clock, config.lease)
        self._collector = Collector(sender, random, limits, config.name)
        self._lister = Lister(
            ledger,
            sender,
            shelf,
            random,
            limits,
            config.name,
            blocks_to_pause=config.blocks_to_pause,
            backlog=backlog,
            known_filter=known_filter,
        )
        self._committer = Committer(
            ledger,
            sender.frontier,
            clock,
            random,
            limits,
            self._hand,
            stages,
            blocks_to_pause=config.blocks_to_pause,
            enough=config.slots,
        )
        self._stop, self._slots = asyncio.Event(), Slots(config.slots)
        self._suspects = Suspects(limits.attempts, self._committer.written)
        self._away = 0
        self._heart = Heart(config, ledger, clock, self._hand, self._committer, stages)

    def stop(self) -> None:
        """Take no more; finish within the grace time, give the rest back."""
        self._stop.set()
        self._slots.stop()
        self._committer.gathers = False

    @property
    def idle(self) -> bool:
        return len(self._hand) == 0

    async def run(self) -> None:
        """Work until `stop`; then finish what is in hand within the grace time and release the rest at no cost."""
        loops = [
            asyncio.create_task(self._hand.renew()),
            asyncio.create_task(self._committer.run(self._slots.look)),
            asyncio.create_task(self._heart.run()),
        ]
        try:
            leasing = asyncio.create_task(self._lease_loop())
            done, _ = await asyncio.wait([leasing, *loops], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await self._drain()
        finally:
            leasing.cancel()
            for task in loops:
                task.cancel()
            await asyncio.gather(leasing, *loops, return_exceptions=True)
            await self._hand.give_back()
            await self._heart.beat(last=True)

    async def _drain(self) -> None:
        deadline = self._clock.monotonic() + self.config.grace / 1000
        works = self._hand.working
        if works:
            await asyncio.wait(works, timeout=self.config.grace / 1000)
        left = max(0.5, deadline - self._clock.monotonic())
        try:
            await asyncio.wait_for(self._committer.flushed(), left)
        except TimeoutError:
            log.warning("stopped with results that could not be written; their items are visited again")

    async def _lease_loop(self) -> None:
        while not self._stop.is_set():
            full = len(self._hand) >= 2 * self.config.slots or self._committer.full
            if self._slots.free <= 0 or full or self._committer.parked:
                await self._slots.wait(1.0)
                continue
            few = self._slots.few
            if self._slots.free < few:
                # Slots come free in bursts: a lease for several costs as much as one for one.
                await self._slots.wait(GATHER_S, few)
            # Results that wait for their commit are in hand, too: what a death costs is at most twice the slots.
            asked = min(self._slots.free, 2 * self.config.slots - len(self._hand), MOST_LEASED)
            try:
                leased = await self._frontier.lease(
                    asked, self.config.lease, worker=self.config.name, pool=self.config.pool
                )
                # Where so few are to be had and done, places in lanes may wait for what is not written yet.
                got = len(leased.deliveries)
                starved = got < min(asked, few) and self._slots.free - got >= few
                self._committer.gathers = not (starved or self._stop.is_set())
                await self._start(leased.deliveries)
                self._back()
            except TransientError as error:
                await self._park(error)
                continue
            if not leased.deliveries:
                await self._idle(leased.wait_ms)

    async def _idle(self, wait_ms: int) -> None:
        """Until the frontier says that work may have come, or `stop`."""
        await first_of(self._frontier.wait(wait_ms), self._stop.wait())

    async def _park(self, error: TransientError) -> None:
        if self._away == 0:
            log.warning("parked: %s", error)
        self._away += 1
        if self._refill is not None:
            with contextlib.suppress(TransientError):
                await self._refill.look()
        delay = min(0.1 * 2 ** min(self._away, 8), AWAY_CAP_S) * (0.5 + self._random.random() / 2)
        try:
            await asyncio.wait_for(self._stop.wait(), delay)
        except TimeoutError:
            return

    def _back(self) -> None:
        if self._away:
            log.warning("working again after %d failed tries", self._away)
        self._away = 0

    async def _start(self, deliveries: Sequence[Delivery]) -> None:
        """Ask the ledger what is still due, drop the rest without a fetch, start the work."""
        if not deliveries:
            return
        self._stages.add("flow", took=len(deliveries))
        for delivery in deliveries:
            self._hand.take(delivery, None)
        try:
            items = [d for d in deliveries if d.task.kind is TaskKind.ITEM]
            due = await self._ledger.still_due([(d.task.ref, d.task.generation) for d in items]) if items else []
            closed = [d for d, found in zip(items, due, strict=True) if found is None]
            if closed:
                await self._frontier.ack(closed)
        except TransientError:
            for delivery in deliveries:
                self._hand.drop(delivery)
            await self._frontier.release(deliveries)
            raise
        for delivery in closed:
            self._hand.drop(delivery)
        for delivery, found in zip(items, due, strict=True):
            if found is not None:
                self._spawn(delivery, found)
        for delivery in deliveries:
            if delivery.task.kind is TaskKind.PASS:
                self._spawn(delivery, None)
        self._stages.add("flow", gave=len(deliveries) - len(closed))

    def _spawn(self, delivery: Delivery, due: DueItem | None) -> None:
        self._slots.take()
        work = asyncio.create_task(self._work(delivery, due))
        self._hand.take(delivery, work)

    async def _work(self, delivery: Delivery, due: DueItem | None) -> None:
        """The one loop body that outlives any exception of a visit: it becomes an outcome."""
        try:
            if due is None:
                await self._list(delivery)
            else:
                await self._visit(delivery, due)
        except Deferred as error:
            await self._hand_back(delivery, error.wait_ms, f"waits for lane {error.lane}")
        except Paused as error:
            await self._hand_back(delivery, error.wait_ms, str(error))
        except LeaseLost:
            self._hand.drop(delivery)
            await self._hand.free([delivery])
        except TransientError as error:
            log.warning("task %s given back: %s", delivery.task.key, error)
            await self._hand_back(delivery, 1_000, str(error))
        except asyncio.CancelledError:
            # Lost or stopping: who cancelled us knows what becomes of the delivery.
            if not self._stop.is_set():
                self._hand.drop(delivery)
            raise
        except Exception as error:
            log.exception("task %s failed in a way that nobody foresaw", delivery.task.key)
            await self._unforeseen(delivery, due, error)
        finally:
            self._slots.give()
            if self._slots.idle:
                self._committer.gathers = False

    async def _unforeseen(self, delivery: Delivery, due: DueItem | None, error: Exception) -> None:
        """It costs an attempt: an item gets outcome `error`, a pass that fails so again and again is ended."""
        reason = f"{type(error).__name__}: {error}"[:500]
        if due is None:
            await self._hand_back(delivery, 1_000, reason, counted=True)
            return
        visited = self._collector.ended(delivery, due, Outcome.ERROR, reason, delivery.starts + 1, self._clock.now())
        self._hand.worked(delivery)
        self._committer.put(visited, due.source_id)

    async def _hand_back(self, delivery: Delivery, delay_ms: int, reason: str, *, counted: bool = False) -> None:
        try:
            await self._frontier.retry([Retry(delivery, delay_ms, reason, counted=counted)])
        except TransientError:
            log.warning("task %s comes back when its lease ends", delivery.task.key)
        self._hand.drop(delivery)

    async def _list(self, delivery: Delivery) -> None:
        self._stages.add("list", took=1)
        counts = await self._lister.walk(delivery)
        self._hand.drop(delivery)
        self._stages.add("list", gave=counts["pages"])
        self._stages.add("dedup", took=counts["entries"], gave=counts["new"], failed=counts["refused"])

    async def _visit(self, delivery: Delivery, due: DueItem) -> None:
        source = await self._shelf.get(due.source_id, due.source_hash)
        if source is None:
            await self._frontier.ack([delivery])
            self._hand.drop(delivery)
            return
        async with self._suspects.place(delivery, due.attempts):
            await self._collect(delivery, due, source)

    async def _collect(self, delivery: Delivery, due: DueItem, source: Source) -> None:
        began = self._clock.now()
        try:
            async with asyncio.timeout(self.config.task_limit / 1000):
                visited = await self._collector.visit(delivery, due, source)
        except TimeoutError:
            reason = f"the visit took longer than {self.config.task_limit // 1000} s"
            visited = self._collector.ended(delivery, due, Outcome.TIMEOUT, reason, delivery.starts + 1, began)
        self._hand.worked(delivery)
        self._committer.put(visited, due.source_id)
