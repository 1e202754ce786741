"""The lab site as its visitors meet it: everything over HTTP on this machine."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from fyke.lab.site import RunningSite, SiteConfig, serve_site

FIRST = "/list/index.html"
SECOND = "/list/index_2.html"


class Visitor:
    """A client that asks for paths of one site."""

    def __init__(self, site: RunningSite, session: aiohttp.ClientSession) -> None:
        self.site, self.session = site, session

    async def get(self, path: str, **options: Any) -> tuple[int, bytes, Mapping[str, str]]:
        async with self.session.get(self.site.url + path, allow_redirects=False, **options) as response:
            return response.status, await response.read(), response.headers

    async def text(self, path: str) -> str:
        _, body, _ = await self.get(path)
        return body.decode("gb18030" if b"charset=gb2312" in body else "utf-8")

    async def statuses(self, path: str, hits: int) -> list[int]:
        return [(await self.get(path))[0] for _ in range(hits)]

    async def ids(self, path: str) -> list[str]:
        links = LexborHTMLParser(await self.text(path)).css("ul.list > li:not(.top) a")
        return [re.findall(r"_(\d+)\.html", link.attributes["href"] or "")[0] for link in links]

    async def walk(self) -> list[str]:
        found, path = [], FIRST
        while path:
            found += await self.ids(path)
            link = LexborHTMLParser(await self.text(path)).css_first("a.next")
            path = f"/list/{link.attributes['href']}" if link else ""
        return found

    async def post(self, path: str, value: Any = None) -> tuple[int, Any]:
        async with self.session.post(self.site.url + path, json=value) as response:
            return response.status, await response.json()

    def details(self, count: int | None = None) -> list[str]:
        records = self.site.truth()["records"].values()
        return [record["url"].removeprefix(self.site.url) for record in records][:count]


@asynccontextmanager
async def visiting(**config: Any) -> AsyncIterator[Visitor]:
    timeout = aiohttp.ClientTimeout(total=30)
    async with (
        await serve_site(SiteConfig(**config)) as site,
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        yield Visitor(site, session)


EVERYTHING = {"items": 60, "linkless": 1, "pinned": 1, "gbk": 0.5, "moves": 4, "moves_every": 2, "busy": 0.2}


async def test_two_servers_with_one_seed_send_the_same_bytes() -> None:
    async with visiting(seed=3, **EVERYTHING) as one, visiting(seed=3, **EVERYTHING) as other:
        paths = [FIRST, SECOND, FIRST, "/api/list?page=1", SECOND, *one.details(), "/robots.txt", "/nothing"]
        for path in paths:
            status, body, headers = await one.get(path)
            assert (await other.get(path))[:2] == (status, body)
            assert "Date" in headers
        feeds = [(await visitor.text("/feed.xml")).replace(visitor.site.url, "") for visitor in (one, other)]
        assert feeds[0] == feeds[1]
    async with visiting(seed=4, **EVERYTHING) as third:
        assert (await third.text("/feed.xml")).replace(third.site.url, "") != feeds[0]


async def test_the_truth_is_what_the_lists_show() -> None:
    async with visiting(items=95, per_page=10, linkless=3, pinned=2, dead=2) as visitor:
        truth = visitor.site.truth()
        found = await visitor.walk()
        assert len(found) == len(set(found)) == 90
        assert {*found, *truth["pinned"]} == set(truth["ids"]) == set(visitor.site.truth()["shown"])
        rows = LexborHTMLParser(await visitor.text(FIRST)).css("ul.list > li")
        assert [row.attributes.get("class") for row in rows[:3]] == ["top", "top", None]
        assert "共95条 第1/10页" in await visitor.text(FIRST)
        assert (await visitor.get("/list/index_11.html"))[0] == 404
        assert (await visitor.get("/list/index_1.html"))[0] == 404


async def test_each_record_of_the_truth_is_what_its_detail_says() -> None:
    async with visiting(items=80, gbk=0.4, detail_size=15_000) as visitor:
        sizes, charsets = [], set()
        for key, record in visitor.site.truth()["records"].items():
            status, body, headers = await visitor.get(record["url"].removeprefix(visitor.site.url))
            tree = LexborHTMLParser(await visitor.text(record["url"].removeprefix(visitor.site.url)))
            assert status == 200
            assert [node.text() for node in tree.css("h1")] == [record["title"]]
            buyer, budget, number, published = [node.text() for node in tree.css("table.info td")]
            amount, unit = budget.replace(",", "").split()
            assert round(float(amount) * {"元": 1, "万元": 10_000}[unit]) == record["budget"]
            assert (buyer, number, published) == (record["buyer"], record["project_no"], record["published"])
            assert key in record["url"]
            sizes.append(len(body))
            charsets.add(headers["Content-Type"])
        assert charsets == {"text/html", "text/html; charset=utf-8"}
        assert min(sizes) > 10_000
        assert max(sizes) < 17_000


async def test_api_feed_and_list_show_the_same() -> None:
    async with visiting(items=45, pinned=1) as visitor:
        records: list[dict[str, Any]] = []
        for page, path in ((1, FIRST), (2, SECOND)):
            answer = json.loads(await visitor.text(f"/api/list?page={page}"))
            assert (answer["code"], answer["data"]["total"], answer["data"]["pages"]) == (200, 45, 3)
            records = answer["data"]["records"]
            assert [record["id"] for record in records if not record["top"]] == await visitor.ids(path)
        for body in ({"data": {"page": "2"}}, {"json": {"page": 2}}):
            async with visitor.session.post(visitor.site.url + "/api/list", **body) as response:
                assert (await response.json())["data"]["records"] == records
        feed = etree.fromstring((await visitor.text("/feed.xml")).encode())
        guids = [node.text for node in feed.iterfind("channel/item/guid")]
        assert guids == [*await visitor.ids(FIRST), *await visitor.ids(SECOND)][:30]
        assert json.loads(await visitor.text("/api/list?page=9"))["data"]["records"] == []


async def test_control_adds_edits_removes_pins_and_deletes() -> None:
    async with visiting(items=30) as visitor:
        await visitor.ids(FIRST)
        status, done = await visitor.post(
            "/_control", {"add": 2, "edit": 1, "edit_silent": 1, "remove": 1, "pin": 1, "delete": 1}
        )
        assert status == 200
        assert {name: len(ids) for name, ids in done.items()} == {
            **{"add": 2, "edit": 1, "edit_silent": 1, "remove": 1, "pin": 1, "delete": 1}
        }
        shown = await visitor.walk()
        assert set(done["add"]) <= set(shown)
        assert not {*done["remove"], *done["pin"]} & set(shown)
        truth = json.loads(await visitor.text("/_truth"))
        assert (truth["listed_total"], truth["dead"], truth["pinned"]) == (32, done["delete"], done["pin"])
        assert {truth["records"][key]["version"] for key in (*done["edit"], *done["edit_silent"])} <= {2, 3}
        gone = truth["records"][done["delete"][0]]["url"].removeprefix(visitor.site.url)
        assert (await visitor.get(gone))[0] == 404


async def test_an_edited_detail_is_served_anew() -> None:
    async with visiting(items=5) as visitor:
        (path,) = visitor.details(1)
        await visitor.text(path)
        key = visitor.site.truth()["ids"][0]
        visitor.site.control(edit=[key])
        title = LexborHTMLParser(await visitor.text(path)).css("h1")[0].text()
        assert title == visitor.site.truth()["records"][key]["title"]
        assert title.endswith("（第2次修改）")


@pytest.mark.parametrize(
    "wrong",
    [
        {"ad": 1},
        {"add": -1},
        {"add": True},
        {"edit": ["1"]},
        {"list_layout": 3},
        {"everywhere": "x"},
        [],
        {"script": 1},
    ],
)
async def test_a_wrong_control_is_refused_with_a_reason(wrong: Any) -> None:
    async with visiting(items=5) as visitor:
        status, answer = await visitor.post("/_control", wrong)
        assert status == 400
        assert answer["error"]
        assert (await visitor.get("/_control"))[0] == 405


async def test_the_list_moves_while_it_is_read_and_comes_to_rest() -> None:
    config = {"items": 100, "per_page": 10, "moves": 3, "moves_every": 2, "move_kinds": ("add",)}
    async with visiting(**config) as visitor:
        before = await visitor.ids(FIRST)
        assert await visitor.ids(FIRST) == before
        assert await visitor.ids(FIRST) != before
        states = [await visitor.ids(FIRST) for _ in range(20)]
        assert states[4:] == [states[4]] * 16
        assert 103 <= visitor.site.truth()["listed_total"] <= 109


async def test_what_no_answer_showed_is_listed_but_not_shown() -> None:
    async with visiting(items=30, script={SECOND: ("503", "cut", "ok")}) as visitor:
        await visitor.get(FIRST)
        await visitor.get(SECOND)
        with pytest.raises(aiohttp.ClientPayloadError):
            await visitor.get(SECOND)
        assert len(visitor.site.truth()["shown"]) == 20
        await visitor.get(SECOND)
        assert len(visitor.site.truth()["shown"]) == 30


async def test_an_empty_list_page_has_its_container_and_comes_once() -> None:
    async with visiting(items=30, empty_lists=1) as visitor:
        tree = LexborHTMLParser(await visitor.text(SECOND))
        assert len(tree.css("ul.list")) == 1
        assert tree.css("ul.list > li") == []
        assert len(await visitor.ids(SECOND)) == 10
        assert json.loads(await visitor.text("/api/list?page=1"))["data"]["records"] == []


async def test_bursts_of_503_and_429_end() -> None:
    async with visiting(items=5, busy=1, throttled=1, burst=2, retry_after=3) as visitor:
        assert await visitor.statuses(FIRST, 5) == [503, 503, 429, 429, 200]
        (path,) = visitor.details(1)
        await visitor.statuses(path, 2)
        status, _, headers = await visitor.get(path)
        assert (status, headers["Retry-After"]) == (429, "3")


async def test_a_reset_connection_brings_no_byte_and_the_next_hit_is_good() -> None:
    async with visiting(items=5, resets=1) as visitor:
        # Not by aiohttp's client: it repeats such a request once by itself.
        reader, writer = await asyncio.open_connection("127.0.0.1", visitor.site.port)
        writer.write(f"GET {FIRST} HTTP/1.1\r\nHost: site\r\n\r\n".encode())
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        assert (await visitor.get(FIRST))[0] == 200
        assert [status for _, _, status in visitor.site.hits()["arrivals"]] == [0, 200]


async def test_a_slow_body_comes_in_pieces_and_whole() -> None:
    async with visiting(items=5, slow=1, slow_seconds=0.02) as visitor:
        async with visitor.session.get(visitor.site.url + FIRST) as response:
            first = await response.content.readany()
            body = first + await response.content.read()
        assert len(first) < len(body) == int(response.headers["Content-Length"])
        assert body == (await visitor.get(FIRST))[1]


async def test_an_endless_body_goes_on_until_the_client_leaves() -> None:
    async with visiting(items=5, endless=1) as visitor:
        async with visitor.session.get(visitor.site.url + FIRST) as response:
            assert "Content-Length" not in response.headers
            size = 0
            while size < 2_000_000:
                size += len(await response.content.readany())
        assert (await visitor.get(FIRST))[0] == 200


async def test_a_soft_block_is_a_200_without_the_page() -> None:
    async with visiting(items=5, soft_blocks=1, soft_block_hits=2) as visitor:
        for _ in range(2):
            status, body, _ = await visitor.get(FIRST)
            assert status == 200
            assert "频繁访问" in body.decode()
            assert json.loads(await visitor.text("/api/list?page=1"))["code"] == 829
        assert len(await visitor.ids(FIRST)) == 5


async def test_details_can_be_late_deleted_poisoned_or_private() -> None:
    async with visiting(items=30, late=1, late_hits=2, dead=1, poison=1, private=1) as visitor:
        truth = visitor.site.truth()
        paths = {key: record["url"].removeprefix(visitor.site.url) for key, record in truth["records"].items()}
        expected = {key: [404, 404, 404 if key in truth["dead"] else 200] for key in paths}
        assert {key: await visitor.statuses(path, 3) for key, path in paths.items()} == expected
        poisoned = LexborHTMLParser(await visitor.text(paths[truth["poison"][0]]))
        assert (len(poisoned.css("h1")), len(poisoned.css("div#content"))) == (0, 1)
        assert [path.split("/")[1] for key, path in paths.items() if key in truth["private"]] == ["private"]
        assert await visitor.text("/robots.txt") == "User-agent: *\nDisallow: /private/\n"


async def test_the_layout_changes_on_demand() -> None:
    async with visiting(items=5) as visitor:
        (path,) = visitor.details(1)
        assert LexborHTMLParser(await visitor.text(path)).css("h1, div#content")
        visitor.site.control(list_layout=2, detail_layout=2)
        assert not LexborHTMLParser(await visitor.text(path)).css("h1, div#content")
        assert not LexborHTMLParser(await visitor.text(FIRST)).css("ul.list")
        visitor.site.control(list_layout=1, detail_layout=1, robots=None, everywhere="503")
        assert [(await visitor.get(name))[0] for name in (FIRST, path, "/robots.txt")] == [503, 503, 404]


async def test_an_unchanged_page_answers_304() -> None:
    async with visiting(items=5, etag=True) as visitor:
        _, _, headers = await visitor.get(FIRST)
        again = {"If-None-Match": headers["ETag"]}
        assert (await visitor.get(FIRST, headers=again))[:2] == (304, b"")
        visitor.site.control(add=1)
        assert (await visitor.get(FIRST, headers=again))[0] == 200


async def test_hits_are_counted_by_kind_and_each_arrival_has_its_moment() -> None:
    async with visiting(items=5, arrivals_kept=4) as visitor:
        (detail,) = visitor.details(1)
        for path in ("/robots.txt", FIRST, "/list/", detail, detail, "/nothing", "/"):
            await visitor.get(path)
        await visitor.text("/_truth")
        report = json.loads(await visitor.text("/_hits"))
        assert {name: report[name] for name in ("list", "detail", "robots")} == {
            "list": {FIRST: 2},
            "detail": {detail: 2},
            "robots": {"/robots.txt": 1},
        }
        assert [arrival[1:] for arrival in report["arrivals"]] == [
            [detail, 200],
            [detail, 200],
            ["/nothing", 404],
            ["/", 302],
        ]
        moments = [moment for moment, _, _ in report["arrivals"]]
        assert moments == sorted(moments)
        assert report["arrivals_dropped"] == 3
        await visitor.post("/_reset_hits")
        assert visitor.site.hits()["arrivals"] == []


async def test_a_hit_count_can_be_waited_for_from_another_process() -> None:
    async with visiting(items=5) as visitor:
        waiting = asyncio.ensure_future(visitor.text("/_wait?hits=2"))
        inside = asyncio.ensure_future(visitor.site.wait_hits(2))
        await visitor.get(FIRST)
        assert not inside.done()
        await visitor.get(FIRST)
        assert json.loads(await waiting) == {"hits": 2}
        assert await inside == 2


async def test_an_answer_is_held_until_released() -> None:
    async with visiting(items=5, script={FIRST: ("hold",)}) as visitor:
        held = asyncio.ensure_future(visitor.get(FIRST))
        await visitor.site.wait_hits(1)
        assert (await visitor.get(FIRST))[0] == 200
        assert not held.done()
        await visitor.post("/_control", {"release": True})
        assert (await held)[0] == 200


async def test_a_site_closes_though_answers_are_going_on() -> None:
    plans = {FIRST: ("hold",), SECOND: ("slow",), "/feed.xml": ("endless",)}
    site = await serve_site(SiteConfig(items=30, script=plans, slow_seconds=600))

    async def read(path: str) -> None:
        async with session.get(site.url + path) as response:
            async for _ in response.content.iter_chunked(65_536):
                pass

    async with aiohttp.ClientSession() as session:
        asking = [asyncio.ensure_future(read(path)) for path in plans]
        await site.wait_hits(3)
        await asyncio.wait_for(site.close(), 5)
        await asyncio.gather(*asking, return_exceptions=True)
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(site.url + FIRST)


def test_a_process_of_its_own_says_its_address_and_ends_on_a_signal() -> None:
    code = (
        "from fyke.lab.site import SiteConfig, run_site\n"
        "run_site(SiteConfig(items=5), '127.0.0.1', 0, lambda url: print(url, flush=True))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
