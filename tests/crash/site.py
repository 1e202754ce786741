"""The played site: two list pages and five notices, one of which is gone, one answers 503 once, one is edited later."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from fyke.errors import FetchFailed
from fyke.model import (
    Column,
    DetailPage,
    Entry,
    FetchPolicy,
    Fields,
    FoundListings,
    LanePolicy,
    Listing,
    ListPage,
    Outcome,
    Relation,
    Request,
    ResolvedSource,
    Response,
)
from fyke.policy.identity import content_hash
from fyke.ports import Clock, Gate, SourceChecks, SourceConnect, SourceFill, SourceSchedule

SOURCE_ID = "played"
HOST = "http://site.example"
PER_PAGE = 3


class PlayedSite:
    """What the site shows now. `titles`: key → title, newest first; `gone`: keys whose detail answers 404.

    `removed`: those that answer 410. `busy_once`: addresses that answer 503 with Retry-After to their first request.
    `busy_s`: for how long.
    `blank`: how often a list page comes back without rows. `later`: what the details say besides, and no list tells
    of. `deadly`: addresses whose answer kills the process. `after_list`: what happens once a list page was made.
    `seconds`: how long an answer takes where it is not quick.
    """

    def __init__(self) -> None:
        self.titles = {"e": "fünf", "d": "四", "c": "trois", "b": "two", "a": "uno"}
        self.gone, self.edited = {"c"}, {"d"}
        self.busy_once = {f"{HOST}/list/2", detail("b")}
        self.busy_s = 2
        self.blank: Counter[int] = Counter()
        self.etag, self.later = "", ""
        self.deadly: set[str] = set()
        self.removed: set[str] = set()
        self.after_list: Callable[[int], None] = lambda page: None
        # Longer than a third of a lease, so that it is renewed.
        self.seconds = {detail("a"): 5.0}

    def edit(self) -> None:
        """One notice gets another title, and a new one comes."""
        self.titles = {"f": "六", **self.titles, "d": "四 (corrected)"}

    def edit_again(self, n: int) -> None:
        """One more edit: e gets another title and comes up again, and a new notice comes. (A walk reads no further than
        it must: an edit far down would rightly be missed.)
        """
        self.withdraw("e")
        self.titles = {f"g{n}": f"new {n}", "e": f"fünf ({n})", **self.titles}
        self.edited.add("e")

    def withdraw(self, *keys: str) -> None:
        self.titles = {key: title for key, title in self.titles.items() if key not in keys}

    def answer(self, request: Request) -> tuple[int, dict[str, str], str]:
        url = request.url
        if url in self.busy_once:
            self.busy_once.discard(url)
            return 503, {"retry-after": str(self.busy_s)}, "busy"
        kind, name = url.removeprefix(f"{HOST}/").split("/")
        if kind == "list":
            return self._list(int(name), request.headers.get("If-None-Match", ""))
        if name in self.removed:
            return 410, {}, "removed"
        if name in self.gone:
            return 404, {}, "gone"
        return 200, {}, json.dumps({"title": self.titles[name], "body": f"{kind} of {name}{self.later}"})

    def _list(self, page: int, known: str) -> tuple[int, dict[str, str], str]:
        headers = {"etag": self.etag} if self.etag else {}
        if self.etag and known == self.etag:
            return 304, headers, ""
        keys = list(self.titles)[(page - 1) * PER_PAGE : page * PER_PAGE]
        rows = [{"key": key, "title": self.titles[key]} for key in keys]
        more = page * PER_PAGE < len(self.titles)
        if self.blank[page]:
            self.blank[page] -= 1
            rows = []
        self.after_list(page)
        return 200, headers, json.dumps({"rows": rows, "more": more})


def detail(key: str) -> str:
    return f"{HOST}/detail/{key}"


class PlayedFetcher:
    """`ports.Fetcher` over the played site. `die` ends the process."""

    def __init__(self, site: PlayedSite, clock: Clock, fetches: Counter[str], die: Callable[[], None]) -> None:
        self._site, self._clock, self._fetches, self._die = site, clock, fetches, die

    async def fetch(self, request: Request, policy: FetchPolicy, gate: Gate) -> Response:
        self._fetches[request.url] += 1
        started = self._clock.now()
        status, headers, text = self._site.answer(request)
        await self._clock.sleep(self._site.seconds.get(request.url, 0.3))
        if request.url in self._site.deadly:
            self._die()
        return Response(request.url, status, headers, text.encode(), text, started_at=started)

    async def close(self) -> None:
        return None


class PlayedRobots:
    async def check(self, url: str, policy: FetchPolicy, gate: Gate) -> int | None:
        return None


class PlayedSource:
    """A source as a Python class of the port's shape. `hops`: the addresses of an item's visit."""

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
    connect = SourceConnect(known=2, start="all")
    checks = SourceChecks()
    fetch = FetchPolicy()
    list_fields: tuple[str, ...] = ("title",)
    compared: tuple[str, ...] = ("title", "body")
    paged = True
    fill: SourceFill | None = None

    def __init__(self, hops: tuple[str, ...] = ("detail",), schedule: SourceSchedule | None = None) -> None:
        self._hops, self.steps = hops, len(hops)
        self.schedule = schedule or SourceSchedule()

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
                fields={"title": row["title"], "key": row["key"]},
                hash=content_hash({"title": row["title"]}, ("title",)),
                url=detail(row["key"]),
                lane="site.example",
            )
            for n, row in enumerate(data["rows"])
        ]
        following = {"page": page + 1} if data["more"] else None
        return ListPage(Outcome.OK, entries=entries, next=following, blank=not entries, last_by_hint=following is None)

    def read_listings(self, listing: Listing, response: Response) -> FoundListings:
        return FoundListings(Outcome.ERROR, "the played source discovers nothing")

    def detail_request(self, step: int, fields: Fields) -> Request:
        return Request(f"{HOST}/{self._hops[step]}/{fields['key']}")

    def read_detail(self, step: int, response: Response, fields: Fields) -> DetailPage:
        try:
            return DetailPage(Outcome.OK, fields=json.loads(response.text))
        except ValueError as error:
            raise FetchFailed("misfit", str(error)) from error

    def revisit_at(self, opened_at: int, now: int) -> int | None:
        return None

    def relations(self, record: Fields) -> list[Relation] | None:
        return None

    def record(self, entry: Fields, detail: Fields) -> tuple[Fields, bytes, dict[str, bool]]:
        record = {"title": detail.get("title") or entry["title"], "body": detail.get("body")}
        return record, content_hash(record, self.compared), {"title": True, "body": bool(record["body"])}
