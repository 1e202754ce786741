"""Rows become entries or refused entries, whatever a list page looks like."""

import pytest

from fyke.model import Outcome
from fyke.sources.hits import list_hits
from tests.unit.sources.making import LISTED, entries, made, read, response

PAGE = """<html><body><ul class="list">
<li><a href="/news/12.html" title="A whole title">A whole ti...</a> <span>2025-06-27</span></li>
<li><a href="/news/11.html" title="Another title">Another ti...</a> <span>2025-06-26</span></li>
</ul></body></html>"""


def keys(page: str, spec: str = LISTED) -> list[str]:
    return [entry.key for entry in read(made(spec), page).entries]


def test_rows_become_entries_in_the_page_s_order() -> None:
    page = read(made(LISTED), PAGE)
    assert [(entry.position, entry.key, entry.fields["title"]) for entry in page.entries] == [
        (0, "12", "A whole ti..."),
        (1, "11", "Another ti..."),
    ]
    assert (page.outcome, page.blank, page.next, page.last_by_hint) == (Outcome.OK, False, None, None)


def test_a_selector_is_shown_in_the_characters_that_the_file_has() -> None:
    source = made(LISTED.replace("    title:", "    buyer: {label: [采购单位, 采购人]}\n    title:", 1))
    shown = [hit.selector for hit in list_hits(source, source.listings()[0], response(PAGE)).fields]
    assert 'label ["采购单位", "采购人"]' in shown


def test_a_missing_container_is_a_misfit_and_never_no_news() -> None:
    page = read(made(LISTED), "<html><body><p>频繁访问</p></body></html>")
    assert (page.outcome, page.entries, page.blank) == (Outcome.MISFIT, [], False)
    assert "ul.list" in page.reason


def test_a_container_without_rows_is_blank() -> None:
    page = read(made(LISTED), '<ul class="list"><!-- nothing --></ul>')
    assert (page.outcome, page.blank, page.entries) == (Outcome.OK, True, [])


def test_without_a_container_no_rows_are_a_misfit() -> None:
    source = made(LISTED.replace('in: ul.list, css: "> li"', "css: ul.list li"))
    assert read(source, "<p>down for maintenance</p>").outcome is Outcome.MISFIT
    assert len(entries(source, PAGE)) == 2


@pytest.mark.parametrize("text", ["", "   \n", "\ufeff"])
def test_an_empty_answer_is_a_misfit(text: str) -> None:
    assert read(made(LISTED), text).outcome is Outcome.MISFIT


def test_a_row_without_key_is_refused_and_its_neighbours_stay() -> None:
    page = read(
        made(LISTED),
        '<ul class=list><li><a href="/1.html">a</a><li><a>no <b>link</b></a><li><a href="/3.html">c</a></ul>',
    )
    assert [entry.key for entry in page.entries] == ["1", "3"]
    (refused,) = page.refused
    assert (refused.position, refused.raw) == (1, "<li><a>no <b>link</b></a></li>")
    assert "no key" in refused.reason
    assert len(refused.fingerprint) == 16


def test_the_raw_text_of_a_refused_row_is_bounded() -> None:
    page = read(made(LISTED), f"<ul class=list><li><p>{'x' * 9_000}</ul>")
    assert len(page.refused[0].raw) == 2_000


def test_the_fingerprint_of_a_refused_row_is_that_of_its_text() -> None:
    def fingerprint(row: str) -> bytes:
        return read(made(LISTED), f"<ul class=list><li>{row}</ul>").refused[0].fingerprint

    assert fingerprint("<a>no  link</a>") == fingerprint("<a class=x>no\n<b>link</b></a>")
    assert fingerprint("<a>no link</a>") != fingerprint("<a>no link!</a>")


def test_a_key_with_a_control_character_is_refused() -> None:
    source = made(LISTED.replace("css: \"a::attr(href)\", then: [{regex: '(\\d+)\\.html'}]", "css: a::attr(name)"))
    page = read(source, '<ul class=list><li><a name="a&#x1;b">x</a></ul>')
    assert "control character U+0001" in page.refused[0].reason


def test_only_the_container_s_own_rows_count_when_the_selector_says_so() -> None:
    nested = "<ul class=list><li><a href=/1.html>a</a><ul><li><a href=/9.html>reply</a></li></ul></li></ul>"
    assert keys(nested) == ["1"]


def test_the_mark_that_relative_selectors_need_leaves_no_trace() -> None:
    source = made(LISTED + '    html: {css: "> a", then: [html]}\n    row: {template: "x"}\n')
    assert entries(source, PAGE)[0]["html"] == '<a href="/news/12.html" title="A whole title">A whole ti...</a>'
    refused = read(source, "<ul class=list><li><a>x</a></ul>").refused[0]
    assert "data-fyke" not in refused.raw


def test_two_rows_of_one_page_with_the_same_key_stay_two_entries() -> None:
    assert keys("<ul class=list><li><a href=/1.html>a</a><li><a href=/1.html>a</a></ul>") == ["1", "1"]


def test_same_title_and_different_ids_are_two_entries() -> None:
    assert keys("<ul class=list><li><a href=/124.html>same</a><li><a href=/125.html>same</a></ul>") == ["124", "125"]


def test_several_links_in_a_row_are_one_entry() -> None:
    row = "<li><a href=/7.html><img src=t.jpg></a><a href=/7.html>title</a><a href=/7.pdf>PDF</a></li>"
    assert keys(f"<ul class=list>{row}</ul>") == ["7"]


def test_a_title_with_an_element_inside_is_whole() -> None:
    row = '<li><a href="/1.html">\n  西安市红会医院<font color="red">卫星</font>医院\u3000采购&nbsp;公告 </a></li>'
    assert entries(made(LISTED), f"<ul class=list>{row}</ul>")[0]["title"] == "西安市红会医院卫星医院 采购 公告"


def test_a_title_cut_in_the_text_is_taken_whole_from_its_attribute() -> None:
    source = made(LISTED.replace("title: {css: a}", 'title: {first_of: [{css: "a::attr(title)"}, {css: a}]}'))
    page = '<ul class=list><li><a href=/1.html title="whole">who...</a><li><a href=/2.html title=" ">text</a></ul>'
    assert [fields["title"] for fields in entries(source, page)] == ["whole", "text"]


def test_an_attribute_is_looked_for_past_elements_that_lack_it() -> None:
    assert keys("<ul class=list><li><a name=top></a><a href=/5.html>x</a></ul>") == ["5"]


@pytest.mark.parametrize("mark", ["[置顶] ", "【置顶】", "置顶 ", "<em>置顶</em>"])
def test_a_row_marked_as_pinned_is_pinned(mark: str) -> None:
    page = read(made(LISTED), f"<ul class=list><li>{mark}<a href=/1.html>a</a><li><a href=/2.html>b</a></ul>")
    assert [entry.pinned for entry in page.entries] == [True, False]


def test_a_title_about_pinning_is_not_pinned() -> None:
    page = read(made(LISTED), "<ul class=list><li><a href=/1.html>关于公告置顶规则的通知</a></ul>")
    assert page.entries[0].pinned is False


def test_pinned_rows_are_found_by_a_selector() -> None:
    source = made(LISTED.replace('css: "> li"', 'css: "> li", pinned: "li.top, img.pin"'))
    page = read(
        source,
        "<ul class=list><li class=top><a href=/1.html>a</a><li><a href=/2.html>b</a><img class=pin>"
        "<li><a href=/3.html>置顶</a></ul>",
    )
    assert [entry.pinned for entry in page.entries] == [True, True, False]


def test_a_missing_required_field_refuses_the_row() -> None:
    page = read(made(LISTED.replace("title: {css: a}", "title: {css: h3, required: true}")), PAGE)
    assert [refused.reason for refused in page.refused] == ["the required field 'title' has no value"] * 2


def test_rows_by_xpath_with_fields_of_both_kinds() -> None:
    source = made("""
        listing:
          request: {url: "https://site.example/"}
          rows: {in: "//table[@id='t']", xpath: ".//tr[td]"}
          fields:
            id: {xpath: "./td[1]/text()", then: [squeeze]}
            title: {css: "td.t"}
            link: {xpath: "string(.//a/@href)", then: [absolute_url]}
    """)
    page = """<table id=t><tr><th>no</th></tr>
    <tr><td> 1 </td><td class=t>one <b>b</b></td><td><a href="x?y=1">l</a></td>
    <tr><td>2<td class=t>two<td></table>"""
    assert entries(source, page) == [
        {"id": "1", "title": "one b", "link": "https://site.example/news/x?y=1"},
        {"id": "2", "title": "two"},
    ]


def test_a_css_row_takes_xpath_fields() -> None:
    source = made(LISTED.replace("title: {css: a}", 'title: {xpath: ".//a/@title"}'))
    assert entries(source, PAGE)[0]["title"] == "A whole title"
    table = made("""
        listing:
          request: {url: "https://site.example/"}
          rows: {in: table, css: tr}
          fields: {id: {xpath: "./td[2]"}}
    """)
    assert entries(table, "<table><tr><td>a<td>b</table>") == [{"id": "b"}]


JSON = """
listing:
  request: {url: "https://site.example/api"}
  rows: {json: data.records}
  fields:
    id: {json: id}
    title: {json: title, optional: true}
    amount: {json: amount, then: [number], optional: true}
    tags: {json: tags, type: json, optional: true}
"""


def test_json_rows_with_numbers_as_keys_and_exact_decimals() -> None:
    row = '{"id": 53166882, "title": " a ", "amount": 569800.00, "tags": ["x", 1.5]}'
    text = f'{{"data": {{"records": [{row}, {{"id": "b"}}]}}}}'
    assert entries(made(JSON), text) == [
        {"id": "53166882", "title": "a", "amount": "569800.00", "tags": ["x", 1.5]},
        {"id": "b"},
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"code": 829, "message": "captcha"}', "has no 'data.records'"),
        ('{"data": {"records": null}}', "has no 'data.records'"),
        ('{"data": {"records": {"id": 1}}}', "is no list"),
        ("<html>login</html>", "is no JSON"),
        ('{"data": {"records": [', "is no JSON"),
    ],
)
def test_json_without_its_list_is_a_misfit(text: str, reason: str) -> None:
    page = read(made(JSON), text)
    assert page.outcome is Outcome.MISFIT
    assert reason in page.reason


def test_an_empty_json_list_is_blank() -> None:
    assert read(made(JSON), '{"data": {"records": []}}').blank is True


def test_json_rows_that_are_null_or_no_objects_are_refused_alone() -> None:
    page = read(made(JSON), '{"data": {"records": [null, 7, {"id": true}, {"id": "x"}, {"id": ""}]}}')
    assert [entry.key for entry in page.entries] == ["true", "x"]
    assert [refused.position for refused in page.refused] == [0, 1, 4]


def test_json_after_a_byte_order_mark_is_read() -> None:
    assert entries(made(JSON), '\ufeff{"data": {"records": [{"id": 1}]}}') == [{"id": "1"}]


def test_a_json_path_that_fails_in_one_row_refuses_that_row() -> None:
    source = made(JSON.replace("title: {json: title,", 'title: {json: "length(title)",'))
    page = read(source, '{"data": {"records": [{"id": 1, "title": "abc"}, {"id": 2, "title": 5}]}}')
    assert [entry.fields["title"] for entry in page.entries] == ["3"]
    assert "field 'title', step json" in page.refused[0].reason


def paged(pages: str, url: str = "https://site.example/{page}") -> str:
    return LISTED.replace("https://site.example/news/list.html", url).replace("  rows:", f"  pages: {pages}\n  rows:")


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ('{number: {first: index.htm, then: "index_{n}.htm", from: 1}}', ["index.htm", "index_1.htm", "index_2.htm"]),
        (
            '{number: {first: index.html, then: "index_{n}.html", from: 2}}',
            ["index.html", "index_2.html", "index_3.html"],
        ),
        ('{number: {first: index_1.jhtml, then: "index_{n}.jhtml", from: 2}}', ["index_1.jhtml", "index_2.jhtml"]),
        ('{number: {first: index.html, then: "index{n}.html", from: 2}}', ["index.html", "index2.html", "index3.html"]),
        ("{number: {first: 1}}", ["1", "2", "3"]),
        ("{number: {first: 0}}", ["0", "1", "2"]),
        ("{number: {first: index.htm}}", ["index.htm", "1", "2"]),
        ('{number: {first: "", then: "list_70_{n}.html", from: 2}}', ["", "list_70_2.html"]),
        ('{number: {first: 1, then: "{n:03}"}}', ["1", "002", "003"]),
    ],
)
def test_pages_are_numbered_as_the_site_numbers_them(pages: str, expected: list[str]) -> None:
    source = made(paged(pages))
    (listing,) = source.listings()
    cursor, urls = None, []
    for _ in expected:
        request = source.list_request(listing, cursor)
        urls.append(request.url.removeprefix("https://site.example/"))
        page = read(source, PAGE, request.url, cursor)
        assert page.last_by_hint is None
        cursor = page.next
    assert urls == expected
    assert source.paged


def test_the_next_link_is_followed_and_its_absence_says_last() -> None:
    source = made(paged('{next: {css: "a.next::attr(href)"}}', "https://site.example/news/list.html"))
    page = read(source, PAGE + '<a class=next href="../list_2.html?x=1&amp;y=2#top">下一页</a>')
    assert (page.next, page.last_by_hint) == ({"url": "https://site.example/list_2.html?x=1&y=2#top"}, False)
    request = source.list_request(source.listings()[0], page.next)
    assert (request.method, request.url) == ("GET", "https://site.example/list_2.html?x=1&y=2#top")
    for end in ("", '<a class=next href="javascript:;">下一页</a>', "<a class=next>下一页</a>"):
        page = read(source, PAGE + end)
        assert (page.next, page.last_by_hint) == (None, True)


def test_a_list_without_pages_has_one() -> None:
    assert made(LISTED).paged is False


DETAIL = """
detail:
  steps:
    - request: {url: "{url}"}
      fields: {body: {css: body}}
"""


def test_the_entry_bears_the_address_and_lane_of_its_detail() -> None:
    source = made(LISTED + '    url: {css: "a::attr(href)", then: [absolute_url]}\n' + DETAIL)
    page = read(
        source,
        '<ul class=list><li><a href="HTTPS://Other.Example:8443/1.html">a</a><li><a href="javascript:go(2.html)">b</a>'
        '<li><a href="ftp://x/3.html">c</a><li><a href="/4.html">d</a></ul>',
    )
    assert [(entry.url, entry.lane) for entry in page.entries] == [
        ("https://Other.Example:8443/1.html", "other.example:8443"),
        ("https://site.example/4.html", "site.example"),
    ]
    assert ["no address" in refused.reason for refused in page.refused] == [True, True]


def test_an_entry_that_is_the_record_bears_its_url_field_and_no_lane() -> None:
    source = made(LISTED + '    url: {css: "a::attr(href)", then: [absolute_url]}\n')
    first = read(source, PAGE).entries[0]
    assert (first.url, first.lane) == ("https://site.example/news/12.html", "")


def test_published_is_the_time_of_the_field_of_that_name() -> None:
    spec = LISTED + "    published: {css: span, then: [{datetime: auto}], optional: true}\n"
    page = read(made(spec), PAGE.replace("2025-06-26", "soon"))
    assert [entry.published_at for entry in page.entries] == [1750953600000, None]
    assert read(made(LISTED + "    published: {css: span}\n"), PAGE).entries[0].published_at is None


def test_the_hash_of_an_entry_is_over_the_list_fields_that_are_compared() -> None:
    def hash_of(extra: str, page: str) -> bytes:
        return read(made(LISTED + "    day: {css: span}\n" + extra), page).entries[0].hash

    other_day = PAGE.replace("2025-06-27", "2025-06-28")
    assert hash_of("", PAGE) != hash_of("", other_day)
    assert hash_of("updates: {compare: [title]}", PAGE) == hash_of("updates: {compare: [title]}", other_day)
    noise = "updates: {ignore: ['2025-06-2\\d']}"
    assert hash_of(noise, PAGE) == hash_of(noise, other_day)


def test_each_makes_one_listing_for_each_combination_with_a_stable_name() -> None:
    source = made(
        'each: {section: [zygg, dfgg], category: ["01", 2]}'
        + paged("{number: {first: 1}}", "https://site.example/{section}/{category}/{page}")
    )
    assert [listing.name for listing in source.listings()] == [
        "category=01,section=zygg",
        "category=2,section=zygg",
        "category=01,section=dfgg",
        "category=2,section=dfgg",
    ]
    turned = made('each: {category: ["01", 2], section: [zygg, dfgg]}' + LISTED)
    assert {listing.name for listing in turned.listings()} == {listing.name for listing in source.listings()}
    assert source.list_request(source.listings()[2], {"page": 4}).url == "https://site.example/dfgg/01/4"


def test_each_takes_fixed_combinations() -> None:
    source = made("each: [{a: 1, b: x}, {a: 2, b: y}]" + LISTED + '    where: {template: "{a}-{b}"}\n')
    assert [listing.values for listing in source.listings()] == [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]
    assert entries(source, PAGE)[0]["where"] == "1-x"
