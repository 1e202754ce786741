"""Contract of the frontier: tasks in their places.

P1 in the frontier: a live task is never queued twice. P2: a task is ready, delayed or leased until it is finished.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from fyke.errors import UsageError
from fyke.model import Retry, Task, TaskKind, TaskState
from fyke.ports import Frontier
from fyke.testing.frontier_harness import LEASE, FrontierHarness, item, open_free, refs, take, take_one


class TasksContract:
    async def test_an_offer_repeated_finds_the_task_live(self, frontier: Frontier) -> None:
        assert await frontier.offer([item(1), item(2)]) == 2
        assert await frontier.offer([item(2), item(1), item(3)]) == 1
        await open_free(frontier)
        assert refs(await take(frontier)) == [1, 2, 3]

    async def test_duplicates_inside_one_offer_collapse_to_the_highest_generation(self, frontier: Frontier) -> None:
        await open_free(frontier)
        assert await frontier.offer([item(1), item(1, generation=3), item(1, generation=2), item(1)]) == 1
        (delivery,) = await take(frontier)
        assert delivery.task.generation == 3

    async def test_an_offer_of_a_live_task_changes_nothing_whatever_its_state(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2)])
        leased, delayed = await take(frontier)
        await frontier.retry([Retry(delayed, 60_000, "later", counted=False)])
        assert await frontier.offer([item(1), item(2)]) == 0
        assert await take(frontier) == []
        assert await frontier.ack([leased]) == [True]

    async def test_a_task_offered_again_after_it_was_finished_is_a_new_one(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        first = await take_one(frontier)
        await frontier.ack([first])
        assert await frontier.offer([item(1)]) == 1
        second = await take_one(frontier)
        assert second.token != first.token

    async def test_starts_that_the_ledger_knows_come_with_the_task(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([Task(TaskKind.ITEM, 1, 4, "free", source_hash="abc", starts=2)])
        delivery = await take_one(frontier)
        assert delivery.starts == 2
        assert delivery.task == Task(TaskKind.ITEM, 1, 4, "free", "text", 1, "abc", 2)
        (started,) = await frontier.begin([delivery])
        assert (started.lost, started.starts, started.wait_ms) == (False, 3, 0)

    async def test_the_best_come_first_then_the_oldest(self, frontier: Frontier) -> None:
        await open_free(frontier)
        tasks = [item(1, priority=2), item(2, priority=1), item(3, priority=0), item(4, priority=1)]
        await frontier.offer(tasks)
        assert refs(await take(frontier, 3)) == [3, 2, 4]
        assert refs(await take(frontier, 3)) == [1]

    async def test_a_better_task_of_another_lane_comes_first(self, frontier: Frontier) -> None:
        await open_free(frontier, "a", "b")
        await frontier.offer([item(1, "a", priority=2), item(2, "a", priority=1), item(3, "b", priority=0)])
        await frontier.offer([item(4, "b", priority=2), item(5, "a", priority=0)])
        taken = refs(await take(frontier))
        assert (set(taken[:2]), taken[2], set(taken[3:])) == ({3, 5}, 2, {1, 4})

    async def test_a_pool_gets_its_own_tasks_only(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2, pool="render")])
        assert refs(await take(frontier)) == [1]
        assert refs((await frontier.lease(9, LEASE, worker="b", pool="render")).deliveries) == [2]

    async def test_an_unknown_pool_is_refused_with_the_nearest_name(self, frontier: Frontier) -> None:
        with pytest.raises(UsageError, match="did you mean 'render'"):
            await frontier.offer([item(1, pool="rendr")])
        with pytest.raises(UsageError, match="did you mean 'text'"):
            await frontier.lease(1, LEASE, worker="w", pool="txt")

    async def test_a_batch_over_its_limit_is_refused_whole(self, frontier: Frontier) -> None:
        with pytest.raises(ValueError, match="at most 1000"):
            await frontier.offer([item(ref) for ref in range(1_001)])
        assert (await frontier.stats()).ready == 0
        assert await frontier.offer([item(ref) for ref in range(1_000)]) == 1_000

    async def test_empty_batches_are_no_work(self, frontier: Frontier) -> None:
        assert await frontier.offer([]) == 0
        assert await frontier.begin([]) == []
        assert await frontier.ack([]) == []
        assert await frontier.retry([]) == []
        assert await frontier.drop([]) == 0
        assert await frontier.known([]) == []

    async def test_two_claimers_never_share_a_task(self, frontier: Frontier, harness: FrontierHarness) -> None:
        others = [frontier, await harness.open()]
        await open_free(frontier, "a", "b", "c")
        await frontier.offer([item(ref, "abc"[ref % 3]) for ref in range(300)])

        async def claim(number: int) -> list[int]:
            found: list[int] = []
            while deliveries := await take(others[number % 2], 7, worker=f"w{number}"):
                found.extend(refs(deliveries))
            return found

        claimed = await asyncio.gather(*(claim(number) for number in range(6)))
        assert sorted(ref for found in claimed for ref in found) == list(range(300))

    async def test_one_of_ten_claimers_gets_the_orphaned_task_each_time(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        handles = [frontier, await harness.open()]
        await open_free(frontier)
        await frontier.offer([item(1)])
        for _ in range(10):
            found = await asyncio.gather(*(take(handles[n % 2], 5, worker=f"w{n}") for n in range(10)))
            assert [len(deliveries) for deliveries in found if deliveries] == [1]
            await harness.pass_time(LEASE)
            reaped = await asyncio.gather(*(handles[n % 2].reap() for n in range(4)))
            assert sum(len(tasks) for tasks in reaped) == 1

    async def test_a_delayed_task_waits_in_the_store_and_starts_once_when_due(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2)])
        first, second = await take(frontier)
        assert await frontier.retry([Retry(first, 2_000, "timeout", counted=False)]) == [True]
        await frontier.ack([second])
        await harness.pass_time(1_700)
        leased = await frontier.lease(5, LEASE, worker="w")
        assert leased.deliveries == []
        assert 0 < leased.wait_ms <= 300
        await harness.pass_time(leased.wait_ms)
        assert refs(await take(frontier)) == [1]
        assert await take(frontier) == []

    async def test_a_delayed_task_comes_back_to_its_old_place(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1), item(2), item(3)])
        await frontier.retry([Retry(await take_one(frontier), 100, "timeout", counted=False)])
        await harness.pass_time(100)
        assert refs(await take(frontier)) == [1, 2, 3]

    async def test_a_task_that_waits_holds_nobody_up(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(ref) for ref in range(5)])
        poison = await take_one(frontier)
        await frontier.retry([Retry(poison, 600_000, "error", counted=True)])
        assert refs(await take(frontier)) == [1, 2, 3, 4]

    async def test_a_dropped_task_is_gone_whatever_its_state(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(ref) for ref in range(3)])
        leased, delayed = await take(frontier, 2)
        await frontier.retry([Retry(delayed, 60_000, "later", counted=False)])
        assert await frontier.drop([("i0", 1), ("i1", 1), ("i2", 1), ("i2", 1), ("i7", 1)]) == 3
        assert await frontier.ack([leased]) == [False]
        assert await frontier.keys() == []
        stats = await frontier.stats()
        assert (stats.ready, stats.delayed, stats.leased) == (0, 0, 0)

    async def test_a_task_of_another_generation_is_not_dropped(self, frontier: Frontier) -> None:
        await frontier.offer([item(1, generation=2)])
        assert await frontier.drop([("i1", 1), ("i1", 3)]) == 0
        assert await frontier.known(["i1"]) == [2]

    async def test_the_reconciler_can_sweep_all_live_tasks_page_by_page(self, frontier: Frontier) -> None:
        await open_free(frontier)
        tasks = [item(ref, generation=ref + 1) for ref in range(25)]
        await frontier.offer([*tasks, Task(TaskKind.PASS, 3, 9, "free")])
        await take(frontier, 5)
        found: list[tuple[str, int, TaskKind]] = []
        while page := await frontier.keys(found[-1][0] if found else "", 10):
            assert len(page) <= 10
            found.extend(page)
        expected = [(task.key, task.generation, TaskKind.ITEM) for task in tasks]
        assert found == [*sorted(expected), ("p3", 9, TaskKind.PASS)]

    async def test_known_tells_the_live_generation_in_the_order_asked(self, frontier: Frontier) -> None:
        await frontier.offer([item(1, generation=4), item(2)])
        assert await frontier.known(["i2", "i9", "i1", "i2"]) == [1, None, 4, 1]

    async def test_a_view_says_where_a_task_is_and_why_it_waits(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.offer([item(1)])
        view = await frontier.view("i1")
        assert view is not None
        assert (view.state, view.at, view.worker, view.task) == (TaskState.READY, None, "", item(1))
        delivery = await take_one(frontier, worker="w7")
        view = await frontier.view("i1")
        assert view is not None
        assert (view.state, view.at, view.worker) == (TaskState.LEASED, delivery.deadline, "w7")
        await frontier.retry([Retry(delivery, 60_000, "timeout: no answer", counted=False)])
        view = await frontier.view("i1")
        assert view is not None
        assert (view.state, view.worker, view.reason) == (TaskState.DELAYED, "", "timeout: no answer")
        assert view.at is not None
        assert harness.now() + 50_000 < view.at <= harness.now() + 60_000
        assert await frontier.view("i2") is None

    async def test_stats_count_each_task_once(self, frontier: Frontier, harness: FrontierHarness) -> None:
        await open_free(frontier, "a", "b")
        await frontier.offer([item(ref, "ab"[ref > 2]) for ref in range(8)])
        deliveries = await take(frontier, 4)
        await frontier.retry([Retry(deliveries[0], 60_000, "later", counted=False)])
        assert await frontier.ack(deliveries[1:2]) == [True]
        assert await frontier.bury(deliveries[2:3]) == [True]
        stats = await frontier.stats()
        assert (stats.ready, stats.delayed, stats.leased) == (4, 1, 1)
        assert (stats.acked, stats.buried) == (1, 1)
        assert sum(lane.ready + lane.delayed + lane.leased for lane in stats.lanes) == 6
        assert stats.oldest_ready_at is not None
        assert stats.last_lease_at is not None
        assert stats.oldest_ready_at <= stats.last_lease_at <= harness.now()

    async def test_a_frontier_of_another_ledger_or_epoch_is_emptied_once(
        self, frontier: Frontier, harness: FrontierHarness
    ) -> None:
        await open_free(frontier)
        await frontier.rebuild("ledger", 1)
        await frontier.offer([item(1), item(2)])
        delivery = await take_one(frontier)
        assert not await (await harness.open()).rebuild("ledger", 1)
        assert await frontier.ack([delivery]) == [True]
        for identity in (("ledger", 2), ("other", 2)):
            await frontier.offer([item(1)])
            assert await frontier.rebuild(*identity)
            assert await frontier.keys() == []
        stats = await frontier.stats()
        assert (stats.ready, stats.delayed, stats.leased) == (0, 0, 0)

    async def test_an_offer_ends_a_wait_though_it_came_before_the_wait(self, frontier: Frontier) -> None:
        await open_free(frontier)
        await frontier.offer([item(0)])
        await frontier.ack(await take(frontier))
        await take(frontier)
        waiting = asyncio.create_task(frontier.wait(60_000))
        await frontier.offer([item(1)])
        started = time.monotonic()
        await waiting
        assert refs(await take(frontier)) == [1]
        await frontier.offer([item(2)])
        await frontier.wait(60_000)
        # A second is the longest that any wait lasts: both ended by the offer, or this took two.
        assert time.monotonic() - started < 0.9

    async def test_nothing_due_is_answered_with_a_wait_of_at_most_a_second(self, frontier: Frontier) -> None:
        leased = await frontier.lease(5, LEASE, worker="w")
        assert (leased.deliveries, leased.wait_ms) == ([], 1_000)
