"""Reading pages with a source while nothing is stored: the fetcher, robots.txt and the source's own pace (P4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fyke.app.stores import SystemClock
from fyke.model import LaneRow, Request, Response
from fyke.pipeline.requests import judge, lane_policy
from fyke.policy.politeness import lane_of
from fyke.ports import Clock, Fetcher, Robots, Source
from fyke.settings import Settings


class RobotsInHand:
    """Answers of robots.txt for the length of one command."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, LaneRow] = {}

    async def robots(self, lane: str) -> LaneRow | None:
        return self._rows.get(lane)

    async def put_robots(self, lane: str, status: int, text: str) -> None:
        self._rows[lane] = LaneRow(lane, robots_text=text, robots_status=status, robots_at=self._clock.now())


class Trial:
    """Fetches for one source, one request after the other, no faster than its policy. Also the gate of its requests."""

    def __init__(self, source: Source, fetcher: Fetcher, robots: Robots, clock: Clock) -> None:
        self._source, self._fetcher, self._robots, self._clock = source, fetcher, robots, clock
        self._next: dict[str, float] = {}
        self._delays: dict[str, int] = {}

    async def fetch(self, request: Request) -> Response:
        """The answer to a request, once robots.txt and the pace allow it.

        Raises:
            FetchFailed: no usable answer, or robots.txt forbids it.
        """
        await self.admit(request.url)
        response = await self._fetcher.fetch(request, self._source.fetch, self)
        judge(response, self._source.fetch)
        return response

    async def admit(self, url: str) -> None:
        lane = lane_of(url)
        self._delays[lane] = await self._robots.check(url, self._source.fetch, self) or self._delays.get(lane, 0)
        wait = self._next.get(lane, 0.0) - self._clock.monotonic()
        if wait > 0:
            await self._clock.sleep(wait)
        gap = max(lane_policy(self._source, lane).gap, self._delays[lane])
        self._next[lane] = self._clock.monotonic() + gap / 1000


@asynccontextmanager
async def open_trial(settings: Settings, source: Source) -> AsyncIterator[Trial]:
    """A trial of one source with its fetcher, closed at the end."""
    from fyke.fetchers.http import HttpFetcher
    from fyke.fetchers.robots import RobotsRules

    clock = SystemClock()
    fetcher = HttpFetcher(clock, user_agent=settings.fetch.user_agent, replay=settings.fetch.replay, concurrency=1)
    try:
        yield Trial(source, fetcher, RobotsRules(RobotsInHand(clock), fetcher, clock), clock)
    finally:
        await fetcher.close()
