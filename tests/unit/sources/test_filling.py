"""`listing.fill`: what a window is asked with, what is read in it, and what a file gets wrong."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fyke.model import Listing
from fyke.policy.windows import window_listing
from fyke.sources.compile import compile_text
from fyke.sources.faults import Fault
from fyke.sources.source import FileSource
from tests.unit.sources.making import made, response

ZONE = ZoneInfo("Asia/Shanghai")
TEXT = """
listing:
  request: {url: "https://site.example/list", query: {page: "{page}"}}
  pages: {number: {first: 1}}
  rows: {json: rows}
  fields: {id: {json: id}, title: {json: title}, at: {json: at, then: [{datetime: auto}]}}
  fill:
    request: {url: "https://search.example/q", query: {a: "{from:%Y:%m:%d}", b: "{to:%Y:%m:%d}", n: "{page}"}}
    pages: {number: {first: 0}, max: 7}
"""


def day(number: int) -> int:
    return int(datetime(2025, 1, number, tzinfo=ZONE).timestamp() * 1000)


def window(source: FileSource, since: int = 1, until: int = 2, main: Listing | None = None) -> Listing:
    return window_listing(main or source.listings()[0], (day(since), day(until)), ZONE)


def asked(text: str, cursor: dict[str, Any] | None = None) -> str:
    source = made(text)
    return source.list_request(window(source), cursor).url


def test_the_last_second_of_a_window_is_on_its_last_day() -> None:
    assert asked(TEXT) == "https://search.example/q?a=2025%3A01%3A01&b=2025%3A01%3A01&n=0"
    assert asked(TEXT, {"page": 3}).endswith("n=2")


def test_a_site_that_does_not_count_the_end_in_is_asked_with_the_moment_after() -> None:
    text = TEXT.replace("    pages: {number: {first: 0}", "    ends: exclusive\n    pages: {number: {first: 0}")
    assert asked(text) == "https://search.example/q?a=2025%3A01%3A01&b=2025%3A01%3A02&n=0"


def test_edges_as_figures_and_in_a_json_body() -> None:
    text = TEXT.replace(
        'query: {a: "{from:%Y:%m:%d}", b: "{to:%Y:%m:%d}", n: "{page}"}',
        'json: {a: "{from_ms:int}", b: "{to_s:int}", c: "{from}", n: "{page:int}"}',
    )
    source = made(text)
    request = source.list_request(window(source), None)
    second = day(1) // 1000
    assert request.json == {"a": second * 1000, "b": second + 86_399, "c": "2025-01-01T00:00:00+08:00", "n": 0}


def test_the_values_of_the_listing_are_there_beside_the_edges() -> None:
    text = TEXT.replace("search.example/q", "search.example/{kind}").replace(
        'list", query: {page:', 'list", query: {kind: "{kind}", page:'
    )
    source = made("each: {kind: [x, y]}\n" + text)
    urls = [source.list_request(window(source, main=main), None).url for main in source.listings()]
    assert [url.split("?")[0] for url in urls] == ["https://search.example/x", "https://search.example/y"]
    # The list itself is asked for as before.
    assert source.list_request(source.listings()[0], None).url == "https://site.example/list?kind=x&page=1"


def test_what_is_left_out_is_as_in_the_listing() -> None:
    source = made(TEXT)
    page = source.read_page(window(source), response(json.dumps({"rows": [{"id": "1", "title": "t"}]})), None)
    main = source.read_page(source.listings()[0], response(json.dumps({"rows": [{"id": "1", "title": "t"}]})), None)
    assert page.entries == main.entries
    assert source.fill is not None
    assert (source.fill.max_pages, source.fill.paged, source.fill.aside) == (7, True, False)


def test_rows_and_fields_of_its_own() -> None:
    text = TEXT + "    rows: {in: ul, css: '> li'}\n    fields: {id: {css: a}}\n"
    source = made(text)
    page = source.read_page(window(source), response("<ul><li><a>7</a></li></ul>"), None)
    assert [entry.fields for entry in page.entries] == [{"id": "7"}]
    assert source.fill is not None
    assert source.fill.aside
    assert source.read_page(window(source), response("<p>no result"), None).outcome == "misfit"


def test_the_host_of_the_search_has_the_sources_pace() -> None:
    assert [lane.lane for lane in made(TEXT).resolved.lanes] == ["*", "search.example", "site.example"]


def test_the_text_of_the_ledger_gives_the_same_windows() -> None:
    source = made(TEXT)
    again = compile_text(source.resolved.text)
    assert again.list_request(window(again), None) == source.list_request(window(source), None)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("b: \"{to:%Y:%m:%d}\", ", "", "where a window ends"),
        ("a: \"{from:%Y:%m:%d}\", ", "", "{from}"),
        ("{number: {first: 0}, max: 7}", "{number: {first: 0}, max: 7}\n    window: 0s", "a second long"),
        ("{number: {first: 0}, max: 7}", "{number: {first: 0}}\n    fields: {idd: {json: id}}", "no field 'idd'"),
        ("n: \"{page}\"", "n: \"1\"", "the same for every page"),
        ("{from:%Y", "{form:%Y", "{form}"),
        ("https://search", "ftp://search", "not an address"),
    ],
)  # fmt: skip
def test_a_mistake_is_told(old: str, new: str, what: str) -> None:
    assert old in TEXT
    with pytest.raises(Fault, match=re.escape(what)) as told:
        made(TEXT.replace(old, new))
    assert tuple(told.value.path)[:2] == ("listing", "fill")


def test_a_value_of_each_may_not_be_called_like_an_edge() -> None:
    with pytest.raises(Fault, match="edge of a date window"):
        made("each: {to: [x]}\n" + TEXT.replace('query: {page: "{page}"}', 'query: {page: "{page}", to: "{to}"}'))


def test_windows_of_another_zone_are_the_same_moments() -> None:
    source = made(TEXT)
    here, there = (window_listing(source.listings()[0], (day(1), day(2)), zone) for zone in (ZONE, UTC))
    assert here.name != there.name
    assert source.list_request(here, None).url != source.list_request(there, None).url
