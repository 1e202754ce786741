"""The tasks of listings: each pass is walked to its end, given back to go on later, or ended as failed (P2, P5)."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import msgspec

from fyke.errors import FetchFailed, LeaseLost, UsageError
from fyke.model import Delivery, PassEnd, PassLease, PassState, Retry
from fyke.pipeline.backlog import Backlog, Paused
from fyke.pipeline.blocks import hold_blocked, hold_named
from fyke.pipeline.discovering import discover
from fyke.pipeline.filling import halve
from fyke.pipeline.knowing import Knowing
from fyke.pipeline.requests import Sender, outcome_of
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.walk_rules import Checkpoint
from fyke.pipeline.walking import Ended, Walker
from fyke.policy.outcome import Limits, decide
from fyke.ports import KnownFilter, Ledger

log = logging.getLogger("fyke.lister")

BLANK_PAUSE_S = 3.0


class Lister:
    """Walks listings. `counters` gets what each stage took in and gave out."""

    def __init__(
        self,
        ledger: Ledger,
        sender: Sender,
        shelf: SourceShelf,
        random: Random,
        limits: Limits,
        worker: str,
        *,
        blocks_to_pause: int = 5,
        blank_pause_s: float = BLANK_PAUSE_S,
        backlog: Backlog | None = None,
        known_filter: KnownFilter | None = None,
    ) -> None:
        self._ledger, self._sender, self._shelf = ledger, sender, shelf
        self._knowing = Knowing(ledger, sender.clock, random, known_filter)
        self._random, self._limits, self._worker = random, limits, worker
        self._blocks_to_pause, self._blank_pause, self._backlog = blocks_to_pause, blank_pause_s, backlog

    async def walk(self, delivery: Delivery) -> dict[str, int]:
        """Walk the pass of a delivery to its end, or give it back; returns counts of entries, new, known, refused,
        pages.

        Raises:
            LeaseLost: the pass is not ours any more.
            Deferred, Paused: the lane may not go soon, or too much waits; the pass resumes at its checkpoint.
            TransientError: ledger or frontier are away.
        """
        counts = dict.fromkeys(("pages", "entries", "new", "known", "refused"), 0)
        lease = await self._ledger.start_pass(delivery.task.ref, self._worker)
        if lease is None:
            await self._sender.frontier.ack([delivery])
            return counts
        source = None
        try:
            source = await self._shelf.get(lease.source_id, lease.source_hash)
            if source is None:
                raise Ended(PassEnd(PassState.FAILED, reason="the source is not in the ledger any more"))
            self._alive(lease, delivery)
            if lease.checkpoint is not None and self._backlog is not None and await self._backlog.full():
                raise Paused(self._backlog.reason)
            remaining = (lease.deadline - self._sender.clock.now()) / 1000
            async with asyncio.timeout(max(remaining, 0)):
                if lease.listing.discovers:
                    await discover(self._ledger, self._sender, source, lease, delivery)
                    return counts
                walker = Walker(
                    self._ledger, self._sender, self._knowing, self._blank_pause, lease, delivery, source, counts
                )
                await walker.run(self._backlog)
        except Ended as ended:
            if not await halve(self._ledger, self._sender, source, lease, delivery, ended.end):
                await self._end(lease, delivery, ended.end)
        except TimeoutError:
            await self._end(lease, delivery, PassEnd(PassState.TIMED_OUT, reason="the run's time limit was reached"))
        except UsageError as error:
            await self._end(lease, delivery, PassEnd(PassState.FAILED, reason=str(error)))
        except FetchFailed as error:
            await self._failed(lease, delivery, error)
        return counts

    def _alive(self, lease: PassLease, delivery: Delivery) -> None:
        """A list page that kills its worker again and again ends the pass; deaths after progress do not count."""
        made = msgspec.json.decode(lease.checkpoint, type=Checkpoint).starts if lease.checkpoint else 0
        deaths = delivery.starts - made
        if deaths >= self._limits.attempts:
            raise Ended(PassEnd(PassState.FAILED, reason=f"the worker died {deaths} times on the same page"))

    async def _end(self, lease: PassLease, delivery: Delivery, end: PassEnd) -> None:
        await self._ledger.end_pass(lease.pass_id, lease.fence, end)
        await self._sender.frontier.ack([delivery])

    async def _failed(self, lease: PassLease, delivery: Delivery, error: FetchFailed) -> None:
        """The walk could not go on: try again later, or end it as failed."""
        outcome, lane = outcome_of(error), error.lane or delivery.task.lane
        effect = decide(
            outcome,
            starts=lease.attempts + 1,
            soft_failures=lease.soft_failures,
            soft_ms=0,
            age_ms=0,
            uniform=self._random.random(),
            retry_after=error.retry_after,
            limits=self._limits,
        )
        if effect.final is not None:
            reason = f"{outcome.value}: {error.reason}"
            await self._end(lease, delivery, PassEnd(PassState.FAILED, reason=reason))
            return
        accepted = await self._ledger.pass_failed(
            lease.pass_id,
            lease.fence,
            outcome=outcome.value,
            reason=error.reason,
            costs=effect.costs,
            evidence=error.evidence,
        )
        if not accepted:
            raise LeaseLost(f"pass {lease.pass_id} has another owner")
        frontier, ledger, clock = self._sender.frontier, self._ledger, self._sender.clock
        if effect.blocked:
            await hold_blocked(
                ledger, frontier, clock, self._limits, lane, lease.source_id, error.reason, self._blocks_to_pause
            )
        elif effect.hold_ms:
            await hold_named(ledger, frontier, clock, lane, effect.hold_ms, error.reason)
        await frontier.retry([Retry(delivery, effect.delay_ms, error.reason, counted=False)])
