"""The host that is asked is the host that is paid and paced, however a task comes to it (P4): a move of the source, a
cursor, a hop, a redirect; and its crawl delay outlives each new setting of the lanes.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fyke.model import LanePolicy, Listing, Request, Task, TaskKind
from tests.crash.virtual import VirtualClock, run_virtual
from tests.pipeline.network import DETAIL, FREE, SITE, Answer, HostSource, PlayedNetwork, anywhere, list_page, office

API = "api.example"
SLOW = "User-agent: *\nCrawl-delay: 10"
KEYS = [f"k{n}" for n in range(6)]


def listed(url: str) -> Answer:
    return list_page(*KEYS) if "/list/" in url else DETAIL


def redirected(url: str) -> Answer:
    """Details of the site are on another host."""
    if url.startswith(f"http://{SITE}/detail/"):
        return 302, {"location": url.replace(SITE, API)}, ""
    return listed(url)


def test_a_source_that_moved_to_another_host_is_paced_there(tmp_path: Path) -> None:
    """Its open items keep the lane of the old host."""

    def answer(url: str) -> Answer:
        return (503, {}, "") if "old.example" in url else listed(url)

    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, answer)
        old = HostSource("old.example", lanes=(anywhere(0), FREE))
        new = HostSource("new.example", lanes=(anywhere(5_000), FREE))
        async with office(tmp_path / "ledger.db", clock, network, old, new, wait=1_000) as first:
            await first.apply(old)
            assert (await first.collect()).still_open == len(KEYS)
            await first.apply(new)
        network.log.clear()
        clock.jump(3_600_000)
        async with office(tmp_path / "ledger.db", clock, network, old, new, number=2) as second:
            assert (await second.collect()).new_stored == len(KEYS)
        assert network.least_gap("new.example") >= 5
        assert not network.starts("old.example")

    run_virtual(scene())


class FarPages(HostSource):
    """Pages after the first are on another host."""

    def list_request(self, listing: Listing, cursor: dict[str, Any] | None) -> Request:
        page = 1 if cursor is None else cursor["page"]
        return Request(f"http://{SITE if page == 1 else 'pages.example'}/list/{page}")


def test_a_walk_resumed_on_a_page_of_another_host_is_paced_there(tmp_path: Path) -> None:
    failing = ["http://pages.example/list/3"]

    def answer(url: str) -> Answer:
        if url in failing:
            failing.remove(url)
            return 503, {}, ""
        if "/list/" in url:
            page = int(url[-1])
            return list_page(*(f"k{page}{n}" for n in range(3)), more=page < 3)
        return DETAIL

    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, answer)
        source = FarPages(SITE, lanes=(anywhere(5_000), FREE))
        async with office(tmp_path / "ledger.db", clock, network, source) as process:
            await process.apply(source)
            report = await process.collect()
        assert not report.problems
        asked = [url for _, url in network.log if "/list/" in url]
        # After the failure of page 3 the walk goes on with page 2.
        assert [url[-1] for url in asked[:5]] == ["1", "2", "3", "2", "3"]
        assert network.least_gap("pages.example") >= 5

    run_virtual(scene())


WAYS = pytest.mark.parametrize(
    ("hosts", "answer"), [((SITE, API), listed), ((SITE,), redirected)], ids=["hop", "redirect"]
)


@WAYS
def test_the_crawl_delay_of_a_host_on_the_way_counts(tmp_path: Path, hosts: tuple[str, ...], answer: Any) -> None:
    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, answer, {API: SLOW})
        source = HostSource(*hosts, lanes=(anywhere(1_200), FREE))
        async with office(tmp_path / "ledger.db", clock, network, source) as process:
            await process.apply(source)
            assert (await process.collect()).new_stored == len(KEYS)
        assert network.least_gap(API) >= 10

    run_virtual(scene())


@WAYS
def test_the_sources_own_pace_counts_on_a_host_on_the_way(tmp_path: Path, hosts: tuple[str, ...], answer: Any) -> None:
    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, answer)
        source = HostSource(*hosts, lanes=(anywhere(30_000), FREE))
        async with office(tmp_path / "ledger.db", clock, network, source) as process:
            await process.apply(source)
            assert (await process.collect()).new_stored == len(KEYS)
        assert network.least_gap(API) >= 30

    run_virtual(scene())


NAMED = LanePolicy(API, gap=1_200, jitter=400, concurrency=2)
NAMES = pytest.mark.parametrize("lanes", [(FREE, NAMED), (FREE, anywhere(1_200))], ids=["named", "not named"])


@NAMES
def test_a_kept_crawl_delay_holds_from_the_first_request_on(tmp_path: Path, lanes: tuple[LanePolicy, ...]) -> None:
    """Before any worker has read robots.txt again: the frontier alone keeps it."""

    async def scene() -> None:
        clock = VirtualClock()
        source = HostSource(API, lanes=lanes)
        async with office(tmp_path / "ledger.db", clock, PlayedNetwork(clock, listed), source) as process:
            await process.ledger.put_robots(API, 200, SLOW)
            await process.apply(source)
            await process.frontier.offer([Task(TaskKind.ITEM, n, 1, API) for n in range(8)])
            starts = list[int]()
            while len(starts) < 4:
                leased = await process.frontier.lease(8, 30_000, worker="w")
                for started in await process.frontier.begin(leased.deliveries):
                    starts.append(clock.now() + started.wait_ms)
                await process.frontier.ack(leased.deliveries)
                await clock.sleep(0.1)
        assert min(later - earlier for earlier, later in pairwise(starts)) >= 10_000

    run_virtual(scene())


@NAMES
def test_a_new_setting_of_the_lanes_forgets_no_crawl_delay(tmp_path: Path, lanes: tuple[LanePolicy, ...]) -> None:
    """As `fyke source apply` does beside a run; the worker reads robots.txt again only a minute later."""

    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, listed)
        source = HostSource(API, lanes=lanes)
        async with office(tmp_path / "ledger.db", clock, network, source) as process:
            await process.ledger.put_robots(API, 200, SLOW)
            await process.apply(source)

            async def people() -> None:
                while True:
                    await clock.sleep(7)
                    await process.configure()

            beside = asyncio.create_task(people())
            assert (await process.collect()).new_stored == len(KEYS)
            beside.cancel()
        assert network.least_gap(API) >= 10

    run_virtual(scene())


def test_a_crawl_delay_slows_a_lane_that_was_set_faster_by_hand(tmp_path: Path) -> None:
    """However slow the source itself would go there: its words do not count in such a lane."""

    async def scene() -> None:
        clock = VirtualClock()
        async with office(tmp_path / "ledger.db", clock, PlayedNetwork(clock, listed)) as process:
            pace = type(process.sender.pace)(process.frontier, clock, {API: 0})
            (delivery,) = await process.deliveries(API, 1)
            own = LanePolicy(API, gap=30_000, jitter=0, concurrency=2)
            await pace.tighten([own])
            await pace.slow_down(API, 10_000, own)
            assert [await process.frontier.permit(delivery, API, 60_000) for _ in range(2)] == [0, 10_000]

    run_virtual(scene())


def test_jitter_does_not_undercut_a_crawl_delay(tmp_path: Path) -> None:
    async def scene() -> None:
        clock = VirtualClock()
        async with office(tmp_path / "ledger.db", clock, PlayedNetwork(clock, listed)) as process:
            (delivery,) = await process.deliveries(API, 1)
            own = LanePolicy(API, gap=11_000, jitter=9_000, concurrency=2)
            await process.sender.pace.tighten([own])
            await process.sender.pace.slow_down(API, 10_000, own)
            waits = [await process.frontier.permit(delivery, API, 3_600_000) for _ in range(20)]
        assert min(later - earlier for earlier, later in pairwise(waits)) >= 10_000

    run_virtual(scene())


def test_a_host_in_the_middle_that_answers_well_is_blocked_no_more(tmp_path: Path) -> None:
    """Else its blocks of months would count as blocks in a row."""

    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, listed)
        source = HostSource("first.example", API, lanes=(anywhere(0), FREE))
        async with office(tmp_path / "ledger.db", clock, network, source) as process:
            await process.apply(source)
            for lane in ("first.example", API):
                assert await process.ledger.hold_lane(lane, clock.now() - 1, "blocked", blocked=True) == 1
            await process.collect()
            assert {lane.lane: lane.blocks for lane in await process.ledger.lanes() if lane.lane != SITE} == {
                "first.example": 0,
                API: 0,
            }

    run_virtual(scene())
