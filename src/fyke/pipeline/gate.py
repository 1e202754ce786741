"""The gate of a task: every request but the one its lease paid for asks here first (P4)."""

from __future__ import annotations

from collections.abc import Callable

from fyke.errors import Deferred
from fyke.model import Delivery, FetchPolicy
from fyke.policy.politeness import lane_of
from fyke.ports import Clock, Frontier, Robots

WAIT_IN_HAND_MS = 5_000


class PermitGate:
    """Waits for the lane's permit; robots.txt itself goes through here."""

    def __init__(self, frontier: Frontier, clock: Clock, delivery: Delivery, patience: Callable[[str], int]) -> None:
        """`patience`: how long a request to a lane may wait in hand, in ms."""
        self._frontier, self._clock, self._delivery, self._patience = frontier, clock, delivery, patience

    async def admit(self, url: str) -> None:
        lane = lane_of(url)
        patience = self._patience(lane)
        wait = await self._frontier.permit(self._delivery, lane, patience)
        if wait > patience:
            raise Deferred(lane, wait)
        if wait > 0:
            await self._clock.sleep(wait / 1000)


class TaskGate:
    """As PermitGate, and asks robots.txt for each address first."""

    def __init__(self, permits: PermitGate, robots: Robots, policy: FetchPolicy) -> None:
        self._permits, self._robots, self._policy = permits, robots, policy

    async def check(self, url: str) -> int | None:
        """robots.txt for an address whose request is already paid for; the crawl delay in ms, if any."""
        return await self._robots.check(url, self._policy, self._permits)

    async def admit(self, url: str) -> None:
        await self.check(url)
        await self._permits.admit(url)
