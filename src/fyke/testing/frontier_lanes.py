"""Contract of the frontier: lanes, starts, permits, holds.

P4: all workers together never ask a host faster than its policy allows.
"""

from __future__ import annotations

import pytest

from fyke.model import Delivery, LanePolicy, Retry
from fyke.ports import Frontier
from fyke.testing.frontier_harness import LEASE, FrontierHarness, item, open_free, refs, take, take_one

SLOW = LanePolicy("slow", gap=1_000, jitter=0, concurrency=10)


async def start(frontier: Frontier, delivery: Delivery) -> int:
    (started,) = await frontier.begin([delivery])
    assert not started.lost
    return started.wait_ms


class LanesContract:
    async def test_starts_of_one_lane_are_a_gap_apart_however_late_they_begin(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        other = await harness.open()
        await frontier.configure([LanePolicy("slow", 400, 0, 10)])
        await frontier.offer([item(ref, "slow") for ref in range(3)])
        deliveries = await take(frontier)
        assert [one.start_at - deliveries[0].start_at for one in deliveries] == [0, 400, 800]
        await harness.pass_time(1_000)
        waits = [await start(handle, one) for handle, one in zip((frontier, other, frontier), deliveries, strict=True)]
        assert waits[0] == 0
        assert 300 <= waits[1] <= 400
        assert 700 <= waits[2] <= 800

    async def test_a_lane_without_gap_costs_no_waiting(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(ref) for ref in range(100)])
        deliveries = await take(frontier)
        assert len(deliveries) == 100
        assert [started.wait_ms for started in await frontier.begin(deliveries)] == [0] * 100

    async def test_a_lease_takes_no_more_of_a_lane_than_may_start_within_a_second(self, frontier: Frontier) -> None:
        await frontier.configure([LanePolicy("slow", 400, 0, 10)])
        await frontier.offer([item(ref, "slow") for ref in range(9)])
        assert len(await take(frontier)) == 3
        leased = await frontier.lease(9, LEASE, worker="w")
        assert leased.deliveries == []
        assert leased.wait_ms <= 1_000

    async def test_a_lane_that_is_tightened_only_becomes_stricter(self, frontier: Frontier) -> None:
        await frontier.configure([LanePolicy("slow", 400, 0, 2)])
        await frontier.configure([LanePolicy("slow", 0, 0, 50)], tighten=True)
        await frontier.offer([item(ref, "slow") for ref in range(9)])
        assert len(await take(frontier)) == 2
        await frontier.configure([LanePolicy("slow", 400, 0, 1)], tighten=True)
        await frontier.configure([LanePolicy("slow", 400, 0, 3)], tighten=True)
        assert await take(frontier) == []

    async def test_thousands_of_lanes_are_configured_in_one_call(self, frontier: Frontier) -> None:
        await frontier.configure([LanePolicy(f"host-{n}.example", 0, 0, 3) for n in range(2_500)])
        await frontier.offer([item(ref, "host-2499.example") for ref in range(5)])
        assert len(await take(frontier)) == 3

    async def test_a_lane_with_defaults_takes_what_the_first_source_says(self, frontier: Frontier) -> None:
        await frontier.offer([item(ref, "found") for ref in range(9)])
        await frontier.configure([LanePolicy("found", 0, 0, 8)], tighten=True)
        assert len(await take(frontier)) == 8

    async def test_a_lane_that_no_source_names_any_more_can_be_loosened_again(self, frontier: Frontier) -> None:
        await frontier.configure([LanePolicy("found", 5_000, 0, 1)], tighten=True)
        await frontier.configure([LanePolicy("other", 0, 0, 1)])
        await frontier.configure([LanePolicy("found", 0, 0, 4)], tighten=True)
        await frontier.offer([item(ref, "found") for ref in range(9)])
        assert len(await take(frontier)) == 4

    async def test_a_slow_lane_is_passed_over(self, frontier: Frontier) -> None:
        await frontier.configure([SLOW])
        await open_free(frontier)
        await frontier.offer([item(ref, "slow", priority=0) for ref in range(50)])
        await frontier.offer([item(ref) for ref in range(100, 105)])
        assert refs(await take(frontier)) == [0, 1, 100, 101, 102, 103, 104]
        assert await take(frontier) == []

    async def test_an_empty_lane_remembers_its_gap(self, frontier: Frontier, harness: FrontierHarness) -> None:
        await frontier.configure([SLOW])
        await frontier.offer([item(1, "slow")])
        delivery = await take_one(frontier)
        assert await start(frontier, delivery) == 0
        await frontier.ack([delivery])
        await frontier.offer([item(2, "slow")])
        leased = await frontier.lease(1, LEASE, worker="w")
        assert leased.deliveries == []
        assert 800 < leased.wait_ms <= 1_000
        await harness.pass_time(leased.wait_ms)
        assert await start(frontier, await take_one(frontier)) == 0

    async def test_a_lane_nobody_configured_has_the_default_policy(self, frontier: Frontier) -> None:
        await frontier.offer([item(ref, "stranger") for ref in range(5)])
        deliveries = await take(frontier)
        assert len(deliveries) == 1
        assert await start(frontier, deliveries[0]) == 0
        assert await frontier.permit(deliveries[0], "stranger", 0) >= LanePolicy("x").gap - LanePolicy("x").jitter - 50

    async def test_the_strictest_of_several_policies_counts(self, frontier: Frontier) -> None:
        await frontier.configure([LanePolicy("x", 0, 0, 9), LanePolicy("x", 500, 0, 2), LanePolicy("x", 0, 0, 5)])
        await frontier.offer([item(ref, "x") for ref in range(9)])
        assert len(await take(frontier)) == 2

    async def test_no_more_than_the_limit_are_in_flight_until_one_is_given_back(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier, concurrency=2)
        await frontier.offer([item(ref) for ref in range(9)])
        held = await take(frontier)
        assert len(held) == 2
        for end in ("ack", "bury", "release"):
            leased = await frontier.lease(9, LEASE, worker="w")
            assert leased.deliveries == []
            assert leased.wait_ms > 100, "a full lane is nothing to look at again and again"
            assert await getattr(frontier, end)([held[0]]) == [True]
            held = [*held[1:], *await take(frontier)]
            assert len(held) == 2
        await frontier.retry([Retry(held[0], 60_000, "later", counted=False)])
        assert len(await take(frontier)) == 1
        await harness.pass_time(LEASE)
        await frontier.reap()
        assert len(await take(frontier)) == 2

    async def test_a_limit_that_is_raised_wakes_the_lane(self, frontier: Frontier) -> None:
        await open_free(frontier, concurrency=1)
        await frontier.offer([item(ref) for ref in range(9)])
        assert len(await take(frontier)) == 1
        await open_free(frontier, concurrency=3)
        assert len(await take(frontier)) == 2

    async def test_a_permit_in_the_same_lane_takes_a_start_and_no_second_place(self, frontier: Frontier) -> None:
        await frontier.configure([LanePolicy("slow", 1_000, 0, 1)])
        await frontier.offer([item(1, "slow")])
        delivery = await take_one(frontier)
        assert await start(frontier, delivery) == 0
        assert 900 < await frontier.permit(delivery, "slow") <= 1_000
        assert 1_900 < await frontier.permit(delivery, "slow") <= 2_000

    async def test_a_permit_that_would_wait_too_long_reserves_nothing(self, frontier: Frontier) -> None:
        await frontier.configure([SLOW])
        await open_free(frontier)
        await frontier.offer([item(1)])
        delivery = await take_one(frontier)
        assert await frontier.permit(delivery, "slow", 100) == 0
        for _ in range(3):
            assert 900 < await frontier.permit(delivery, "slow", 100) <= 1_000
        assert 900 < await frontier.permit(delivery, "slow", 1_000) <= 1_000

    @pytest.mark.parametrize("end", ["ack", "bury", "release", "retry", "replaced", "dropped", "reaped", "lease end"])
    async def test_a_permit_in_another_lane_holds_one_place_until_its_task_is_given_back(
        self, frontier: Frontier, harness: FrontierHarness, end: str
    ) -> None:
        await open_free(frontier)
        await open_free(frontier, "other", concurrency=1)
        await frontier.offer([item(1), item(2, "other")])
        holder, other = await take(frontier)
        # While its only place is taken, there is no permit to be had.
        assert await frontier.permit(holder, "other", 500) > 500
        await frontier.release([other])
        assert await frontier.permit(holder, "other", 500) == 0
        assert await frontier.permit(holder, "other", 500) == 0
        assert await take(frontier) == []
        if end in ("ack", "bury", "release"):
            await getattr(frontier, end)([holder])
        if end == "retry":
            await frontier.retry([Retry(holder, 60_000, "later", counted=False)])
        if end in ("replaced", "dropped"):
            # Its request is in flight all the same, until its holder has heard of it.
            await (frontier.offer([item(1, generation=2)]) if end == "replaced" else frontier.drop([("i1", 1)]))
            assert 2 not in refs(await take(frontier))
            assert await frontier.release([holder]) == [False]
        if end in ("reaped", "lease end"):
            await harness.pass_time(LEASE - 1_000)
            assert await take(frontier) == []
            await harness.pass_time(1_000)
        if end == "reaped":
            await frontier.reap()
        assert 2 in refs(await take(frontier))

    async def test_a_permit_lasts_as_long_as_its_lease_is_extended(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await open_free(frontier, "other", concurrency=1)
        await frontier.offer([item(1)])
        holder = await take_one(frontier)
        assert await frontier.permit(holder, "other") == 0
        await frontier.offer([item(2, "other")])
        await harness.pass_time(LEASE - 500)
        assert await frontier.extend([holder], LEASE) == [True]
        await harness.pass_time(1_000)
        assert await take(frontier) == []
        await frontier.ack([holder])
        assert refs(await take(frontier)) == [2]

    async def test_a_rebuilt_frontier_starts_each_lane_one_gap_later(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await frontier.configure([SLOW])
        await frontier.offer([item(1, "slow")])
        await frontier.rebuild("ledger", 1)
        await frontier.offer([item(1, "slow")])
        assert await take(frontier) == []
        await harness.pass_time(1_000)
        assert await start(frontier, await take_one(frontier)) == 0

    async def test_a_begin_repeated_after_a_lost_reply_keeps_its_start(self, frontier: Frontier) -> None:
        await frontier.configure([LanePolicy("slow", 600, 0, 10)])
        await frontier.offer([item(ref, "slow") for ref in range(2)])
        first, second = await take(frontier)
        await frontier.begin([first])
        wait = await start(frontier, second)
        assert 500 < wait <= 600
        assert wait - 100 < await start(frontier, second) <= wait

    async def test_a_begin_repeated_after_its_start_has_passed_takes_a_new_start_at_no_cost(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await frontier.configure([LanePolicy("slow", 600, 0, 10)])
        await frontier.offer([item(ref, "slow") for ref in range(2)])
        first, second = await take(frontier)
        await frontier.begin([first])
        await harness.pass_time(700)
        (again,) = await frontier.begin([first])
        assert (again.starts, again.wait_ms) == (1, 0)
        assert 500 < await start(frontier, second) <= 600
