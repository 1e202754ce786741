"""A source that fails, or work that takes long, is not taken for more than it is: the others go on, nobody is
restarted, and a long walk that is killed forgets nothing that it had found.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fyke.errors import TransientError
from fyke.model import LanePolicy, Listing, Request, RunState, Task, TaskKind
from fyke.pipeline import walking
from fyke.pipeline.loops import every
from fyke.pipeline.watch import Watch
from fyke.ports import SourceSchedule
from tests.crash.asking import ask, passes
from tests.crash.virtual import VirtualClock, run_virtual
from tests.crash.world import Fault, World, prepare
from tests.pipeline.network import DETAIL, SITE, HostSource, PlayedNetwork, list_page, office

HALF_AN_HOUR_S = 1_800


class Scheduled(HostSource):
    """Every five minutes. `fault`: what its code raises when it is asked for its pages."""

    def __init__(self, name: str, fault: Exception | None = None) -> None:
        super().__init__(SITE, name=name)
        self.schedule, self.fault = SourceSchedule(cron=("*/5 * * * *",), overlap="cancel"), fault

    def list_request(self, listing: Listing, cursor: dict[str, Any] | None) -> Request:
        if self.fault is not None:
            raise self.fault
        return super().list_request(listing, cursor)


def test_a_source_whose_code_raises_stops_the_slots_of_no_other_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Scheduled("a_bad_one", ValueError("a mistake of its author")), Scheduled("good")

    async def scene() -> None:
        clock, stop = VirtualClock(), asyncio.Event()
        network = PlayedNetwork(clock, lambda _: list_page())
        async with office(tmp_path / "ledger.db", clock, network, bad, good) as process:
            await process.apply(bad, good)

            async def look() -> float:
                return await process.scheduler.run_once() / 1000

            turning = asyncio.create_task(every("scheduler", look, 5, clock=clock, random=Random(1), stop=stop))
            await clock.sleep(HALF_AN_HOUR_S)
            stop.set()
            await turning
            runs = await process.ledger.runs(limit=1_000)
            events = [event for event in await process.ledger.events() if event.source_id == bad.resolved.id]
        assert len(runs) == HALF_AN_HOUR_S // 300
        assert {run.source_id for run in runs} == {"good"}
        (event,) = events
        assert "a mistake of its author" in event.message

    with caplog.at_level(logging.ERROR, logger="fyke"):
        run_virtual(scene())
    assert [record.getMessage() for record in caplog.records] == ["source a_bad_one could not be scheduled"]


def test_an_outage_while_a_source_is_scheduled_is_not_laid_on_the_source(tmp_path: Path) -> None:
    away, good = Scheduled("away", TransientError("the ledger is away")), Scheduled("good")

    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, lambda _: list_page())
        async with office(tmp_path / "ledger.db", clock, network, away, good) as process:
            await process.apply(away, good)
            clock.jump(600_000)
            with pytest.raises(TransientError):
                await process.scheduler.run_once()
            assert await process.ledger.events() == []
            away.fault = None
            await process.scheduler.run_once()
            runs = await process.ledger.runs()
        assert {(run.source_id, run.state) for run in runs} == {
            ("away", RunState.RUNNING),
            ("good", RunState.RUNNING),
        }

    run_virtual(scene())


@pytest.mark.parametrize("where", ["in its own lane", "by a permit", "elsewhere, in all slots"])
def test_a_long_walk_is_no_stall_of_what_waits_for_its_place(tmp_path: Path, where: str) -> None:
    """A page every two seconds, renewed and polite, for many minutes: the worker is not restarted."""
    waits = "other.example" if where == "elsewhere, in all slots" else SITE

    async def scene() -> None:
        clock = VirtualClock()
        async with office(tmp_path / "ledger.db", clock, PlayedNetwork(clock, lambda _: DETAIL)) as process:
            frontier = process.frontier
            walked = "old.example" if where == "by a permit" else SITE
            await frontier.configure([LanePolicy(lane, 0, 0, 1) for lane in {SITE, walked, waits}])
            await frontier.offer([Task(TaskKind.PASS, 1, 1, walked)])
            (delivery,) = (await frontier.lease(1, 30_000, worker="w")).deliveries
            await frontier.offer([Task(TaskKind.ITEM, 1, 1, waits)])
            await frontier.begin([delivery])
            watch, found = Watch(process.ledger, frontier, clock), []
            for _ in range(30):
                found.append(await watch.run_once())
                for _ in range(5):
                    assert await frontier.permit(delivery, SITE) == 0
                    await clock.sleep(2)
                assert await frontier.extend([delivery], 30_000) == [True]
            assert not any(found)
            # The walk ends and nobody takes what waits: that is one.
            await frontier.ack([delivery])
            for _ in range(15):
                found.append(await watch.run_once())
                await clock.sleep(10)
            assert found.count(True) == 1

    run_virtual(scene())


@pytest.mark.parametrize(("place", "killed_at"), [(4, 5), (6, 6)], ids=["in its middle", "on its last page"])
def test_a_long_walk_killed_after_a_look_showed_a_new_row_looks_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int, killed_at: int
) -> None:
    """The new row is known once it is written: only the state tells that rows have moved while they were read.

    What makes a walk long is set low, and no page's state is due by time.
    """
    monkeypatch.setattr(walking, "SMALL_TRAIL", 4)
    monkeypatch.setattr(walking, "KEEP_EVERY_S", 3_600.0)

    async def scene() -> None:
        await prepare(tmp_path / "ledger.db")
        world = World(tmp_path / "ledger.db")
        world.site.gone, world.site.busy_once = set(), set()
        world.site.titles = {f"k{n}": f"title {n}" for n in range(8)}

        def slip(page: int) -> None:
            if page == 3 and "late" not in world.site.titles:
                rows = list(world.site.titles.items())
                world.site.titles = dict([*rows[:place], ("late", "late"), *rows[place:]])

        world.site.after_list = slip
        assert await world.live({("ledger.page", killed_at): Fault.DIE_AFTER}) is None
        await world.recover()
        assert passes(world) == ["complete"]
        looks = ask(world, "SELECT look, count(*) FROM page GROUP BY look ORDER BY look")
        assert [look for look, _ in looks] == [0, 1, 2]

    run_virtual(scene())


def test_a_long_walk_does_not_write_its_state_with_each_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names every row that was shown: the cost would grow with the square of the pages."""
    monkeypatch.setattr(walking, "SMALL_TRAIL", 4)
    monkeypatch.setattr(walking, "KEEP_EVERY_S", 3_600.0)
    states = list[bytes]()

    async def scene() -> None:
        await prepare(tmp_path / "ledger.db")
        world = World(tmp_path / "ledger.db")
        world.site.gone, world.site.busy_once = set(), set()
        world.site.titles = {f"k{n}": f"title {n}" for n in range(18)}
        async with world.process() as process:
            page = process.ledger.page

            async def noted(pass_id: int, fence: int, commit: Any) -> Any:
                states.append(commit.checkpoint)
                return await page(pass_id, fence, commit)

            monkeypatch.setattr(process.ledger, "page", noted, raising=False)
            await world.run(process)

    run_virtual(scene())
    assert [bool(state) for state in states] == [True] + [False] * 11
