"""Walks of lists whose pages hang on each other, with a real ledger and frontier: what is read once is never lost, and
no walk says complete of what it could not read (P1, P2, P5).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from fyke.errors import FetchFailed
from fyke.model import FetchPolicy, Request, Response, RunRow
from fyke.pipeline.discovering import all_listings
from fyke.pipeline.once import OnceReport
from fyke.ports import Gate
from fyke.sources.source import FileSource
from tests.crash.virtual import VirtualClock, run_virtual
from tests.pipeline.network import SECONDS, PlayedNetwork, office
from tests.unit.sources.making import made

WEB = "http://site.example"
WAIT_MS = 3_000_000  # longer than the attempts of one list page
HEAD = """
id: lists
identity: {scope: site.example, key: {field: id}}
store: {table: news}
fetch: {politeness: {delay: 0s, jitter: 0s}}
"""


class ListNetwork(PlayedNetwork):
    """A site that answers whole requests, also with bytes."""

    def __init__(self, clock: VirtualClock, respond: Callable[[Request], tuple[int, str | bytes]]) -> None:
        super().__init__(clock, lambda _: (404, {}, ""))
        self.respond, self.requests = respond, list[Request]()

    async def fetch(self, request: Request, policy: FetchPolicy, gate: Gate) -> Response:
        started = self._clock.now()
        if request.url.endswith("/robots.txt"):
            return Response(request.url, 404, {}, b"", "", started_at=started)
        self.requests.append(request)
        await self._clock.sleep(SECONDS)
        status, body = self.respond(request)
        data = body if isinstance(body, bytes) else body.encode()
        text = body if isinstance(body, str) else ""
        return Response(request.url, status, {"etag": '"1"'}, data, text, started_at=started)

    @property
    def asked(self) -> list[str]:
        return [request.url.removeprefix(WEB) for request in self.requests]


class World:
    """One source on one site, run by run."""

    def __init__(self, path: Path, source: FileSource, respond: Callable[[Request], tuple[int, str | bytes]]) -> None:
        self.path, self.source, self.clock = path, source, VirtualClock()
        self.network = ListNetwork(self.clock, respond)
        self.runs: list[RunRow] = []

    async def collect(self) -> OnceReport:
        self.network.requests.clear()
        source = cast(Any, self.source)
        async with office(self.path, self.clock, self.network, source, number=len(self.runs) + 1, wait=WAIT_MS) as one:
            await one.apply(source)
            report = await one.collect(self.source.resolved.id)
            self.runs = await one.ledger.runs(self.source.resolved.id)
            self.clock.jump(3_600_000)
            return report

    async def ask(self, question: str) -> list[tuple[Any, ...]]:
        async with office(self.path, self.clock, self.network, cast(Any, self.source)) as one:
            return await one.ledger._read(  # the ledger's own database
                lambda connection: [tuple(row) for row in connection.execute(question)]
            )

    async def keys(self) -> list[str]:
        return [key for (key,) in await self.ask("SELECT _key FROM news ORDER BY _key")]

    def passes(self, at: int = 0) -> dict[str, tuple[str, str]]:
        return {row.listing: (row.state.value, row.reason) for row in self.runs[at].passes}


def rows(*keys: str, **more: Any) -> str:
    return json.dumps({"rows": [{"id": key} for key in keys], **more})


def query(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}


CURSOR = """
listing:
  request: {url: "http://site.example/list", query: {after: "{cursor}"}}
  pages: {cursor: {json: next}}
  rows: {json: rows}
  fields: {id: {json: id}}
  connect: {known: 2}
  start: all
"""
CHAIN = {"": (("6", "5"), "x+1"), "x+1": (("4", "3"), "x=2"), "x=2": (("2", "1"), None)}


def test_a_walk_by_cursor_goes_on_after_a_failure_where_it_was(tmp_path: Path) -> None:
    failures = [503]

    def respond(request: Request) -> tuple[int, str]:
        after = query(request).get("after", "")
        if after == "x=2" and failures:
            return failures.pop(), ""
        keys, following = CHAIN[after]
        return 200, rows(*keys, next=following)

    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(CURSOR, head=HEAD), respond)
        report = await world.collect()
        assert (report.problems, await world.keys()) == ([], list("123456"))
        # The page before is read once more with its own cursor, then the walk goes on: page one is not asked again
        # before the second look.
        assert world.network.asked[:5] == [
            "/list",
            "/list?after=x%2B1",
            "/list?after=x%3D2",
            "/list?after=x%2B1",
            "/list?after=x%3D2",
        ]
        assert world.passes() == {"main": ("complete", "")}

    run_virtual(scene())


def test_cursors_that_go_in_a_circle_end_as_a_gap_and_lose_no_row(tmp_path: Path) -> None:
    # Rows differ each time, so that only the cursor tells.
    number = iter(range(1_000))

    def respond(request: Request) -> tuple[int, str]:
        following = {"": "a", "a": "b", "b": "a"}[query(request).get("after", "")]
        return 200, rows(f"{next(number):03}", next=following)

    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(CURSOR, head=HEAD), respond)
        await world.collect()
        (state,) = world.passes().values()
        assert state[0] == "gap"
        assert "that this walk has read already" in state[1]
        assert world.network.asked == ["/list", "/list?after=a", "/list?after=b"]
        assert await world.keys() == ["000", "001", "002"]

    run_virtual(scene())


VIEWSTATE = """
listing:
  request: {url: "http://site.example/list.aspx"}
  pages:
    number: {first: 1}
    request:
      url: http://site.example/list.aspx
      form: {__EVENTTARGET: grid, __EVENTARGUMENT: "Page${page}", __VIEWSTATE: "{state}"}
    carry: {state: {css: "#__VIEWSTATE::attr(value)"}}
    more: {css: a.next}
  rows: {in: "ul#grid", css: "> li"}
  fields: {id: {css: a}}
  start: all
"""


class AspSite:
    """Gives a new state with each page, and takes only the last one that it gave. `forgets`: at which page once."""

    def __init__(self, forgets: int = 0) -> None:
        self.states, self.forgets = 0, forgets

    def __call__(self, request: Request) -> tuple[int, str]:
        page = 1
        if request.form is not None:
            form = dict(request.form)
            page = int(form["__EVENTARGUMENT"].removeprefix("Page$"))
            if page == self.forgets:
                self.forgets, self.states = 0, self.states + 10
            if form["__VIEWSTATE"] != f"s{self.states}":
                return 200, "<title>Runtime Error</title><p>The state information is invalid for this page.</p>"
        self.states += 1
        listed = "".join(f"<li><a>{key}</a>" for key in (7 - 2 * page + 1, 7 - 2 * page))
        more = "<a class=next>2</a>" if page < 3 else ""
        return 200, f'<input id=__VIEWSTATE value="s{self.states}"><ul id=grid>{listed}</ul>{more}'


def test_a_chain_of_view_states_is_walked_in_order(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(VIEWSTATE, head=HEAD), AspSite())
        report = await world.collect()
        assert (report.problems, world.passes()) == ([], {"main": ("complete", "")})
        assert await world.keys() == list("123456")
        assert [request.method for request in world.network.requests[:3]] == ["GET", "POST", "POST"]

    run_virtual(scene())


def test_a_stale_view_state_is_an_outcome_and_the_page_before_gives_a_new_one(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(VIEWSTATE, head=HEAD), AspSite(forgets=3))
        report = await world.collect()
        # The stale answer became no rows and no end of the list.
        assert (report.problems, await world.keys()) == ([], list("123456"))
        assert world.passes() == {"main": ("complete", "")}
        assert await world.ask("SELECT count(*) FROM refused") == [(0,)]

    run_virtual(scene())


SITEMAP = """
listing:
  request: {url: "http://site.example/index.xml"}
  rows: {sitemap: urls}
  fields: {id: {sitemap: loc}}
  connect: all
  order: none
"""


def urlset(*names: str) -> str:
    return "<urlset>" + "".join(f"<url><loc>{WEB}/{name}</loc></url>" for name in names) + "</urlset>"


def index(*names: str) -> str:
    parts = "".join(f"<sitemap><loc>{WEB}/{name}</loc></sitemap>" for name in names)
    return f"<sitemapindex>{parts}</sitemapindex>"


class Sitemaps:
    def __init__(self, **pages: str | bytes) -> None:
        self.pages = {name.replace("_", "."): page for name, page in pages.items()}

    def __call__(self, request: Request) -> tuple[int, str | bytes]:
        page = self.pages.get(request.url.removeprefix(f"{WEB}/"))
        return (404, "") if page is None else (200, page)


def test_an_index_of_sitemaps_is_followed_to_packed_empty_and_nested_ones(tmp_path: Path) -> None:
    site = Sitemaps(
        index_xml=index("a.xml", "empty.xml", "b.xml.gz", "deep.xml", "a.xml"),
        a_xml=urlset("1", "2"),
        empty_xml=urlset(),
        b_xml_gz=gzip.compress(urlset("3").encode()),
        deep_xml=index("index.xml", "c.xml", "a.xml"),
        c_xml=urlset("4"),
    )

    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(SITEMAP, head=HEAD), site)
        report = await world.collect()
        assert (report.problems, world.passes()) == ([], {"main": ("complete", "")})
        assert await world.keys() == [f"{WEB}/{n}" for n in range(1, 5)]
        one_round = ["/index.xml", "/a.xml", "/empty.xml", "/b.xml.gz", "/deep.xml", "/c.xml"]
        assert world.network.asked[: len(one_round)] == one_round
        # An index that has not changed says nothing of the sitemaps that it names.
        site.pages["c.xml"] = urlset("4", "5")
        await world.collect()
        assert all("If-None-Match" not in request.headers for request in world.network.requests)
        assert len(await world.keys()) == 5

    run_virtual(scene())


def test_a_sitemap_that_its_index_names_and_that_is_not_there_is_a_gap_and_the_others_are_read(tmp_path: Path) -> None:
    site = Sitemaps(index_xml=index("gone.xml", "a.xml"), a_xml=urlset("1"))

    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(SITEMAP, head=HEAD), site)
        await world.collect()
        assert await world.keys() == [f"{WEB}/1"]
        assert world.passes() == {"main": ("gap", f"{WEB}/gone.xml: status 404")}
        site.pages["gone.xml"] = urlset("2")
        await world.collect()
        assert (await world.keys(), world.passes()["main"][0]) == ([f"{WEB}/1", f"{WEB}/2"], "complete")

    run_virtual(scene())


def test_an_index_whose_only_sitemap_is_not_there_is_a_failure_and_no_empty_site(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(SITEMAP, head=HEAD), Sitemaps(index_xml=index("gone.xml")))
        await world.collect()
        assert world.passes() == {
            "main": ("failed", f"no part of the index shows an entry: {WEB}/gone.xml: status 404")
        }

    run_virtual(scene())


DISCOVER = """
each:
  discover:
    request: {url: "http://site.example/nav"}
    rows: {json: channels}
    fields: {channel: {json: id}}
listing:
  request: {url: "http://site.example/list/{channel}"}
  rows: {json: rows}
  fields: {id: {json: id}, channel_of: {template: "{channel}"}}
"""


class Channels:
    """`channels`: what the site names, with what each shows; None: the page that names them is down."""

    def __init__(self, **channels: tuple[str, ...]) -> None:
        self.channels: dict[str, tuple[str, ...]] | None = channels

    def __call__(self, request: Request) -> tuple[int, str]:
        if request.url.endswith("/nav"):
            if self.channels is None:
                return 200, "<p>maintenance</p>"
            return 200, json.dumps({"channels": [{"id": name} for name in self.channels]})
        return 200, rows(*(self.channels or {})[request.url.rpartition("/")[2]])


def test_the_values_of_each_are_found_anew_in_each_run_and_vanished_ones_keep_their_coverage(tmp_path: Path) -> None:
    site = Channels(a=("2", "1"), b=("9", "1"))

    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(DISCOVER, head=HEAD), site)
        report = await world.collect()
        assert report.problems == []
        states = {"each.discover": ("complete", ""), "channel=a": ("complete", ""), "channel=b": ("complete", "")}
        assert world.passes() == states
        # One item, though two lists of the scope show it; each list tells that it has shown it.
        assert await world.keys() == ["1", "2", "9"]
        assert await world.ask("SELECT count(*) FROM sighting WHERE key = '1'") == [(2,)]
        covered = await world.ask("SELECT l.name FROM stretch s JOIN listing l ON l.id = s.listing_id ORDER BY l.name")
        site.channels = {"a": ("3", "2"), "new": ("n",)}
        await world.collect()
        assert world.passes().keys() == {"each.discover", "channel=a", "channel=new"}
        assert await world.keys() == ["1", "2", "3", "9", "n"]
        names = await world.ask("SELECT l.name FROM stretch s JOIN listing l ON l.id = s.listing_id ORDER BY l.name")
        assert set(covered) <= set(names)

    run_virtual(scene())


def test_a_discovery_that_fails_is_a_failed_run_and_no_empty_one(tmp_path: Path) -> None:
    site = Channels(a=("1",))

    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(DISCOVER, head=HEAD), site)
        await world.collect()
        site.channels = None
        report = await world.collect()
        assert world.runs[0].state.value == "failed"
        assert world.passes().keys() == {"each.discover"}
        assert "misfit" in world.passes()["each.discover"][1]
        assert report.problems != []
        assert await world.keys() == ["1"]

    run_virtual(scene())


def test_a_discovery_that_finds_far_fewer_values_is_told_and_walks_what_is_left(tmp_path: Path) -> None:
    site = Channels(**{f"c{n}": (str(n),) for n in range(6)})

    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(DISCOVER, head=HEAD), site)
        await world.collect()
        site.channels = {"c0": ("0", "new")}
        await world.collect()
        assert world.passes() == {
            "each.discover": ("suspicious", "the discovery found 1 listing(s); usual are 6"),
            "channel=c0": ("complete", ""),
        }
        assert "new" in await world.keys()

    run_virtual(scene())


def test_a_row_of_a_discovery_without_a_value_is_refused_and_shown(tmp_path: Path) -> None:
    def respond(request: Request) -> tuple[int, str]:
        return 200, '{"channels": [{"id": "a"}, {"name": "no id"}]}' if request.url.endswith("/nav") else rows("1")

    async def scene() -> None:
        world = World(tmp_path / "ledger.db", made(DISCOVER, head=HEAD), respond)
        await world.collect()
        assert world.passes()["each.discover"][0] == "suspicious"
        assert world.passes()["channel=a"][0] == "complete"
        assert await world.ask("SELECT count(*) FROM refused") == [(1,)]

    run_virtual(scene())


def test_rows_named_twice_in_one_answer_are_one_item(tmp_path: Path) -> None:
    source = made(
        """
        listing:
          request: {url: "http://site.example/list"}
          rows: {json: "[result, pageHelp.data][]"}
          fields: {id: {json: id}}
        """,
        head=HEAD,
    )

    def respond(request: Request) -> tuple[int, str]:
        twice = [{"id": "2"}, {"id": "1"}]
        return 200, json.dumps({"result": twice, "pageHelp": {"data": twice}})

    async def scene() -> None:
        world = World(tmp_path / "ledger.db", source, respond)
        report = await world.collect()
        assert (report.problems, await world.keys()) == ([], ["1", "2"])
        (run,) = world.runs
        assert run.entries == run.new + run.known + run.refused
        assert run.new == 2

    run_virtual(scene())


async def test_commands_that_only_look_are_given_the_listings_that_are_found() -> None:
    site, source = Channels(a=(), b=()), made(DISCOVER, head=HEAD)

    async def fetch(request: Request) -> Response:
        status, text = site(request)
        return Response(request.url, status, {}, text.encode(), text)

    assert [listing.name for listing in await all_listings(source, fetch)] == ["channel=a", "channel=b"]
    site.channels = None
    with pytest.raises(FetchFailed, match="no JSON"):
        await all_listings(source, fetch)
    assert [listing.name for listing in await all_listings(made(CURSOR, head=HEAD), fetch)] == ["main"]
