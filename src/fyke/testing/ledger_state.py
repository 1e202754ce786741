"""The ledger's small state: it outlives the frontier and every process (P4)."""

from __future__ import annotations

import asyncio

from fyke.model import Event, WorkerRow
from fyke.ports import Ledger
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_steps import LANE, MINUTE, Book


class StateContract:
    async def test_a_ledger_is_the_same_for_all_who_open_it(self, ledger: Ledger, other: Ledger) -> None:
        found = await ledger.identity()
        assert found[0]
        assert found[1] >= 1
        await asyncio.gather(*(each.migrate() for each in (ledger, other) * 3))
        assert await other.identity() == await ledger.identity() == found

    async def test_the_clock_is_that_of_the_server(self, ledger: Ledger, clock: FakeClock) -> None:
        before = await ledger.now()
        clock.advance(MINUTE)
        assert await ledger.now() == before + MINUTE

    async def test_a_later_hold_wins_and_none_lifts_it(self, book: Book) -> None:
        await book.ledger.hold_lane(LANE, 5_000, "Retry-After 5")
        await book.ledger.hold_lane(LANE, 3_000, "shorter")
        (lane,) = await book.ledger.lanes()
        assert (lane.lane, lane.hold_until, lane.hold_reason) == (LANE, 5_000, "Retry-After 5")
        await book.ledger.hold_lane(LANE, 9_000, "longer")
        assert (await book.ledger.lanes())[0].hold_reason == "longer"
        await book.ledger.hold_lane(LANE, 0, "")
        assert (await book.ledger.lanes())[0].hold_until == 0

    async def test_blocks_in_a_row_of_a_lane_end_with_a_good_answer(self, book: Book) -> None:
        assert [await book.ledger.hold_lane(LANE, at, "blocked", blocked=True) for at in (1, 2, 3)] == [1, 2, 3]
        assert await book.ledger.hold_lane(LANE, 4, "Retry-After") == 3
        await book.ledger.lane_ok(LANE)
        await book.ledger.lane_ok("never.held")
        assert await book.ledger.hold_lane(LANE, 5, "blocked", blocked=True) == 1
        assert [lane.lane for lane in await book.ledger.lanes()] == [LANE]

    async def test_a_lane_is_known_by_its_hold_alone(self, book: Book, other: Ledger) -> None:
        assert await book.ledger.lane(LANE) is None
        await book.ledger.hold_lane(LANE, 5_000, "blocked", blocked=True)
        found = await other.lane(LANE)
        assert found is not None
        assert (found.lane, found.hold_until, found.blocks, found.robots_at) == (LANE, 5_000, 1, None)
        assert await book.ledger.lane("another.example") is None

    async def test_robots_answers_are_asked_for_once_for_all(self, book: Book, other: Ledger) -> None:
        await book.ledger.hold_lane(LANE, 1, "")
        assert await book.ledger.robots(LANE) is None
        await book.ledger.put_robots(LANE, 200, "User-agent: *\x00\nDisallow: /x")
        found = await other.robots(LANE)
        assert found is not None
        assert (found.robots_status, found.robots_text) == (200, "User-agent: *\nDisallow: /x")
        assert (found.robots_at, found.hold_until) == (book.clock.now(), 1)
        await book.ledger.put_robots(LANE, 404, "")
        assert [lane.robots_status for lane in await book.ledger.lanes()] == [404]

    async def test_events_are_read_once_by_a_cursor(self, book: Book) -> None:
        events = [Event("held", f"lane {at} \ud800", "gov", data={"n": at}) for at in range(3)]
        await book.ledger.add_events([*events, Event("stalled", "late", at=77)])
        found = await book.ledger.events(await book.ledger.cursor("alerts"), limit=2)
        assert [(event.message, event.at, event.data) for event in found] == [
            ("lane 0 ", book.clock.now(), {"n": 0}),
            ("lane 1 ", book.clock.now(), {"n": 1}),
        ]
        assert await book.ledger.cursor("alerts", found[-1].id) == found[-1].id
        assert await book.ledger.cursor("other") == 0
        rest = await book.ledger.events(await book.ledger.cursor("alerts"))
        assert [(event.kind, event.at) for event in rest] == [("held", book.clock.now()), ("stalled", 77)]

    async def test_a_worker_is_there_as_long_as_it_beats(self, book: Book) -> None:
        stage = {"fetch": {"in": 3, "out": 2, "failed": 1}}
        worker = WorkerRow("w1", "host", 17, "1.0", "text", 1_000, 2_000, 4, 30, 1, 50_000_000, stage)
        await book.ledger.beat(worker)
        assert await book.ledger.workers(since=2_000) == [worker]
        assert await book.ledger.workers(since=2_001) == []
        later = WorkerRow("w1", "host", 18, "1.0", "text", 1_000, 3_000)
        await book.ledger.beat(later)
        assert await book.ledger.workers(since=0) == [later]
