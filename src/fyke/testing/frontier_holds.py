"""Contract of the frontier: a held lane hands out nothing, starts nothing and reserves nothing (P4)."""

from __future__ import annotations

from fyke.model import LanePolicy, Retry
from fyke.ports import Frontier
from fyke.testing.frontier_harness import FrontierHarness, item, open_free, refs, take, take_one


class HoldsContract:
    async def test_a_held_lane_hands_out_nothing_while_others_go_on(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier, "held", "free")
        await frontier.hold("held", harness.now() + 2_000, "Retry-After")
        await frontier.offer([item(1, "held"), item(2)])
        assert refs(await take(frontier)) == [2]
        view = await frontier.view("i1")
        assert view is not None
        assert view.lane_hold_until > harness.now()
        await harness.pass_time(2_000)
        assert refs(await take(frontier)) == [1]

    async def test_a_start_in_a_held_lane_is_not_counted_and_told_how_long(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        other = await harness.open()
        await open_free(frontier, "held")
        await frontier.offer([item(1, "held")])
        delivery = await take_one(frontier)
        await other.hold("held", harness.now() + 7_000, "429")
        (started,) = await frontier.begin([delivery])
        assert not started.lost
        assert not started.reserved
        assert started.starts == 0
        assert 6_500 < started.wait_ms <= 7_000
        assert await frontier.permit(delivery, "held", 5_000) > 5_000
        assert await frontier.retry([Retry(delivery, started.wait_ms, "held", counted=False)]) == [True]

    async def test_nobody_waits_in_hand_for_the_end_of_a_hold_and_no_start_is_taken(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await frontier.configure([LanePolicy("slow", 1_000, 0, 1)])
        await frontier.offer([item(1, "slow")])
        delivery = await take_one(frontier)
        await frontier.hold("slow", harness.now() + 1_500, "Retry-After")
        # All who did would go out at its end at once, and a start that nobody uses would make the next one late.
        for _ in range(3):
            assert await frontier.permit(delivery, "slow", 60_000) > 60_000
            (started,) = await frontier.begin([delivery])
            assert not started.reserved
        await harness.pass_time(1_500)
        (started,) = await frontier.begin([delivery])
        assert (started.reserved, started.starts, started.wait_ms) == (True, 1, 0)
        assert 900 < await frontier.permit(delivery, "slow") <= 1_000

    async def test_who_waited_in_hand_learns_of_a_hold_that_came_meanwhile(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        other = await harness.open()
        await open_free(frontier, "held")
        assert [await frontier.held(lane) for lane in ("held", "stranger")] == [0, 0]
        await other.hold("held", harness.now() + 2_000, "429")
        assert 1_500 < await frontier.held("held") <= 2_000
        await other.hold("held", 0, "")
        assert await frontier.held("held") == 0
        await other.hold("held", harness.now() + 1_000, "429")
        await harness.pass_time(1_000)
        assert await frontier.held("held") == 0

    async def test_a_later_hold_wins_and_zero_lifts_it(self, frontier: Frontier, harness: FrontierHarness) -> None:
        await open_free(frontier, "held")
        await frontier.offer([item(1, "held")])
        await frontier.hold("held", harness.now() + 60_000, "blocked")
        await frontier.hold("held", harness.now() + 1_000, "Retry-After")
        await harness.pass_time(1_000)
        assert await take(frontier) == []
        await frontier.hold("held", 0, "")
        assert refs(await take(frontier)) == [1]
