"""The requests of one task: the first is paid for by the lease and gated by `begin`, each further one by a permit
(P4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from fyke.errors import Deferred, FetchFailed, LeaseLost, UsageError
from fyke.model import Delivery, FetchPolicy, LanePolicy, Outcome, Request, Response, Started
from fyke.pipeline.gate import PermitGate, TaskGate
from fyke.pipeline.pace import Pace
from fyke.policy.blocks import find_block, sends_on
from fyke.policy.politeness import lane_of
from fyke.policy.status import outcome_of_status, retry_after
from fyke.ports import Clock, Fetcher, Frontier, Robots, Source

MOST_BATCHED = 500
NOT_MODIFIED = 304


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

    def __init__(self, frontier: Frontier, fetcher: Fetcher, robots: Robots, clock: Clock, pace: Pace) -> None:
        self.frontier, self.fetcher, self.robots, self.clock, self.pace = frontier, fetcher, robots, clock, pace
        self.starter = Starter(frontier)


class TaskRequests:
    """Sends the requests of one delivery, in order."""

    def __init__(self, sender: Sender, delivery: Delivery, source: Source) -> None:
        self._sender, self._delivery, self._policy = sender, delivery, source.fetch
        permits = PermitGate(sender.frontier, sender.clock, delivery, sender.pace)
        self._gate = TaskGate(permits, sender.robots, source.fetch, sender.pace, partial(lane_policy, source))
        self.starts = delivery.starts
        self.begun = False
        self.started_at = 0
        self.lane = delivery.task.lane
        """Of the host that gave the last answer."""
        self.good: set[str] = set()
        """The lanes of answers that were what the source expects."""

    async def send(self, request: Request) -> Response:
        """Send one request and return its usable answer.

        Raises:
            FetchFailed: no answer, or one that is no success (its status or a block mark decides the outcome); it
                names the lane of the host that answered.
            Deferred: the lane may not go soon; give the task back.
            LeaseLost
        """
        if self.begun:
            await self._gate.admit(request.url)
        else:
            await self._begin(request.url)
        try:
            response = await self._sender.fetcher.fetch(request, self._policy, self._gate)
            judge(response, self._policy)
        except FetchFailed as error:
            self.lane = error.lane = error.lane or _lane(error.evidence.get("url"), request.url)
            raise
        self.lane = lane_of(response.url)
        return response

    def failed(self, outcome: Outcome, reason: str, evidence: dict[str, object]) -> FetchFailed:
        """The last answer was no success after all, by what its page says."""
        error = FetchFailed(outcome, reason, evidence=evidence)
        error.lane = self.lane
        return error

    async def _begin(self, url: str) -> None:
        await self._gate.ready(url)
        lane = self._delivery.task.lane
        started = await self._sender.starter.begin(self._delivery)
        if started.lost:
            raise LeaseLost(f"task {self._delivery.task.key} is not ours any more")
        if not started.reserved or started.wait_ms > self._sender.pace.patience(lane):
            raise Deferred(lane, started.wait_ms)
        self.begun, self.starts = True, started.starts
        await self._gate.permits.wait(lane, started.wait_ms)
        if lane_of(url) != lane:
            # The source or the list has moved to another host since the task was offered: that one is asked, and paid.
            await self._gate.permits.admit(url)
        self.started_at = self._sender.clock.now()


def _lane(*urls: object) -> str:
    """The lane of the first address that has one."""
    for url in urls:
        if isinstance(url, str) and url:
            try:
                return lane_of(url)
            except UsageError:
                continue
    return ""


def lane_policy(source: Source, lane: str) -> LanePolicy:
    """The source's own policy for a lane: named, or its policy for any host."""
    anywhere = None
    for policy in source.resolved.lanes:
        if policy.lane == lane:
            return policy
        if policy.lane == "*":
            anywhere = policy
    return replace(anywhere, lane=lane) if anywhere is not None else LanePolicy(lane)


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
    moved = sends_on(response.text)
    if moved is not None:
        reason = f"the page has moved: it only sends on to {moved} (meta refresh)"
        raise FetchFailed(Outcome.MISFIT, reason, evidence=evidence(response) | {"sends_on": moved})


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
