"""Scenes that end with a list of the promises they found broken; each is played with its guard, and without.

`test_windows_*` plays them as they are, `test_guards_matter` with one guard taken away.
"""

from __future__ import annotations

import asyncio
import sqlite3
from random import Random

from fyke.model import DeadFilter
from fyke.pipeline.loops import every
from fyke.pipeline.reaper import Reaper
from tests.crash.asking import ask, details, item_task, live_tasks, passes, rows, states
from tests.crash.places import FilePlace, Place
from tests.crash.scenario import broken_balance, broken_promises
from tests.crash.site import detail
from tests.crash.world import Fault, Process, World

QUIET = {"a": 1, "b": 2, "c": 3, "d": 1, "e": 1}
"""What a life without faults asks for: c is gone and has three attempts, b is busy once."""


def differing(what: str, found: object, wanted: object) -> list[str]:
    return [] if found == wanted else [f"{what}: {found}, wanted {wanted}"]


async def quiet_life(place: Place) -> list[str]:
    world = World(place)
    await world.live()
    return await broken_balance(world) + differing("fetches", details(world), QUIET)


async def offered_again_after_its_end(place: Place) -> list[str]:
    world = World(place)
    await world.live()
    async with world.process() as process:
        # No reconciler is beside this worker, which would take such tasks away.
        await process.frontier.offer([item_task(world, key) for key in ("a", "b", "c")])
        working = asyncio.create_task(process.worker.run())
        await world.clock.sleep(10)
        process.worker.stop()
        await working
    return await broken_balance(world) + differing("fetches", details(world), QUIET)


async def page_that_kills_each_worker(place: Place) -> list[str]:
    world = World(place)
    world.site.deadly, world.site.busy_once = {detail("b")}, set()
    deaths = 0
    while await world.live() is None and deaths < 5:
        world.clock.jump(world.lease * 3)
        deaths += 1
    wanted = {"a": "stored", "b": "dead", "c": "dead", "d": "stored", "e": "stored"}
    letters = ask(world, "SELECT attempts, outcome FROM dead WHERE key = 'b'")
    found = differing("deaths", deaths, 3) + differing("states", states(world), wanted)
    return found + differing("letters", letters, [(3, "worker_died")])


async def offers_that_failed(place: Place) -> list[str]:
    world = World(place)
    world.wait = 120_000
    await world.live({("frontier.offer", n): Fault.NO_EFFECT for n in (1, 2, 3)})
    return await broken_balance(world) + differing("fetches", details(world), QUIET)


async def death_beside_a_commit(place: Place) -> list[str]:
    """What is due and has no live task after a death; the reconciler would find it, but much later."""
    world = World(place)
    await world.live({("ledger.commit", 1): Fault.DIE_BEFORE})
    due = {key for (key,) in ask(world, "SELECT key FROM item WHERE pending = 1")}
    return differing("due and in nobody's hands", due - set(await live_tasks(world)), set())


async def lost_reply_of_a_commit(place: Place, n: int) -> list[str]:
    world = World(place)
    await world.live({("ledger.commit", n): Fault.LOST_REPLY})
    visits = dict(ask(world, "SELECT i.key, count(*) FROM visit v JOIN item i ON i.id = v.item_id GROUP BY 1"))
    return differing("visits", visits, QUIET)


async def older_generation_after_a_stored_one(place: Place) -> list[str]:
    return await _older_generation(place, newer_is_stored=True)


async def older_generation_before_a_due_one(place: Place) -> list[str]:
    return await _older_generation(place, newer_is_stored=False)


async def _older_generation(place: Place, *, newer_is_stored: bool) -> list[str]:
    """A worker is stopped before it commits d; meanwhile d is edited, listed again and visited, or about to be."""
    world = World(place)
    world.site.gone, world.site.busy_once = set(), set()

    async def meanwhile() -> None:
        world.clock.jump(world.lease * 2)
        await world.live()
        world.site.edit()
        await world.live(None if newer_is_stored else {("frontier.begin", 2): Fault.DIE_BEFORE})

    world.meanwhile = meanwhile
    # The first commit holds e and d, which were listed first.
    await world.live({("ledger.commit", 1): Fault.STOP_BEFORE})
    await world.recover()
    return await broken_promises(world) + differing("d", rows(world)["d"], world.site.titles["d"])


async def older_end_after_a_replay(place: Place) -> list[str]:
    """A worker is stopped before it commits that c is gone for good; meanwhile another one does, and c is replayed."""
    world = World(place)
    world.site.gone, world.site.busy_once, world.site.removed = set(), set(), {"c"}

    async def meanwhile() -> None:
        world.clock.jump(world.lease * 2)
        await world.live()
        world.site.removed.clear()
        async with world.process() as desk:
            _, tasks = await desk.ledger.replay(DeadFilter())
            await desk.frontier.offer(tasks)

    world.meanwhile = meanwhile
    # The first commit holds the first page's items.
    await world.live({("ledger.commit", 1): Fault.STOP_BEFORE})
    return await broken_balance(world) + differing("c", states(world)["c"], "stored")


async def older_reading_of_one_generation(place: Place) -> list[str]:
    """A worker is stopped before it commits e and d; meanwhile their pages change, and another one stores them."""
    world = World(place)
    world.site.gone, world.site.busy_once = set(), set()

    async def meanwhile() -> None:
        world.clock.jump(world.lease * 2)
        world.site.later = ", corrected"
        await world.live()

    world.meanwhile = meanwhile
    await world.live({("ledger.commit", 1): Fault.STOP_BEFORE})
    bodies = dict(ask(world, "SELECT _key, body FROM notices WHERE _key IN ('d', 'e')"))
    return differing("bodies", bodies, {key: f"detail of {key}, corrected" for key in ("e", "d")})


async def resumed_after_a_shift(place: Place) -> list[str]:
    """Killed after page three; then two pages' rows are withdrawn, and what came after page three lies on page two.

    The walk must begin again at page one at once. (The second look would find those rows, too, a round later.)
    """
    world = World(place)
    world.site.gone, world.site.busy_once = set(), set()
    world.site.titles = {key: key for key in ("a1", "a2", "a3")}
    await world.live()
    new = [f"n{number:02}" for number in range(1, 13)]
    world.site.titles = {key: key for key in ("a1", *new, "a2", "a3")}
    await world.live({("ledger.page", 4): Fault.DIE_BEFORE})
    ((killed,),) = ask(world, "SELECT max(seq) FROM page WHERE pass_id = 2")
    world.site.withdraw(*new[:6])
    await world.recover()
    resumed = ask(world, "SELECT number, look FROM page WHERE pass_id = 2 AND seq > ? ORDER BY seq LIMIT 2", killed)
    missed = set(world.site.titles) - set(states(world))
    found = differing("pages", resumed, [(1, 0), (2, 0)]) + differing("last pass", passes(world)[-1], "complete")
    return found + differing("missed", missed, set())


def lock(world: World, seconds: float) -> None:
    """Another program holds the file from now on, for so long."""
    assert isinstance(world.place, FilePlace)
    other = sqlite3.connect(world.place.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    asyncio.get_running_loop().call_later(seconds, other.close)


async def file_locked(place: Place, seconds: float) -> list[str]:
    """A living worker holds slow tasks; another process reaps, before and after the file was locked."""
    world = World(place)
    world.site.gone, world.site.busy_once = set(), set()
    world.site.seconds = {detail(key): 60.0 for key in world.site.titles}
    async with world.process() as holder, world.process() as other:
        running = asyncio.create_task(world.run(holder))
        while sum(details(world).values()) < world.slots:
            await world.clock.sleep(0.1)
        reaping = asyncio.create_task(reap_for(world, other, 100))
        await world.clock.sleep(1)
        lock(world, seconds)
        found = differing("reaped", await reaping, 0)
        await running
    return await broken_balance(world) + found + differing("fetches", set(details(world).values()), {1})


async def reap_for(world: World, process: Process, seconds: float) -> int:
    """How many leases a reaper puts back in that time."""
    total, stop = 0, asyncio.Event()
    reaper = Reaper(process.ledger, process.frontier)

    async def once() -> None:
        nonlocal total
        total += await reaper.run_once()

    task = asyncio.create_task(every("reaper", once, 3, clock=world.clock, random=Random(1), stop=stop))
    await world.clock.sleep(seconds)
    stop.set()
    await task
    return total


def away_for(world: World, process: Process, seconds: float) -> None:
    """From now on all servers are away, for so long."""
    process.calls.away = True

    def come_back() -> None:
        process.calls.away = False

    asyncio.get_running_loop().call_later(seconds, come_back)


async def servers_away(place: Place) -> list[str]:
    """A holder and a reaper are two processes; the servers are away for longer than a lease."""
    world = World(place)
    world.site.gone, world.site.busy_once = set(), set()
    world.site.seconds = {detail(key): 60.0 for key in world.site.titles}
    async with world.process() as holder:
        running = asyncio.create_task(world.run(holder))
        while sum(details(world).values()) < world.slots:
            await world.clock.sleep(0.1)
        async with world.process() as other:
            looking = asyncio.create_task(reap_for(world, other, 120))
            for process in (holder, other):
                away_for(world, process, 30)
            reaped = await looking
        await running
    found = differing("reaped", reaped, 0) + differing("fetches", set(details(world).values()), {1})
    return found + await broken_balance(world)
