"""Contract of the frontier: the budget of a lane under many workers, on a clock that is moved by hand (P4)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from fyke.errors import LeaseLost
from fyke.model import Delivery, LanePolicy, Retry
from fyke.ports import Frontier
from fyke.testing.frontier_harness import FrontierHarness, item, take

LEASE = 20_000


class Site:
    """What a host sees: when each request came, and how many were being answered at once."""

    def __init__(self, policy: LanePolicy) -> None:
        self.policy = policy
        self.arrivals: list[int] = []

    def check(self) -> None:
        arrivals, policy = sorted(self.arrivals), self.policy
        least = policy.gap - policy.jitter
        gaps = [later - earlier for earlier, later in pairwise(arrivals)]
        assert min(gaps, default=least) >= least, f"{policy}: a gap of {min(gaps)} ms"
        for first, at in enumerate(arrivals):
            inside = sum(1 for one in arrivals[first:] if one < at + 60_000)
            assert inside <= 60_000 / max(1, least) + policy.concurrency


class BudgetContract:
    async def test_a_rate_is_never_passed_and_at_least_95_percent_of_it_is_used(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        if not harness.movable:
            pytest.skip("an exact rate needs a clock that can be moved")
        handles = [frontier, *[await harness.open() for _ in range(3)]]
        site = Site(LanePolicy("a", gap=500, jitter=50, concurrency=4))
        await frontier.configure([site.policy])
        await frontier.offer([item(ref, "a") for ref in range(100)])
        begun = harness.now()
        turn = 0
        while len(site.arrivals) < 100:
            turn += 1
            leased = await handles[turn % 4].lease(2, LEASE, worker=f"w{turn % 4}")
            for delivery in leased.deliveries:
                (started,) = await handles[turn % 4].begin([delivery])
                site.arrivals.append(harness.now() + started.wait_ms)
            # Each answer takes 100 ms from its start; the next lease comes when the frontier says.
            await harness.pass_time(max(1, min(leased.wait_ms, 100)))
            await frontier.ack(leased.deliveries)
        site.check()
        assert 49_000 <= max(site.arrivals) - begun <= 53_000

    @pytest.mark.parametrize("seed", range(6))
    async def test_the_budget_holds_whatever_workers_do(
        self, frontier: Frontier, harness: FrontierHarness, seed: int
    ) -> None:
        if not harness.movable:
            pytest.skip("minutes go by in this test")
        random = Random(seed)
        handles = [frontier, await harness.open()]
        sites = {
            lane: Site(LanePolicy(lane, gap, random.choice((0, gap // 3, gap)), random.randint(1, 4)))
            for lane, gap in (("a", 300), ("b", 1_200), ("c", 4_000))
        }
        await frontier.configure([site.policy for site in sites.values()])
        await frontier.offer([item(ref, random.choice("abc")) for ref in range(400)])
        crew = Crew(handles, harness, sites, random)
        for _ in range(600):
            await crew.step()
            in_flight = crew.in_flight()
            for lane, site in sites.items():
                assert in_flight[lane] <= site.policy.concurrency
            await harness.pass_time(random.choice((0, 1, 20, 150, 700)))
        assert sum(len(site.arrivals) for site in sites.values()) > 60
        for site in sites.values():
            site.check()


class Crew:
    """Workers that lease, dawdle, begin, ask for permits, extend, finish, give back or die, at random."""

    def __init__(self, handles: list[Frontier], harness: FrontierHarness, sites: dict[str, Site], random: Random):
        self._handles, self._harness, self._sites, self._random = handles, harness, sites, random
        self._held: list[Delivery] = []
        self._begun: set[tuple[str, int]] = set()
        self._permits: dict[str, set[str]] = {}

    async def step(self) -> None:
        action = self._random.choice((self._lease, self._lease, self._begin, self._begin, self._permit, self._end))
        await action(self._random.choice(self._handles))

    def in_flight(self) -> Counter[str]:
        """Leases and permits that live, by lane."""
        now = self._harness.now()
        live = [one for one in self._held if one.deadline > now]
        lanes = Counter(one.task.lane for one in live)
        for one in live:
            lanes.update(self._permits.get(one.task.key, set()) - {one.task.lane})
        return lanes

    async def _lease(self, frontier: Frontier) -> None:
        now = self._harness.now()
        if self._random.random() < 0.3:
            for reaped in await frontier.reap():
                self._forget(reaped.task.key)
        taken = await take(frontier, self._random.randint(1, 5), duration=LEASE)
        assert {one.task.key for one in taken}.isdisjoint(one.task.key for one in self._held if one.deadline > now)
        self._held.extend(taken)

    async def _begin(self, frontier: Frontier) -> None:
        waiting = [one for one in self._held if (one.task.key, one.token) not in self._begun]
        chosen = self._random.sample(waiting, min(len(waiting), self._random.randint(1, 3)))
        for delivery, started in zip(chosen, await frontier.begin(chosen), strict=True):
            if not started.lost:
                self._begun.add((delivery.task.key, delivery.token))
                self._sites[delivery.task.lane].arrivals.append(self._harness.now() + started.wait_ms)

    async def _permit(self, frontier: Frontier) -> None:
        if not self._held:
            return
        delivery, lane = self._random.choice(self._held), self._random.choice("abc")
        limit = self._random.choice((0, 500, 5_000))
        try:
            wait = await frontier.permit(delivery, lane, limit)
        except LeaseLost:
            return
        if wait <= limit:
            self._permits.setdefault(delivery.task.key, set()).add(lane)
            self._sites[lane].arrivals.append(self._harness.now() + wait)

    async def _end(self, frontier: Frontier) -> None:
        if not self._held:
            return
        delivery = self._random.choice(self._held)
        how = self._random.randrange(4)
        if how == 0:
            await frontier.ack([delivery])
        elif how == 1:
            await frontier.release([delivery])
        elif how == 2:
            await frontier.retry([Retry(delivery, self._random.randint(0, 9_000), "again", counted=True)])
        else:
            return
        self._forget(delivery.task.key)

    def _forget(self, key: str) -> None:
        self._held = [one for one in self._held if one.task.key != key]
        self._permits.pop(key, None)
