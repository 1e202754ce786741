"""Saved pages under their own addresses, asked for as the fetcher asks with `fetch.replay` set."""

import hashlib
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from fyke.lab.replay import URL_HEADER, RunningReplay, serve_replay

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT / "examples" / "real" / "replay.tsv"
SAVED = ROOT.parent / "shared" / "realdata"

INDEX = """\
method\turl\tfile\tstatus\theaders\tmatch
GET\thttps://a.example/list?p=1\tone.html
POST\thttps://a.example/api\tone.json\t200\t\tpage=1
POST\thttps://a.example/api\ttwo.json\t200\t{"Content-Type": "application/json; charset=gbk"}\tpage=2&kind=02
POST\thttps://a.example/any\tone.json
GET\thttp://a.example/moved\tone.html\t301\t{"Location": "/list?p=1"}
"""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    for name in ("one.html", "one.json", "two.json"):
        (tmp_path / name).write_text(name)
    (tmp_path / "index.tsv").write_text(INDEX)
    return tmp_path / "index.tsv"


async def ask(replay: RunningReplay, method: str, url: str, **options: Any) -> tuple[int, str, str]:
    path = URL(url).raw_path_qs
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method, replay.url + path, headers={URL_HEADER: url}, allow_redirects=False, **options
        ) as response,
    ):
        return response.status, await response.text(), response.headers["Content-Type"]


async def test_a_saved_page_is_found_by_method_and_address(index: Path) -> None:
    async with await serve_replay(index) as replay:
        assert await ask(replay, "GET", "https://a.example/list?p=1") == (200, "one.html", "text/html")
        assert (await ask(replay, "GET", "https://A.example:443/list?p=1#top"))[0] == 200
        assert (await ask(replay, "HEAD", "https://a.example/list?p=1"))[0] == 200
        assert (await ask(replay, "GET", "http://a.example/moved"))[0] == 301


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "https://a.example/list?p=2"),
        ("GET", "http://a.example/list?p=1"),
        ("GET", "https://a.example:8443/list?p=1"),
        ("POST", "https://a.example/list?p=1"),
        ("GET", "https://a.example/robots.txt"),
    ],
)
async def test_anything_else_is_404(index: Path, method: str, url: str) -> None:
    async with await serve_replay(index) as replay:
        assert (await ask(replay, method, url))[0] == 404
        assert replay.hits()["other"] == {f"{method} {url}": 1}


@pytest.mark.parametrize("sent", ["data", "json"])
async def test_pages_of_an_api_differ_by_their_body(index: Path, sent: str) -> None:
    async with await serve_replay(index) as replay:
        api = "https://a.example/api"
        assert (await ask(replay, "POST", api, **{sent: {"page": "1", "more": "x"}}))[1] == "one.json"
        assert (await ask(replay, "POST", api, **{sent: {"page": "2", "kind": "02"}}))[1:] == (
            "two.json",
            "application/json; charset=gbk",
        )
        assert (await ask(replay, "POST", api, **{sent: {"page": "2"}}))[0] == 404
        assert (await ask(replay, "POST", api))[0] == 404
        assert (await ask(replay, "POST", "https://a.example/any", data=b"\xff{"))[0] == 200


async def test_a_request_without_an_address_is_told_what_is_missing(index: Path) -> None:
    async with await serve_replay(index) as replay, aiohttp.ClientSession() as session:
        async with session.get(replay.url + "/list?p=1") as response:
            assert response.status == 404
            assert URL_HEADER in await response.text()
        async with session.get(replay.url, headers={URL_HEADER: "no address"}) as response:
            assert response.status == 400
        async with session.get(replay.url + "/_hits") as response:
            assert (await response.json())["page"] == {}


@pytest.mark.skipif(not SAVED.is_dir(), reason="the saved pages of real sites are not here")
async def test_the_real_sites_are_served_as_they_were_saved() -> None:
    checksums = {}
    for line in (SAVED / "INDEX.tsv").read_text().splitlines()[1:]:
        cells = line.split("\t")
        checksums[cells[0]] = cells[5]
    async with await serve_replay(REAL, root=SAVED) as replay:
        for line in REAL.read_text().splitlines():
            if not line.startswith(("GET", "POST")):
                continue
            method, url, name, _, _, *match = line.split("\t")
            path = URL(url).raw_path_qs
            data = dict(field.split("=") for field in match) | {"DEAL_TIME": "04"} if method == "POST" else None
            async with (
                aiohttp.ClientSession() as session,
                session.request(method, replay.url + path, headers={URL_HEADER: url}, data=data) as response,
            ):
                assert response.status == 200
                body = await response.read()
            if name in checksums:
                assert hashlib.sha256(body).hexdigest()[:16] == checksums[name]
        first = "https://www.ggzy.gov.cn/information/pubTradingInfo/getTradList"
        assert (await ask(replay, "POST", first, data={"PAGENUMBER": "2"}))[0] == 404
