"""From one list page to the next, however a site does it; each way with the trap that breaks collectors."""

import json
from typing import Any

import pytest

from fyke.errors import UsageError
from fyke.model import ListPage, Outcome, Request, Response
from fyke.policy.hints import ITSELF
from fyke.sources.paging import next_of_header
from fyke.sources.source import FileSource
from tests.unit.sources.making import made, response

ROWS = '<ul><li><a href="/2.html">b</a></li><li><a href="/1.html">a</a></li></ul>'
WEB = "https://site.example/list"


def source(pages: str, request: str = f'{{url: "{WEB}"}}', rows: str = "{in: ul, css: '> li'}") -> FileSource:
    field = "json: id" if "json" in rows else "css: 'a::attr(href)'"
    return made(
        f"listing:\n  request: {request}\n  pages: {pages}\n  rows: {rows}\n  fields: {{id: {{{field}}}}}\n",
    )


def asked(one: FileSource, cursor: dict[str, Any] | None = None) -> Request:
    return one.list_request(one.listings()[0], cursor)


def read(one: FileSource, text: str, cursor: dict[str, Any] | None = None, url: str = WEB, **headers: str) -> ListPage:
    answer = response(text, url)
    answer.headers = headers
    page = one.read_page(one.listings()[0], answer, cursor)
    assert (page.outcome, page.reason, page.refused) == (Outcome.OK, "", [])
    # The cursor is kept in the checkpoint as JSON.
    assert page.next is None or json.loads(json.dumps(page.next)) == page.next
    return page


def body(**more: Any) -> str:
    return json.dumps({"rows": [{"id": "2"}, {"id": "1"}], **more})


# --- Numbers and offsets ---


def urls_of(one: FileSource, number: int) -> list[str]:
    cursor, found = None, []
    for _ in range(number):
        found.append(asked(one, cursor).url)
        cursor = read(one, ROWS, cursor, found[-1]).next
    return found


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("{first: index.htm, then: 'index_{n}.htm', from: 1}", ["index.htm", "index_1.htm", "index_2.htm"]),
        ("{first: index.html, then: 'index_{n}.html', from: 2}", ["index.html", "index_2.html", "index_3.html"]),
        ("{first: index_1.jhtml, then: 'index_{n}.jhtml', from: 2}", ["index_1.jhtml", "index_2.jhtml"]),
        ("{first: index.html, then: 'index{n}.html', from: 2}", ["index.html", "index2.html"]),
    ],
    ids=["SITES 1", "SITES 2", "SITES 3", "SITES 4"],
)
def test_the_look_of_numbered_pages_says_nothing_of_their_offset(number: str, expected: list[str]) -> None:
    one = source(f"{{number: {number}}}", f'{{url: "{WEB}/{{page}}"}}')
    assert urls_of(one, len(expected)) == [f"{WEB}/{name}" for name in expected]


def test_page_ten_and_later_are_whole_numbers() -> None:
    one = source("{number: {first: 1}}", f'{{url: "{WEB}", query: {{page_index: "{{page}}"}}}}')
    assert asked(one, {"page": 10}).url == f"{WEB}?page_index=10"
    assert asked(one, {"page": 123}).url == f"{WEB}?page_index=123"


def test_an_offset_steps_by_the_rows_of_a_page() -> None:
    one = source("{offset: {step: 24}}", f'{{url: "{WEB}", query: {{Offset: "{{offset}}"}}}}')
    assert urls_of(one, 3) == [f"{WEB}?Offset=0", f"{WEB}?Offset=24", f"{WEB}?Offset=48"]
    one = source("{offset: {step: 24, first: 1}}", f'{{url: "{WEB}/{{offset}}"}}')
    assert urls_of(one, 2) == [f"{WEB}/1", f"{WEB}/25"]


def test_an_offset_in_a_json_body_is_a_number() -> None:
    request = f'{{method: POST, url: "{WEB}", json: {{from: "{{offset:int}}", size: 20}}}}'
    assert asked(source("{offset: {step: 20}}", request), {"page": 3}).json == {"from": 40, "size": 20}


# --- Cursors ---

JSON_CURSOR = f'{{url: "{WEB}", query: {{size: 2, after: "{{cursor}}"}}}}'


def test_a_json_cursor_is_followed_and_its_absence_says_last() -> None:
    one = source("{cursor: {json: paging.next}}", JSON_CURSOR, "{json: rows}")
    # Page one has no cursor: the parameter is left out, not sent empty.
    assert asked(one).url == f"{WEB}?size=2"
    page = read(one, body(paging={"next": "a+b/="}))
    assert (page.next, page.last_by_hint) == ({"cursor": "a+b/="}, False)
    assert asked(one, page.next).url == f"{WEB}?size=2&after=a%2Bb%2F%3D"
    for end in ({"next": None}, {"next": ""}, {"next": False}, {}):
        page = read(one, body(paging=end), {"cursor": "a+b/="})
        assert (page.next, page.last_by_hint, page.doubt) == (None, True, "")


def test_a_time_cursor_is_encoded() -> None:
    one = source(
        "{cursor: {xpath: '(//li)[last()]/@data-at'}}", f'{{url: "{WEB}", query: {{"updated-max": "{{cursor}}"}}}}'
    )
    text = '<ul><li data-at="2016-03-18T11:00:00-05:00"><a href=/2>b<li data-at="2016-03-18T10:07:00+08:00"><a href=/1>'
    page = read(one, text)
    assert asked(one, page.next).url == f"{WEB}?updated-max=2016-03-18T10%3A07%3A00%2B08%3A00"


def test_a_cursor_that_page_one_needs_is_said() -> None:
    one = source('{cursor: {json: next}, first: "*"}', f'{{url: "{WEB}?cursor={{cursor}}"}}', "{json: rows}")
    assert asked(one).url == f"{WEB}?cursor=%2A"
    assert asked(one, {"cursor": "x"}).url == f"{WEB}?cursor=x"


def test_a_cursor_in_a_body_is_left_out_of_page_one() -> None:
    request = f'{{url: "{WEB}", json: {{size: 2, page: {{after: "{{cursor:int}}", by: id}}, list: ["{{cursor}}", 1]}}}}'
    one = source("{cursor: {json: last}}", request, "{json: rows}")
    assert asked(one).json == {"size": 2, "page": {"by": "id"}, "list": [1]}
    page = read(one, body(last=41))
    assert asked(one, page.next).json == {"size": 2, "page": {"after": 41, "by": "id"}, "list": ["41", 1]}


@pytest.mark.parametrize("cursor", [None, {"cursor": "x"}])
def test_a_cursor_that_names_its_own_page_ends_the_pages_in_doubt(cursor: dict[str, Any] | None) -> None:
    one = source("{cursor: {json: next}, first: x}", JSON_CURSOR, "{json: rows}")
    page = read(one, body(next="x"), cursor)
    assert (page.next, page.last_by_hint, page.doubt) == (None, None, ITSELF)


def test_a_cursor_without_bounds_ends_the_pages_in_doubt() -> None:
    page = read(source("{cursor: {json: next}}", JSON_CURSOR, "{json: rows}"), body(next="x" * 3_000_000))
    assert page.next is None
    assert "longer than" in page.doubt


# --- ASP.NET: page N needs the state of the page before ---

ASP = f'{{url: "{WEB}.aspx"}}'
ASP_PAGES = f"""{{number: {{first: 1}}, request: {{url: "{WEB}.aspx", form: {{__EVENTTARGET: "Grid$Pager",
    __EVENTARGUMENT: "Page${{page}}", __VIEWSTATE: "{{state}}", __EVENTVALIDATION: "{{valid}}"}}}},
    carry: {{state: {{css: "#__VIEWSTATE::attr(value)"}}, valid: {{css: "#__EVENTVALIDATION::attr(value)"}}}},
    more: {{css: "a.next"}}}}"""


def asp_page(state: str, more: str = '<a class=next href="javascript:__doPostBack()"></a>') -> str:
    return (
        f'<form><input id=__VIEWSTATE value="{state}"><input id=__EVENTVALIDATION value="v{state}">{ROWS}{more}</form>'
    )


def test_the_form_of_the_next_page_takes_along_what_the_page_before_had() -> None:
    one = source(ASP_PAGES, ASP)
    assert (asked(one).method, asked(one).form) == ("GET", None)
    page = read(one, asp_page("/wEPDw+1="))
    assert page.next == {"page": 2, "carry": {"state": "/wEPDw+1=", "valid": "v/wEPDw+1="}}
    request = asked(one, page.next)
    assert request.method == "POST"
    assert request.form == [
        ("__EVENTTARGET", "Grid$Pager"),
        ("__EVENTARGUMENT", "Page$2"),
        ("__VIEWSTATE", "/wEPDw+1="),
        ("__EVENTVALIDATION", "v/wEPDw+1="),
    ]
    page = read(one, asp_page("/wEPDw+2="), page.next)
    assert page.next == {"page": 3, "carry": {"state": "/wEPDw+2=", "valid": "v/wEPDw+2="}}
    page = read(one, asp_page("/wEPDw+3=", more=""), page.next)
    assert (page.last_by_hint, page.doubt) == (True, "")


def test_the_answer_to_a_stale_state_is_a_misfit_and_no_end_of_the_pages() -> None:
    one = source(ASP_PAGES, ASP)
    stale = "<html><title>Error</title><p>Validation of viewstate MAC failed.</p></html>"
    page = one.read_page(one.listings()[0], response(stale), {"page": 2, "carry": {"state": "old", "valid": "v"}})
    assert (page.outcome, page.entries) == (Outcome.MISFIT, [])


def test_a_page_without_the_state_that_the_next_one_needs_ends_in_doubt() -> None:
    page = read(source(ASP_PAGES, ASP), ROWS + "<a class=next></a>")
    assert (page.next, len(page.entries)) == (None, 2)
    assert "'state' (pages.carry)" in page.doubt


def test_a_carried_value_without_a_value_is_left_out_of_page_one() -> None:
    request = (
        f'{{method: POST, url: "{WEB}", form: {{p: "{{page}}", token: "{{token}}"}}, headers: {{X-T: "{{token}}"}}}}'
    )
    one = source("{number: {first: 1}, carry: {token: {css: '#t'}}}", request)
    assert (asked(one).form, asked(one).headers) == ([("p", "1")], {})
    page = read(one, ROWS + "<b id=t>T2</b>")
    assert (asked(one, page.next).form, asked(one, page.next).headers) == ([("p", "2"), ("token", "T2")], {"X-T": "T2"})


# --- Links ---


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('<https://site.example/repositories/1/x?page=2>; rel="next", <https://site.example/x?page=9>; rel="last"', 2),
        ("</x?page=3>; rel=next", 3),
        ('<https://site.example/a,b?page=4>; title="a, b; rel=\\"x\\""; REL="prev Next"', 4),
        ('<https://site.example/x?page=1>; rel="first", <https://site.example/x?page=8>; rel="prev"', None),
        ('<https://site.example/x?page=1>; rel="nextish"', None),
        ('<javascript:alert(1)>; rel="next"', None),
        ("", None),
    ],
)
def test_the_next_link_of_the_header(header: str, expected: int | None) -> None:
    found = next_of_header(header, WEB)
    assert (found is None) if expected is None else (found is not None and found.endswith(f"page={expected}"))


def test_the_link_header_is_followed_to_another_path_and_its_absence_says_last() -> None:
    one = source("{link_header: true}", f'{{url: "{WEB}", headers: {{Accept: x, Authorization: y}}}}', "{json: rows}")
    page = read(one, body(), None, WEB, link='<https://site.example/repositories/1/list?page=2>; rel="next"')
    assert (page.next, page.last_by_hint) == ({"url": "https://site.example/repositories/1/list?page=2"}, False)
    assert asked(one, page.next).headers == {"Accept": "x", "Authorization": "y"}
    page = read(one, body(), page.next, WEB, link=f'<{WEB}?page=1>; rel="first"')
    assert (page.next, page.last_by_hint) == (None, True)


def test_a_next_page_on_another_host_is_not_told_what_is_meant_for_the_first() -> None:
    request = f'{{url: "{WEB}", headers: {{Accept: x, X-Token: y}}, cookies: {{s: "1"}}}}'
    one = source("{link_header: true}", request, "{json: rows}")
    page = read(one, body(), None, WEB, link='<https://elsewhere.example/list?page=2>; rel="next"')
    assert asked(one, page.next).headers == {"Accept": "x"}


def test_a_link_that_leads_to_its_own_page_ends_the_pages_in_doubt() -> None:
    one = source("{next: {css: 'a.next::attr(href)'}}")
    page = read(one, ROWS + f'<a class=next href="{WEB}">下一页</a>')
    assert (page.next, page.doubt) == (None, ITSELF)
    page = read(one, ROWS + '<a class=next href="?p=9">下一页</a>', {"url": f"{WEB}?p=9"}, f"{WEB}?p=9")
    assert (page.next, page.doubt) == (None, ITSELF)


@pytest.mark.parametrize(("sign", "last"), [("", True), ("<b class=more>…</b>", False)])
def test_the_site_may_say_of_a_page_that_links_to_itself_whether_it_is_the_last(sign: str, last: bool) -> None:
    one = source("{next: {css: 'a.next::attr(href)'}, more: {css: b.more}}")
    page = read(one, ROWS + f'{sign}<a class=next href="{WEB}">下一页</a>')
    assert (page.next, page.last_by_hint, page.doubt) == (None, last, ITSELF)


# --- What a site says of its own length ---


def test_totals_are_read_as_hints() -> None:
    one = source(
        "{number: {first: 1}, total: {json: totalRecordNum}, last: {json: totalpages}, more: {json: hasMore}}",
        f'{{url: "{WEB}/{{page}}"}}',
        "{json: rows}",
    )
    # The number of pages is rounded down: 26 are needed.
    page = read(one, body(totalRecordNum=761, totalpages=25, hasMore=True), {"page": 25})
    assert (page.total_hint, page.last_hint, page.last_by_hint, page.next) == (761, 25, False, {"page": 26})
    page = read(one, body(totalRecordNum="共 1,761 条", totalpages=0, hasMore=False), {"page": 26})
    assert (page.total_hint, page.last_hint, page.last_by_hint) == (1761, 0, True)
    page = read(one, body(totalRecordNum="unknown"), {"page": 1})
    assert (page.total_hint, page.last_hint) == (None, None)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("<a class=next><img src=arrow.gif></a>", False),
        ("<a class=next></a>", False),
        ("", True),
    ],
)
def test_more_is_an_element_that_is_there(more: str, expected: bool) -> None:
    one = source("{number: {first: 1}, more: {css: a.next}}", f'{{url: "{WEB}/{{page}}"}}')
    assert read(one, ROWS + more).last_by_hint is expected


def test_more_pages_without_a_name_for_them_are_a_doubt() -> None:
    one = source("{cursor: {json: next}, more: {json: hasMore}}", JSON_CURSOR, "{json: rows}")
    page = read(one, body(hasMore=True, next=None))
    assert (page.next, page.last_by_hint) == (None, False)
    assert "names none" in page.doubt


# --- Mistakes ---


@pytest.mark.parametrize(
    ("pages", "request_text", "message"),
    [
        ("{offset: {step: 20}}", '{url: "https://x.example/{page}"}', "the placeholder {page} is not known here"),
        ("{offset: {step: 20}}", '{url: "https://x.example/"}', "put {offset} into it"),
        ("{offset: {step: 0}}", '{url: "https://x.example/{offset}"}', "0 is not between"),
        ("{offset: {}}", '{url: "https://x.example/{offset}"}', "'step' is missing"),
        ("{cursor: {json: a}}", '{url: "https://x.example/"}', "put {cursor} into it"),
        ("{cursor: {json: a}}", '{url: "https://x.example/{cursor}"}', "page one has no {cursor} for its address"),
        ("{number: {first: 1}, cursor: {json: a}}", '{url: "https://x.example/{page}"}', "stand together"),
        ("{next: {css: a}, first: 1}", '{url: "https://x.example/"}', "'first' goes with cursor"),
        ("{next: {css: a}, carry: {a: {css: a}}}", '{url: "https://x.example/"}', "'carry' goes with number"),
        ("{number: {first: 1}, carry: {page: {css: a}}}", '{url: "https://x.example/{page}"}', "is taken by"),
        ("{number: {first: 1}, carry: {t: {css: a}}}", '{url: "https://x.example/{page}/{t}"}', "page one has no {t}"),
        ("{link_header: 1}", '{url: "https://x.example/"}', "not true or false"),
        ("{total: {css: b}}", '{url: "https://x.example/"}', "is not said (one of number, offset, next, cursor"),
        ("{curser: {json: a}}", '{url: "https://x.example/"}', "did you mean 'cursor'?"),
    ],
)
def test_mistakes_in_pages_are_found_when_the_file_is_read(pages: str, request_text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        source(pages, request_text)
    assert message in str(caught.value)


def test_a_value_of_each_may_not_be_called_as_the_page_is() -> None:
    with pytest.raises(UsageError, match="'cursor' names the page of a listing"):
        made(
            f"each: {{cursor: [a]}}\nlisting:\n  request: {JSON_CURSOR}\n  pages: {{cursor: {{json: next}}}}\n"
            "  rows: {json: rows}\n  fields: {id: {json: id}}\n"
        )


def test_headers_of_a_saved_answer_are_read_by_small_names() -> None:
    one = source("{link_header: true}", rows="{json: rows}")
    answer = Response(WEB, 200, {"link": "</list?page=2>; rel=next"}, body().encode(), body())
    assert one.read_page(one.listings()[0], answer, None).next == {"url": "https://site.example/list?page=2"}
