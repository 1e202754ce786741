"""The requests of one task: the first is paid for by the lease and gated by `begin`, each further one by a permit
(P4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from fyke.errors import Deferred, FetchFailed, LeaseLost
from fyke.model import Delivery, FetchPolicy, LanePolicy, Outcome, Request, Response, Started
from fyke.pipeline.gate import WAIT_IN_HAND_MS, PermitGate, TaskGate
from fyke.policy.blocks import find_block
from fyke.policy.politeness import lane_of
from fyke.policy.status import outcome_of_status, retry_after
from fyke.ports import Clock, Fetcher, Frontier, Robots

MOST_BATCHED = 500
NOT_MODIFIED = 304
ASSERTED_FOR_S = 60.0
LONGEST_WAIT_MS = 300_000
MOST_ASSERTED = 10_000


class Starter:
    """Gathers the `begin` calls of tasks that start together into one."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._waiting: list[tuple[Delivery, asyncio.Future[Started]]] = []
        self._flushes: set[asyncio.Task[None]] = set()

    async def begin(self, delivery: Delivery) -> Started:
        future: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
        self._waiting.append((delivery, future))
        if len(self._waiting) == 1:
            flush = asyncio.create_task(self._flush())
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
        return await future

    async def _flush(self) -> None:
        # One turn of the loop lets the tasks of the same lease join.
        await asyncio.sleep(0)
        batch, self._waiting = self._waiting, []
        for start in range(0, len(batch), MOST_BATCHED):
            await self._ask(batch[start : start + MOST_BATCHED])

    async def _ask(self, batch: Sequence[tuple[Delivery, asyncio.Future[Started]]]) -> None:
        try:
            answers = await self._frontier.begin([delivery for delivery, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)


class Sender:
    """What all tasks of a worker share to send requests."""

    def __init__(
        self,
        frontier: Frontier,
        fetcher: Fetcher,
        robots: Robots,
        clock: Clock,
        *,
        set_by_hand: Mapping[str, int] | None = None,
    ) -> None:
        """`set_by_hand`: lane → gap in ms where the settings give it; the sources' own words do not count there."""
        self.frontier, self.fetcher, self.robots, self.clock = frontier, fetcher, robots, clock
        self._set_by_hand = dict(set_by_hand or {})
        self._gaps = dict(self._set_by_hand)
        self.starter = Starter(frontier)
        self._asserted: dict[LanePolicy, float] = {}

    async def tighten(self, policies: Iterable[LanePolicy]) -> None:
        """Make lanes at least as strict as these, but those that were set by hand."""
        await self._assert([policy for policy in policies if policy.lane not in self._set_by_hand])

    async def _assert(self, policies: Sequence[LanePolicy]) -> None:
        """Said again once a minute, for a restart may have set the lanes anew."""
        for policy in policies:
            self._gaps[policy.lane] = max(self._gaps.get(policy.lane, 0), policy.gap + policy.jitter)
        now = self.clock.monotonic()
        due = [policy for policy in policies if now - self._asserted.get(policy, -ASSERTED_FOR_S) >= ASSERTED_FOR_S]
        if not due:
            return
        if len(self._asserted) > MOST_ASSERTED:
            self._asserted.clear()
        await self.frontier.configure(due, tighten=True)
        self._asserted.update(dict.fromkeys(due, now))

    def patience(self, lane: str) -> int:
        """How long a further request may wait in hand, in ms: 5 s, or a few gaps of a lane that is slower than that.

        Without it a visit of two hops would never end where the gap is longer than the wait in hand.
        """
        return max(WAIT_IN_HAND_MS, min(3 * self._gaps.get(lane, 0), LONGEST_WAIT_MS))

    async def slow_down(self, lane: str, delay_ms: int, own: LanePolicy) -> None:
        """A robots.txt crawl delay can only make a lane slower."""
        if delay_ms > own.gap:
            await self._assert([LanePolicy(lane, gap=delay_ms, jitter=0, concurrency=own.concurrency)])


class TaskRequests:
    """Sends the requests of one delivery, in order."""

    def __init__(self, sender: Sender, delivery: Delivery, policy: FetchPolicy, lane_policy: LanePolicy) -> None:
        self._sender, self._delivery, self._policy, self._lane_policy = sender, delivery, policy, lane_policy
        permits = PermitGate(sender.frontier, sender.clock, delivery, sender.patience)
        self._gate = TaskGate(permits, sender.robots, policy)
        self.starts = delivery.starts
        self.begun = False
        self.started_at = 0

    async def send(self, request: Request) -> Response:
        """Send one request and return its usable answer.

        Raises:
            FetchFailed: no answer, or one that is no success (its status or a block mark decides the outcome).
            Deferred: the lane may not go soon; give the task back.
            LeaseLost
        """
        if self.begun:
            await self._gate.admit(request.url)
        else:
            await self._begin(request.url)
        response = await self._sender.fetcher.fetch(request, self._policy, self._gate)
        judge(response, self._policy)
        return response

    async def _begin(self, url: str) -> None:
        delay = await self._gate.check(url)
        if delay:
            await self._sender.slow_down(lane_of(url), delay, self._lane_policy)
        started = await self._sender.starter.begin(self._delivery)
        if started.lost:
            raise LeaseLost(f"task {self._delivery.task.key} is not ours any more")
        if started.wait_ms > self._sender.patience(self._delivery.task.lane):
            raise Deferred(self._delivery.task.lane, started.wait_ms)
        self.begun, self.starts = True, started.starts
        if started.wait_ms > 0:
            await self._sender.clock.sleep(started.wait_ms / 1000)
        self.started_at = self._sender.clock.now()


def judge(response: Response, policy: FetchPolicy) -> None:
    """Raises FetchFailed where the answer is no success; 304 passes."""
    block = find_block(response.status, response.text, policy.blocked_text)
    if block is not None:
        marked, mark = block
        raise FetchFailed(marked, f"the page says: {mark}", evidence=evidence(response) | {"mark": mark})
    outcome = Outcome.OK if response.status == NOT_MODIFIED else outcome_of_status(response.status)
    if outcome is not Outcome.OK:
        raise FetchFailed(
            outcome,
            f"status {response.status}",
            retry_after=retry_after(response.headers.get("retry-after"), response.started_at),
            evidence=evidence(response),
        )


def evidence(response: Response) -> dict[str, object]:
    """What is kept of an answer beside its outcome."""
    found: dict[str, object] = {
        "status": response.status,
        "url": response.url,
        "bytes": len(response.body),
        "encoding": response.encoding,
        "encoding_from": response.encoding_from,
        "ms": response.elapsed_ms,
    }
    if response.replaced:
        found["replaced"] = response.replaced
    if response.redirects:
        found["redirects"] = response.redirects
    return found


def outcome_of(error: FetchFailed) -> Outcome:
    return Outcome(error.outcome)
