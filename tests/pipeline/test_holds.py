"""A host that asked for a pause gets it: no start is taken in it, none that waited in hand goes out in it, and it is
the host that answered so that is held (P4).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fyke.errors import Deferred
from fyke.model import FetchPolicy, LanePolicy, Listing, ListPage, Outcome, Request, Response, Task, TaskKind
from fyke.pipeline.hand import Hand
from fyke.pipeline.requests import TaskRequests
from fyke.ports import Clock, Gate
from tests.crash.virtual import VirtualClock, run_virtual
from tests.pipeline.network import DETAIL, FREE, SITE, Answer, HostSource, PlayedNetwork, anywhere, list_page, office

API = "api.example"
KEYS = [f"k{n}" for n in range(8)]
HOUR_MS = 3_600_000


class SlowRobots:
    """robots.txt is read until a moment: leases of a lane pile up before they begin."""

    def __init__(self, clock: Clock, until: float) -> None:
        self._clock, self._until = clock, until

    async def check(self, url: str, policy: FetchPolicy, gate: Gate) -> int | None:
        await self._clock.sleep(max(0, self._until - self._clock.monotonic()))
        return None


def test_what_begins_in_a_hold_is_given_back_uncounted(tmp_path: Path) -> None:
    """Else all that were leased before would go out at its end at once."""

    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, lambda _: DETAIL)
        source = HostSource(SITE, lanes=(LanePolicy(SITE, gap=2_000, jitter=0, concurrency=8),))
        async with office(tmp_path / "ledger.db", clock, network, robots=SlowRobots(clock, 8)) as process:
            begun = [
                asyncio.create_task(
                    TaskRequests(process.sender, delivery, source).send(Request(f"http://{SITE}/detail/1"))
                )
                for delivery in await process.deliveries(SITE, 4)
            ]
            await clock.sleep(7.5)
            await process.frontier.hold(SITE, clock.now() + 4_000, "Retry-After")
            answers = await asyncio.gather(*begun, return_exceptions=True)
            assert [type(answer) for answer in answers] == [Deferred] * 4
            assert [answer.wait_ms for answer in answers if isinstance(answer, Deferred)] == [3_500] * 4
            tasks = [await process.frontier.view(f"i{n}") for n in range(1, 5)]
            assert [task is not None and task.starts for task in tasks] == [0] * 4
        assert not network.log

    run_virtual(scene())


def test_a_further_request_that_waits_in_hand_does_not_go_out_into_a_hold(tmp_path: Path) -> None:
    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, lambda _: DETAIL)
        source = HostSource(API, lanes=(LanePolicy(API, gap=60_000, jitter=0, concurrency=2),))
        async with office(tmp_path / "ledger.db", clock, network) as process:
            (delivery,) = await process.deliveries(API, 1)
            requests = TaskRequests(process.sender, delivery, source)
            # robots.txt took the first start of the lane.
            await requests.send(Request(f"http://{API}/detail/1"))
            second = asyncio.create_task(requests.send(Request(f"http://{API}/detail/2")))
            await clock.sleep(5)
            await process.frontier.hold(API, clock.now() + HOUR_MS, "blocked")
            with pytest.raises(Deferred) as raised:
                await second
        assert raised.value.wait_ms > HOUR_MS - 60_000
        assert [url[-1] for _, url in network.log] == ["1"]

    run_virtual(scene())


def test_a_first_request_that_waits_in_hand_does_not_go_out_into_a_hold(tmp_path: Path) -> None:
    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, lambda _: DETAIL)
        source = HostSource(SITE, lanes=(LanePolicy(SITE, gap=3_000, jitter=0, concurrency=8),))
        async with office(tmp_path / "ledger.db", clock, network, robots=SlowRobots(clock, 0)) as process:
            works = [
                asyncio.create_task(
                    TaskRequests(process.sender, delivery, source).send(Request(f"http://{SITE}/detail/1"))
                )
                for delivery in await process.deliveries(SITE, 3)
            ]
            await clock.sleep(1)
            await process.frontier.hold(SITE, clock.now() + HOUR_MS, "blocked")
            answers = await asyncio.gather(*works, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Response, Deferred, Deferred]
        assert network.starts(SITE) == [0]

    run_virtual(scene())


@pytest.mark.parametrize(
    ("refusal", "hold_s"), [((429, {"retry-after": "120"}, ""), 120), ((403, {}, ""), 600)], ids=["429", "403"]
)
def test_the_host_of_the_second_hop_is_held_not_that_of_the_first(tmp_path: Path, refusal: Answer, hold_s: int) -> None:
    """And for all: another source asks there, too."""

    def answer(url: str) -> Answer:
        if "/list/" in url:
            return list_page(*KEYS)
        return refusal if url.startswith(f"http://{API}/") else DETAIL

    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, answer)
        lanes = (anywhere(1_000), FREE)
        source, other = HostSource("first.example", API, lanes=lanes), HostSource(API, lanes=lanes, name="other")
        async with office(tmp_path / "ledger.db", clock, network, source, other, wait=20_000) as process:
            await process.apply(source, other)
            await process.collect()
            held = {lane.lane: lane.hold_until for lane in await process.ledger.lanes()}
            assert held[API] > clock.now() + hold_s * 1_000 - 30_000
            assert held.get("first.example", 0) == 0
            assert await process.frontier.held("first.example") == 0
        # The first host was asked on.
        assert len(network.starts("first.example")) >= len(KEYS)
        async with office(tmp_path / "ledger.db", clock, network, source, other, number=2, wait=20_000) as process:
            await process.collect("other")
        assert len(network.starts(API)) == 1

    run_virtual(scene())


class Doubting(HostSource):
    """Takes its list page for a block."""

    def read_page(self, listing: Listing, response: Response, cursor: dict[str, Any] | None) -> ListPage:
        return ListPage(Outcome.BLOCKED, reason="please wait")


@pytest.mark.parametrize(
    "refusal", [(429, {"retry-after": "120"}, ""), (403, {}, ""), list_page()], ids=["429", "403", "by the source"]
)
def test_the_host_that_a_list_page_was_redirected_to_is_held(tmp_path: Path, refusal: Answer) -> None:
    def answer(url: str) -> Answer:
        return refusal if API in url else (302, {"location": f"http://{API}/list/1"}, "")

    async def scene() -> None:
        clock = VirtualClock()
        source = Doubting(SITE, lanes=(anywhere(0), FREE))
        async with office(tmp_path / "ledger.db", clock, PlayedNetwork(clock, answer), source, wait=5_000) as process:
            await process.apply(source)
            await process.collect()
            held = [lane.lane for lane in await process.ledger.lanes() if lane.hold_until]
            assert held == [API]
            assert await process.frontier.held(API) > 100_000
            assert await process.frontier.held(SITE) == 0

    run_virtual(scene())


def test_more_deliveries_than_one_call_takes_are_renewed(tmp_path: Path) -> None:
    """Visits in hand and results that wait for their commit: a worker of 1,000 slots holds more than that."""

    async def scene() -> None:
        clock = VirtualClock()
        async with office(tmp_path / "ledger.db", clock, PlayedNetwork(clock, lambda _: DETAIL)) as process:
            await process.frontier.configure([LanePolicy(SITE, gap=0, jitter=0, concurrency=1_000)])
            lanes = [LanePolicy(f"{n}.example", gap=0, jitter=0, concurrency=1_000) for n in range(2)]
            await process.frontier.configure(lanes)
            hand = Hand(process.frontier, clock, 3_000)
            number = 0
            while number < 1_001:
                more = min(100, 1_001 - number)
                await process.frontier.offer(
                    [Task(TaskKind.ITEM, number + n, 1, lanes[number // 600].lane) for n in range(more)]
                )
                number += more
            while len(hand) < 1_001:
                for delivery in (await process.frontier.lease(64, 3_000, worker="w")).deliveries:
                    hand.take(delivery, None)
            renewing = asyncio.create_task(hand.renew())
            await clock.sleep(20)
            assert not renewing.done()
            renewing.cancel()
            assert await process.frontier.reap() == []
            assert (await process.frontier.stats()).leased == 1_001

    run_virtual(scene())
