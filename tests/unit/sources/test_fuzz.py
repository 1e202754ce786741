"""Whatever bytes come, each reader ends with an outcome, no row is lost in silence, and a good row keeps its place.

Few examples of each property run with the unit tests, many with the long ones (`make crash`).
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fyke.errors import UsageError
from fyke.fetchers.encoding import decode
from fyke.model import ListPage, Outcome, Response
from fyke.policy.identity import key_fault
from fyke.sources.loader import load_file
from fyke.sources.source import FileSource
from tests.unit.sources.making import made

ROOT = Path(__file__).resolve().parents[3]
WEB = "https://site.example/a/b.html"
LISTING = 'listing:\n  request: {url: "https://site.example/"}\n'
HTML = made(
    LISTING
    + """
  rows: {in: ul, css: "> li"}
  fields: {id: {css: "a::attr(id)"}, url: {css: "a::attr(href)", then: [absolute_url]}, title: {css: a, optional: true},
    day: {css: em, then: [{datetime: auto}]}, path: {xpath: ".//b", optional: true}}
detail:
  steps:
    - request: {url: "https://site.example/{id}"}
      fields:
        text: {css: body, then: [html_to_text]}
        clean: {css: body, then: [clean]}
        time: {css: body, then: [{datetime: [auto, day_first, "%Y-%m-%d %H:%M"]}]}
        number: {css: body, then: [{number: {decimal: ","}}]}
        sum: {css: body, then: [{money: CNY}]}
        buyer: {label: [采购人, "预算金额（万元）"]}
        grid: {css: table, then: [table]}
        parts: {css: body, then: [{split: "；"}, {map: [strip, {regex: '.+'}]}, {join: ","}]}
        links: {xpath: "//a/@href", all: true}
        link: {css: "a::attr(href)", then: [absolute_url]}
        inside: {regex: 'data = (.+)', json: "@", type: json}
        mark: {hash: [text, sum]}
        said: {template: "{text} {sum}"}
"""
)
JSON = made(
    LISTING
    + """
  rows: {json: rows}
  fields: {id: {json: id}, all: {json: "@", type: json}, day: {json: day, then: [{datetime: auto}]},
    sum: {json: sum, then: [{money: CNY}]}, n: {json: n, then: [number]}, yes: {json: yes, type: boolean}}
"""
)
COLUMNS = made(LISTING + "  rows: {columns: rows}\n  fields: {id: {json: id}, n: {json: n, type: integer}}\n")
SCRIPT = made(LISTING + "  rows: {regex: 'data = (.*)', json: rows}\n  fields: {id: {json: id}}\n")
FEED = made(
    LISTING + "  rows: {feed: entries}\n  fields: {id: {feed: id}, url: {feed: link}, title: {feed: title},"
    " at: {feed: published}, body: {feed: content, then: [clean]}, who: {feed: author}, more: {feed: 'dc:subject'}}\n"
)
SITEMAP = made(LISTING + "  rows: {sitemap: urls}\n  fields: {id: {sitemap: loc}, at: {sitemap: lastmod}}\n")
SOURCES = (HTML, JSON, COLUMNS, SCRIPT, FEED, SITEMAP)


def read(source: FileSource, body: bytes, content_type: str = "") -> ListPage:
    found = decode(body, content_type)
    answer = Response(WEB, 200, {}, body, found.text, found.encoding, found.source, found.replaced)
    page = source.read_page(source.listings()[0], answer, None)
    assert page.outcome in (Outcome.OK, Outcome.MISFIT), page.reason
    assert page.outcome is Outcome.OK or page.reason
    for entry in page.entries:
        assert key_fault(entry.key) is None
        record, digest, _ = source.record(entry.fields, {})
        json.dumps(record, allow_nan=False).encode()
        assert source.record(record, {})[:2] == (record, digest)
    return page


def keys(page: ListPage) -> list[str]:
    return [entry.key for entry in page.entries]


# --- Bytes ---

PIECES = (
    *("<ul>", "</ul>", "<li>", "<a id=1 href=/1.html>", "</a>", "<!--", "<script>", "<table><tr><td>", "采购人：甲"),
    *(
        "<em>2025-1-2</em>",
        "<rss>",
        "<channel>",
        "<item>",
        "<guid>1</guid>",
        "<![CDATA[",
        "]]>",
        "<!DOCTYPE a [",
        "&a;",
    ),
    *(
        "<urlset>",
        "<url>",
        "<loc>http://h/1</loc>",
        "<sitemapindex>",
        '{"rows":[',
        '{"id":1}',
        "]}",
        "data = {",
        "1e999",
    ),
    *(
        '<?xml version="1.0" encoding="utf-16"?>',
        '<meta charset="gbk">',
        "<base href='//['>",
        "金额：壹佰万元整（￥1）",
    ),
    *(
        "data = [",
        "\\ud800",
        "&#xd800;",
        "&#0;",
        "NaN",
        "-Infinity",
        "<svg><title>",
        "<plaintext>",
        "置顶",
        "<b>",
        "<p/>",
    ),
)
MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\x1f\x8b", b"\x00", b"\xff", b"\x1b$B", b"\x80", b"\xed\xa0\x80")
CODECS = ("utf-8", "gb18030", "big5", "utf-16-le", "shift_jis", "euc-kr", "latin-1", "iso2022_jp", "utf-7")
TEXT = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=25).map("".join)
ENCODED = st.builds(lambda text, codec: text.encode(codec, "replace"), TEXT, st.sampled_from(CODECS))
BODY = st.lists(st.one_of(ENCODED, ENCODED, st.sampled_from(MARKS), st.binary(max_size=12)), max_size=5).map(b"".join)
TYPES = st.sampled_from(("", "text/html", *(f"text/html; charset={name}" for name in (*CODECS, "x", "gb2312", '"'))))


def any_bytes(given_: tuple[bytes, str]) -> None:
    body, content_type = given_
    for source in SOURCES:
        read(source, body, content_type)
    found = decode(body, content_type)
    detail = HTML.read_detail(0, Response(WEB, 200, {}, body, *found), {"id": "1"})
    assert detail.outcome in (Outcome.OK, Outcome.MISFIT, Outcome.EMPTY), detail.reason
    record, digest, _ = HTML.record({"id": "1"}, detail.fields)
    json.dumps(record, allow_nan=False).encode()
    assert HTML.record(record, {})[:2] == (record, digest)


def damaged_gzip(given_: tuple[bytes, int, int]) -> None:
    body, at, bits = given_
    packed = bytearray(gzip.compress(body, mtime=0))
    packed[at % len(packed)] ^= bits
    for each in (bytes(packed), bytes(packed[: at % len(packed)]), bytes(packed) + body):
        for source in (FEED, SITEMAP, JSON, HTML):
            read(source, each)


# --- Values of JSON ---

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(("1e999", "-1e999", "NaN", "Infinity", "1E-999", "-0", "0.1e1", "9" * 300, "1e99999999999", "1.5")),
)
STRINGS = st.one_of(
    st.text(max_size=6).map(json.dumps),
    st.sampled_from(
        ('"\\ud800"', '"\\u0000"', '"2025-01-02"', '"12万元"', '"１２，５"', '"壹佰元整"', '"\\udc00x"', '""')
    ),
)
VALUES = st.recursive(
    st.one_of(NUMBERS, STRINGS, st.sampled_from(("null", "true", "false"))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]"),
        st.lists(st.tuples(st.sampled_from(("id", "day", "sum", "n", "yes", "x")), inner), max_size=4).map(
            lambda parts: "{" + ",".join(f'"{name}":{value}' for name, value in parts) + "}"
        ),
    ),
    max_leaves=8,
)


def json_rows(rows: list[str]) -> None:
    """Between two good rows: whatever is there is an entry or refused, each of them, and these two stay."""
    body = '{"rows":[' + ",".join(['{"id":"first"}', *rows, '{"id":"last"}']) + "]}"
    page = read(JSON, body.encode())
    assert page.outcome is Outcome.OK
    assert len(page.entries) + len(page.refused) == len(rows) + 2
    assert (keys(page)[0], keys(page)[-1]) == ("first", "last")
    inside = read(SCRIPT, f"<script>\nvar data = {body};</script>".encode())
    assert len(inside.entries) + len(inside.refused) == len(rows) + 2
    read(COLUMNS, f'{{"rows":{{"id":[{",".join(rows)}],"n":[{",".join(reversed(rows))}]}}}}'.encode())


def json_feed(items: list[str]) -> None:
    body = '{"items":[' + ",".join(['{"id":"first"}', *items, '{"id":"last"}']) + "]}"
    page = read(FEED, body.encode())
    assert len(page.entries) + len(page.refused) == len(items) + 2
    assert (keys(page)[0], keys(page)[-1]) == ("first", "last")
    assert not {"nan", "inf", "-inf"} & set(keys(page))
    for cut in (len(body) // 2, len(body) - 3):
        part = read(FEED, body[:cut].encode())
        assert part.refused or part.outcome is Outcome.MISFIT


# --- XML: what is between the first entry and the last may be anything ---

BALANCED = st.one_of(
    st.text(max_size=8).map(lambda text: text.replace("<", "&lt;").replace("&", "&amp;")),
    st.sampled_from(
        ("&nbsp;", "&bogus;", "a & b", "<![CDATA[<b>]]>", "<x:y>z</x:y>", "<b><i></b></i>", "<!-- -- -->", "\x08")
    ),
    st.sampled_from(
        ("<guid>2</guid>", "<loc>http://h/2</loc>", "<link href='//['/>", "<pubDate>1.1.1</pubDate>", "<?p?>")
    ),
)
ENTRIES = st.lists(st.lists(BALANCED, max_size=4).map("".join), max_size=4)


def xml_entries(inner: list[str]) -> None:
    for source, shell, part, good in (
        (FEED, "<rss><channel>{}</channel></rss>", "item", "<guid>{}</guid>"),
        (FEED, '<feed xmlns="http://www.w3.org/2005/Atom">{}</feed>', "entry", "<id>{}</id>"),
        (SITEMAP, "<urlset>{}</urlset>", "url", "<loc>http://h.example/{}</loc>"),
    ):
        parts = [good.format("first"), *inner, good.format("last")]
        body = shell.format("".join(f"<{part}>{each}</{part}>" for each in parts))
        page = read(source, body.encode("utf-8", "replace"))
        assert page.outcome is Outcome.OK
        assert len(page.entries) + len(page.refused) >= len(parts), body
        assert keys(page)[0].endswith("first")
        cut = read(source, body[: -len(part) - 12].encode("utf-8", "replace"))
        assert cut.refused, "a page that is cut off says so"


# --- Source files ---

FILES = sorted((ROOT / "examples").rglob("*.yaml"), key=lambda path: path.stat().st_size)
TEXTS = [
    path.read_text(encoding="utf-8")
    for path in FILES
    if "profiles" not in path.parts and "extends:" not in path.read_text(encoding="utf-8")
][:12]
SIGNS = (
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "'",
    '"',
    "#",
    "&a",
    "*a",
    "!!",
    "\t",
    "\n",
    "- ",
    "|",
    ">",
    "?",
    "%",
    "@",
    "`",
    "-1",
)


def broken_file(given_: tuple[int, int, int]) -> None:
    """One change anywhere: it still loads, or the mistake has its file, line, field and way out, in one line."""
    number, at, seed = given_
    chance = random.Random(seed)
    text = TEXTS[number % len(TEXTS)]
    at %= len(text)
    kind = chance.randrange(5)
    if kind == 0:
        text = text[:at] + text[at + chance.randrange(1, 4) :]
    elif kind == 1:
        text = text[:at] + chance.choice(SIGNS) + text[at:]
    elif kind == 2:
        text = (
            text[:at]
            + chr(chance.choice((0, 7, 0x7F, 0x85, 0xA0, 0x3000, 0xFEFF, 0x1F600, ord(chance.choice("xyz1")))))
            + text[at + 1 :]
        )
    elif kind == 3:
        end = min(len(text), at + chance.randrange(1, 60))
        text = text[:at] + text[at:end] * 2 + text[end:]
    else:
        to = chance.randrange(len(text))
        text = text[: min(at, to)] + text[max(at, to) :]
    told = mistake_of(text)
    if told is not None:
        assert all((told.file, told.line, told.field, told.hint)), repr(str(told))
        assert "\n" not in str(told)


def mistake_of(text: str) -> UsageError | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.yaml"
        path.write_text(text, encoding="utf-8", newline="")
        try:
            load_file(path)
        except UsageError as error:
            return error
    return None


Property = tuple[st.SearchStrategy[Any], Callable[[Any], None], int]
ROWS = st.lists(VALUES, max_size=5)
PLACES = st.tuples(st.integers(0, 99), st.integers(0, 10**6), st.integers(0, 2**32))
PROPERTIES: dict[str, Property] = {
    "any bytes": (st.tuples(BODY, TYPES), any_bytes, 120),
    "damaged gzip": (st.tuples(BODY, st.integers(0, 10**6), st.integers(1, 255)), damaged_gzip, 40),
    "JSON rows": (ROWS, json_rows, 100),
    "JSON Feed": (ROWS, json_feed, 60),
    "XML entries": (ENTRIES, xml_entries, 60),
    "source files": (PLACES, broken_file, 100),
}
SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_reader_has_an_outcome_for_anything(name: str) -> None:
    strategy, check, examples = PROPERTIES[name]
    given(strategy)(settings(max_examples=examples, suppress_health_check=SLOW_IS_FINE)(check))()


@pytest.mark.crash_long
@pytest.mark.parametrize("name", PROPERTIES)
def test_every_reader_has_an_outcome_for_very_many_things(name: str) -> None:
    strategy, check, examples = PROPERTIES[name]
    given(strategy)(settings(max_examples=examples * 15, suppress_health_check=SLOW_IS_FINE)(check))()
