"""A frontier that lost its content is filled by whoever notices, lanes and holds first; a death in it costs no item."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from fyke.app.sources import restore_lanes
from fyke.errors import TransientError
from fyke.model import Entry, LanePolicy, Task, TaskKind
from fyke.pipeline.reconciler import Reconciler
from fyke.pipeline.refill import MARK, Refill
from fyke.pipeline.watch import FULL_MARK
from tests.crash.site import PlayedSource
from tests.pipeline.conftest import Servers

ITEMS = 5


async def with_items(servers: Servers) -> None:
    """Items that are due, and younger than any grace time."""
    await servers.ledger.migrate()
    await servers.ledger.apply_source(PlayedSource.resolved)
    await servers.frontier.rebuild(*await servers.ledger.identity())
    entries = [
        Entry(n, f"k{n}", {"key": f"k{n}"}, b"h", url=f"http://site.example/{n}", lane="site.example")
        for n in range(ITEMS)
    ]
    written = await servers.ledger.submit(PlayedSource.resolved.id, entries)
    assert await servers.frontier.offer(written.due) == ITEMS


async def wiped(servers: Servers) -> None:
    await servers.frontier._db.write(lambda connection: connection.execute("DELETE FROM task"))
    await servers.frontier._db.write(lambda connection: connection.execute("UPDATE task_meta SET ledger_id = ''"))


async def lost_events(servers: Servers) -> list[str]:
    return [event.message for event in await servers.ledger.events() if event.kind == "lost"]


async def test_what_was_lost_is_offered_at_once_however_young_and_told_once(servers: Servers) -> None:
    await with_items(servers)
    await wiped(servers)
    order: list[str] = []

    async def prepare() -> None:
        order.append(f"lanes, {(await servers.frontier.stats()).ready} ready")

    first, second = (Refill(servers.ledger, servers.frontier, prepare) for _ in range(2))
    assert [await first.look(), await second.look()] == [ITEMS, None]
    assert order == ["lanes, 0 ready"]
    assert (await servers.frontier.stats()).ready == ITEMS
    (event,) = await lost_events(servers)
    assert f"{ITEMS} task(s) were offered" in event
    assert (await Reconciler(servers.ledger, servers.frontier, 60_000, prepare).run_once()).offered == 0
    assert len(await lost_events(servers)) == 1


async def test_a_filling_that_dies_is_finished_by_the_next_reconciler_without_waiting_for_the_grace(
    servers: Servers,
) -> None:
    await with_items(servers)
    await wiped(servers)

    async def dies() -> None:
        raise TransientError("killed here")

    with pytest.raises(TransientError):
        await Refill(servers.ledger, servers.frontier, dies).look()
    assert await servers.ledger.cursor(MARK) == 1
    done = await Reconciler(servers.ledger, servers.frontier, grace_ms=60_000).run_once()
    assert done.offered == ITEMS
    assert await servers.ledger.cursor(MARK) == 0


async def test_a_verb_that_only_looks_marks_an_empty_frontier_and_fills_nothing(servers: Servers) -> None:
    await with_items(servers)
    await wiped(servers)
    assert await Refill(servers.ledger, servers.frontier).mark()
    assert (await servers.frontier.stats()).ready == 0
    assert await lost_events(servers) == []
    assert (await Reconciler(servers.ledger, servers.frontier, grace_ms=60_000).run_once()).offered == ITEMS


async def test_what_a_verb_left_empty_is_filled_within_seconds(servers: Servers) -> None:
    await with_items(servers)
    await wiped(servers)
    await Refill(servers.ledger, servers.frontier).mark()
    reconciler = Reconciler(servers.ledger, servers.frontier, grace_ms=60_000)
    await reconciler.look()
    assert (await servers.frontier.stats()).ready == 0, "who began it may be about to end it"
    servers.clock.advance(4_000)
    await reconciler.look()
    assert (await servers.frontier.stats()).ready == ITEMS
    assert await servers.ledger.cursor(MARK) == 0


class Damaged:
    """A frontier that has gone back some seconds: one task is gone."""

    def __init__(self, inner: Any, *says: str) -> None:
        self._inner, self._says = inner, list(says)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def damaged(self) -> str:
        return self._says.pop(0) if self._says else ""


async def test_a_loss_of_some_seconds_is_made_good_without_waiting_for_the_grace(servers: Servers) -> None:
    await with_items(servers)
    ((key, generation, _), *_) = await servers.frontier.keys()
    await servers.frontier.drop([(key, generation)])
    frontier: Any = Damaged(servers.frontier, "", "it went back")
    reconciler = Reconciler(servers.ledger, frontier, grace_ms=60_000)
    await reconciler.look()
    assert await servers.frontier.known([key]) == [None]
    await reconciler.look()
    assert await servers.frontier.known([key]) == [generation]
    assert await lost_events(servers) == ["it went back; 1 task(s) were offered again"]
    await reconciler.look()
    assert len(await lost_events(servers)) == 1


async def test_one_loss_is_told_once_however_many_processes_make_it_good(servers: Servers) -> None:
    """Some offer a part, some find that all is there again; a later loss is told anew."""
    await with_items(servers)
    for told in (1, 2):
        await servers.frontier.drop([(key, generation) for key, generation, _ in await servers.frontier.keys()])
        frontiers: list[Any] = [Damaged(servers.frontier, f"it went back ({n})") for n in range(4)]
        sweeps = [Reconciler(servers.ledger, frontier, grace_ms=60_000) for frontier in frontiers]
        await asyncio.gather(*(sweep.look() for sweep in sweeps))
        await Reconciler(servers.ledger, frontiers[0], 60_000).look()
        assert (await servers.frontier.stats()).ready == ITEMS
        events = await lost_events(servers)
        assert len(events) == told
        assert not [text for text in events if " 0 task(s)" in text]
        servers.clock.advance(10_001)


async def test_a_sweep_of_minutes_tells_nothing_that_was_told_meanwhile(servers: Servers) -> None:
    await with_items(servers)
    first, second = await servers.frontier.keys(limit=2)
    slow, quick = (Reconciler(servers.ledger, frontier, 60_000) for frontier in both_damaged(servers))
    await slow._notice()
    await servers.frontier.drop([first[:2]])
    await quick.look()
    servers.clock.advance(300_000)
    await servers.frontier.drop([second[:2]])
    await slow.look()
    assert (await servers.frontier.stats()).ready == ITEMS
    assert len(await lost_events(servers)) == 1


def both_damaged(servers: Servers) -> list[Any]:
    return [Damaged(servers.frontier, "it went back") for _ in range(2)]


async def test_a_filling_that_several_finish_is_told_once(servers: Servers) -> None:
    await with_items(servers)
    await wiped(servers)
    assert await Refill(servers.ledger, servers.frontier).mark()
    await asyncio.gather(*(Refill(servers.ledger, servers.frontier).finish() for _ in range(4)))
    assert len(await lost_events(servers)) == 1


async def test_a_wipe_right_after_another_loss_is_told_too(servers: Servers) -> None:
    await with_items(servers)
    ((key, generation, _), *_) = await servers.frontier.keys()
    await servers.frontier.drop([(key, generation)])
    before: Any = Damaged(servers.frontier, "its server was started again")
    await Reconciler(servers.ledger, before, grace_ms=60_000).look()
    await wiped(servers)
    after: Any = Damaged(servers.frontier)
    after.made = before.made + 1
    first, second = (Refill(servers.ledger, after) for _ in range(2))
    assert [await first.look(), await second.fill()] == [ITEMS, 0]
    assert [text.partition(";")[0] for text in await lost_events(servers)] == [
        "its server was started again",
        "the frontier was new or had lost its content",
    ]


class Unreachable(Damaged):
    """A frontier that does not answer as long as it says so; its server goes on all the time, and loses nothing."""

    async def damaged(self) -> str:
        if await super().damaged():
            raise TransientError("no answer")
        return ""


async def test_what_could_not_be_offered_in_an_outage_is_offered_at_its_end_and_not_after_the_grace(
    servers: Servers,
) -> None:
    await with_items(servers)
    ((key, generation, _), *_) = await servers.frontier.keys()
    await servers.frontier.drop([(key, generation)])
    frontier: Any = Unreachable(servers.frontier, "", "away")
    reconciler = Reconciler(servers.ledger, frontier, grace_ms=60_000)
    await reconciler.look()
    with pytest.raises(TransientError):
        await reconciler.look()
    assert await servers.frontier.known([key]) == [None]
    await reconciler.look()
    assert await servers.frontier.known([key]) == [generation]
    assert await lost_events(servers) == []


async def test_what_a_full_frontier_refused_is_offered_when_it_has_room(servers: Servers) -> None:
    await with_items(servers)
    ((key, generation, _), *_) = await servers.frontier.keys()
    await servers.frontier.drop([(key, generation)])
    reconciler = Reconciler(servers.ledger, servers.frontier, grace_ms=60_000)
    await servers.ledger.cursor(FULL_MARK, 1)
    await reconciler.look()
    assert await servers.frontier.known([key]) == [None]
    await servers.ledger.cursor(FULL_MARK, 0)
    await reconciler.look()
    assert await servers.frontier.known([key]) == [generation]
    await servers.frontier.drop([(key, generation)])
    await reconciler.look()
    assert await servers.frontier.known([key]) == [None], "what is young is on its way, as ever"


async def test_a_restart_that_lost_nothing_is_no_event(servers: Servers) -> None:
    await with_items(servers)
    frontier: Any = Damaged(servers.frontier, "its server was started again")
    await Reconciler(servers.ledger, frontier, grace_ms=60_000).look()
    assert await lost_events(servers) == []


async def test_lanes_that_were_lost_are_set_before_a_task_can_be_leased(servers: Servers) -> None:
    """P4: without them a host would be asked at the pace of the defaults, or while it is held."""
    await with_items(servers)
    until = servers.clock.now() + 600_000
    await servers.ledger.hold_lane("site.example", until, "it blocked us")
    await wiped(servers)
    await servers.frontier.hold("site.example", 0, "")
    stores: Any = SimpleNamespace(
        ledger=servers.ledger, frontier=servers.frontier, settings=SimpleNamespace(lanes={}), clock=servers.clock
    )
    assert await Refill(servers.ledger, servers.frontier, lambda: restore_lanes(stores)).look() == ITEMS
    assert await servers.frontier.held("site.example") == 600_000
    task = Task(TaskKind.ITEM, 10_000, 1, "other.example")
    await servers.frontier.configure([LanePolicy("other.example", 0, 0, 1)], tighten=True)
    await servers.frontier.offer([task])
    leased = await servers.frontier.lease(10, 30_000, worker="w")
    assert [one.task.lane for one in leased.deliveries] == ["other.example"]
