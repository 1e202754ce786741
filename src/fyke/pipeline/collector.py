"""One visit of an item's detail: its hops, its fields, its record. Writes nothing: the worker commits the result."""

from __future__ import annotations

from random import Random

from msgspec import Struct

from fyke.errors import FetchFailed, UsageError
from fyke.model import AS_PLANNED, Delivery, DueItem, Fields, ItemState, Outcome, Result
from fyke.pipeline.offloop import read_aside
from fyke.pipeline.requests import Sender, TaskRequests, evidence, outcome_of
from fyke.policy.outcome import Effect, Limits, decide
from fyke.ports import Source

MOST_DOUBTS = 20


class Visited(Struct):
    """A visit that ended: what the ledger is to write, and what follows for the frontier.

    `key`: the item's; `files`: addresses of its pages, each with a file that it names. `lane`: of the host that gave
    the last answer; `good`: of those whose answers were what the source expects.
    """

    delivery: Delivery
    result: Result
    effect: Effect
    lane: str
    good: frozenset[str] = frozenset()
    key: str = ""
    files: list[tuple[str, Fields]] = []


class Collector:
    """Visits items with the sources' rules."""

    def __init__(self, sender: Sender, random: Random, limits: Limits, worker: str) -> None:
        self._sender, self._random, self._limits, self._worker = sender, random, limits, worker

    async def visit(self, delivery: Delivery, due: DueItem, source: Source) -> Visited:
        """Fetch and extract one item.

        Raises:
            Deferred, LeaseLost: give the task back, or drop it.
            TransientError: the frontier or the ledger is away.
        """
        visited = await self._visit(delivery, due, source)
        result = visited.result
        if result.final is not None and ItemState.STORED in (result.final, due.state):
            # Of one that is stored for the first time nothing is planned: most sources have no calendar.
            none = 0 if due.state is ItemState.STORED else AS_PLANNED
            result.revisit_at = source.revisit_at(due.opened_at, result.ended_at) or none
        return visited

    async def _visit(self, delivery: Delivery, due: DueItem, source: Source) -> Visited:
        if delivery.starts >= self._limits.attempts:
            reason = f"{delivery.starts} starts never ended: the worker died each time"
            return self.ended(delivery, due, Outcome.WORKER_DIED, reason, delivery.starts, self._sender.clock.now())
        requests = TaskRequests(self._sender, delivery, source)
        fields, proof, doubts = dict(due.entry), dict[str, object](), list[str]()
        files: list[tuple[str, Fields]] = []
        try:
            for step in range(source.steps):
                response = await requests.send(source.detail_request(step, fields))
                proof = evidence(response)
                page = await read_aside(response, source.read_detail, step, response, fields)
                doubts += page.flags[:MOST_DOUBTS]
                if doubts:
                    proof["doubts"] = "; ".join(doubts)
                if page.outcome is not Outcome.OK:
                    filled = dict.fromkeys(page.missing, False)
                    return self._failed(delivery, due, requests, page.outcome, page.reason, None, proof, filled)
                requests.good.add(requests.lane)
                fields |= page.fields
                files += [(response.url, file) for file in page.attachments]
        except FetchFailed as error:
            proof |= error.evidence
            requests.lane = error.lane or requests.lane
            outcome = outcome_of(error)
            return self._failed(delivery, due, requests, outcome, error.reason, error.retry_after, proof)
        except UsageError as error:
            return self._failed(delivery, due, requests, Outcome.ERROR, str(error), None, proof)
        visited = self._stored(delivery, due, source, requests, fields, proof)
        visited.key, visited.files = due.key, files
        return visited

    def _stored(
        self,
        delivery: Delivery,
        due: DueItem,
        source: Source,
        requests: TaskRequests,
        fields: Fields,
        proof: dict[str, object],
    ) -> Visited:
        record, record_hash, filled = source.record(due.entry, fields)
        result = self._result(due, Outcome.OK, ItemState.STORED, requests.starts, requests.started_at)
        result.record, result.record_hash, result.filled = record, record_hash, filled
        result.entry_hash, result.evidence = due.entry_hash, proof
        result.relations = source.relations(record)
        return Visited(delivery, result, Effect(ItemState.STORED), requests.lane, frozenset(requests.good))

    def _failed(
        self,
        delivery: Delivery,
        due: DueItem,
        requests: TaskRequests,
        outcome: Outcome,
        reason: str,
        retry_after: int | None,
        proof: dict[str, object],
        filled: dict[str, bool] | None = None,
    ) -> Visited:
        started_at = requests.started_at or self._sender.clock.now()
        visited = self.ended(
            delivery,
            due,
            outcome,
            reason,
            requests.starts,
            started_at,
            retry_after,
            proof,
            filled=filled,
            lane=requests.lane,
        )
        visited.good = frozenset(requests.good)
        return visited

    def ended(
        self,
        delivery: Delivery,
        due: DueItem,
        outcome: Outcome,
        reason: str,
        starts: int,
        started_at: int,
        retry_after: int | None = None,
        proof: dict[str, object] | None = None,
        *,
        filled: dict[str, bool] | None = None,
        lane: str = "",
    ) -> Visited:
        """A visit that brought no record, with the effect of its outcome; `lane`: of the host that answered so."""
        now = self._sender.clock.now()
        first = due.first_started_at or started_at
        effect = decide(
            outcome,
            starts=starts,
            soft_failures=due.soft_failures,
            soft_ms=due.soft_ms,
            age_ms=max(0, now - first - due.paused_ms),
            uniform=self._random.random(),
            retry_after=retry_after,
            limits=self._limits,
        )
        if effect.gave_up:
            outcome, reason = Outcome.GAVE_UP, f"gave up; the last failure was {outcome.value}: {reason}"
        result = self._result(due, outcome, effect.final, starts, started_at)
        result.reason, result.costs = reason, effect.costs
        result.delay_ms, result.hold_ms = effect.delay_ms, effect.hold_ms
        result.evidence, result.filled, result.entry_hash = dict(proof or {}), dict(filled or {}), due.entry_hash
        return Visited(delivery, result, effect, lane or delivery.task.lane)

    def _result(self, due: DueItem, outcome: Outcome, final: ItemState | None, starts: int, started_at: int) -> Result:
        return Result(
            item_id=due.item_id,
            generation=due.generation,
            outcome=outcome,
            final=final,
            worker=self._worker,
            started_at=started_at,
            ended_at=self._sender.clock.now(),
            starts=starts,
        )
