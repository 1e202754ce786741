"""How fast lanes may be asked, as far as a worker says it: hosts found on the way, robots.txt, waits in hand (P4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fyke.model import LanePolicy
from fyke.ports import Clock, Frontier

WAIT_IN_HAND_MS = 5_000
LONGEST_WAIT_MS = 300_000
ASSERTED_FOR_S = 60.0
MOST_ASSERTED = 10_000


class Pace:
    """Shared by the tasks of a worker.

    Args:
        set_by_hand: lane → gap in ms where the settings give it; the sources' own words do not count there.
    """

    def __init__(self, frontier: Frontier, clock: Clock, set_by_hand: Mapping[str, int] | None = None) -> None:
        self._frontier, self._clock = frontier, clock
        self._set_by_hand = dict(set_by_hand or {})
        self._gaps = dict(self._set_by_hand)
        self._asserted: dict[LanePolicy, float] = {}

    async def tighten(self, policies: Sequence[LanePolicy]) -> None:
        """Make lanes at least as strict as these, but those that were set by hand."""
        await self._assert([policy for policy in policies if policy.lane not in self._set_by_hand])

    async def slow_down(self, lane: str, delay_ms: int, own: LanePolicy) -> None:
        """A robots.txt crawl delay can only make a lane slower."""
        gap, jitter = (self._set_by_hand[lane], 0) if lane in self._set_by_hand else (own.gap, own.jitter)
        if delay_ms > gap - jitter:
            await self._assert([LanePolicy(lane, gap=delay_ms, jitter=0, concurrency=own.concurrency)])

    def patience(self, lane: str) -> int:
        """How long a further request may wait in hand, in ms: 5 s, or a few gaps of a lane that is slower than that.

        Without it a visit of two hops would never end where the gap is longer than the wait in hand.
        """
        return max(WAIT_IN_HAND_MS, min(3 * self._gaps.get(lane, 0), LONGEST_WAIT_MS))

    async def _assert(self, policies: Sequence[LanePolicy]) -> None:
        """Said again once a minute, for a restart may have set the lanes anew."""
        now = self._clock.monotonic()
        due = [policy for policy in policies if now - self._asserted.get(policy, -ASSERTED_FOR_S) >= ASSERTED_FOR_S]
        if not due:
            return
        for policy in due:
            self._gaps[policy.lane] = max(self._gaps.get(policy.lane, 0), policy.gap + policy.jitter)
        if len(self._asserted) > MOST_ASSERTED:
            self._asserted.clear()
        await self._frontier.configure(due, tighten=True)
        self._asserted.update(dict.fromkeys(due, now))
