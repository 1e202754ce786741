"""Each trap of ../shared/SITES.md (how real sites break collectors) has a small page of ours: here, or where named."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, Final

import pytest

from fyke.errors import FetchFailed
from fyke.model import Outcome
from fyke.pipeline.requests import judge
from tests.unit.sources.making import made, read, response

TESTS: Final = Path(__file__).resolve().parents[2]
SITES: Final = TESTS.parents[1] / "shared" / "SITES.md"
HERE, STEPS, LISTS, PAGING = "traps", "steps", "lists", "paging"
COVERAGE, BLOCKS, ENCODING = "unit/test_coverage.py", "unit/test_blocks.py", "unit/test_encoding.py"
WALKS = "pipeline/test_list_walks.py"

# Row of SITES.md → the test. `name::` without a path is tests/unit/sources/test_NAME.py.
ROWS: Final[dict[str, str]] = {
    "1.1": f"{HERE}::test_page_two_has_the_address_that_the_site_gives_it",
    "1.2": f"{HERE}::test_page_two_has_the_address_that_the_site_gives_it",
    "1.3": f"{HERE}::test_page_two_has_the_address_that_the_site_gives_it",
    "1.4": f"{HERE}::test_page_two_has_the_address_that_the_site_gives_it",
    "1.5": f"{HERE}::test_page_one_under_two_addresses_is_one_page",
    "1.6": f"{PAGING}::test_page_ten_and_later_are_whole_numbers",
    "1.7": f"{HERE}::test_a_form_has_the_page_and_a_total_that_may_be_a_cap_is_a_hint",
    "1.8": f"{WALKS}::test_a_chain_of_view_states_is_walked_in_order",
    "1.9": f"{HERE}::test_a_next_page_that_only_a_call_names_is_asked_for",
    "1.10": f"{HERE}::test_a_page_number_of_any_name",
    "1.11": f"{PAGING}::test_an_offset_steps_by_the_rows_of_a_page",
    "1.12": f"{HERE}::test_the_link_to_the_last_page_and_the_words_beside_it_are_hints",
    "1.13": f"{PAGING}::test_the_link_header_is_followed_to_another_path_and_its_absence_says_last",
    "1.14": f"{PAGING}::test_a_time_cursor_is_encoded",
    "totals.1": "unit/test_hints.py::test_a_total_that_is_rounded_down_does_not_end_the_walk",
    "totals.2": f"{COVERAGE}::test_a_page_that_repeats_an_earlier_one_is_a_gap",
    "totals.3": f"{COVERAGE}::test_a_blank_page_with_rows_behind_it_is_a_gap_though_the_walk_connects",
    "totals.4": f"{WALKS}::test_a_walk_by_cursor_goes_on_after_a_failure_where_it_was",
    "2.1": f"{COVERAGE}::test_rows_added_while_the_list_was_read_are_found_by_the_look",
    "2.2": f"{COVERAGE}::test_pinned_anchors_do_not_connect",
    "2.3": f"{HERE}::test_ids_that_are_not_in_order_lose_no_row",
    "3.1": f"{HERE}::test_a_key_survives_channel_scheme_and_host",
    "3.2": f"{HERE}::test_noise_in_an_address_is_no_part_of_the_key",
    "3.3": f"{HERE}::test_noise_in_an_address_is_no_part_of_the_key",
    "3.4": f"{HERE}::test_a_fragment_may_be_the_key",
    "3.5": f"{HERE}::test_what_changes_with_each_request_is_neither_key_nor_change",
    "3.6": f"{HERE}::test_noise_in_an_address_is_no_part_of_the_key",
    "3.7": f"{HERE}::test_a_feed_whose_links_change_with_each_request_has_keys_of_what_stays",
    "3.8": f"{HERE}::test_a_guid_made_anew_with_each_build_is_left_out_of_the_key",
    "3.9": f"{HERE}::test_a_time_that_is_edited_later_is_a_change_of_the_same_item",
    "3.10": f"{HERE}::test_one_notice_under_several_encrypted_ids_is_one_item",
    "3.11": f"{HERE}::test_one_notice_in_several_lists_has_one_key",
    "3.12": f"{LISTS}::test_same_title_and_different_ids_are_two_entries",
    "3.13": "columns::test_rows_named_twice_in_one_answer_are_entries_of_one_key",
    "3.14": f"{LISTS}::test_several_links_in_a_row_are_one_entry",
    "corrections.1": "updates::test_a_correction_and_its_original_share_a_number_however_it_is_written",
    "corrections.2": f"{HERE}::test_the_sister_notices_on_a_page_are_not_the_notice",
    "corrections.3": f"{HERE}::test_a_correction_that_only_the_title_marks_is_related",
    "corrections.4": "details::test_the_hash_is_over_compared_fields_without_the_noise",
    "4.1": f"{HERE}::test_the_date_in_an_address_is_not_the_date_of_publication",
    "4.2": f"{HERE}::test_the_stamps_of_a_template_are_no_dates_and_no_ids",
    "4.3": f"{STEPS}::test_dates_are_told_as_sites_write_them",
    "4.4": "times::test_a_date_without_a_year_is_the_last_that_the_page_can_have_shown",
    "4.5": f"{STEPS}::test_dates_are_told_as_sites_write_them",
    "5.1": f"{STEPS}::test_addresses_are_made_absolute_or_are_none",
    "5.2": f"{STEPS}::test_the_base_of_a_page_counts",
    "5.3": "many::test_an_address_that_only_a_call_names_is_taken",
    "5.4": f"{LISTS}::test_a_title_cut_in_the_text_is_taken_whole_from_its_attribute",
    "5.5": f"{HERE}::test_a_detail_that_is_a_pdf_is_never_stored_as_a_page",
    "6.1": f"{BLOCKS}::test_a_page_that_stands_in_for_the_page_is_blocked",
    "6.2": f"{HERE}::test_a_captcha_inside_a_good_status_is_no_empty_list",
    "6.3": f"{COVERAGE}::test_a_list_that_is_empty_where_it_had_rows_is_suspicious",
    "6.4": f"{BLOCKS}::test_a_page_that_stands_in_for_the_page_is_blocked",
    "6.5": f"{HERE}::test_the_script_of_a_shield_is_no_block",
    "6.6": f"{HERE}::test_an_article_that_only_a_script_has_is_read_or_refused_and_never_empty",
    "6.7": f"{ENCODING}::test_meta_gb2312_over_utf8_bytes_is_utf8",
    "6.8": f"{WALKS}::test_a_sitemap_that_its_index_names_and_that_is_not_there_is_a_gap_and_the_others_are_read",
}


def path_of(test: str) -> Path:
    name = test.partition("::")[0]
    return TESTS / name if "/" in name else TESTS / "unit" / "sources" / f"test_{name}.py"


def test_each_test_of_the_table_is_there() -> None:
    names: dict[Path, set[str]] = {}
    for test in ROWS.values():
        file = path_of(test)
        if file not in names:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            names[file] = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert [test for test in ROWS.values() if test.partition("::")[2] not in names[path_of(test)]] == []


@pytest.mark.skipif(not SITES.is_file(), reason="the list of traps is not here")
def test_each_row_of_the_list_has_its_test() -> None:
    found, part, count = [], "", 0
    for line in SITES.read_text(encoding="utf-8").splitlines():
        heading = re.match(r"## (\d)\.|### (Totals|Correction)", line)
        if heading:
            part, count = heading[1] or {"Totals": "totals", "Correction": "corrections"}[heading[2]], 0
        elif part != "7" and re.match(r"- |\| (?!# |case )[^-]", line):
            count += 1
            found.append(f"{part}.{count}")
    assert found == list(ROWS)


def listed(fields: str, key: str, *, more: str = "", rows: str = "{in: ul, css: '> li'}", pages: str = "") -> Any:
    return made(
        f"listing:\n  request: {{url: 'https://site.example/news/list.html?p=0'}}\n  rows: {rows}\n"
        f"  fields: {fields}\n  {pages}\n{more}",
        head=f"id: site\nidentity: {{scope: site.example, key: {key}}}\nstore: {{table: news}}\n",
    )


def keys(source: Any, text: str, url: str = "https://site.example/news/list.html") -> list[str]:
    page = read(source, text, url)
    assert (page.outcome, page.refused) == (Outcome.OK, [])
    return [entry.key for entry in page.entries]


URL: Final = "url: {css: 'a::attr(href)', then: [absolute_url]}"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("{first: index.htm, then: 'index_{n}.htm', from: 1}", ["index.htm", "index_1.htm", "index_2.htm"]),
        ("{first: index.html, then: 'index_{n}.html', from: 2}", ["index.html", "index_2.html", "index_3.html"]),
        (
            "{first: index_1.jhtml, then: 'index_{n}.jhtml', from: 2}",
            ["index_1.jhtml", "index_2.jhtml", "index_3.jhtml"],
        ),
        ("{first: index.html, then: 'index{n}.html', from: 2}", ["index.html", "index2.html", "index3.html"]),
    ],
)
def test_page_two_has_the_address_that_the_site_gives_it(number: str, expected: list[str]) -> None:
    one = made(
        f"listing:\n  request: {{url: 'https://site.example/{{page}}'}}\n  pages: {{number: {number}}}\n"
        "  rows: {css: li}\n  fields: {id: {css: a}}\n"
    )
    cursors: list[Any] = [None, {"page": 2}, {"page": 3}]
    addresses = [one.list_request(one.listings()[0], cursor).url for cursor in cursors]
    assert addresses == [f"https://site.example/{name}" for name in expected]


def test_page_one_under_two_addresses_is_one_page() -> None:
    one = listed(f"{{{URL}}}", "{field: url}", pages="pages: {next: {xpath: \"//a[.='下一页']/@href\"}}")
    page_one = (
        "<ul><li><a href=/2016/0423/127.html>a</a></ul><a href=list_70_1.html>1</a><a href=list_70_2.html>下一页</a>"
    )
    folder, file = "https://site.example/c/", "https://site.example/c/list_70_1.html"
    assert keys(one, page_one, folder) == keys(one, page_one, file)
    following = [read(one, page_one, url).next for url in (folder, file)]
    assert following == [{"url": "https://site.example/c/list_70_2.html"}] * 2
    last = read(
        one, "<ul><li><a href=/2016/0418/66.html>b</a></ul><a href=list_70_1.html>1</a>", f"{folder}list_70_2.html"
    )
    assert (last.next, last.last_by_hint) == (None, True)


def test_a_form_has_the_page_and_a_total_that_may_be_a_cap_is_a_hint() -> None:
    one = made(
        """
        listing:
          request:
            url: "https://site.example/getTradList"
            form: {PAGENUMBER: "{page}", DEAL_TIME: "04", FINDTXT: 体育}
          pages: {number: {first: 1}, total: {json: data.total}, last: {json: data.pages}}
          rows: {json: data.records}
          fields: {id: {json: id}}
        """
    )
    request = one.list_request(one.listings()[0], {"page": 12})
    assert (request.method, dict(request.form or ())) == (
        "POST",
        {"PAGENUMBER": "12", "DEAL_TIME": "04", "FINDTXT": "体育"},
    )
    page = read(
        one, '{"code": 200, "data": {"total": 1000, "pages": 50, "records": [{"id": "a"}]}}', cursor={"page": 50}
    )
    assert (page.total_hint, page.last_hint, page.last_by_hint, page.next) == (1000, 50, None, {"page": 51})


def test_a_next_page_that_only_a_call_names_is_asked_for() -> None:
    one = listed(
        f"{{{URL}}}",
        "{field: url}",
        pages="pages: {cursor: {css: 'a.on + a::attr(onclick)', then: [{regex: 'executePage\\((\\d+),'}]},"
        " request: {url: 'https://site.example/AboutNewsAction', query: {catalogId: '2933,2935', cur: '{cursor}'}}}",
    )
    call = """executePage({},15,"/servlet?catalogId=2933,2935")"""
    pager = "".join(f"<a{mark} onclick='{call.format(n)}'>{n}</a>" for n, mark in ((1, " class=on"), (2, ""), (3, "")))
    page = read(one, f"<ul><li><a href=/1.html>a</a></ul>{pager}")
    address = one.list_request(one.listings()[0], page.next).url
    assert address == "https://site.example/AboutNewsAction?catalogId=2933%2C2935&cur=2"


@pytest.mark.parametrize(
    "name", ["pageNo", "pageIndex", "currentPage", "curPage", "pageNum", "cp", "page.pageNum", "page_index"]
)
def test_a_page_number_of_any_name(name: str) -> None:
    one = made(
        f"listing:\n  request: {{url: 'https://site.example/s', query: {{kind: 1, {name}: '{{page}}'}}}}\n"
        "  pages: {number: {first: 1}}\n  rows: {css: li}\n  fields: {id: {css: a}}\n"
    )
    assert one.list_request(one.listings()[0], {"page": 10}).url == f"https://site.example/s?kind=1&{name}=10"


def test_the_link_to_the_last_page_and_the_words_beside_it_are_hints() -> None:
    one = listed(
        f"{{{URL}}}",
        "{field: url}",
        pages="pages: {next: {css: 'a.n::attr(href)'}, total: {css: .c, then: [{regex: 'of (\\d+)'}]},"
        " last: {css: 'a.l::attr(href)', then: [{regex: 'pageID=(\\d+)'}]}}",
    )
    page = read(
        one,
        "<ul><li><a href=/1>a</a></ul><i class=c>1 - 20 of 28488</i><a class=n href='?pageID=2'>»</a>"
        "<a class=l href='?pageID=1425'>[1425]</a>",
    )
    assert (page.total_hint, page.last_hint) == (28488, 1425)


def test_ids_that_are_not_in_order_lose_no_row() -> None:
    one = listed(f"{{{URL}}}", r"{field: url, then: [{regex: '/(\d+)\.shtml'}]}")
    ids = ["12323944", "12323941", "12323035", "12323030", "12323031"]
    assert keys(one, "<ul>" + "".join(f"<li><a href=/a/{name}.shtml>x</a>" for name in ids) + "</ul>") == ids


def test_a_key_survives_channel_scheme_and_host() -> None:
    one = listed(f"{{{URL}}}", r"{field: url, then: [{regex: '/t\d{8}_(\d+)\.html?$'}]}")
    addresses = (
        "http://www.ccgp.example/cggg/zygg/gzgg/202508/t20250829_25257111.htm",
        "https://ccgp.example/cggg/dfgg/cjgg/202508/t20250829_25257111.html",
        "./202508/t20250830_25257111.htm",
    )
    for address in addresses:
        assert keys(one, f"<ul><li><a href={address}>x</a></ul>") == ["25257111"]


@pytest.mark.parametrize(
    ("rule", "one", "other"),
    [
        (
            r"[?&]id=([0-9a-f]+)",
            "?s=opportunity&amp;id=278b51&amp;_cview=0",
            "?s=opportunity&amp;id=278b51&amp;_cview=1",
        ),
        (
            r"[?&]ID=(\d+)",
            "dispbbs.asp?BoardID=10&amp;ID=25164&amp;Page=1",
            "dispbbs.asp?ID=25164&amp;BoardID=10&amp;Page=7",
        ),
        (
            r"Product_Code=(\w+)",
            "/m.mvc?Session_ID=56e7&amp;Product_Code=059500",
            "/m.mvc?Session_ID=9f&amp;Product_Code=059500",
        ),
        (r"/t(\d+)-", "/t93170-a.html?s=1d0f438e", "/t93170-a.html"),
    ],
)
def test_noise_in_an_address_is_no_part_of_the_key(rule: str, one: str, other: str) -> None:
    source = listed(f"{{{URL}}}", f"{{field: url, then: [{{regex: '{rule}'}}]}}")
    first, second = (keys(source, f'<ul><li><a href="{href}">x</a></ul>') for href in (one, other))
    assert first == second


def feed(*items: str) -> str:
    return f"<rss version='2.0'><channel>{''.join(f'<item>{item}</item>' for item in items)}</channel></rss>"


def test_a_fragment_may_be_the_key() -> None:
    one = listed("{url: {feed: link}}", "{field: url}", rows="{feed: entries}")
    week = "http://blog.example/2004_08_29_archive.html"
    assert keys(one, feed(f"<link>{week}#1094</link>", f"<link>{week}#1095</link>")) == [f"{week}#1094", f"{week}#1095"]


def test_what_changes_with_each_request_is_neither_key_nor_change() -> None:
    one = listed(
        f"{{mark: {{xpath: './@d'}}, title: {{css: a}}, {URL}}}", "{field: mark}", more="updates: {compare: [title]}"
    )
    page = "<ul><li d=ab73-6bee><a href='http://mp.example/s?timestamp={0}&amp;signature={0}x'>高考</a></ul>"
    first, second = (read(one, page.format(number)).entries[0] for number in (1500052504, 1500099999))
    assert first.fields["url"] != second.fields["url"]
    assert (first.key, first.hash) == (second.key, second.hash)


def test_a_feed_whose_links_change_with_each_request_has_keys_of_what_stays() -> None:
    one = listed(
        "{url: {feed: link}, title: {feed: title}, published: {feed: published}}",
        "{hash: [title, published]}",
        rows="{feed: entries}",
    )
    item = (
        "<title>论文 {0}</title><pubDate>Mon, 01 Sep 2025 00:00:00 GMT</pubDate><link>https://x.example/?v={1}</link>"
    )
    before = keys(one, feed(item.format("甲", "aaa"), item.format("乙", "bbb")))
    assert before == keys(one, feed(item.format("甲", "ccc"), item.format("乙", "ddd")))
    assert len(set(before)) == 2


def test_a_guid_made_anew_with_each_build_is_left_out_of_the_key() -> None:
    one = listed("{id: {feed: id}, url: {feed: link}}", "{field: url}", rows="{feed: entries}")
    item = "<guid isPermaLink='false'>{}</guid><link>https://docs.example/notes/1</link>"
    assert keys(one, feed(item.format("build-1"))) == keys(one, feed(item.format("build-2")))


def test_a_time_that_is_edited_later_is_a_change_of_the_same_item() -> None:
    one = listed("{id: {feed: id}, published: {feed: published}}", "{field: id}", rows="{feed: entries}")
    item = "<guid>7</guid><pubDate>{}</pubDate>"
    days = ("Mon, 01 Sep 2025 00:00:00 GMT", "Tue, 02 Sep 2025 00:00:00 GMT")
    first, second = (read(one, feed(item.format(day))).entries[0] for day in days)
    assert first.key == second.key
    assert first.hash != second.hash


def test_one_notice_under_several_encrypted_ids_is_one_item() -> None:
    one = listed(
        "{id: {json: id}, title: {json: title}, published: {json: t, then: [{datetime: auto}]}, buyer: {json: buyer}}",
        "{hash: [title, published, buyer]}",
        rows="{json: '@'}",
    )
    row = '{{"id": "{}", "title": "手术室成交公告", "t": 1619594507, "buyer": "{}"}}'
    found = keys(
        one, f"[{row.format('ABC%3D', '甲医院')}, {row.format('DEF%3D', '甲医院')}, {row.format('G', '乙医院')}]"
    )
    assert found[0] == found[1] != found[2]


def test_one_notice_in_several_lists_has_one_key() -> None:
    one = made(
        "each: {catalog: [2933, 2935]}\nlisting:\n  request: {url: 'https://site.example/{catalog}'}\n"
        "  rows: {in: ul, css: '> li'}\n  fields: {id: {css: 'a::attr(href)', then: [{regex: '(\\d+)'}]}}\n"
    )
    page = response("<ul><li><a href=/main/12323944.shtml>融通</a></ul>")
    found = [one.read_page(listing, page, None).entries[0].key for listing in one.listings()]
    assert found == ["12323944", "12323944"]
    assert len({listing.name for listing in one.listings()}) == 2


DETAIL = """
listing:
  request: {{url: "https://site.example/"}}
  rows: {{css: li}}
  fields: {{id: {{css: a}}, {list_fields}}}
detail:
  steps:
    - request: {{url: "https://site.example/{{id}}.html"}}
      fields: {fields}
{more}
"""


def detail(fields: str, text: str, *, list_fields: str = "title: {css: a}", more: str = "") -> Any:
    source = made(DETAIL.format(fields=fields, list_fields=list_fields, more=more))
    return source.read_detail(0, response(text), {"id": "1"})


def test_the_sister_notices_on_a_page_are_not_the_notice() -> None:
    page = detail(
        "{heading: {css: h4.h4_o}, published: {css: 'li.li_hover span', then: [{datetime: auto}]}}",
        "<h4 class=h4_o>采购合同</h4><ul><li><a onclick=\"showDetail(this,'0201','/a/1.html')\">招标公告</a>"
        "<span>2025-12-01</span>"
        "<li class=li_hover><a>采购合同</a><span>2026-03-17</span></ul>",
    )
    assert page.fields == {"heading": "采购合同", "published": "2026-03-17T00:00:00+08:00"}


def test_a_correction_that_only_the_title_marks_is_related() -> None:
    one = listed(
        "{id: {json: id}, title: {json: title}, code: {json: code}}",
        "{field: id}",
        rows="{json: '@'}",
        more="updates: {relate: [{title: 更正后, by: code, as: corrects}]}",
    )
    rows = (
        '[{"id": 1, "title": "年度报告（更正后）", "code": "600600"}, {"id": 2, "title": "年度报告", "code": "600600"}]'
    )
    corrected, original = read(one, rows).entries
    kinds = [[relation.kind for relation in entry.relations or () if relation.kind] for entry in (corrected, original)]
    assert kinds == [["corrects"], []]


def test_the_date_in_an_address_is_not_the_date_of_publication() -> None:
    one = listed(f"{{{URL}, published: {{css: span, then: [{{datetime: auto}}]}}}}", "{field: url}")
    (entry,) = read(one, "<ul><li><a href=/contents/2020/4/14-33.html>x</a><span>2019-11-16</span></ul>").entries
    assert entry.fields["published"] == "2019-11-16T00:00:00+08:00"


def test_the_stamps_of_a_template_are_no_dates_and_no_ids() -> None:
    page = detail(
        "{signed: {label: 签署时间, then: [{datetime: auto}]}, recorded: {label: 发布日期, optional: true}}",
        "<!-- 页面生成时间 2024-04-26 --><script>var recordTime='2024-05-17'; var mysid='00536c16';</script>"
        "<table><tr><td>签署时间</td><td>2026-03-17 00:32</td></tr></table>",
    )
    assert page.fields == {"signed": "2026-03-17T00:32:00+08:00"}


def test_a_detail_that_is_a_pdf_is_never_stored_as_a_page() -> None:
    one = made(DETAIL.format(fields="{text: {css: body}}", list_fields="title: {css: a}", more=""))
    answer = response("")
    answer.body = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"
    assert one.read_detail(0, answer, {"id": "1"}).outcome is Outcome.EMPTY


def test_a_captcha_inside_a_good_status_is_no_empty_list() -> None:
    asked = response('{"code":829,"message":"请输入验证码","data":null}')
    source = listed("{id: {json: id}}", "{field: id}", rows="{json: data.records}")
    assert source.read_page(source.listings()[0], asked, None).outcome is Outcome.MISFIT
    told = listed(
        "{id: {json: id}}",
        "{field: id}",
        rows="{json: data.records}",
        more="fetch: {blocked: {text: ['\"code\":829']}}",
    )
    with pytest.raises(FetchFailed) as caught:
        judge(asked, told.fetch)
    assert caught.value.outcome == "blocked"


def test_the_script_of_a_shield_is_no_block() -> None:
    text = "<p>采购人：市体育局，预算金额五十万元，公开招标。</p>" * 60
    page = response(f"<title>中标公告</title><script>var _bot_sbu='1';</script><h1>中标公告</h1>{text}")
    source = listed("{id: {css: a}}", "{field: id}", rows="{css: li}")
    judge(page, source.fetch)
    assert detail("{heading: {css: h1, required: true}}", page.text).fields == {"heading": "中标公告"}


def test_an_article_that_only_a_script_has_is_read_or_refused_and_never_empty() -> None:
    text = r"""<title>通知</title><p>您的浏览器版本过低</p><script>var BASE_DATA = {articleInfo: {
      title: '通知', content: '&lt;p&gt;各镇人民政府&lt;/p&gt;', time: '2018-08-28 23:37:59'}};</script>"""
    taken = detail("{body: {regex: \"content: '([^']*)'\", then: [unescape, text], required: true}}", text)
    assert taken.fields == {"body": "各镇人民政府"}
    assert detail("{body: {css: article, required: true}}", text).outcome is Outcome.MISFIT


def test_one_lastmod_for_every_address_changes_nothing_where_it_is_not_compared() -> None:
    one = listed(
        "{url: {sitemap: loc}, changed: {sitemap: lastmod, then: [{datetime: auto}]}}",
        "{field: url}",
        rows="{sitemap: urls}",
        more="updates: {compare: [url]}",
    )
    page = "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>https://a.example/1</loc><lastmod>{}</lastmod></url></urlset>"
    stamps = ("2025-05-31T10:49:28+00:00", "2025-06-30T10:49:28+00:00")
    first, second = (read(one, page.format(stamp)).entries[0] for stamp in stamps)
    assert first.fields["changed"] != second.fields["changed"]
    assert (first.key, first.hash) == (second.key, second.hash)


@pytest.mark.parametrize(
    ("text", "currency", "expected"),
    [
        ("9 900,00 zł", "PLN", "9900.00"),
        ("1 199,00 zł", "PLN", "1199.00"),
        ("999,00zł", "PLN", "999.00"),
        # A sum of another currency is never taken for one of ours.
        ("9 900,00 zł", "EUR", None),
    ],
)
def test_sums_with_blanks_between_thousands(text: str, currency: str, expected: str | None) -> None:
    steps = f"[{{money: {{currency: {currency}, decimal: ','}}}}]"
    spec = f"{{other: {{css: b}}, sum: {{css: i, then: {steps}, optional: true}}}}"
    assert detail(spec, f"<b>x</b><i>{text}</i>").fields.get("sum") == expected
