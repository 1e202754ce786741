"""Holes and older entries by date window, with a real ledger and frontier: a hole is closed only when its windows were
read whole and meet what is covered, and nothing else of a list's coverage moves (P1, P2, P5).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from fyke.app.filling import filling_source, plan_fill
from fyke.errors import UsageError
from fyke.model import GapRow, OpenedRun, Request
from fyke.pipeline.filling import open_windows
from fyke.pipeline.once import OnceReport, run_once
from tests.crash.virtual import BEGAN_MS, run_virtual
from tests.pipeline.network import office
from tests.pipeline.test_list_walks import HEAD, World, query
from tests.unit.sources.making import made

ZONE = ZoneInfo("Asia/Shanghai")
HOUR, DAY = 3_600_000, 86_400_000
NOW = BEGAN_MS
SOURCE = """
listing:
  request: {url: "http://site.example/list", query: {page: "{page}"}}
  pages: {number: {first: 1}, max: 2}
  rows: {json: rows}
  fields: {id: {json: id}, published: {json: at, then: [{datetime: auto}]}, title: {json: title}}
  connect: {known: 2}
  start: 2d
  fill:
    window: 1d
    request:
      url: "http://site.example/search"
      query: {since: "{from:%Y-%m-%d %H:%M}", until: "{to:%Y-%m-%d %H:%M}", page: "{page}"}
    pages: {number: {first: 1}, max: 3, total: {json: total}}
"""
OWN_FIELDS = """
    fields: {id: {json: id}, published: {json: at, then: [{datetime: auto}]}}
"""


def text_of(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, ZONE).strftime("%Y-%m-%d %H:%M")


def moment_of(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=ZONE).timestamp() * 1000)


class Archive:
    """A site whose list shows its newest entries only, and whose search shows all, by minute."""

    def __init__(self, hours: int) -> None:
        self.times = {f"k{n}": NOW - n * HOUR for n in range(1, hours + 1)}
        self.per_page, self.searched, self.cap = 3, Counter[str](), 100
        self.missing: set[str] = set()
        self.broken: set[str] = set()

    def publish(self, *names: str, at: int) -> None:
        self.times |= {name: at - n * 60_000 for n, name in enumerate(names)}

    def respond(self, request: Request) -> tuple[int, str]:
        asked, page = query(request), int(query(request)["page"])
        keys = sorted(self.times, key=lambda key: -self.times[key])
        if "since" in asked:
            self.searched[f"{asked['since']}..{asked['until']}"] += 1
            if asked["since"] in self.broken:
                return 404, ""
            since, until = moment_of(asked["since"]), moment_of(asked["until"]) + 60_000
            keys = [key for key in keys if since <= self.times[key] < until and key not in self.missing]
        shown = keys[(page - 1) * self.per_page : page * self.per_page] if page <= self.cap else []
        rows = [{"id": key, "at": text_of(self.times[key]), "title": f"of {key}"} for key in shown]
        return 200, json.dumps({"rows": rows, "total": len(keys)})


class Filled(World):
    def __init__(self, path: Path, archive: Archive, text: str = SOURCE) -> None:
        super().__init__(path, made(text, head=HEAD), archive.respond)
        self.archive = archive

    async def fill(self, since: int, until: int) -> OnceReport:
        """`fyke fill --from --to`."""
        source = cast(Any, self.source)
        async with office(self.path, self.clock, self.network, source, number=len(self.runs) + 7) as one:
            await one.apply(source)
            plan = await plan_fill(cast(Any, one), await filling_source(cast(Any, one), "lists"), (since, until))

            async def opening() -> list[OpenedRun]:
                return [await open_windows(one.ledger, one.scheduler.offer, "lists", source, plan.listings)]

            report = await run_once(one.parts, ["lists"], asyncio.Event(), opening=opening)
            self.runs = await one.ledger.runs("lists")
            return report

    async def gaps(self) -> list[GapRow]:
        async with office(self.path, self.clock, self.network, cast(Any, self.source)) as one:
            return await one.ledger.gaps(closed=True)

    async def coverage(self) -> list[tuple[Any, ...]]:
        return await self.ask(
            "SELECT s.id, s.newest_key, s.oldest_key FROM stretch s JOIN listing l ON l.id = s.listing_id ORDER BY s.id"
        )


async def with_a_hole(path: Path) -> Filled:
    """The list shows six hours of two days that the first walk was to read, and the rest came by date."""
    world = Filled(path, Archive(72))
    await world.collect()
    assert {run.trigger: run.state.value for run in world.runs} == {"hand": "gap", "fill": "complete"}
    return world


def test_a_hole_is_filled_by_the_run_that_found_it_and_closed(tmp_path: Path) -> None:
    async def scene() -> None:
        world = Filled(tmp_path / "f.db", Archive(72))
        report = await world.collect()
        assert {run.trigger: run.state.value for run in report.runs} == {"hand": "gap", "fill": "complete"}
        assert report.problems == []
        (gap,) = await world.gaps()
        assert gap.closed_reason.startswith("filled by")
        assert {f"k{n}" for n in range(1, 49)} <= set(await world.keys())

    run_virtual(scene())


def test_windows_say_nothing_of_what_the_list_itself_has_shown(tmp_path: Path) -> None:
    async def scene() -> None:
        world = await with_a_hole(tmp_path / "f.db")
        before = await world.coverage()
        assert [row[1] for row in before] == ["k1"]
        await world.fill(NOW - 10 * DAY, NOW - 2 * DAY)
        assert await world.coverage() == before
        covered = "SELECT count(*) FROM sighting g JOIN listing l ON l.id = g.listing_id WHERE l.name {} 'main' AND {}"
        assert await world.ask(covered.format("<>", "stretch_id IS NOT NULL")) == [(0,)]
        assert len(await world.keys()) == 72
        # What is on the list is new to nobody, and one that comes meets the same anchors as before.
        world.archive.publish("new", at=NOW)
        report = await world.collect()
        assert [run.state.value for run in report.runs] == ["complete"]

    run_virtual(scene())


def test_a_window_that_is_too_long_is_read_as_halves_each_to_its_end(tmp_path: Path) -> None:
    async def scene() -> None:
        world = await with_a_hole(tmp_path / "f.db")
        notes = await world.ask("SELECT p.note FROM pass p JOIN run r ON r.id = p.run_id WHERE r.started_by = 'fill'")
        halved = [note for (note,) in notes if note.startswith("read as two halves: the site says 24 rows")]
        assert halved
        asked = {window: n for window, n in world.archive.searched.items() if window.startswith("2026-09-20")}
        # By its first page alone it is known to be too long: no more of it is read.
        assert asked["2026-09-20 00:00..2026-09-20 23:59"] == 1
        assert {"2026-09-20 00:00..2026-09-20 11:59", "2026-09-20 12:00..2026-09-20 23:59"} <= asked.keys()

    run_virtual(scene())


def test_a_site_that_shows_no_more_than_so_many_pages_is_asked_by_shorter_windows(tmp_path: Path) -> None:
    async def scene() -> None:
        archive = Archive(72)
        archive.cap = 2
        world = Filled(tmp_path / "f.db", archive, SOURCE.replace("max: 3", "max: 50"))
        await world.collect()
        assert {f"k{n}" for n in range(1, 49)} <= set(await world.keys())

    run_virtual(scene())


def test_what_is_too_long_and_cannot_be_cut_is_a_gap(tmp_path: Path) -> None:
    days = SOURCE.replace("{from:%Y-%m-%d %H:%M}", "{from:%Y-%m-%d} 00:00").replace(
        "{to:%Y-%m-%d %H:%M}", "{to:%Y-%m-%d} 23:59"
    )

    async def scene() -> None:
        world = Filled(tmp_path / "f.db", Archive(72), days)
        report = await world.collect()
        assert {run.trigger: run.state.value for run in report.runs} == {"hand": "gap", "fill": "gap"}
        assert [gap.closed_at for gap in await world.gaps()] == [None]
        assert any("pages.max is 3" in problem or "pages (pages.max)" in problem for problem in report.problems)

    run_virtual(scene())


def test_a_hole_stays_open_until_the_window_that_failed_was_read_and_only_that_is_asked_again(tmp_path: Path) -> None:
    async def scene() -> None:
        archive = Archive(72)
        archive.broken = {"2026-09-20 12:00"}
        world = Filled(tmp_path / "f.db", archive)
        world.network.respond = archive.respond
        report = await world.collect()
        assert any("fill" in run.trigger for run in report.runs)
        assert [gap.closed_at for gap in await world.gaps()] == [None]
        archive.broken, found = set(), Counter(archive.searched)
        world.clock.jump(DAY)
        for _ in range(2):
            await world.collect()
        (gap,) = [gap for gap in await world.gaps() if gap.reason.startswith("pages.max")]
        assert gap.closed_at is not None
        again = [window for window in archive.searched if archive.searched[window] > found[window]]
        assert all("2026-09-20" in window for window in again)

    run_virtual(scene())


def test_windows_that_do_not_meet_what_is_covered_close_no_hole(tmp_path: Path) -> None:
    async def scene() -> None:
        archive = Archive(72)
        archive.missing = {f"k{n}" for n in range(1, 7)}
        world = Filled(tmp_path / "f.db", archive)
        report = await world.collect()
        assert [run.state.value for run in report.runs if run.trigger == "fill"] == ["complete"]
        assert [gap.closed_at for gap in await world.gaps()] == [None]
        assert any("ended as gap" in problem for problem in report.problems)

    run_virtual(scene())


def test_the_same_time_filled_twice_lists_again_and_stores_nothing_twice(tmp_path: Path) -> None:
    async def scene() -> None:
        world = await with_a_hole(tmp_path / "f.db")
        window = (NOW - 3 * DAY, NOW - 2 * DAY)
        await world.fill(*window)
        first, versions = Counter(world.archive.searched), await world.ask("SELECT item_id, n FROM version ORDER BY 1")
        world.clock.jump(HOUR)
        await world.fill(*window)
        assert await world.ask("SELECT item_id, n FROM version ORDER BY 1") == versions
        again = sum(world.archive.searched.values()) - sum(first.values())
        assert again > 0
        names = await world.ask("SELECT count(*) FROM listing GROUP BY source_id, name HAVING count(*) > 1")
        assert names == []

    run_virtual(scene())


@pytest.mark.parametrize("own", [True, False])
def test_rows_with_fields_of_their_own_leave_known_items_as_they_are(tmp_path: Path, own: bool) -> None:
    async def scene() -> None:
        world = Filled(tmp_path / "f.db", Archive(5), SOURCE + (OWN_FIELDS if own else ""))
        await world.collect()
        world.archive.times |= {"old": NOW - 3 * DAY}
        respond = world.archive.respond
        world.network.respond = lambda request: (200, respond(request)[1].replace("of k", "OF k"))
        await world.fill(NOW - 4 * DAY, NOW)
        titles = dict(await world.ask("SELECT _key, title FROM news"))
        assert titles == {
            **{f"k{n}": f"of k{n}" if own else f"OF k{n}" for n in range(1, 6)},
            "old": None if own else "of old",
        }
        versions = await world.ask("SELECT max(n) FROM version")
        assert versions == [(1 if own else 2,)]

    run_virtual(scene())


def test_a_run_that_fills_goes_beside_the_planned_ones(tmp_path: Path) -> None:
    async def scene() -> None:
        world = Filled(tmp_path / "f.db", Archive(5))
        source = cast(Any, world.source)
        async with office(world.path, world.clock, world.network, source) as one:
            await one.apply(source)
            plan = await plan_fill(cast(Any, one), world.source, (NOW - 2 * DAY, NOW))
            filling = await open_windows(one.ledger, one.scheduler.offer, "lists", source, plan.listings)
            # Asked for again it is the one that goes, and no slot of the calendar is its own.
            again = await open_windows(one.ledger, one.scheduler.offer, "lists", source, plan.listings)
            assert (filling.created, again.created, again.run_id) == (True, False, filling.run_id)
            planned = await one.scheduler.open("lists", source, NOW)
            assert planned.created
            both = {run.trigger: run.slot for run in await one.ledger.running("lists")}
            assert set(both) == {"fill", "cron"}
            assert both["fill"] % 1000
            # Lists of what is new go first.
            assert {task.priority for task in filling.tasks} == {2}
            assert {task.priority for task in planned.tasks} == {1}
            due = await one.ledger.due(after=None, limit=100, older_than_ms=0)
            assert {task.ref: task.priority for task in due} == {
                task.ref: task.priority for task in (*filling.tasks, *planned.tasks)
            }

    run_virtual(scene())


def test_a_scheduler_tries_a_hole_again_after_some_hours_and_closes_it(tmp_path: Path) -> None:
    async def scene() -> None:
        archive = Archive(72)
        archive.broken = {"2026-09-20 12:00"}
        world = Filled(tmp_path / "f.db", archive)
        await world.collect()
        archive.broken, source = set(), cast(Any, world.source)
        async with office(world.path, world.clock, world.network, source) as one:

            async def nothing() -> list[OpenedRun]:
                return []

            async def look() -> list[str]:
                await one.scheduler.run_once()
                return [run.trigger for run in await one.ledger.running("lists")]

            assert await look() == []
            world.clock.jump(6 * HOUR)
            # Whoever looks, it is one run.
            assert await look() == ["fill"]
            assert await look() == ["fill"]
            await run_once(one.parts, ["lists"], asyncio.Event(), opening=nothing)
            assert await look() == []
            assert await one.ledger.gaps() == []

    run_virtual(scene())


def test_a_source_that_does_not_say_how_is_told_so(tmp_path: Path) -> None:
    async def scene() -> None:
        world = Filled(tmp_path / "f.db", Archive(5), SOURCE[: SOURCE.index("  fill:")])
        source = cast(Any, world.source)
        async with office(world.path, world.clock, world.network, source) as one:
            await one.apply(source)
            with pytest.raises(UsageError, match="how dates are asked for"):
                await filling_source(cast(Any, one), "lists")
            with pytest.raises(UsageError, match="no source 'list'"):
                await filling_source(cast(Any, one), "list")

    run_virtual(scene())
