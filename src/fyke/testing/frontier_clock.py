"""Contract of the frontier: the clock is moved. Nobody waits for ever, and no living worker loses its lease."""

from __future__ import annotations

import pytest

from fyke.model import LanePolicy, Retry
from fyke.ports import Frontier
from fyke.testing.frontier_harness import HOUR, LEASE, FrontierHarness, item, open_free, refs, take, take_one

STEPS = [HOUR, -HOUR, 5_001, -5_001]


class ClockContract:
    """`lease_ms` of the frontiers under test is LEASE."""

    @pytest.fixture(autouse=True)
    def _clock_can_be_set(self, request: pytest.FixtureRequest, harness: FrontierHarness) -> None:
        if request.function.__name__.endswith("_step") and not harness.movable:
            pytest.skip("this back end's clock cannot be set")

    async def test_nobody_reaps_for_one_lease_after_an_outage(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2)])
        alive, _ = await take(frontier)
        await harness.pass_time(LEASE)
        await frontier.pause_reaping()
        assert await frontier.reap() == []
        assert await frontier.extend([alive], LEASE) == [True]
        await harness.pass_time(LEASE - 500)
        assert await frontier.reap() == []
        assert await frontier.extend([alive], LEASE) == [True]
        await harness.pass_time(500)
        assert [one.task.ref for one in await frontier.reap()] == [2]

    @pytest.mark.parametrize("step", STEPS)
    async def test_nobody_reaps_for_one_lease_after_a_step(
        self, frontier: Frontier, harness: FrontierHarness, step: int
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        alive = await take_one(frontier)
        harness.step(step)
        assert await frontier.reap() == []
        assert await frontier.extend([alive], 1_000) == [True]
        await harness.pass_time(LEASE - 1)
        assert await frontier.reap() == []
        await harness.pass_time(1)
        assert [one.task.ref for one in await frontier.reap()] == [1]

    async def test_a_place_is_not_taken_from_a_living_worker_after_a_step(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await open_free(frontier, "other", concurrency=1)
        await frontier.offer([item(1)])
        alive = await take_one(frontier)
        assert await frontier.permit(alive, "other") == 0
        await frontier.offer([item(2, "other")])
        harness.step(HOUR)
        assert await take(frontier) == []
        assert await frontier.extend([alive], LEASE) == [True]
        await harness.pass_time(LEASE - 1)
        assert await take(frontier) == []

    async def test_reaping_goes_on_after_a_small_step(self, frontier: Frontier, harness: FrontierHarness) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        await take(frontier)
        harness.step(LEASE)
        assert [one.task.ref for one in await frontier.reap()] == [1]

    async def test_a_lease_given_by_a_fast_clock_is_clamped_after_a_step(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        harness.step(HOUR)
        await take(frontier)
        harness.step(-HOUR)
        await harness.pass_time(LEASE)
        await frontier.reap()
        await harness.pass_time(LEASE)
        assert [one.task.ref for one in await frontier.reap()] == [1]

    async def test_a_lease_far_too_long_is_clamped_by_the_reaper_alone_after_a_step(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        # A handle opened after the step has seen no step.
        await open_free(frontier)
        await frontier.offer([item(1)])
        harness.step(HOUR)
        await take(frontier)
        harness.step(-HOUR)
        late = await harness.open()
        assert await late.reap() == []
        await harness.pass_time(LEASE)
        assert [one.task.ref for one in await late.reap()] == [1]

    @pytest.mark.parametrize("fresh", [False, True])
    async def test_a_delayed_task_waits_no_longer_than_its_delay_after_a_step(
        self, frontier: Frontier, harness: FrontierHarness, fresh: bool
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        await frontier.retry([Retry(await take_one(frontier), 60_000, "timeout", counted=False)])
        harness.step(-HOUR)
        handle = await harness.open() if fresh else frontier
        assert await take(handle) == []
        await harness.pass_time(59_999)
        assert await take(handle) == []
        await harness.pass_time(1)
        assert refs(await take(handle)) == [1]

    @pytest.mark.parametrize("fresh", [False, True])
    async def test_a_lane_waits_no_longer_than_its_gap_after_a_step(
        self, frontier: Frontier, harness: FrontierHarness, fresh: bool
    ) -> None:
        await frontier.configure([LanePolicy("slow", 10_000, 1_000, 5)])
        await frontier.offer([item(1, "slow"), item(2, "slow")])
        first = await take_one(frontier)
        await frontier.begin([first])
        await frontier.ack([first])
        harness.step(-HOUR)
        handle = await harness.open() if fresh else frontier
        assert await take(handle) == []
        await harness.pass_time(11_000)
        second = await take_one(handle)
        assert (await handle.begin([second]))[0].wait_ms == 0

    async def test_a_place_whose_task_is_gone_is_kept_no_longer_than_its_lease_after_a_step(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier, "narrow", concurrency=1)
        harness.step(HOUR)
        await frontier.offer([item(1, "narrow")])
        await take_one(frontier)
        await frontier.offer([item(1, "narrow", generation=2)])
        harness.step(-HOUR)
        assert await take(frontier) == []
        await harness.pass_time(LEASE)
        assert refs(await take(frontier)) == [1]

    async def test_a_hold_lasts_no_longer_than_its_own_length_after_a_step(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier, "held")
        await frontier.offer([item(1, "held")])
        await frontier.hold("held", harness.now() + 20_000, "Retry-After")
        harness.step(-HOUR)
        assert await take(frontier) == []
        await harness.pass_time(19_999)
        assert await take(frontier) == []
        await harness.pass_time(1)
        assert refs(await take(frontier)) == [1]

    @pytest.mark.parametrize("step", STEPS)
    async def test_the_gap_holds_across_a_step(self, frontier: Frontier, harness: FrontierHarness, step: int) -> None:
        # P4 is about the time that the site sees, whatever our clock says meanwhile.
        await frontier.configure([LanePolicy("slow", 10_000, 0, 5)])
        await frontier.offer([item(1, "slow"), item(2, "slow")])
        first = await take_one(frontier)
        assert (await frontier.begin([first]))[0].wait_ms == 0
        harness.step(step)
        waited = 0
        while not (deliveries := await take(frontier)):
            await harness.pass_time(500)
            waited += 500
            assert waited <= 60_000
        waited += (await frontier.begin(deliveries))[0].wait_ms
        assert waited >= 10_000

    async def test_a_fast_clock_for_a_while_leaves_nothing_behind_after_a_step(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.configure([LanePolicy("slow", 2_000, 0, 5)])
        harness.step(HOUR)
        await frontier.offer([item(1), item(2, "slow"), item(3, "slow")])
        for delivery in await take(frontier):
            await frontier.begin([delivery])
            await frontier.retry([Retry(delivery, 1_000, "again", counted=False)])
        await frontier.hold("slow", harness.now() + 3_000, "429")
        harness.step(-HOUR)
        await take(frontier)
        await harness.pass_time(6_000)
        leased = refs(await take(frontier))
        assert sorted(leased) in ([1, 2], [1, 3])
