"""The played site: two list pages and five notices, one of which is gone, one answers 503 once, one is edited later."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from fyke.errors import FetchFailed
from fyke.model import (
    Column,
    DetailPage,
    Entry,
    FetchPolicy,
    Fields,
    LanePolicy,
    Listing,
    ListPage,
    Outcome,
    Request,
    ResolvedSource,
    Response,
)
from fyke.policy.identity import content_hash
from fyke.ports import Clock, Gate, SourceChecks, SourceConnect, SourceSchedule

SOURCE_ID = "played"
HOST = "http://site.example"
PER_PAGE = 3
SECONDS = {f"{HOST}/detail/a": 5.0}
"""How long an answer takes where it is not quick: longer than a third of a lease, so that it is renewed."""


class PlayedSite:
    """What the site shows now. `titles`: key → title, newest first; `gone`: keys whose detail answers 404.

    `busy_once`: addresses that answer 503 with Retry-After to their first request.
    """

    def __init__(self) -> None:
        self.titles = {"e": "fünf", "d": "四", "c": "trois", "b": "two", "a": "uno"}
        self.gone = {"c"}
        self.busy_once, self.edited = {f"{HOST}/list/2", f"{HOST}/detail/b"}, {"d"}

    def edit(self) -> None:
        """One notice gets another title, and a new one comes."""
        self.titles = {"f": "六", **self.titles, "d": "四 (corrected)"}

    def answer(self, url: str) -> tuple[int, str]:
        if url in self.busy_once:
            self.busy_once.discard(url)
            return 503, "busy"
        kind, name = url.removeprefix(f"{HOST}/").split("/")
        if kind == "list":
            keys = list(self.titles)[(int(name) - 1) * PER_PAGE : int(name) * PER_PAGE]
            rows = [{"key": key, "title": self.titles[key]} for key in keys]
            return 200, json.dumps({"rows": rows, "more": int(name) * PER_PAGE < len(self.titles)})
        if name in self.gone:
            return 404, "gone"
        return 200, json.dumps({"title": self.titles[name], "body": f"body of {name}"})


class PlayedFetcher:
    """`ports.Fetcher` over the played site."""

    def __init__(self, site: PlayedSite, clock: Clock, fetches: Counter[str]) -> None:
        self._site, self._clock, self._fetches = site, clock, fetches

    async def fetch(self, request: Request, policy: FetchPolicy, gate: Gate) -> Response:
        self._fetches[request.url] += 1
        started = self._clock.now()
        status, text = self._site.answer(request.url)
        await self._clock.sleep(SECONDS.get(request.url, 0.3))
        body = text.encode()
        headers = {"retry-after": "2"} if status == 503 else {}
        return Response(request.url, status, headers, body, text, started_at=started)

    async def close(self) -> None:
        return None


class PlayedRobots:
    async def check(self, url: str, policy: FetchPolicy, gate: Gate) -> int | None:
        return None


class PlayedSource:
    """A source as a Python class of the port's shape."""

    resolved = ResolvedSource(
        id=SOURCE_ID,
        title="played",
        text='{"id": "played"}',
        hash="1",
        scope="played",
        table="notices",
        identity="key",
        columns=(Column("title", required=True), Column("body")),
        has_detail=True,
        lanes=(LanePolicy("site.example", gap=0, jitter=0, concurrency=4),),
    )
    schedule = SourceSchedule()
    connect = SourceConnect(known=2, start="all")
    checks = SourceChecks()
    fetch = FetchPolicy()
    list_fields: tuple[str, ...] = ("title",)
    compared: tuple[str, ...] = ("title", "body")
    paged = True
    steps = 1

    def listings(self) -> list[Listing]:
        return [Listing("main")]

    def list_request(self, listing: Listing, cursor: dict[str, Any] | None) -> Request:
        return Request(f"{HOST}/list/{1 if cursor is None else cursor['page']}")

    def read_page(self, listing: Listing, response: Response, cursor: dict[str, Any] | None) -> ListPage:
        page = 1 if cursor is None else cursor["page"]
        data = json.loads(response.text)
        entries = [
            Entry(
                position=n,
                key=row["key"],
                fields={"title": row["title"], "url": f"{HOST}/detail/{row['key']}"},
                hash=content_hash({"title": row["title"]}, ("title",)),
                url=f"{HOST}/detail/{row['key']}",
                lane="site.example",
            )
            for n, row in enumerate(data["rows"])
        ]
        following = {"page": page + 1} if data["more"] else None
        return ListPage(Outcome.OK, entries=entries, next=following, blank=not entries, last_by_hint=following is None)

    def detail_request(self, step: int, fields: Fields) -> Request:
        return Request(fields["url"])

    def read_detail(self, step: int, response: Response, fields: Fields) -> DetailPage:
        try:
            return DetailPage(Outcome.OK, fields=json.loads(response.text))
        except ValueError as error:
            raise FetchFailed("misfit", str(error)) from error

    def record(self, entry: Fields, detail: Fields) -> tuple[Fields, bytes, dict[str, bool]]:
        record = {"title": detail.get("title") or entry["title"], "body": detail.get("body")}
        return record, content_hash(record, self.compared), {"title": True, "body": bool(record["body"])}


def make_source() -> PlayedSource:
    return PlayedSource()
