"""The sources of the how-to pages read small pages of the kind that each page speaks of."""

from pathlib import Path
from typing import Any

import pytest

from fyke.sources.loader import load_file
from tests.docs.pages import ROOT, blocks
from tests.unit.sources.making import read

HOW_TO = ROOT / "docs" / "how-to"
SITE = "https://www.example.org"
API = '{"data": {"records": [{"id": "x5", "title": "A", "publishTime": 1599148800000, "url": "/a/1"}], "total": 90}}'
SCRIPT = """<script>window.__DATA__ = {"list": {"items": [
{"id": 7, "title": "T", "ctime": 1599148800, "tags": [{"name": "a"}, {"name": "b"}]}]}};</script>"""
FEED = """<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><item><guid>g1</guid>
<link>https://www.example.org/1</link><title>One</title><pubDate>Wed, 29 May 2019 10:16:00 GMT</pubDate>
<description>&lt;p&gt;x&lt;/p&gt;</description><dc:creator>Me</dc:creator></item></channel></rss>"""
MAP = """<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://www.example.org/p</loc>
<lastmod>2026-01-02</lastmod></url></urlset>"""
FORM = """<table class="result"><tr class="row"><td><a href="n?id=ab1">N</a></td>
<td class="date">2026-01-02</td></tr></table>"""
BODY = '{"data": {"list": [{"id": 5, "title": "A", "time": "2026-01-02 03:04"}], "pages": 3}}'
STATE = """<input id="__VIEWSTATE" value="s1"><input id="__EVENTVALIDATION" value="v1"><table id="GridView1">
<tr class="row"><td><a href="n.aspx?id=12">Notice</a></td></tr></table><a class="next" href="#">next</a>"""

CASES: list[tuple[str, str, str, str, str, dict[str, Any]]] = [
    (
        "read-a-json-api",
        "api",
        API,
        "/api/list",
        "x5",
        {"url": f"{SITE}/a/1", "published": "2020-09-04T00:00:00+08:00"},
    ),
    ("read-a-json-api", "inscript", SCRIPT, "/news/", "7", {"tags": "a, b", "url": f"{SITE}/news/7.html"}),
    ("read-a-feed-or-sitemap", "news", FEED, "/news/feed.xml", "g1", {"summary": "x", "creator": "Me"}),
    ("read-a-feed-or-sitemap", "pages", MAP, "/sitemap.xml", f"{SITE}/p", {"modified": "2026-01-02T00:00:00+00:00"}),
    ("ask-by-post", "form", FORM, "/search/list", "ab1", {"title": "N", "published": "2026-01-02T00:00:00+08:00"}),
    ("ask-by-post", "body", BODY, "/api/search", "5", {"title": "A", "published": "2026-01-02T03:04:00+08:00"}),
    ("ask-by-post", "state", STATE, "/list.aspx", "12", {"url": f"{SITE}/n.aspx?id=12", "title": "Notice"}),
]


@pytest.mark.parametrize(("page", "source", "text", "path", "key", "fields"), CASES, ids=lambda value: str(value)[:20])
def test_the_source_of_a_how_to_page_reads_such_a_page(
    page: str,
    source: str,
    text: str,
    path: str,
    key: str,
    fields: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FYKE_SECRET_EXAMPLE_TOKEN", "open-to-all")
    for block in blocks(HOW_TO / f"{page}.md"):
        if block.info == "yaml source" and block.text.startswith(f"id: {source}\n"):
            (tmp_path / f"{source}.yaml").write_text(block.text, encoding="utf-8")
    loaded = load_file(tmp_path / f"{source}.yaml")
    (entry,) = read(loaded.source, text, SITE + path).entries
    assert entry.key == key
    assert {name: entry.fields[name] for name in fields} == fields
