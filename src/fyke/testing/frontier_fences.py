"""Contract of the frontier: leases, their fences, and what a start costs.

P2: a task held by a dead worker is always found again. P3: a stale delivery changes nothing.
"""

from __future__ import annotations

import pytest

from fyke.errors import LeaseLost
from fyke.model import Delivery, Retry
from fyke.ports import Frontier
from fyke.testing.frontier_harness import LEASE, FrontierHarness, item, open_free, refs, take, take_one


async def changes_nothing(frontier: Frontier, stale: Delivery) -> None:
    """Every fenced call refuses this delivery, alone and beside others."""
    assert (await frontier.begin([stale]))[0].lost
    assert await frontier.extend([stale], LEASE) == [False]
    assert await frontier.ack([stale]) == [False]
    assert await frontier.bury([stale]) == [False]
    assert await frontier.release([stale]) == [False]
    assert await frontier.retry([Retry(stale, 0, "late", counted=True)]) == [False]
    with pytest.raises(LeaseLost):
        await frontier.permit(stale, "free")


class FencesContract:
    async def test_a_stale_delivery_changes_nothing_after_its_task_was_leased_again(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        stale = await take_one(frontier, worker="paused")
        await harness.pass_time(LEASE)
        await frontier.reap()
        await changes_nothing(frontier, stale)
        holder = await take_one(frontier, worker="holder")
        await changes_nothing(frontier, stale)
        assert await frontier.extend([holder], LEASE) == [True]
        assert await frontier.ack([stale, holder]) == [False, True]

    @pytest.mark.parametrize("how", ["replaced", "dropped"])
    @pytest.mark.parametrize("end", ["ack", "bury", "release", "retry", "lease end"])
    async def test_a_request_in_flight_keeps_its_place_though_its_task_is_gone(
        self, frontier: Frontier, harness: FrontierHarness, how: str, end: str
    ) -> None:
        other = await harness.open()
        await open_free(frontier, "narrow", concurrency=1)
        await frontier.offer([item(1, "narrow")])
        holder = await take_one(frontier)
        await frontier.begin([holder])
        await harness.pass_time(1_000)
        if how == "replaced":
            await other.offer([item(1, "narrow", generation=2)])
        else:
            assert await other.drop([("i1", 1)]) == 1
            await other.offer([item(1, "narrow", generation=2)])
        leased = await other.lease(1, LEASE, worker="other")
        assert leased.deliveries == []
        assert leased.wait_ms > 100, "a full lane is nothing to look at again and again"
        # Its holder is not the owner any more, and cannot renew what it has in flight.
        assert (await frontier.begin([holder]))[0].lost
        assert await frontier.extend([holder], LEASE) == [False]
        await frontier.reap()
        if end == "retry":
            assert await frontier.retry([Retry(holder, 0, "late", counted=True)]) == [False]
        elif end == "lease end":
            await harness.pass_time(LEASE - 1_001)
            assert await take(other) == []
            await harness.pass_time(1)
        else:
            assert await getattr(frontier, end)([holder]) == [False]
        delivery = await take_one(other)
        assert (delivery.task.generation, delivery.starts) == (2, 0)
        # The place came free once: the one that is taken now is another's.
        await frontier.release([holder])
        await other.offer([item(2, "narrow")])
        assert await take(other) == []

    async def test_an_acknowledgement_repeated_is_not_ours(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2)])
        one, other = await take(frontier)
        assert await frontier.ack([one]) == [True]
        assert await frontier.ack([one]) == [False]
        assert await frontier.ack([other, one, other]) == [True, False, False]
        assert await frontier.keys() == []

    async def test_a_retry_repeated_is_not_ours_and_counts_once(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        delivery = await take_one(frontier)
        await frontier.begin([delivery])
        assert await frontier.retry([Retry(delivery, 0, "timeout", counted=False)]) == [True]
        assert await frontier.retry([Retry(delivery, 0, "timeout", counted=False)]) == [False]
        await changes_nothing(frontier, delivery)
        assert (await take_one(frontier)).starts == 0

    async def test_a_buried_task_is_gone(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        delivery = await take_one(frontier)
        assert await frontier.bury([delivery]) == [True]
        await changes_nothing(frontier, delivery)
        assert await frontier.known(["i1"]) == [None]

    async def test_a_released_task_is_at_once_at_its_old_place_and_costs_nothing(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2), item(3)])
        first, second = await take(frontier, 2)
        await frontier.begin([first])
        assert await frontier.release([second, first]) == [True, True]
        await changes_nothing(frontier, first)
        again = await take(frontier)
        assert refs(again) == [1, 2, 3]
        assert [delivery.starts for delivery in again] == [0, 0, 0]

    async def test_a_start_is_counted_by_begin_and_taken_back_where_it_costs_nothing(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        for counted, starts in ((True, 0), (False, 1), (True, 1), (False, 2)):
            delivery = await take_one(frontier)
            assert delivery.starts == starts
            (started,) = await frontier.begin([delivery])
            assert started.starts == starts + 1
            await frontier.retry([Retry(delivery, 0, "again", counted=counted)])

    async def test_a_retry_before_begin_costs_nothing_and_gives_nothing_back(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        for counted in (False, True, False):
            delivery = await take_one(frontier)
            assert delivery.starts == 0
            await frontier.retry([Retry(delivery, 0, "again", counted=counted)])

    async def test_a_death_counts_for_the_task_that_had_begun_and_not_for_its_neighbours(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2)])
        poison, neighbour = await take(frontier, worker="dies")
        await frontier.begin([poison])
        await harness.pass_time(LEASE)
        reaped = {one.task.ref: (one.worker, one.begun, one.starts) for one in await frontier.reap()}
        assert reaped == {1: ("dies", True, 1), 2: ("dies", False, 0)}
        assert [(one.task.ref, one.starts) for one in await take(frontier)] == [(1, 1), (2, 0)]
        assert neighbour.task.ref == 2

    async def test_a_begin_repeated_after_a_lost_reply_counts_once(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        delivery = await take_one(frontier)
        first, twin = await frontier.begin([delivery, delivery])
        (again,) = await frontier.begin([delivery])
        assert first.starts == twin.starts == again.starts == 1
        await frontier.release([delivery])
        assert (await take_one(frontier)).starts == 0

    async def test_a_lease_is_reaped_when_it_ends_and_not_before(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        await take(frontier)
        if harness.movable:
            await harness.pass_time(LEASE - 1)
            assert await frontier.reap() == []
            await harness.pass_time(1)
        else:
            assert await frontier.reap() == []
            await harness.pass_time(LEASE)
        assert [one.task.ref for one in await frontier.reap()] == [1]
        assert await frontier.reap() == []

    async def test_reaping_is_by_task_and_not_by_worker(self, frontier: Frontier, harness: FrontierHarness) -> None:
        # A reply that never came belongs to a worker that lives and renews its other tasks.
        await open_free(frontier)
        await frontier.offer([item(1), item(2)])
        lost, held = await take(frontier, worker="alive")
        await harness.pass_time(LEASE - 500)
        assert await frontier.extend([held], LEASE) == [True]
        await harness.pass_time(500)
        assert [one.task for one in await frontier.reap()] == [lost.task]
        assert await frontier.ack([held]) == [True]

    async def test_a_lease_that_is_extended_lasts_from_then(self, frontier: Frontier, harness: FrontierHarness) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        delivery = await take_one(frontier)
        for _ in range(3):
            await harness.pass_time(LEASE // 3)
            assert await frontier.extend([delivery], LEASE) == [True]
            assert await frontier.reap() == []
        await harness.pass_time(LEASE)
        assert len(await frontier.reap()) == 1
        assert await frontier.extend([delivery], LEASE) == [False]

    async def test_reaped_tasks_come_back_to_their_old_place_at_most_as_many_as_asked(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(ref) for ref in range(6)])
        await take(frontier, 4)
        await harness.pass_time(LEASE)
        assert len(await frontier.reap(3)) == 3
        assert len(await frontier.reap(3)) == 1
        assert refs(await take(frontier)) == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("place", ["ready", "delayed", "leased", "reaped"])
    async def test_a_higher_generation_replaces_the_task_and_voids_its_tokens(
        self, frontier: Frontier, harness: FrontierHarness, place: str
    ) -> None:
        await open_free(frontier, "free", "other")
        await frontier.offer([item(1)])
        old = await take_one(frontier)
        await frontier.begin([old])
        if place == "ready":
            await frontier.release([old])
        if place == "delayed":
            await frontier.retry([Retry(old, 60_000, "later", counted=True)])
        if place == "reaped":
            await harness.pass_time(LEASE)
            await frontier.reap()
        assert await frontier.offer([item(1, "other", generation=2, priority=0)]) == 0
        await changes_nothing(frontier, old)
        new = await take_one(frontier)
        assert (new.task.generation, new.task.lane, new.starts) == (2, "other", 0)
        assert await frontier.offer([item(1, generation=1), item(1, generation=2)]) == 0
        assert await frontier.ack([old, new]) == [False, True]
        stats = await frontier.stats()
        assert (stats.ready, stats.delayed, stats.leased) == (0, 0, 0)
