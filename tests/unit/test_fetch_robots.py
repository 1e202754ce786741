"""robots.txt: asked once per host and day for the whole cluster, through the gate, and what each answer means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fyke.errors import Deferred, FetchFailed, LeaseLost
from fyke.fetchers.robots import AGAIN_MS, AGENT, HOSTS_KEPT, KEPT_MS, LARGEST, RobotsRules
from fyke.model import FetchPolicy, LaneRow, Request, Response
from fyke.ports import Gate, Robots

REAL = Path(__file__).resolve().parents[3] / "shared" / "realdata"
PAGE = "http://example.org/a/b?c=1"
POLICY = FetchPolicy()


class SetClock:
    def __init__(self) -> None:
        self.time = 1_767_225_600_000

    def now(self) -> int:
        return self.time

    def monotonic(self) -> float:
        return self.time / 1000

    async def sleep(self, seconds: float) -> None:
        self.time += int(seconds * 1000)


class Book:
    """What a ledger keeps of robots answers."""

    def __init__(self, clock: SetClock) -> None:
        self.rows: dict[str, LaneRow] = {}
        self._clock = clock

    async def robots(self, lane: str) -> LaneRow | None:
        return self.rows.get(lane)

    async def put_robots(self, lane: str, status: int, text: str) -> None:
        self.rows[lane] = LaneRow(lane, robots_text=text, robots_status=status, robots_at=self._clock.now())


class OpenGate:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def admit(self, url: str) -> None:
        self.asked.append(url)


class Host:
    """Answers as told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.book = Book(self.clock)
        self.gate = OpenGate()
        self.answer: Callable[[], Response | FetchFailed] = lambda: self.says("")
        self.asked: list[tuple[str, FetchPolicy]] = []
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.robots: Robots = RobotsRules(self.book, self, self.clock)

    async def fetch(self, request: Request, policy: FetchPolicy, gate: Gate) -> Response:
        self.asked.append((request.url, policy))
        self.was_asked.set()
        await self.may_answer.wait()
        answer = self.answer()
        if isinstance(answer, FetchFailed):
            raise answer
        return answer

    async def close(self) -> None: ...

    def says(self, text: str, status: int = 200, **headers: str) -> Response:
        return Response("http://example.org/robots.txt", status, headers, text.encode(), text)

    def will_say(self, text: str, status: int = 200, **headers: str) -> None:
        self.answer = lambda: self.says(text, status, **headers)

    async def check(self, url: str = PAGE, policy: FetchPolicy = POLICY) -> int | None:
        return await self.robots.check(url, policy, self.gate)

    async def refusal(self, url: str = PAGE) -> FetchFailed:
        with pytest.raises(FetchFailed) as caught:
            await self.check(url)
        return caught.value


@pytest.fixture
def host() -> Host:
    return Host()


async def test_rules_are_kept_for_a_day_and_asked_for_through_the_gate(host: Host) -> None:
    host.will_say("User-agent: *\nDisallow: /private/\nDisallow: /*.pdf$\nCrawl-delay: 2.5")
    assert await host.check() == 2_500
    refused = await host.refusal("http://example.org/private/x")
    assert (refused.outcome, refused.evidence) == ("robots", {"robots": "example.org"})
    assert (await host.refusal("http://example.org/a.pdf")).outcome == "robots"
    assert await host.check("http://example.org/a.pdf?x") == 2_500
    assert host.gate.asked == ["http://example.org/robots.txt"]
    host.clock.time += KEPT_MS - 1
    await host.check()
    assert len(host.asked) == 1
    host.clock.time += 1
    await host.check()
    assert len(host.asked) == 2


async def test_another_worker_takes_the_answer_from_the_ledger(host: Host) -> None:
    host.will_say("User-agent: *\nDisallow: /a/\nCrawl-delay: 1")
    await host.refusal()
    other = RobotsRules(host.book, host, host.clock)
    with pytest.raises(FetchFailed):
        await other.check(PAGE, POLICY, host.gate)
    assert len(host.asked) == 1
    assert host.book.rows["example.org"].robots_text == "User-agent: *\nDisallow: /a/\nCrawl-delay: 1"
    host.clock.time += KEPT_MS
    host.will_say("")
    await other.check(PAGE, POLICY, host.gate)
    assert len(host.asked) == 2


async def test_our_own_group_comes_before_the_one_for_all(host: Host) -> None:
    host.will_say(f"User-agent: *\nDisallow: /\n\nUser-agent: {AGENT}\nDisallow: /x\nCrawl-delay: 3")
    assert await host.check() == 3_000
    assert (await host.refusal("http://example.org/x")).outcome == "robots"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
async def test_a_host_without_rules_allows_everything(host: Host, status: int) -> None:
    host.will_say("User-agent: *\nDisallow: /", status)
    assert await host.check() is None
    assert await host.check() is None
    assert len(host.asked) == 1
    assert host.book.rows["example.org"].robots_status == status


@pytest.mark.parametrize("status", [500, 503, 429, 408])
async def test_a_host_that_is_away_is_asked_for_nothing_until_some_minutes_later(host: Host, status: int) -> None:
    host.will_say("", status)
    failed = await host.refusal()
    assert (failed.outcome, failed.retry_after) == ("unavailable", AGAIN_MS)
    host.clock.time += AGAIN_MS - 2_000
    again = await host.refusal()
    assert (again.retry_after, len(host.asked)) == (2_000, 1)
    other = RobotsRules(host.book, host, host.clock)
    with pytest.raises(FetchFailed, match=str(status)):
        await other.check(PAGE, POLICY, host.gate)
    assert len(host.asked) == 1
    host.clock.time += 2_000
    host.will_say("")
    assert await host.check() is None


async def test_a_wait_that_the_host_names_is_kept(host: Host) -> None:
    host.answer = lambda: Response(PAGE, 503, {"retry-after": "3600"}, b"", "")
    assert (await host.refusal()).retry_after == 3_600_000


@pytest.mark.parametrize("outcome", ["network", "timeout"])
async def test_no_answer_is_as_an_unavailable_host(host: Host, outcome: str) -> None:
    host.answer = lambda: FetchFailed(outcome, "no connection")
    failed = await host.refusal()
    assert failed.outcome == "unavailable"
    assert "no connection" in failed.reason
    await host.refusal()
    assert len(host.asked) == 1


async def test_a_fault_of_the_proxy_stays_one_and_is_not_held_against_the_host(host: Host) -> None:
    host.answer = lambda: FetchFailed("proxy", "refused")
    assert (await host.refusal()).outcome == "proxy"
    host.will_say("")
    assert await host.check() is None
    assert host.book.rows["example.org"].robots_status == 200


async def test_an_address_that_may_not_be_asked_stays_so(host: Host) -> None:
    host.answer = lambda: FetchFailed("policy", "not public", evidence={"host": "example.org"})
    assert (await host.refusal()).outcome == "policy"
    assert host.book.rows == {}


@pytest.mark.parametrize(
    "failure",
    [
        FetchFailed("too_large", "more than is borne"),
        FetchFailed("error", "redirects in a circle"),
        FetchFailed("policy", "not public", evidence={"redirects": ["http://example.org/robots.txt"]}),
    ],
)
async def test_what_can_be_no_rules_allows_and_is_recorded(host: Host, failure: FetchFailed) -> None:
    host.answer = lambda: failure
    assert await host.check() is None
    assert failure.reason in (host.book.rows["example.org"].robots_text or "")


@pytest.mark.parametrize(
    "text", ["<!DOCTYPE html><html>User-agent: *\nDisallow: /</html>", "\ufeff \n<html>", "<?xml?>"]
)
async def test_a_page_served_as_robots_txt_allows_and_is_recorded(host: Host, text: str) -> None:
    host.will_say(text)
    assert await host.check() is None
    assert "HTML" in (host.book.rows["example.org"].robots_text or "")


async def test_the_part_that_counts_is_bounded(host: Host) -> None:
    host.will_say("User-agent: *\nDisallow: /first\n" + "# 注释\n" * 60_000 + "Disallow: /last\n")
    assert await host.check("http://example.org/last") is None
    assert (await host.refusal("http://example.org/first")).outcome == "robots"
    assert len((host.book.rows["example.org"].robots_text or "").encode()) <= LARGEST
    assert host.asked[0][1].max_body > LARGEST


@pytest.mark.parametrize(
    ("line", "delay"),
    [
        *((f"Crawl-delay: {value}", None) for value in ("0", "-5", "nan", "inf", "soon", "")),
        ("Crawl-delay: 1e9", 3_600_000),
        ("Request-rate: 1/10s", 10_000),
        ("Crawl-delay: 20\nRequest-rate: 1/10s", 20_000),
    ],
)
async def test_odd_delays_do_no_harm(host: Host, line: str, delay: int | None) -> None:
    host.will_say(f"User-agent: *\n{line}\n")
    assert await host.check() == delay


async def test_many_checks_at_once_ask_once(host: Host) -> None:
    host.may_answer.clear()
    host.will_say("User-agent: *\nCrawl-delay: 1")
    checks = [asyncio.ensure_future(host.check(f"http://example.org/{n}")) for n in range(50)]
    await asyncio.sleep(0)
    host.may_answer.set()
    assert await asyncio.gather(*checks) == [1_000] * 50
    assert len(host.asked) == 1


async def test_if_the_one_that_asks_is_stopped_the_next_asks(host: Host) -> None:
    host.may_answer.clear()
    first, second = (asyncio.ensure_future(host.check()) for _ in range(2))
    await host.was_asked.wait()
    first.cancel()
    host.may_answer.set()
    assert await second is None
    assert first.cancelled()
    assert len(host.asked) == 2


@pytest.mark.parametrize("refusal", [Deferred("example.org", 60_000), LeaseLost("gone")])
async def test_a_gate_that_refuses_is_passed_on_and_nothing_is_asked(host: Host, refusal: Exception) -> None:
    class Gate:
        async def admit(self, url: str) -> None:
            raise refusal

    with pytest.raises(type(refusal)):
        await host.robots.check(PAGE, POLICY, Gate())
    assert (host.asked, host.book.rows) == ([], {})
    assert await host.check() is None


async def test_a_gate_that_asks_robots_itself_is_not_asked_in_a_circle(host: Host) -> None:
    class Gate:
        async def admit(self, url: str) -> None:
            await host.robots.check(url, POLICY, self)
            await host.robots.check("http://example.org/moved/robots.php", POLICY, self)

    async with asyncio.timeout(2):
        await host.robots.check(PAGE, POLICY, Gate())
    assert len(host.asked) == 1


async def test_lanes_are_asked_apart_and_robots_txt_itself_is_free(host: Host) -> None:
    await host.check("http://example.org/robots.txt")
    assert host.asked == []
    for url in (PAGE, "https://example.org/", "http://example.org:8080/", "http://www.example.org/"):
        await host.check(url)
    assert [url for url, _ in host.asked] == [
        "http://example.org/robots.txt",
        "http://example.org:8080/robots.txt",
        "http://www.example.org/robots.txt",
    ]


async def test_a_source_that_does_not_ask_sends_no_request(host: Host) -> None:
    host.will_say("User-agent: *\nDisallow: /")
    assert await host.check(policy=FetchPolicy(respect_robots=False)) is None
    assert host.asked == []


async def test_what_is_kept_in_memory_is_bounded(host: Host) -> None:
    for number in range(HOSTS_KEPT + 5):
        await host.check(f"http://h{number}.example/")
    assert len(host.robots._known) == HOSTS_KEPT  # type: ignore[attr-defined]
    assert host.robots._asking == {}  # type: ignore[attr-defined]
    asked = len(host.asked)
    await host.check("http://h0.example/")
    assert len(host.asked) == asked  # the ledger still knows


async def test_a_clock_set_back_does_not_keep_an_answer_for_ever(host: Host) -> None:
    await host.check()
    host.clock.time -= 10 * KEPT_MS
    await host.check()
    assert len(host.asked) == 2


@pytest.mark.skipif(not REAL.exists(), reason="the saved pages are not here")
async def test_a_real_file_is_read_with_its_wildcards(host: Host) -> None:
    host.will_say((REAL / "c24_robots_www.alibaba.com.txt").read_text())
    assert await host.check("https://www.alibaba.com/product-detail/x.html") is None
    assert (await host.refusal("https://www.alibaba.com/x?tracelog=a")).outcome == "robots"
