"""Windows of schedules, outages and clocks (CRASH-WINDOWS 22, 26, 27, 37, 44)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random

import pytest

from fyke.pipeline.loops import every
from fyke.pipeline.reconciler import Reconciler
from fyke.ports import SourceSchedule
from tests.crash import scenes
from tests.crash.asking import ask, details, live_tasks, passes, states
from tests.crash.places import Place
from tests.crash.scenario import broken_balance, broken_promises
from tests.crash.site import PlayedSource
from tests.crash.world import Fault, Process, World, until_death

MINUTE, HOUR = 60_000, 3_600_000
EACH_MINUTE = SourceSchedule(cron=("* * * * *",), limit=1)
EACH_HOUR = SourceSchedule(cron=("0 * * * *",))
RETURN_S = 10


def slots(world: World) -> list[int]:
    return [slot for (slot,) in ask(world, "SELECT slot FROM run ORDER BY id")]


async def look(process: Process) -> int:
    return await process.scheduler.run_once()


def test_a_run_whose_scheduler_died_before_it_offered_is_listed_by_the_reconciler(place: Place) -> None:
    """Row 26."""

    async def scene() -> None:
        world = World(place, PlayedSource(schedule=EACH_HOUR))
        world.clock.jump(HOUR)
        async with world.process({("frontier.offer", 1): Fault.DIE_BEFORE}) as process:
            await until_death(process.calls, look(process))
        assert ask(world, "SELECT state FROM run") == [("running",)]
        assert await live_tasks(world) == {}
        world.clock.jump(MINUTE)
        async with world.process() as other:
            await look(other)
            found = await Reconciler(other.ledger, other.frontier, grace_ms=1_000).run_once()
            assert found.offered == 1
        await world.live()
        assert passes(world) == ["complete"]
        assert len(slots(world)) == 1

    place.run(scene())


@pytest.mark.parametrize("point", ["ledger.last_cron_slot", "ledger.open_run", "frontier.offer"])
@pytest.mark.parametrize("fault", [Fault.STOP_BEFORE, Fault.STOP_AFTER, Fault.TWICE, Fault.LOST_REPLY])
def test_a_scheduler_paused_past_its_turn_takes_no_slot_twice(point: str, fault: Fault, place: Place) -> None:
    """Row 27."""

    async def scene() -> None:
        world = World(place, PlayedSource(schedule=EACH_HOUR))
        world.clock.jump(HOUR)

        async def meanwhile() -> None:
            async with world.process() as other:
                await look(other)

        world.meanwhile = meanwhile
        async with world.process({(point, 1): fault}) as process:
            await until_death(process.calls, look(process))
            await look(process)
        assert len(slots(world)) == 1
        assert ask(world, "SELECT count(*) FROM pass") == [(1,)]

    place.run(scene())


def test_four_schedulers_take_each_slot_once_though_one_is_paused_and_one_dies(place: Place) -> None:
    """Row 27, and SCENARIOS 3."""

    async def scene() -> None:
        world = World(place, PlayedSource(schedule=EACH_MINUTE))
        began = world.clock.now()

        async def pause() -> None:
            await world.clock.sleep(150)

        world.meanwhile = pause
        plans = [{("ledger.open_run", 3): Fault.STOP_BEFORE}, {("ledger.open_run", 4): Fault.DIE_AFTER}, {}, {}]
        async with AsyncExitStack() as stack:
            processes = [await stack.enter_async_context(world.process(plan)) for plan in plans]
            stop = asyncio.Event()

            async def turn(process: Process) -> float:
                return await look(process) / 1000

            loops = [
                asyncio.create_task(
                    every("s", lambda p=p: turn(p), 5, clock=world.clock, random=Random(1), stop=stop)  # type: ignore[misc]
                )
                for p in processes
            ]
            await world.clock.sleep(30 * 60)
            stop.set()
            await asyncio.gather(*loops, return_exceptions=True)
        assert len(world.hit) == 2
        first = began // MINUTE * MINUTE + MINUTE
        assert slots(world) == [first + n * MINUTE for n in range(30)]
        late = ask(world, "SELECT max(started_at - slot) FROM run")
        assert late[0][0] < 1_000

    place.run(scene())


def test_a_clock_that_was_an_hour_fast_takes_no_slot_twice_and_leaves_no_long_lease(place: Place) -> None:
    """Row 44. On one machine the scheduler's clock is the ledger's."""

    async def scene() -> None:
        world = World(place, PlayedSource(schedule=EACH_HOUR))
        async with world.process() as process:
            world.clock.step(HOUR)
            await look(process)
            early = slots(world)
            assert len(early) == 1
            (delivery,) = (await process.frontier.lease(5, world.lease, worker="fast")).deliveries
            world.clock.step(-HOUR)
            for _ in range(3 * 12):
                await look(process)
                world.clock.jump(5 * MINUTE)
            assert slots(world) == [early[0] + n * HOUR for n in range(3)]
            # What the fast clock gave out ends after its own length.
            await process.frontier.extend([delivery], world.lease)
            tasks = await live_tasks(world)
        assert [one for one in tasks.values() if (one.at or 0) > world.clock.now() + 2 * world.lease] == []
        await world.recover()
        assert await broken_balance(world) == []

    place.run(scene())


@pytest.mark.parametrize("minutes", [59, -59])
@pytest.mark.parametrize("point", [("ledger.page", 2), ("ledger.commit", 1), ("frontier.retry", 2)])
def test_a_clock_that_is_set_while_working_breaks_no_promise(
    point: tuple[str, int], minutes: int, place: Place
) -> None:
    """Row 44: forward and back, and later corrected."""

    async def scene() -> None:
        world = World(place)
        began = world.clock.monotonic()
        async with world.process() as process:
            process.calls.then[point] = lambda: world.clock.step(minutes * MINUTE)
            await until_death(process.calls, world.run(process))
            assert point not in process.calls.then
        assert world.clock.monotonic() - began < 300
        world.clock.step(-minutes * MINUTE)
        await world.recover()
        world.site.edit()
        await world.recover()
        await world.recover()
        # Of two readings the clock cannot tell which was later until it has passed the moment of the first.
        world.clock.jump(HOUR)
        await world.recover()
        assert await broken_promises(world) == []

    place.run(scene())


@pytest.mark.parametrize(
    "point", [("ledger.commit", 1), ("frontier.lease", 3), ("ledger.page", 2), ("ledger.end_pass", 1)]
)
def test_workers_park_while_the_database_is_away_and_go_on_within_seconds_of_its_return(
    point: tuple[str, int], place: Place
) -> None:
    """Rows 22 and 37: the outage is longer than a lease; nobody loses one, no page is fetched again, none dies."""

    async def scene() -> None:
        world = World(place)
        world.site.gone = set()
        outage = world.lease / 1000 * 4
        back_at, done_at = 0.0, list[float]()

        def begin() -> None:
            nonlocal back_at
            scenes.away_for(world, process, outage)
            back_at = world.clock.monotonic() + outage

        async with world.process() as process:
            process.calls.then[point] = begin
            running = asyncio.create_task(world.run(process))
            while not back_at:
                await world.clock.sleep(0.05)
            while world.clock.monotonic() < back_at:
                await world.clock.sleep(0.05)
            before = process.calls.counts["frontier.lease"] + process.calls.counts["ledger.commit"]
            while not done_at:
                await world.clock.sleep(0.05)
                if process.calls.counts["frontier.lease"] + process.calls.counts["ledger.commit"] > before:
                    done_at.append(world.clock.monotonic())
            assert done_at[0] - back_at <= RETURN_S
            await running
        assert await broken_balance(world) == []
        assert set(states(world).values()) == {"stored"}
        assert details(world) == {"a": 1, "b": 2, "c": 1, "d": 1, "e": 1}
        assert ask(world, "SELECT count(*) FROM visit WHERE costs = 1") == [(0,)]
        assert passes(world) == ["complete"]

    place.run(scene())


def test_nobody_reaps_what_living_holders_could_not_renew(place: Place) -> None:
    """Row 37: holder and reaper are two processes, and the reaper may look first when the database is back."""
    assert place.run(scenes.servers_away(place)) == []
