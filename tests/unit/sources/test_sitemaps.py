"""Sitemaps, packed or not, and their indexes: nothing is made up from an address that is none."""

import gzip
from typing import Any

import pytest

from fyke.errors import UsageError
from fyke.model import ListPage, Outcome, Response
from tests.unit.sources.making import made

SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
WEB = "https://site.example/sitemap.xml"
SOURCE = made(
    """
    listing:
      request: {url: "https://site.example/sitemap.xml", headers: {X-Token: t}}
      rows: {sitemap: urls}
      fields:
        id: {sitemap: loc}
        changed: {sitemap: lastmod, optional: true}
        title: {sitemap: "news:title", optional: true}
        paper: {sitemap: "news:name", optional: true}
        image: {sitemap: "image:loc", optional: true}
      connect: all
      order: none
    """
)


def read(body: str | bytes, cursor: dict[str, Any] | None = None, url: str = WEB) -> ListPage:
    data = body.encode() if isinstance(body, str) else body
    # What is packed is no text to the fetcher.
    answer = Response(url, 200, {}, data, body if isinstance(body, str) else "")
    return SOURCE.read_page(SOURCE.listings()[0], answer, cursor)


URLSET = f"""<?xml version="1.0" encoding="UTF-8"?>
<urlset {SPACE} xmlns:n="http://www.google.com/schemas/sitemap-news/0.9"
  xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"><!-- made by hand -->
<url><loc>
  https://site.example/1?a=1&amp;b=2 </loc><lastmod>2015-05-03T18:51:50+01:00</lastmod>
  <n:news><n:publication><n:name>Times</n:name></n:publication><n:title> A  title </n:title></n:news>
  <image:image><image:loc>https://img.example/1.jpg</image:loc></image:image></url>
<url><loc>https://other.example/2</loc></url></urlset>"""


def test_a_sitemap_s_entries_and_their_news_fields() -> None:
    page = read(URLSET)
    assert (page.outcome, page.refused, page.next, page.last_by_hint) == (Outcome.OK, [], None, True)
    assert [entry.fields for entry in page.entries] == [
        {
            "id": "https://site.example/1?a=1&b=2",
            "changed": "2015-05-03T18:51:50+01:00",
            "title": "A title",
            "paper": "Times",
            "image": "https://img.example/1.jpg",
        },
        {"id": "https://other.example/2"},
    ]


def test_a_packed_sitemap_is_unpacked() -> None:
    assert [entry.key for entry in read(gzip.compress(URLSET.encode())).entries] == [
        "https://site.example/1?a=1&b=2",
        "https://other.example/2",
    ]
    latin = URLSET.replace("UTF-8", "ISO-8859-1").replace("A  title", "Ä")
    assert read(gzip.compress(latin.encode("latin-1"))).entries[0].fields["title"] == "Ä"


@pytest.mark.parametrize(
    "body", [gzip.compress(URLSET.encode())[:-20], b"\x1f\x8b\x08 no gzip"], ids=["cut off", "broken"]
)
def test_a_packed_sitemap_that_cannot_be_unpacked_is_a_misfit(body: bytes) -> None:
    page = read(body)
    assert (page.outcome, page.entries) == (Outcome.MISFIT, [])
    assert "packed file" in page.reason


def test_a_packed_bomb_is_a_misfit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fyke.sources.document.LARGEST_UNPACKED", 1_000_000)
    page = read(gzip.compress(b"<urlset>" + b" " * 2_000_000))
    assert (page.outcome, "larger than 1,000,000 bytes" in page.reason) == (Outcome.MISFIT, True)


def test_an_address_that_is_none_is_refused_and_shown_and_never_made_one() -> None:
    # A real .xml.gz has the word None five times.
    page = read(
        f"<urlset {SPACE}><url><loc>None</loc></url><url><lastmod>2023-04-18</lastmod></url>"
        "<url><loc>/root.html</loc></url></urlset>"
    )
    assert [entry.key for entry in page.entries] == ["https://site.example/root.html"]
    assert [row.position for row in page.refused] == [0, 1]
    assert "None" in page.refused[0].raw


def test_addresses_that_differ_by_an_empty_question_are_two() -> None:
    page = read(
        f"<urlset {SPACE}><url><loc>https://a.example/c.html</loc></url><url><loc>https://a.example/c.html?</loc></url>"
        "</urlset>"
    )
    assert [entry.key for entry in page.entries] == ["https://a.example/c.html", "https://a.example/c.html?"]


def test_lines_of_text_are_a_sitemap() -> None:
    page = read("https://site.example/1\nhttps://site.example/2\r\nwords\n")
    assert [entry.key for entry in page.entries] == ["https://site.example/1", "https://site.example/2"]
    assert page.refused[0].raw == "words"


@pytest.mark.parametrize("text", ["<html><body>404</body></html>", "<rss/>", "{}", "plain words", "<sitemapindex/>"])
def test_another_page_is_a_misfit_and_never_an_empty_site(text: str) -> None:
    page = read(text)
    assert (page.outcome, page.blank) == (Outcome.MISFIT, False)


def test_an_empty_sitemap_is_blank() -> None:
    assert read(f"<urlset {SPACE}></urlset>").blank is True


def test_a_sitemap_that_is_cut_off_says_what_it_lost() -> None:
    cut = URLSET[: URLSET.index("other.example/2") + 5]
    page = read(cut)
    assert [entry.key for entry in page.entries] == ["https://site.example/1?a=1&b=2"]
    assert [row.reason for row in page.refused] == ["the page ends inside this entry"]


# --- Indexes ---


def index(*names: str) -> str:
    parts = "".join(f"<sitemap><loc>{name}</loc></sitemap>" for name in names)
    return f"<sitemapindex {SPACE}>{parts}</sitemapindex>"


A, B, C = (f"https://site.example/{name}.xml" for name in "abc")


def test_an_index_names_parts_that_are_read_in_turn() -> None:
    page = read(index(A, B, A))
    assert (page.index, page.entries, page.doubt) == (True, [], "")
    assert page.next == {"url": A, "rest": [B], "above": [WEB]}
    assert SOURCE.list_request(SOURCE.listings()[0], page.next).url == A
    page = read(URLSET, page.next, A)
    assert (page.index, page.next) == (False, {"url": B, "rest": [], "above": [WEB]})
    page = read(URLSET, page.next, B)
    assert (page.next, page.last_by_hint) == (None, True)
    assert SOURCE.paged is True


def test_an_index_in_an_index_comes_before_what_is_left_of_the_one_above() -> None:
    page = read(index(C, WEB, A), {"url": B, "rest": [A], "above": [WEB]}, B)
    assert page.next == {"url": C, "rest": [A], "above": [WEB, B]}


def test_an_index_that_names_itself_ends() -> None:
    page = read(index(WEB))
    assert (page.index, page.next) == (True, None)
    assert "only itself" in page.doubt


def test_parts_of_an_index_that_cannot_be_read_are_told() -> None:
    page = read(index(A, "None"))
    assert page.next == {"url": A, "rest": [], "above": [WEB]}
    assert page.doubt.startswith("1 of the sitemaps")
    assert read(index("None")).outcome is Outcome.MISFIT


def test_a_part_on_another_host_is_not_told_what_is_meant_for_the_first() -> None:
    (listing,) = SOURCE.listings()
    assert SOURCE.list_request(listing, {"url": A, "rest": []}).headers == {"X-Token": "t"}
    assert SOURCE.list_request(listing, {"url": "https://cdn.example/a.xml", "rest": []}).headers == {}


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("rows: {sitemap: urls}\n  fields: {id: {sitemap: locc}}", "a sitemap has no 'locc' (did you mean 'loc'?)"),
        ("rows: {sitemap: urls}\n  fields: {id: {css: loc}}", "'css' cannot read an entry of a sitemap"),
        ("rows: {css: li}\n  fields: {id: {sitemap: loc}}", "'sitemap' cannot read an HTML row"),
        ("rows: {sitemap: urls, pinned: x}\n  fields: {id: {sitemap: loc}}", "a sitemap has no pinned entries"),
        ("rows: {sitemap: url}\n  fields: {id: {sitemap: loc}}", "'url' is not known"),
        ("rows: {sitemap: urls}\n  pages: {next: {css: a}}\n  fields: {id: {sitemap: loc}}", "a sitemap has no pages"),
    ],
)
def test_mistakes_are_found_when_the_file_is_read(rest: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        made(f"listing:\n  request: {{url: '{WEB}'}}\n  {rest}\n")
    assert message in str(caught.value)
