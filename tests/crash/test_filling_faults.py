"""A hole that is filled by date windows × each fault at each call: after recovery every row is there once and the hole
is closed, and what the list has covered is as it is without faults (P1, P2, P5).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest

from fyke.db.connection import Connection
from fyke.db.sqlite import open_connection
from fyke.model import Request
from fyke.testing.effects import read_effects, written_twice
from tests.crash.calls import Fault, Point
from tests.crash.places import FilePlace
from tests.crash.scenario import broken_balance
from tests.crash.site import SOURCE_ID
from tests.crash.virtual import BEGAN_MS, run_virtual
from tests.crash.world import World, prepare
from tests.unit.sources.making import made as made_source

ZONE = ZoneInfo("Asia/Shanghai")
HOUR = 3_600_000
HEAD = f"""
id: {SOURCE_ID}
identity: {{scope: played, key: {{field: id}}}}
store: {{table: notices}}
"""
SOURCE = """
listing:
  request: {url: "http://site.example/list", query: {page: "{page}"}}
  pages: {number: {first: 1}, max: 2}
  rows: {json: rows}
  fields: {id: {json: id}, published: {json: at, then: [{datetime: auto}]}}
  connect: {known: 2}
  start: 20h
  fill:
    window: 1d
    request:
      url: "http://site.example/search"
      query: {since: "{from:%Y-%m-%d %H:%M}", until: "{to:%Y-%m-%d %H:%M}", page: "{page}"}
    pages: {number: {first: 1}, max: 2}
"""


class Archive:
    """Its list shows six entries, its search the rest: one every three hours."""

    def __init__(self) -> None:
        self.times = {f"k{n}": BEGAN_MS - n * 3 * HOUR for n in range(1, 12)}
        self.seconds: dict[str, float] = {}
        self.deadly: set[str] = set()

    def answer(self, request: Request) -> tuple[int, dict[str, str], str]:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}
        texts = {
            key: datetime.fromtimestamp(at / 1000, ZONE).strftime("%Y-%m-%d %H:%M") for key, at in self.times.items()
        }
        keys = [key for key, at in texts.items() if asked.get("since", "") <= at <= asked.get("until", "9")]
        most = 3 if "since" in asked else 2
        shown = keys[(int(asked["page"]) - 1) * most : int(asked["page"]) * most]
        return 200, {}, json.dumps({"rows": [{"id": key, "at": texts[key]} for key in shown]})


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fills") / "ledger.db"
    source: Any = made_source(SOURCE, head=HEAD)
    run_virtual(prepare(path, source))
    with closing(open_connection(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


@pytest.fixture
def new_world(empty: bytes, tmp_path: Path) -> Callable[[], World]:
    def make() -> World:
        path = tmp_path / "ledger.db"
        path.write_bytes(empty)
        source: Any = made_source(SOURCE, head=HEAD)
        world = World(FilePlace(path), source)
        world.site = cast(Any, Archive())
        return world

    return make


POINTS: list[Point] = [
    *[("ledger.open_run", n) for n in (1, 2)],
    *[("ledger.page", n) for n in range(2, 7)],
    *[("ledger.start_pass", n) for n in (2, 3, 4)],
    *[("ledger.spread", n) for n in (1, 2)],
    *[("ledger.end_pass", n) for n in (1, 2, 3)],
    *[("ledger.holes", n) for n in (1, 2)],
    ("ledger.fill_hole", 1),
    *[("frontier.offer", n) for n in (2, 3)],
    *[("frontier.ack", n) for n in (1, 2, 3)],
    *[("fetcher.fetch", n) for n in (3, 5)],
]
FAULTS = (Fault.DIE_BEFORE, Fault.DIE_AFTER, Fault.TWICE)


def told(world: World) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The keys of the rows, the open holes, the stretches with their listings."""

    def read(connection: Connection) -> tuple[list[Any], list[Any], list[Any]]:
        rows = connection.execute("SELECT _key FROM notices ORDER BY _item_id").fetchall()
        holes = connection.execute("SELECT id FROM hole WHERE closed_at IS NULL").fetchall()
        stretches = connection.execute(
            "SELECT l.name, s.newest_key, s.oldest_key FROM stretch s JOIN listing l ON l.id = s.listing_id"
        ).fetchall()
        return sorted(rows), holes, stretches

    return world.place.read(read)


async def until_filled(world: World, plan: dict[Point, Fault]) -> None:
    await world.live(plan)
    for _ in range(3):
        await world.recover()
        if not told(world)[1]:
            return
        # A fill that a fault has ended is tried again some hours later.
        world.clock.jump(7 * HOUR)


def test_without_faults_the_hole_is_closed_by_the_life_that_found_it(new_world: Callable[[], World]) -> None:
    async def scene() -> None:
        world = new_world()
        await world.live({})
        rows, holes, stretches = told(world)
        # All of the first walk's 20 hours, whole days as it were.
        assert {key for (key,) in rows} >= {f"k{n}" for n in range(1, 8)}
        assert (holes, stretches) == ([], [("main", "k1", "k4")])
        counts = world.processes[0].calls.counts
        assert [point for point in POINTS if counts[point[0]] < point[1]] == []

    run_virtual(scene())


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[0]}#{point[1]}")
def test_a_fault_while_a_hole_is_filled_breaks_no_promise(
    new_world: Callable[[], World], point: Point, fault: Fault
) -> None:
    async def scene() -> World:
        world = new_world()
        await until_filled(world, {point: fault})
        assert world.hit == [(point, fault)]
        assert await broken_balance(world) == []
        return world

    world = run_virtual(scene())
    rows, holes, stretches = told(world)
    assert {key for (key,) in rows} >= {f"k{n}" for n in range(1, 8)}
    assert holes == []
    assert {listing for listing, *_ in stretches} == {"main"}
    effects, twice = world.place.read(lambda connection: (read_effects(connection), written_twice(connection)))
    assert twice == []
    assert {effect.kind for effect in effects} == {"insert"}
