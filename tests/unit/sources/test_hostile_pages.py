"""Whatever a page is, it has an outcome: no crash, no hang, no loss of neighbours."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fyke.errors import UsageError
from fyke.fetchers.encoding import decode
from fyke.model import Outcome, Response
from fyke.policy.identity import key_fault
from tests.unit.sources.making import LISTED, made, read, response

XPATH = """
listing:
  request: {url: "https://site.example/"}
  rows: {in: "//ul", xpath: ".//li"}
  fields: {id: {xpath: ".//a/@href"}, title: {xpath: "."}}
"""
JSON = """
listing:
  request: {url: "https://site.example/"}
  rows: {json: rows}
  fields: {id: {json: id}, all: {json: "@", type: json}, label: {regex: '"x": *"(.*?)"', optional: true}}
"""
FEED = """
listing:
  request: {url: "https://site.example/"}
  rows: {feed: entries}
  fields: {id: {feed: id}, title: {feed: title}, day: {feed: published}, body: {feed: content, then: [clean]}}
"""
DETAIL = """
detail:
  steps:
    - request: {url: "https://site.example/{id}"}
      fields:
        title: {css: h1}
        byer: {label: [采购人, 采购单位]}
        text: {css: body}
        html: {css: body, then: [html, clean]}
        path: {xpath: "//p"}
        sum: {label: 金额, then: [{money: CNY}]}
        day: {css: body, then: [{datetime: auto}]}
        link: {css: "a::attr(href)", then: [absolute_url]}
"""
SITEMAP = """
listing:
  request: {url: "https://site.example/"}
  rows: {sitemap: urls}
  fields: {id: {sitemap: loc}, at: {sitemap: lastmod}}
"""
SOURCES = {
    "css": made(LISTED + DETAIL),
    "xpath": made(XPATH),
    "json": made(JSON),
    "feed": made(FEED),
    "sitemap": made(SITEMAP),
}

DEEP = 20_000
PAGES = {
    "nested elements": "<ul class=list><li>" + "<div>" * 200_000 + "x",
    "nested and closed": "<div>" * 100_000 + "x" + "</div>" * 100_000,
    "nested below the limit": "<ul class=list><li><a href=/1.html>x</a>" + "<div>" * 9_000 + "x</ul>",
    "open formatting": "<ul class=list><li><a href=/1.html>x</a>" + "".join(f"<p><b x={n}>" for n in range(4_000)),
    "attributes": "<ul class=list><li><a " + " ".join(f"a{n}" for n in range(200_000)) + ">",
    "nested JSON": '{"rows": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "nested JSON in a row": '{"rows": [{"id": 1, "x": ' + "[" * 900 + "]" * 900 + '}, {"id": 2}]}',
    "long number": '{"rows": [{"id": ' + "9" * 100_000 + "}]}",
    "huge exponent": '{"rows": [{"id": 1e999999999, "x": NaN, "y": -Infinity}, {"id": 2}]}',
    "half a surrogate": '{"rows": [{"id": "a\\ud800b", "x": "\\udfff"}, {"id": "2", "x": "\\ud83d"}]}',
    "NUL": "<ul class=list><li><a href=/1.html>a\0b</a></li></ul>",
    "surrogates in HTML": "<ul class=list><li><a href=/1.html>a\ud800b</a></li></ul>",
    "entity bomb": '<!DOCTYPE a [<!ENTITY a "' + "x" * 1_000 + '">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "&a;" * 10}">' for n in range(9))
    + "]><rss><channel><item><guid>1</guid><title>&a8;</title></item></channel></rss>",
    "nested feed": "<rss><channel><item><guid>1</guid>" + "<a>" * DEEP + "</item></channel></rss>",
    "comments": "<ul class=list><li>" + "<!--" * 100_000,
    "open quotes": "<ul class=list><li>" + '<a title="' * 50_000,
    "tags only": "<" * 300_000,
    "ampersands": "&" * 300_000 + "&#x;" * 50_000 + "&#99999999;",
}  # fmt: skip


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", PAGES)
def test_a_hostile_page_has_an_outcome_in_bounded_time(name: str, kind: str) -> None:
    before = time.process_time()
    page = read(SOURCES[kind], PAGES[name])
    assert page.outcome in (Outcome.OK, Outcome.MISFIT)
    assert page.reason or page.outcome is Outcome.OK
    assert all(key_fault(entry.key) is None for entry in page.entries)
    # Generous: what this finds takes minutes.
    assert time.process_time() - before < 30


@pytest.mark.parametrize("name", PAGES)
def test_a_hostile_detail_has_an_outcome_in_bounded_time(name: str) -> None:
    before = time.process_time()
    found = SOURCES["css"].read_detail(0, response(PAGES[name]), {"id": "1"})
    assert found.outcome in (Outcome.OK, Outcome.MISFIT, Outcome.ERROR)
    if found.outcome is Outcome.OK:
        SOURCES["css"].record({"id": "1"}, found.fields)
    assert time.process_time() - before < 30


def test_a_page_of_ten_megabytes_is_read_whole() -> None:
    rows = "".join(f"<li><a href=/{n}.html>公告</a><p>{'文字 text ' * 40}</p></li>\n" for n in range(20_000))
    assert len(rows.encode()) > 10_000_000
    page = read(SOURCES["css"], f"<ul class=list>{rows}</ul>")
    assert (page.outcome, len(page.entries), page.entries[-1].key) == (Outcome.OK, 20_000, "19999")


def test_a_hundred_thousand_rows_are_read_and_one_more_is_a_misfit() -> None:
    rows = ",".join(f'{{"id":{n}}}' for n in range(100_000))
    source = made(
        JSON.replace(', all: {json: "@", type: json}', "").replace(
            """, label: {regex: '"x": *"(.*?)"', optional: true}""", ""
        )
    )
    page = read(source, f'{{"rows":[{rows}]}}')
    assert (page.outcome, len(page.entries)) == (Outcome.OK, 100_000)
    assert "more than 100,000 rows" in read(source, f'{{"rows":[{rows},1]}}').reason


@pytest.mark.crash_long
@pytest.mark.parametrize(
    ("kind", "shell", "row"),
    [
        ("css", "<ul class=list>{}</ul>", "<li><a href=/{}.html>x</a></li>"),
        ("feed", "<rss><channel>{}</channel></rss>", "<item><guid>{}</guid></item>"),
        ("sitemap", "<urlset>{}</urlset>", "<url><loc>http://h.example/{}</loc></url>"),
    ],
)
def test_a_hundred_thousand_rows_of_markup_are_read(kind: str, shell: str, row: str) -> None:
    page = read(SOURCES[kind], shell.format("".join(row.format(n) for n in range(100_000))))
    assert (page.outcome, len(page.entries)) == (Outcome.OK, 100_000)


@pytest.mark.parametrize("kind", ["feed", "sitemap"])
def test_entities_are_neither_expanded_nor_loaded(kind: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    bomb = '<!ENTITY l0 "lol">' + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 30))
    head = f'<!DOCTYPE r [{bomb}<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>'
    part, named = ("item", "guid") if kind == "feed" else ("url", "loc")
    shell = "<rss><channel>{}</channel></rss>" if kind == "feed" else "<urlset>{}</urlset>"
    parts = "".join(
        f"<{part}><{named}>http://h.example/{text}</{named}></{part}>" for text in ("1", "&l29;", "&x;", "4")
    )
    page = read(SOURCES[kind], head + shell.format(parts))
    assert len(page.entries) + len(page.refused) == 4
    assert (page.entries[0].key, page.entries[-1].key) == ("http://h.example/1", "http://h.example/4")
    assert "secret" not in str(page)
    assert "lol" not in str(page)


def test_bytes_that_are_not_what_the_page_says_are_counted() -> None:
    body = "<ul class=list><li><a href=/1.html>甲".encode() + b"\xff\xfe\x80</a></ul>"
    found = decode(body, "text/html; charset=utf-8")
    assert found.replaced > 0 or found.source == "detector"
    page = SOURCES["css"].read_page(
        SOURCES["css"].listings()[0], Response("https://site.example/", 200, {}, body, *found), None
    )
    assert [entry.key for entry in page.entries] == ["1"]


def test_more_rows_than_any_list_has_are_a_misfit() -> None:
    assert "more than 100,000 rows" in read(SOURCES["css"], f"<ul class=list>{'<li>x' * 100_001}</ul>").reason


def test_many_unclosed_but_flat_elements_are_no_attack() -> None:
    page = read(SOURCES["css"], "<ul class=list>" + "<li><p><a href=/1.html>x" * 5_000)
    assert (page.outcome, len(page.entries)) == (Outcome.OK, 5_000)
    cells = "<ul class=list><li><table>" + "<tr><td><font color=red><b>x" * 2_000 + "</table><a href=/1.html>x</a></ul>"
    assert read(SOURCES["css"], cells).outcome is Outcome.OK


def test_hostile_characters_are_replaced_in_texts_and_refused_in_keys() -> None:
    (entry,) = read(SOURCES["css"], PAGES["surrogates in HTML"]).entries
    assert entry.fields["title"] == "a\ufffdb"
    page = read(SOURCES["json"], PAGES["half a surrogate"])
    assert [entry.fields["all"]["x"] for entry in page.entries] == ["\ufffd"]
    (refused,) = page.refused
    assert "U+FFFD" in refused.reason


def test_a_row_nested_deep_is_refused_or_read_and_its_neighbour_stays() -> None:
    page = read(SOURCES["json"], PAGES["nested JSON in a row"])
    assert page.entries[-1].key == "2"
    assert len(page.entries) + len(page.refused) == 2


def test_a_mistake_of_a_reader_is_an_outcome_and_of_one_row_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of\nours")

    page = "<ul class=list><li><a href=/1.html>x</a></ul>"
    with monkeypatch.context() as patched:
        patched.setattr("fyke.sources.source.content_hash", broken)
        (row,) = read(SOURCES["css"], page).refused
    assert row.reason == "the page could not be read: ZeroDivisionError: of ours"
    with monkeypatch.context() as patched:
        patched.setattr("fyke.sources.rows.Rows.read", broken)
        assert read(SOURCES["css"], page).outcome is Outcome.ERROR
    with monkeypatch.context() as patched:
        patched.setattr("fyke.sources.plan.FieldReading.read", broken)
        found = SOURCES["css"].read_detail(0, response(page), {"id": "1"})
    assert (found.outcome, found.reason) == (Outcome.ERROR, "the page could not be read: ZeroDivisionError: of ours")


def test_what_is_no_xml_at_all_has_no_root() -> None:
    assert read(SOURCES["feed"], "<:").outcome is Outcome.MISFIT


def test_a_regular_expression_searches_bounded_text() -> None:
    source = made(LISTED.replace("title: {css: a}", "title: {regex: 'END', optional: true}"))
    page = read(source, "<ul class=list><li><a href=/1.html>x</a>" + "x" * 1_500_000 + "END</ul>")
    assert "title" not in page.entries[0].fields


PIECES = (
    *("<ul class=list>", "</ul>", "<li>", "<a href=/1.html>", "<a href='", "</a>", "<!--", "-->", "<script>", "<td>"),
    *("<table>", "&amp;", "&#x0;", "<base href=//x>", "采购人：", "金额：１万元", "置顶", '"', "<svg>", "<template>"),
    *("<rss>", "<channel>", "<item>", "<guid>1</guid>", "<![CDATA[", "]]>", '{"rows":[', '{"id":1}', "]}"),
)
HTML = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=40).map("".join)


@settings(max_examples=150)
@given(text=HTML, url=st.sampled_from(["https://site.example/a/b", "http://[::1]/x", "https://site.example"]))
def test_any_text_has_an_outcome(text: str, url: str) -> None:
    for source in SOURCES.values():
        page = source.read_page(source.listings()[0], response(text, url), None)
        assert page.outcome in (Outcome.OK, Outcome.MISFIT)
        for entry in page.entries:
            assert key_fault(entry.key) is None
            record, digest, _ = source.record(entry.fields, {})
            assert len(digest) == 16
            assert source.record(record, {})[:2] == (record, digest)
    detail = SOURCES["css"].read_detail(0, response(text, url), {"id": "1"})
    assert detail.outcome in (Outcome.OK, Outcome.MISFIT, Outcome.EMPTY)


@settings(max_examples=100)
@given(raw=st.text(max_size=200))
def test_any_text_as_a_source_file_loads_or_is_a_mistake(raw: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    from fyke.sources.loader import load_file

    path: Path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_text(raw, encoding="utf-8", errors="replace", newline="")
    with pytest.raises(UsageError):
        load_file(path)
