"""What `fyke new` proposes: the rows of the list and not of the menu, whole titles, keys that tell rows apart."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fyke.app.proposing import proposals_of
from fyke.model import Response
from fyke.sources.loader import load_file
from fyke.sources.proposing import Asked, Proposal, named_feeds, propose
from fyke.sources.proposing_text import flow, scalar
from fyke.sources.yamlfile import parse_yaml

URL = "https://www.example.org/notices/index.html"
MENU = "".join(
    f'<li><a href="/c/{n}/" title="Column number {n} of this site">Column {n} of this site</a></li>' for n in range(40)
)


def answer(text: str, url: str = URL, content_type: str = "text/html", **headers: str) -> Response:
    return Response(url, 200, {"content-type": content_type, **headers}, text.encode(), text, "utf-8", "utf-8")


def page(body: str, head: str = "<title>Notices</title>") -> str:
    return f'<!doctype html><html><head>{head}</head><body><ul class="nav">{MENU}</ul>{body}</body></html>'


def proposed(text: str, url: str = URL, **asked: Any) -> list[Proposal]:
    return propose(answer(text, url), Asked(url, **asked))


def first(text: str, url: str = URL, **asked: Any) -> Proposal:
    found = proposed(text, url, **asked)
    assert found, "nothing was proposed"
    return found[0]


def titles(one: Proposal) -> list[str]:
    return [str(entry.fields["title"]) for entry in one.page.entries]


def spec(one: Proposal) -> dict[str, Any]:
    data, _ = parse_yaml(one.text, "x")
    return data


def rows(count: int = 12, *, date: str = "<span>2026-03-{n:02d}</span>", cut: bool = False) -> str:
    made = []
    for n in range(1, count + 1):
        title = f"Road works in the valley, part {n}, with all that belongs to them"
        shown = f"{title[:30]}..." if cut else title
        made.append(
            f'<li><a href="./2026/t20260301_{1000 + n}.html" title="{title}">{shown}</a>{date.format(n=n)}</li>'
        )
    return f'<div class="main"><ul class="list">{"".join(made)}</ul></div>'


def test_a_menu_with_more_links_than_the_list_is_not_taken_for_it() -> None:
    one = first(page(rows()))
    assert len(one.page.entries) == 12
    assert (one.page.entries[0].key, one.page.entries[-1].key) == ("1001", "1012")
    assert one.page.entries[0].fields["url"] == "https://www.example.org/notices/2026/t20260301_1001.html"
    assert str(one.page.entries[0].fields["published"]).startswith("2026-03-01T00:00:00")


def test_a_title_that_is_cut_in_the_text_is_taken_whole() -> None:
    one = first(page(rows(cut=True)))
    assert titles(one)[0] == "Road works in the valley, part 1, with all that belongs to them"


def test_lines_between_rows_are_no_refused_rows() -> None:
    text = page(rows().replace("</li><li>", '</li><li class="line"></li><li>'))
    one = first(text)
    assert (len(one.page.entries), one.page.refused) == (12, [])


def test_a_row_without_a_link_stays_a_refused_row_that_is_shown() -> None:
    one = first(page(rows().replace("</ul></div>", "<li>To be announced</li></ul></div>")))
    assert (len(one.page.entries), len(one.page.refused)) == (12, 1)


def test_the_head_of_a_table_is_no_row_and_a_link_that_says_nothing_is_no_title() -> None:
    head = "<tr><th>Form</th><th>Papers</th><th>What</th><th>Filed</th></tr>"
    body = "".join(
        f'<tr><td>10-K</td><td><a href="/a/{n}-index.htm">Documents</a> <a href="/v?n={n}">Data</a></td>'
        f"<td>Annual report of year {n}</td><td>2026-01-{n:02d}</td></tr>"
        for n in range(1, 11)
    )
    one = first(page(f'<table class="filings">{head}{body}</table>'))
    assert (len(one.page.entries), one.page.refused) == (10, [])
    assert titles(one)[0] == "Annual report of year 1"
    assert str(one.page.entries[9].fields["published"]).startswith("2026-01-10")


def test_a_list_inside_each_row_is_not_the_list() -> None:
    popup = "".join(f'<li><a href="/u/{{n}}/{k}">Contributions of this member {k}</a></li>' for k in range(8))
    body = "".join(
        f'<li class="thread" id="thread_{n}0001">'
        f'<h3><a class="title" href="/t{n}-a.html">Question {n} of a buyer</a></h3>'
        f'<ul class="popupbody">{popup.format(n=n)}</ul></li>'
        for n in range(1, 21)
    )
    one = first(page(f'<ol id="threads" class="threads">{body}</ol>'))
    assert titles(one) == [f"Question {n} of a buyer" for n in range(1, 21)]


def test_links_relative_to_a_base_and_ids_among_noise() -> None:
    body = "".join(
        f'<div class="item"><a href="?s=form&id=ab{n}f&_v={n % 2}"><img src="x.png"></a>'
        f'<h4><a href="?s=form&id=ab{n}f&_v={n % 2}">Offer number {n}</a></h4></div>'
        for n in range(8)
    )
    one = first(page(f'<div class="box">{body}</div>', '<base href="https://cdn.example.org/opp/">'))
    assert titles(one)[0] == "Offer number 0"
    assert one.page.entries[7].fields["url"] == "https://cdn.example.org/opp/?s=form&id=ab7f&_v=1"
    assert [entry.key for entry in one.page.entries] == [f"ab{n}f" for n in range(8)]


def test_an_address_that_is_signed_for_each_request_makes_no_key() -> None:
    body = "".join(
        f'<li><a href="/s?src=3&timestamp=150005&signature=Vq{n}zz">Article of today {n}</a><i>2026-02-03</i></li>'
        for n in range(9)
    )
    one = first(page(f'<ul class="news">{body}</ul>'))
    assert spec(one)["identity"]["key"] == {"hash": ["title", "published"]}
    assert any("signature" in note for note in one.notes)


def test_two_rows_of_one_title_are_two_items() -> None:
    text = page(rows().replace("part 4,", "part 3,"))
    assert len({entry.key for entry in first(text).page.entries}) == 12


@pytest.mark.parametrize(
    ("pager", "pages", "next_url"),
    [
        (
            '<a class="next" href="index_2.html">下一页</a>',
            {"next": {"css": "a.next::attr(href)"}},
            "https://www.example.org/notices/index_2.html",
        ),
        (
            '<a href="index_2.html">下一页</a>',
            {"next": {"xpath": '//a[normalize-space(.)="下一页"]/@href'}},
            "https://www.example.org/notices/index_2.html",
        ),
        (
            '<b>1</b><a href="index_2.html">2</a><a href="index_3.html">3</a>',
            {"number": {"first": "index.html", "then": "index_{n}.html", "from": 2}},
            "https://www.example.org/notices/index_2.html",
        ),
        (
            '<b>1</b><a href="index_1.html">2</a><a href="index_2.html">3</a>',
            {"number": {"first": "index.html", "then": "index_{n}.html", "from": 1}},
            "https://www.example.org/notices/index_1.html",
        ),
        (
            '<a href="?a=1&page=2">2</a><a href="?a=1&page=3">3</a>',
            {"number": {"first": 1}},
            "https://www.example.org/notices/index.html?a=1&page=2",
        ),
        ('<a href="javascript:void(0)" onclick="toPage(2)">下一页</a>', None, None),
    ],
)
def test_how_pages_follow_each_other(pager: str, pages: dict[str, Any] | None, next_url: str | None) -> None:
    one = first(page(f'{rows()}<div class="pages">{pager}</div>'))
    assert spec(one)["listing"].get("pages") == pages
    found = one.page.next
    assert (one.source.list_request(one.source.listings()[0], found).url if found else None) == next_url
    if pages is None:
        assert any("script" in note for note in one.notes)


def test_the_feed_that_a_page_names_is_known_and_the_feed_of_comments_is_not() -> None:
    head = (
        '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'
        '<link rel="alternate" type="application/rss+xml" href="/comments/feed.xml">'
        '<link rel="alternate" hreflang="de" href="/de/"><link rel="stylesheet" href="/a.css">'
    )
    assert named_feeds(answer(page(rows(), head))) == ["https://www.example.org/feed.xml"]


def test_a_feed_is_proposed_with_what_its_entries_have() -> None:
    items = "".join(
        f"<item><title>News {n}</title><link>https://e.org/{n}</link><guid>g{n}</guid></item>" for n in range(5)
    )
    one = first(f'<?xml version="1.0"?><rss version="2.0"><channel>{items}</channel></rss>')
    assert one.kind == "feed"
    assert list(spec(one)["listing"]["fields"]) == ["id", "url", "title"]
    assert spec(one)["identity"]["key"] == {"field": "id"}
    assert titles(one) == [f"News {n}" for n in range(5)]


def test_the_records_of_a_json_answer_and_their_page_number() -> None:
    records = [
        {
            "announcementId": f"12{n}",
            "pageNo": 1,
            "announcementTitle": f"Report of {n}",
            "announcementTime": 1_599_148_800_000 + n,
            "adjunctUrl": f"final/2020/{n}.PDF",
            "secCode": "600600",
        }
        for n in range(6)
    ]
    text = json.dumps({"code": 200, "data": {"total": 761, "records": records, "tags": [{"a": 1}]}})
    one = first(text, "https://api.example.org/query?size=30&pageNum=1")
    data = spec(one)
    assert data["listing"]["rows"] == {"json": "data.records"}
    assert data["listing"]["request"] == {"url": "https://api.example.org/query?size=30&pageNum={page}"}
    assert data["listing"]["pages"] == {"number": {"first": 1}}
    entry = one.page.entries[0]
    assert (entry.key, entry.fields["title"]) == ("120", "Report of 0")
    assert str(entry.fields["published"]).startswith("2020-09-0")
    assert entry.fields["url"] == "https://api.example.org/final/2020/0.PDF"


def test_records_in_a_list_that_is_called_items_are_no_feed() -> None:
    answer = {"items": [{"id": n, "title": f"Notice {n}", "date": f"2026-03-{n:02d}"} for n in range(1, 9)], "next": 2}
    found = first(json.dumps(answer), "https://api.example.org/v1/list?page=1")
    assert found.kind == "json"
    assert spec(found)["listing"]["pages"] == {"number": {"first": 1}}
    assert found.page.entries[0].fields["title"] == "Notice 1"
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": "F", "items": [{"id": "a", "title": "One"}]}
    assert first(json.dumps(feed)).kind == "feed"


def test_a_sitemap_is_walked_to_its_end_for_what_is_new_may_stand_anywhere() -> None:
    urls = "".join(f"<url><loc>https://www.example.org/{n}.html</loc></url>" for n in range(1, 9))
    found = first(f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>')
    assert found.source.connect.all
    assert [entry.key for entry in found.page.entries] == [f"https://www.example.org/{n}.html" for n in range(1, 9)]


@pytest.mark.parametrize(("days", "whole"), [(range(1, 9), True), (range(8, 0, -1), False), ([5] * 8, False)])
def test_a_list_with_its_oldest_rows_first_is_walked_to_its_end(days: Sequence[int], whole: bool) -> None:
    answer = [{"id": n, "title": f"Notice {n}", "date": f"2026-03-{day:02d}"} for n, day in enumerate(days)]
    found = first(json.dumps(answer), "https://api.example.org/v1/list?page=1")
    assert found.source.connect.all is whole
    assert any("oldest stand first" in note for note in found.notes) is whole


def test_a_form_that_was_asked_with_is_asked_again_with_the_page_in_it() -> None:
    text = json.dumps([{"id": n, "title": f"Tender {n}"} for n in range(3)])
    one = first(text, "https://api.example.org/list", form={"PAGENUMBER": "1", "KIND": "02"})
    request = one.source.list_request(one.source.listings()[0], one.page.next)
    assert (request.method, request.form) == ("POST", [("PAGENUMBER", "2"), ("KIND", "02")])


@pytest.mark.parametrize(
    "text",
    ["", "<html><body><p>Nothing here</p></body></html>", "{}", "[]", "[1, 2]", "{", '<?xml version="1.0"?><rss/>',
     "<div>" * 3000 + '<a href="/1">one of the links</a>', "\x00\x01", '<a href="/1">one alone</a>'],
)  # fmt: skip
def test_a_page_with_nothing_to_propose_gives_nothing_and_no_error(text: str) -> None:
    assert proposals_of(answer(text), Asked(URL)) == []


HOSTILE = "A: \"b\" #c {d} [e] 'f' \\g *h &i !j %k @l `m` | > - ? ,\u2028x 🐟 \u202e"


def test_a_title_full_of_signs_does_not_break_the_file(tmp_path: Path) -> None:
    text = page(rows(), f"<title>{HOSTILE.replace('&', '&amp;')}\nmore</title>")
    one = first(text, URL + "?q={x}&r=%7B'\"")
    path = tmp_path / "proposed.yaml"
    path.write_text(one.text, encoding="utf-8")
    again = load_file(path).source
    assert again.read_page(again.listings()[0], answer(text), None).entries == one.page.entries


@given(st.text(max_size=60))
@example("\\\x7f")
@settings(max_examples=150, deadline=None)
def test_any_text_is_the_same_text_after_it_was_written_and_read(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    if any(ord(char) in (0xFFFE, 0xFFFF) for char in text):
        return
    written = f"a: {flow({'k': text})}\n"
    assert parse_yaml(written, "x")[0]["a"]["k"] == text, scalar(text)


def test_a_page_that_is_damaged_anywhere_gives_proposals_that_load_or_none() -> None:
    chance = random.Random(7)
    whole = page(f'{rows()}<div class="pages"><a href="index_2.html">2</a><a href="index_3.html">3</a></div>')
    put_in = (
        '<a href="//[x">x</a>',
        "</li>",
        "<ul><",
        '"',
        "{page}",
        "\x00",
        '<a href="?p={x}">2</a>',
        "<x:y z='",
        "&#0;",
    )
    for _ in range(40):
        text = whole
        for _ in range(chance.randint(1, 20)):
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice(put_in) + text[at + chance.choice((0, 0, 5, 300)) :]
        named_feeds(answer(text))
        for one in proposals_of(answer(text), Asked(URL)):
            assert parse_yaml(one.text, "x")[0]["listing"]["rows"]
