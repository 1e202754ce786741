"""Alerts against a real HTTP server on loopback: told at least once, grouped, repeated, without secrets."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fyke.alerts import Alerter, AlertFailed
from fyke.alerts.webhook import backoff
from fyke.errors import TransientError, UsageError
from fyke.model import Event

SECRET = "S3cr3t-m4rk"


class Book:
    """Events and cursors of a ledger."""

    def __init__(self) -> None:
        self.kept: list[Event] = []
        self.cursors: dict[str, int] = {}

    def add(self, kind: str, message: str, source: str = "ggzy", group: str = "", **data: Any) -> None:
        number = len(self.kept) + 1
        self.kept.append(Event(kind, message, source, group, at=1_000 * number, data=data, id=number))

    async def events(self, after: int = 0, limit: int = 100) -> list[Event]:
        return [event for event in self.kept if event.id > after][:limit]

    async def cursor(self, name: str, value: int | None = None) -> int:
        if value is not None:
            self.cursors[name] = value
        return self.cursors.get(name, 0)


class MovedClock:
    """Time that only tests move; a sleep moves it and is remembered."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> int:
        return round(self.time * 1000)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class Hook:
    """The other side: keeps what it took, answers with the statuses set before, then 200."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.arrived = asyncio.Condition()
        self.stuck: asyncio.Event | None = None

    async def answer(self, request: web.Request) -> web.Response:
        if self.stuck is not None:
            await self.stuck.wait()
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.taken.append(await request.json())
        async with self.arrived:
            self.arrived.notify_all()
        return web.Response(status=status, headers={"Location": "/elsewhere"} if status == 302 else {})

    async def until(self, count: int) -> None:
        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(lambda: len(self.taken) >= count), 10)


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
async def hook() -> Hook:
    return Hook()


@pytest.fixture
async def url(hook: Hook) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/hooks/{secret}", hook.answer)
    server = TestServer(application, host="127.0.0.1")
    await server.start_server()
    yield str(server.make_url(f"/hooks/{SECRET}"))
    await server.close()


async def test_one_post_tells_each_group_with_count_and_times(
    book: Book, clock: MovedClock, hook: Hook, url: str
) -> None:
    book.add("suspicious", "20 entries usual, 0 found", usual=20, found=0)
    book.add("dead", "notice 7 died", group="dead", key="7")
    book.add("dead", "notice 8 died", group="dead", key="8")
    assert await Alerter(book, url, clock).tell() == 3
    (message,) = hook.taken
    assert message["text"].splitlines() == [
        "[suspicious] ggzy: 20 entries usual, 0 found",
        "[dead] ggzy: notice 8 died (2 times)",
    ]
    assert message["events"][1] == {
        "kind": "dead",
        "source": "ggzy",
        "message": "notice 8 died",
        "count": 2,
        "first_at": 2_000,
        "last_at": 3_000,
        "data": {"key": "8"},
    }
    assert book.cursors == {"alerts": 3}


async def test_a_flood_after_the_first_event_is_told_once_at_the_end_of_its_window(
    book: Book, clock: MovedClock, hook: Hook, url: str
) -> None:
    alerter = Alerter(book, url, clock)
    book.add("blocked", "first")
    assert await alerter.tell() == 1
    for number in range(250):
        book.add("blocked", f"again {number}")
    book.add("gap", "a hole")
    clock.time = 29.999
    assert await alerter.tell() == 1, "another group does not wait for this one's window"
    assert book.cursors == {"alerts": 1}, "held events are not passed over by the cursor"
    clock.time = 30.0
    assert await alerter.tell() == 250
    assert [[event["count"] for event in message["events"]] for message in hook.taken] == [[1], [1], [250]]
    assert book.cursors == {"alerts": 252}


async def test_sources_and_kinds_are_not_mixed_in_one_group(
    book: Book, clock: MovedClock, hook: Hook, url: str
) -> None:
    book.add("gap", "a", source="one")
    book.add("gap", "b", source="two")
    book.add("held", "c", source="two")
    await Alerter(book, url, clock).tell()
    assert [event["message"] for event in hook.taken[0]["events"]] == ["a", "b", "c"]


@pytest.mark.parametrize("status", [500, 404, 302])
async def test_the_cursor_stays_when_the_other_side_does_not_take_it(
    book: Book, clock: MovedClock, hook: Hook, url: str, status: int
) -> None:
    hook.statuses = [status]
    book.add("gap", "a hole")
    alerter = Alerter(book, url, clock)
    with pytest.raises(AlertFailed, match=f"answered {status}"):
        await alerter.tell()
    assert book.cursors == {}
    assert hook.taken == []
    assert await alerter.tell() == 1
    assert book.cursors == {"alerts": 1}


async def test_a_death_before_the_cursor_moved_tells_again_and_after_it_does_not(
    book: Book, clock: MovedClock, hook: Hook, url: str
) -> None:
    book.add("gap", "a hole")
    await Alerter(book, url, clock).tell()
    assert await Alerter(book, url, clock).tell() == 0
    book.cursors.clear()
    assert await Alerter(book, url, clock).tell() == 1
    assert len(hook.taken) == 2


async def test_an_outage_is_waited_for_with_doubling_pauses_up_to_five_minutes(
    book: Book, clock: MovedClock, hook: Hook, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    hook.statuses = [503] * 9
    book.add("gap", "a hole")
    stop = asyncio.Event()
    running = asyncio.create_task(Alerter(book, url, clock).run(stop))
    await hook.until(1)
    stop.set()
    await running
    assert clock.slept[:9] == [2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert [event["message"] for message in hook.taken for event in message["events"]] == ["a hole"]
    assert SECRET not in caplog.text
    assert "answered 503" in caplog.text


async def test_a_call_within_the_backoff_asks_nobody_and_says_how_long_to_wait(
    book: Book, clock: MovedClock, hook: Hook, url: str
) -> None:
    hook.statuses = [503, 503]
    book.add("gap", "a hole")
    alerter = Alerter(book, url, clock)
    assert await alerter.run_once() == 2
    clock.time += 1.5
    assert await alerter.run_once() == 0.5
    assert hook.statuses == [503], "one attempt was made"
    clock.time += 0.5
    assert await alerter.run_once() == 4
    clock.time += 4
    assert await alerter.run_once() == 1
    assert len(hook.taken) == 1


async def test_what_waits_for_its_window_is_told_at_the_stop(
    book: Book, clock: MovedClock, hook: Hook, url: str
) -> None:
    alerter = Alerter(book, url, clock, window_ms=10**9)
    book.add("dead", "one")
    await alerter.tell()
    book.add("dead", "two")
    stop = asyncio.Event()
    stop.set()
    await alerter.run(stop)
    assert [message["events"][0]["message"] for message in hook.taken] == ["one", "two"]
    assert book.cursors == {"alerts": 2}


async def test_a_ledger_that_is_away_ends_no_loop(book: Book, clock: MovedClock, hook: Hook, url: str) -> None:
    class Away(Book):
        failures = 2

        async def events(self, after: int = 0, limit: int = 100) -> list[Event]:
            if self.failures:
                self.failures -= 1
                raise TransientError("SQLite: the disk is full")
            return await super().events(after, limit)

    away = Away()
    away.add("gap", "a hole")
    stop = asyncio.Event()
    running = asyncio.create_task(Alerter(away, url, clock).run(stop))
    await hook.until(1)
    stop.set()
    await running
    assert clock.slept[:2] == [5, 5]


async def test_an_answer_that_never_comes_ends_by_the_time_limit(
    book: Book, clock: MovedClock, hook: Hook, url: str
) -> None:
    hook.stuck = asyncio.Event()
    book.add("gap", "a hole")
    with pytest.raises(AlertFailed, match="did not answer"):
        await Alerter(book, url, clock, timeout=0.05).tell()
    hook.stuck.set()
    assert book.cursors == {}


async def test_no_secret_of_the_address_is_in_an_error(book: Book, clock: MovedClock, unused_tcp_port: int) -> None:
    book.add("gap", "a hole")
    url = f"http://me:{SECRET}@127.0.0.1:{unused_tcp_port}/{SECRET}?token={SECRET}"
    with pytest.raises(AlertFailed) as caught:
        await Alerter(book, url, clock).tell()
    assert SECRET not in str(caught.value)
    assert f"http://127.0.0.1:{unused_tcp_port}" in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_session_passed_in_is_used_and_left_open(book: Book, clock: MovedClock, hook: Hook, url: str) -> None:
    book.add("gap", "a hole")
    async with aiohttp.ClientSession(headers={"X-Mark": "ours"}) as session:
        await Alerter(book, url, clock, session=session).tell()
        assert not session.closed
    assert len(hook.taken) == 1


@pytest.mark.parametrize("url", ["", "chat.example.org/x", f"ftp://example.org/{SECRET}", f"http:///{SECRET}"])
def test_an_address_that_cannot_be_posted_to_is_refused_at_the_start(book: Book, clock: MovedClock, url: str) -> None:
    with pytest.raises(UsageError, match=r"alerts\.webhook") as caught:
        Alerter(book, url, clock)
    assert SECRET not in str(caught.value)


def test_the_backoff_has_a_cap() -> None:
    assert backoff(1) == 2
    assert backoff(10_000) == 300
