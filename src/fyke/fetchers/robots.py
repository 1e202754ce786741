"""robots.txt: asked once per host and day for the whole cluster; the answers live in the ledger.

A host that does not answer is not asked for anything else until it does. Keeps P4: asking is a request like any
other and goes through the gate.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

from msgspec.structs import replace
from protego import Protego
from yarl import URL

from fyke.errors import FetchFailed
from fyke.fetchers.guard import read_address
from fyke.model import FetchPolicy, LaneRow, Outcome, Request
from fyke.policy.politeness import lane_of
from fyke.policy.status import outcome_of_status, retry_after
from fyke.ports import Clock, Fetcher, Gate

AGENT: Final = "Fyke"
KEPT_MS: Final = 24 * 3_600_000
AGAIN_MS: Final = 5 * 60_000
LONGEST_DELAY_MS: Final = 3_600_000
LARGEST: Final = 500_000  # bytes that count
TOO_LARGE: Final = 4 * LARGEST
HOSTS_KEPT: Final = 1_000
_NO_RULES: Final = "# no rules: "
# The host answers, but with what can be no robots.txt: as good as none.
_NONE_THERE: Final = frozenset({Outcome.TOO_LARGE, Outcome.ERROR})


class RobotsBook(Protocol):
    """The part of the ledger that this needs."""

    async def robots(self, lane: str) -> LaneRow | None: ...

    async def put_robots(self, lane: str, status: int, text: str) -> None: ...


class _Answer:
    """What a host answered; `rules` None: everything is allowed. `away`: it did not answer, until `ends`."""

    __slots__ = ("away", "delay", "ends", "rules")

    def __init__(self, ends: int, text: str = "", away: str = "") -> None:
        self.ends, self.away = ends, away
        self.rules = Protego.parse(text) if text else None
        self.delay = _delay(self.rules) if self.rules else None


def robots_delay(text: str | None) -> int | None:
    """The delay in ms that a kept robots.txt asks of us, if any."""
    return _Answer(0, text).delay if text else None


class _Turn:
    """One asks, the others wait for what it hears."""

    __slots__ = ("lock", "takers")

    def __init__(self) -> None:
        self.lock, self.takers = asyncio.Lock(), 0


class RobotsRules:
    """Implements `ports.Robots`.

    `check` is given the gate of the task that asks; a gate that itself asks robots.txt is not asked in a circle.
    """

    def __init__(self, store: RobotsBook, fetcher: Fetcher, clock: Clock) -> None:
        self._store, self._fetcher, self._clock = store, fetcher, clock
        self._known: OrderedDict[str, _Answer] = OrderedDict()
        self._asking: dict[str, _Turn] = {}
        self._askers: set[asyncio.Task[object] | None] = set()

    async def check(self, url: str, policy: FetchPolicy, gate: Gate) -> int | None:
        if not policy.respect_robots:
            return None
        address = read_address(url)
        if address.raw_path == "/robots.txt" or asyncio.current_task() in self._askers:
            return None
        lane = lane_of(str(address))
        answer = self._fresh(lane) or await self._ask_once(lane, address, policy, gate)
        if answer.away:
            wait = max(answer.ends - self._clock.now(), 1_000)
            raise FetchFailed(Outcome.UNAVAILABLE, answer.away, retry_after=wait, evidence={"robots": lane})
        if answer.rules is not None and not answer.rules.can_fetch(str(address), AGENT):
            raise FetchFailed(Outcome.ROBOTS, f"robots.txt of {lane} forbids {url}", evidence={"robots": lane})
        return answer.delay

    def _fresh(self, lane: str) -> _Answer | None:
        answer = self._known.get(lane)
        # A clock that was set back must not keep an answer for longer than it lives.
        if answer is None or not 0 < answer.ends - self._clock.now() <= KEPT_MS:
            return None
        self._known.move_to_end(lane)
        return answer

    async def _ask_once(self, lane: str, address: URL, policy: FetchPolicy, gate: Gate) -> _Answer:
        turn = self._asking.setdefault(lane, _Turn())
        turn.takers += 1
        try:
            async with turn.lock:
                answer = self._fresh(lane)
                if answer is None:
                    answer = await self._recall(lane) or await self._ask(lane, address, policy, gate)
                    self._known[lane] = answer
                    if len(self._known) > HOSTS_KEPT:
                        self._known.popitem(last=False)
                return answer
        finally:
            turn.takers -= 1
            if not turn.takers:
                del self._asking[lane]

    async def _recall(self, lane: str) -> _Answer | None:
        row = await self._store.robots(lane)
        if row is None or row.robots_at is None:
            return None
        away = _is_away(row.robots_status or 0)
        ends = row.robots_at + (AGAIN_MS if away else KEPT_MS)
        if not 0 < ends - self._clock.now() <= KEPT_MS:
            return None
        return _Answer(ends, row.robots_text or "", _away(lane, row.robots_status or 0) if away else "")

    async def _ask(self, lane: str, address: URL, policy: FetchPolicy, gate: Gate) -> _Answer:
        url = str(address.origin()) + "/robots.txt"
        ours = replace(policy, max_body=TOO_LARGE, encoding=None)
        task = asyncio.current_task()
        self._askers.add(task)
        try:
            await gate.admit(url)
            response = await self._fetcher.fetch(Request(url=url), ours, gate)
        except FetchFailed as failed:
            return await self._failed(lane, failed)
        finally:
            self._askers.discard(task)
        now = self._clock.now()
        if _is_away(response.status):
            wait = retry_after(response.headers.get("retry-after"), now, cap=KEPT_MS) or AGAIN_MS
            await self._store.put_robots(lane, response.status, "")
            return _Answer(now + wait, away=_away(lane, response.status))
        text = _rules_of(response.text) if outcome_of_status(response.status) is Outcome.OK else ""
        await self._store.put_robots(lane, response.status, text)
        return _Answer(now + KEPT_MS, text)

    async def _failed(self, lane: str, failed: FetchFailed) -> _Answer:
        now = self._clock.now()
        if failed.outcome in _NONE_THERE or (failed.outcome == Outcome.POLICY and "redirects" in failed.evidence):
            text = _NO_RULES + " ".join(failed.reason.split())
            await self._store.put_robots(lane, int(failed.evidence.get("status", 0)) or 404, text)
            return _Answer(now + KEPT_MS, text)
        if failed.outcome in {Outcome.NETWORK, Outcome.TIMEOUT}:
            await self._store.put_robots(lane, 0, "")
            return _Answer(now + AGAIN_MS, away=f"robots.txt of {lane}: {failed.reason}")
        raise failed


def _is_away(status: int) -> bool:
    return status == 0 or outcome_of_status(status) is Outcome.UNAVAILABLE


def _away(lane: str, status: int) -> str:
    what = f"answers {status}" if status else "does not answer"
    return f"{lane} {what} when asked for robots.txt; it is asked again in some minutes"


def _rules_of(text: str) -> str:
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        return f"{_NO_RULES}a page of HTML was served as robots.txt"
    return text.encode()[:LARGEST].decode("utf-8", "ignore")


def _delay(rules: Protego) -> int | None:
    """The crawl delay in ms, or what the request rate comes to, whichever is longer."""
    delays = [rules.crawl_delay(AGENT) or 0.0]
    rate = rules.request_rate(AGENT)
    if rate is not None and rate.requests > 0:
        delays.append(rate.seconds / rate.requests)
    longest = min(max(delays) * 1_000, LONGEST_DELAY_MS)
    return int(longest) if longest > 0 else None
