"""SCENARIOS 16 and 25 from the wire to the row: pages that stand in for the page, and pages that are garbled.

Of 16 the half that needs no second address; 18 is in test_scenarios.py, and saved pages are in test_real_sites.py.
"""

from __future__ import annotations

import codecs
import json
import sqlite3
from contextlib import closing
from pathlib import Path

from fyke.app import apply_folder, open_stores, run_once_here
from fyke.lab.replay import serve_replay
from fyke.lab.site import SiteConfig, serve_site
from fyke.settings import load_settings
from tests.scenarios.collecting import Collecting

BLOCKED_FIRST = 3
NOTICES = 50


async def test_blocks_that_end_cost_no_row_and_store_no_block_page(tmp_path: Path) -> None:
    """SCENARIOS 16: 50 entries, some of whose pages are a block page with status 200 at first: 50 whole rows."""
    async with await serve_site(SiteConfig(items=NOTICES, per_page=25)) as site:
        truth = site.truth()
        paths = ["/" + truth["records"][key]["url"].split("/", 3)[3] for key in truth["ids"][:BLOCKED_FIRST]]
        site.control(script={path: ["block"] for path in paths})
        here = Collecting(tmp_path, site, settings='[hold]\nfirst = "100ms"\nlongest = "200ms"', at_once=2)
        await here.once(wait_ms=40_000)
        rows = here.rows("_key, title, buyer, body_text")
        assert len(rows) == NOTICES
        for key, title, buyer, text in rows:
            assert title == truth["records"][key]["title"]
            assert buyer
            assert text
            assert "频繁" not in f"{title}{text}"
        blocked = here.ask("SELECT count(*) FROM visit WHERE outcome = 'blocked'")[0][0]
        assert blocked >= 1
        # A block takes no attempt.
        assert here.ask("SELECT count(*) FROM visit WHERE costs > 0 AND outcome = 'blocked'") == [(0,)]


def page(head: str, title: str) -> str:
    body = f"<h1>{title}</h1><p>采购项目中标公告，特此公告。采购人：市体育局。</p>"
    return f"<html><head>{head}<title>{title}</title></head><body>{body}</body></html>"


# Name → Content-Type, bytes, title. U+9555 and U+5586 are outside GB2312, U+20BB7 outside GBK; all are in GB18030.
SIX = {
    "no-header": ("", page('<meta charset="gb2312">', "朱镕基与王喆").encode("gb18030"), "朱镕基与王喆"),
    "wrong-header": (
        "; charset=utf-8",
        page("", "关于体育设施采购项目的公告").encode("gbk"),
        "关于体育设施采购项目的公告",
    ),
    "two-claims": ("; charset=ISO-8859-1", page("<meta charset=gbk>", "中标公告").encode("gbk"), "中标公告"),
    "misspelt": (
        "",
        page('<meta http-eqiv="Content-Type" conten="text/html; chraset=gb2312" />', "成交结果公告").encode("gbk"),
        "成交结果公告",
    ),
    "gb18030": ("; charset=gb2312", page("", "𠮷林省采购公告").encode("gb18030"), "𠮷林省采购公告"),
    "bom": ("; charset=gb2312", codecs.BOM_UTF8 + page("<meta charset=gb2312>", "更正公告").encode(), "更正公告"),
}
SOURCE = """\
id: six
schedule: {timezone: Asia/Shanghai}
fetch: {politeness: {delay: 0s, jitter: 0s, concurrency: 8}}
listing:
  request: {url: "https://six.example/"}
  rows: {in: ul, css: "> li"}
  fields: {name: {css: a}, url: {css: "a::attr(href)", then: [absolute_url]}}
identity: {scope: six, key: {field: name}}
detail: {steps: [{request: {url: "{url}"}, fields: {title: {css: h1, required: true}}}]}
store: {table: six}
"""


async def test_six_garbled_pages_are_six_titles_exactly_as_they_were_written(tmp_path: Path) -> None:
    """SCENARIOS 25, to the row; what was chosen and why is kept with the visit."""
    rows = "".join(f"<li><a href=/{name}>{name}</a></li>" for name in SIX)
    (tmp_path / "list.html").write_text(f"<ul>{rows}</ul>", encoding="utf-8")
    lines = ["method\turl\tfile\tstatus\theaders", "GET\thttps://six.example/\tlist.html\t200\t"]
    for name, (kind, body, _) in SIX.items():
        (tmp_path / f"{name}.html").write_bytes(body)
        headers = json.dumps({"Content-Type": f"text/html{kind}"})
        lines.append(f"GET\thttps://six.example/{name}\t{name}.html\t200\t{headers}")
    (tmp_path / "replay.tsv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "six.yaml").write_text(SOURCE, encoding="utf-8")
    async with await serve_replay(tmp_path / "replay.tsv") as replay:
        variables = {
            "FYKE_FETCH_REPLAY": replay.url,
            "FYKE_LEDGER": f"sqlite:///{tmp_path / 'fyke.db'}",
            "FYKE_SOURCES": str(tmp_path / "sources"),
        }
        settings = load_settings(tmp_path, variables).settings
        async with open_stores(settings) as stores:
            await apply_folder(stores, strict=True)
            report = await run_once_here(stores, [], 20_000)
        assert report.problems == []
    assert set(look(tmp_path, "SELECT _key, title FROM six")) == {(name, title) for name, (_, _, title) in SIX.items()}
    evidence = [json.loads(text) for (text,) in look(tmp_path, "SELECT evidence FROM visit")]
    assert {found["encoding"] for found in evidence} == {"gb18030", "utf-8"}
    assert {found["encoding_from"] for found in evidence} == {"meta", "http", "detector", "bom"}
    assert not any("replaced" in found for found in evidence)


def look(folder: Path, question: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(folder / "fyke.db")) as connection:
        return connection.execute(question).fetchall()
