"""Windows in an item's life that a fault at one call cannot show alone (CRASH-WINDOWS 5, 7-9, 14-16, 25, 30, 39)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fyke.model import Fields, Listing, ListPage, Response, TaskState
from fyke.pipeline.reconciler import Reconciler
from tests.crash import scenes
from tests.crash.asking import ask, details, live_tasks, passes, states
from tests.crash.places import Place
from tests.crash.scenario import broken_balance, broken_promises, play
from tests.crash.site import HOST, PlayedSource, detail
from tests.crash.world import Fault, World, until_death


def test_an_item_offered_again_after_its_end_is_acknowledged_without_a_fetch(place: Place) -> None:
    """Row 5; and rows 11 and 16, where the worker that closed the item died before the frontier heard of it."""
    assert place.run(scenes.offered_again_after_its_end(place)) == []


@pytest.mark.parametrize("fault", [Fault.DIE_AFTER, Fault.LOST_REPLY])
def test_a_task_whose_lease_reached_nobody_is_taken_over_and_no_start_is_counted(fault: Fault, place: Place) -> None:
    """Row 7: the worker of the second case lives on, so the reaper must go by task and not by worker."""

    async def scene() -> None:
        world = World(place)
        # The first lease is the list's; with all slots free the next one takes its items.
        await world.live({("frontier.lease", 2): fault})
        if fault is Fault.DIE_AFTER:
            tasks = await live_tasks(world)
            assert sum(one.state is TaskState.LEASED and one.starts > 0 for one in tasks.values()) <= 1
            await world.recover()
        assert await broken_balance(world) == []
        assert ask(world, "SELECT attempts FROM dead WHERE key = 'c'") == [(3,)]
        assert details(world) == scenes.QUIET

    place.run(scene())


def test_a_death_while_fetching_counts_one_start_of_that_task_alone(place: Place) -> None:
    """Row 8."""

    async def scene() -> None:
        world = World(place)
        world.site.deadly, world.site.busy_once = {detail("c")}, set()
        await world.live()
        assert (await live_tasks(world))["c"].starts == 1
        world.site.deadly.clear()
        await world.recover()
        assert await broken_balance(world) == []
        # Two more attempts until it is dead: the death was the first of three.
        assert details(world)["c"] == 3
        assert ask(world, "SELECT attempts, outcome FROM dead WHERE key = 'c'") == [(3, "not_found")]

    place.run(scene())


def test_a_page_that_kills_each_worker_is_dead_after_its_attempts_and_the_rest_is_stored(place: Place) -> None:
    """Row 8, and SCENARIOS 21."""
    assert place.run(scenes.page_that_kills_each_worker(place)) == []


def test_a_list_that_kills_each_worker_ends_its_walk_as_failed(place: Place) -> None:
    async def scene() -> None:
        world = World(place)
        world.site.deadly, world.site.busy_once = {f"{HOST}/list/2"}, set()
        deaths = 0
        while await world.live() is None:
            world.clock.jump(world.lease * 3)
            deaths += 1
            assert deaths <= 3
        assert passes(world) == ["failed"]
        world.site.deadly.clear()
        await world.recover()
        assert passes(world) == ["failed", "complete"]
        assert set(states(world)) == set(world.site.titles)

    place.run(scene())


@pytest.mark.parametrize("point", [("fetcher.fetch", 4), ("ledger.commit", 1), ("ledger.commit", 2)])
def test_a_worker_paused_past_its_lease_costs_no_more_than_what_it_had_in_hand(
    point: tuple[str, int], place: Place
) -> None:
    """Row 9."""

    async def scene() -> None:
        world = await play(place, {point: Fault.STOP_BEFORE})
        assert await broken_promises(world) == []
        wanted = scenes.QUIET | {"d": 2, "c": 6, "f": 1}
        extra = {key: count - wanted[key] for key, count in details(world).items() if count != wanted[key]}
        assert sum(extra.values()) <= world.slots

    place.run(scene())


def test_an_older_generation_changes_nothing_after_a_newer_one_was_stored(place: Place) -> None:
    """Row 30."""
    assert place.run(scenes.older_generation_after_a_stored_one(place)) == []


def test_an_older_generation_does_not_close_an_item_that_is_due_at_a_newer_one(place: Place) -> None:
    """Row 30: the newer visit has not ended yet."""
    assert place.run(scenes.older_generation_before_a_due_one(place)) == []


def test_an_older_end_does_not_bury_an_item_that_was_replayed(place: Place) -> None:
    """Row 30."""
    assert place.run(scenes.older_end_after_a_replay(place)) == []


def test_the_first_result_of_a_generation_wins_and_an_older_reading_changes_nothing(place: Place) -> None:
    """Row 9: the worker that was paused has read the page before the other one did."""
    assert place.run(scenes.older_reading_of_one_generation(place)) == []


def test_an_item_is_visited_again_from_its_first_hop(place: Place) -> None:
    """Row 39."""

    async def scene() -> None:
        world = World(place, PlayedSource(hops=("front", "detail")))
        world.site.gone, world.site.busy_once = set(), set()
        world.site.deadly = {detail("d")}
        await world.live()
        world.site.deadly.clear()
        assert world.fetches[f"{HOST}/front/d"] == 1
        await world.recover()
        assert world.fetches[f"{HOST}/front/d"] == 2
        assert world.fetches[detail("d")] == 2
        assert await broken_promises(world) == []

    place.run(scene())


def test_delayed_tasks_are_ready_again_whoever_died_while_it_made_them_so(place: Place) -> None:
    """Row 15: promotion is a part of the lease's transaction."""

    async def scene() -> None:
        world = World(place)
        async with world.process() as process:
            await until_death(process.calls, _die_at_promotion(world, process))
        await world.recover()
        assert await broken_balance(world) == []
        assert ask(world, "SELECT attempts FROM dead WHERE key = 'c'") == [(3,)]

    async def _die_at_promotion(world: World, process: Any) -> Any:
        def mark_once_delayed() -> None:
            counts = process.calls.counts
            process.calls.plan["frontier.lease", counts["frontier.lease"] + 1] = Fault.DIE_AFTER

        process.calls.then["frontier.retry", 2] = mark_once_delayed
        return await world.run(process)

    place.run(scene())


def test_the_reconciler_beside_a_slow_offer_makes_no_second_task(place: Place) -> None:
    """Row 25."""

    async def scene() -> None:
        world = World(place)
        # The second offer is that of the first page's items: it waits while another process reconciles.
        waited: list[int] = []

        async def meanwhile() -> None:
            world.clock.jump(5_000)
            async with world.process() as other:
                found = await Reconciler(other.ledger, other.frontier, grace_ms=1_000).run_once()
                waited.append(found.offered)

        world.meanwhile = meanwhile
        await world.live({("frontier.offer", 2): Fault.STOP_BEFORE})
        assert waited == [3]
        assert await broken_balance(world) == []
        assert details(world) == scenes.QUIET

    place.run(scene())


@pytest.mark.parametrize("fault", [Fault.NO_EFFECT, Fault.LOST_REPLY, Fault.TWICE])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_page_is_fetched_again_for_a_failed_write(n: int, fault: Fault, place: Place) -> None:
    """Row 22 (and 10): only the write is repeated."""

    async def scene() -> None:
        world = World(place)
        await world.live({("ledger.commit", n): fault})
        assert world.hit
        assert details(world) == scenes.QUIET
        assert await broken_balance(world) == []

    place.run(scene())


def test_an_offer_that_failed_is_made_good_by_the_reconciler_of_the_same_process(place: Place) -> None:
    """Row 3."""
    assert place.run(scenes.offers_that_failed(place)) == []


def test_without_faults_each_page_is_fetched_once(place: Place) -> None:
    assert place.run(scenes.quiet_life(place)) == []


def test_a_task_is_in_the_frontier_until_its_item_is_closed(place: Place) -> None:
    """Rows 10 and 11: commit, and only then acknowledge."""
    assert place.run(scenes.death_beside_a_commit(place)) == []


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_a_visit_is_told_once_though_its_reply_was_lost(n: int, place: Place) -> None:
    """Row 10, for visits that failed."""
    assert place.run(scenes.lost_reply_of_a_commit(place, n)) == []


class Clumsy(PlayedSource):
    """A source whose Python fails in a way that nobody foresaw."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 1

    def read_page(self, listing: Listing, response: Response, cursor: dict[str, Any] | None) -> ListPage:
        if self.left:
            self.left -= 1
            raise ZeroDivisionError("in a step")
        return super().read_page(listing, response, cursor)

    def record(self, entry: Fields, detail: Fields) -> tuple[Fields, bytes, dict[str, bool]]:
        return super().record(entry, detail)


def test_a_task_that_could_not_be_given_back_after_an_error_is_not_held_for_ever(place: Place) -> None:
    """Row 7: a lease is renewed only while somebody works on its task."""

    async def scene() -> None:
        world = World(place, Clumsy())
        began = world.clock.monotonic()
        await world.live({("frontier.retry", 1): Fault.NO_EFFECT})
        assert world.hit
        assert world.clock.monotonic() - began < 120
        assert await broken_balance(world) == []

    place.run(scene())


def test_a_worker_told_to_stop_gives_back_what_it_cannot_finish(place: Place) -> None:
    """Row 29: at once visible to others, and no attempt is spent."""

    async def scene() -> None:
        world = World(place)
        world.slots, world.site.busy_once = 4, set()
        world.site.withdraw("a")
        world.site.seconds = {detail(key): 50.0 for key in world.site.titles}
        async with world.process() as process:
            running = asyncio.create_task(world.run(process))
            # Until the last of the four requests went out.
            while sum(details(world).values()) < 4:
                await world.clock.sleep(0.1)
            began = world.clock.monotonic()
            process.worker.stop()
            await running
            assert world.clock.monotonic() - began <= 4
        left = (await live_tasks(world)).values()
        assert [(one.state, one.starts, one.worker) for one in left] == [(TaskState.READY, 0, "")] * 4
        async with world.process() as other:
            taken = await other.frontier.lease(5, 1_000, worker="other")
            assert len(taken.deliveries) == 4
        world.site.seconds = {}
        await world.recover()
        assert await broken_balance(world) == []
        assert ask(world, "SELECT attempts FROM dead WHERE key = 'c'") == [(3,)]

    place.run(scene())
