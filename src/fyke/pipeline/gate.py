"""The gate of a task: every request but the one its lease paid for asks here first (P4)."""

from __future__ import annotations

from collections.abc import Callable

from fyke.errors import Deferred, FetchFailed
from fyke.model import Delivery, FetchPolicy, LanePolicy
from fyke.pipeline.pace import Pace
from fyke.policy.politeness import lane_of
from fyke.ports import Clock, Frontier, Robots

# A hold that was set while a request waited is asked for after waits that are longer than this.
SHORT_WAIT_MS = 500


class PermitGate:
    """Waits for the lane's permit; robots.txt itself goes through here."""

    def __init__(self, frontier: Frontier, clock: Clock, delivery: Delivery, pace: Pace) -> None:
        self._frontier, self._clock, self._delivery, self._pace = frontier, clock, delivery, pace

    async def admit(self, url: str) -> None:
        lane = lane_of(url)
        patience = self._pace.patience(lane)
        wait = await self._frontier.permit(self._delivery, lane, patience)
        if wait > patience:
            raise Deferred(lane, wait)
        await self.wait(lane, wait)

    async def wait(self, lane: str, wait_ms: int) -> None:
        """Wait in hand for a start that is reserved; a host that was held meanwhile is not asked."""
        if wait_ms <= 0:
            return
        await self._clock.sleep(wait_ms / 1000)
        if wait_ms > SHORT_WAIT_MS and (held := await self._frontier.held(lane)) > 0:
            raise Deferred(lane, held)


class TaskGate:
    """As PermitGate, and before each address: the source's own pace for its host, and robots.txt with its delay."""

    def __init__(
        self,
        permits: PermitGate,
        robots: Robots,
        policy: FetchPolicy,
        pace: Pace,
        own: Callable[[str], LanePolicy],
    ) -> None:
        """`own`: the source's policy for a lane."""
        self.permits = permits
        self._robots, self._policy, self._pace, self._own = robots, policy, pace, own

    async def ready(self, url: str) -> None:
        """Pace the host of `url` as the source and robots.txt say, and make sure that it may be asked at all."""
        lane = lane_of(url)
        own = self._own(lane)
        await self._pace.tighten([own])
        try:
            delay = await self._robots.check(url, self._policy, self.permits)
        except FetchFailed as error:
            error.lane = error.lane or lane
            raise
        if delay:
            await self._pace.slow_down(lane, delay, own)

    async def admit(self, url: str) -> None:
        await self.ready(url)
        await self.permits.admit(url)
