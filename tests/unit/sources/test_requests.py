"""Requests from placeholders: encoded, typed, and refused where a value is missing."""

from typing import Any

import pytest

from fyke.errors import UsageError
from fyke.model import Fields, Request
from tests.unit.sources.making import LISTED, made

LISTING = """
listing:
  request: {request}
  pages: {{number: {{first: 1}}}}
  rows: {{in: ul, css: li}}
  fields: {{id: {{css: a}}}}
"""


def listed(request: str, each: str = "each: {kind: ['a b&c', 05]}") -> Request:
    source = made(each + LISTING.format(request=request))
    return source.list_request(source.listings()[0], {"page": 2})


def visited(url: str, fields: Fields, more: str = "") -> Request:
    source = made(
        LISTED
        + f"""
    url: {{css: a}}
    day: {{css: b, then: [{{datetime: auto}}]}}
detail: {{steps: [{{request: {{url: "{url}"{more}}}, fields: {{body: {{css: p}}}}}}]}}
"""
    )
    return source.detail_request(0, fields)


def test_values_in_an_address_are_percent_encoded() -> None:
    request = listed('{url: "https://site.example/{kind}/{page}?k={kind}"}')
    assert request.url == "https://site.example/a%20b%26c/2?k=a%20b%26c"


def test_query_parameters_are_encoded_once_and_put_behind_those_of_the_address() -> None:
    request = listed('{url: "https://site.example/x?a=1#f", query: {start: "2018:06:04", page: "{page}", q: "体 育+"}}')
    assert request.url == "https://site.example/x?a=1&start=2018%3A06%3A04&page=2&q=%E4%BD%93%20%E8%82%B2%2B#f"


def test_a_form_is_sent_by_post_with_plain_values() -> None:
    request = listed('{url: "https://site.example/", form: {PAGE: "{page}", KIND: "{kind}", N: 4, EMPTY: ""}}')
    assert (request.method, request.form) == ("POST", [("PAGE", "2"), ("KIND", "a b&c"), ("N", "4"), ("EMPTY", "")])
    assert request.json is None


def test_a_json_body_keeps_its_types() -> None:
    body = '{page: "{page:int}", text: "p{page}", deep: [{kind: "{kind}"}, 7, true, null], query: "{{ items {{id}} }}"}'
    request = listed(f'{{method: POST, url: "https://site.example/", json: {body}}}')
    assert request.json == {
        "page": 2,
        "text": "p2",
        "deep": [{"kind": "a b&c"}, 7, True, None],
        "query": "{ items {id} }",
    }


def test_headers_take_placeholders() -> None:
    assert listed(
        '{url: "https://site.example/{page}", headers: {Referer: "https://site.example/{page}"}}'
    ).headers == {"Referer": "https://site.example/2"}


@pytest.mark.parametrize(
    ("url", "fields", "expected"),
    [
        ("{url}", {"url": "https://site.example/x?a=b&c=%20d"}, "https://site.example/x?a=b&c=%20d"),
        ("https://site.example/{id}", {"id": "a/b?c"}, "https://site.example/a%2Fb%3Fc"),
        ("https://site.example/{id:raw}", {"id": "a%3D"}, "https://site.example/a%3D"),
        ("https://site.example/{id:06}", {"id": "42"}, "https://site.example/000042"),
        ("https://site.example/{day:%Y/%m}", {"day": "2025-06-27T00:00:00+08:00"}, "https://site.example/2025%2F06"),
        ("https://site.example/{{x}}", {}, "https://site.example/{x}"),
    ],
)
def test_fields_in_the_address_of_a_detail(url: str, fields: Fields, expected: str) -> None:
    assert visited(url, fields).url == expected


@pytest.mark.parametrize(
    ("url", "fields", "message"),
    [
        ("{url}", {}, "{url} has no value"),
        ("{url}", {"url": "/relative"}, "not an address: '/relative'"),
        ("https://site.example/{id:06}", {"id": "x"}, "no number"),
        ("https://site.example/{id:%Y}", {"id": "x"}, "no time"),
        ("{url}", {"url": "https://site.example/" + "x" * 20_000}, "longer than"),
    ],
)
def test_an_address_that_cannot_be_made_says_why(url: str, fields: Fields, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        visited(url, fields)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("request_text", "message"),
    [
        ('{url: "https://site.example/"}', "the request is the same for every page"),
        ('{url: "https://site.example/{pgae}"}', "{pgae} is not known here (did you mean 'page'?)"),
        ('{url: "https://site.example/{page:x}"}', "the format 'x' of {page} is not known"),
        ('{url: "{page}", form: {a: b}, json: {}}', "'form' and 'json' stand together"),
        ('{url: "{page}", cookies: {a: b}, headers: {cookie: c}}', "'cookies' and the header Cookie stand together"),
        ('{url: "{page}", method: GET, form: {a: b}}', "a GET has no body"),
        ('{url: "{page}", method: PUT}', "'PUT' is not known"),
        ('{url: "site.example/{page}"}', "not an address"),
        ('{url: "https://site.example/{page}?k=${secret:KEY}"}', "no secret may stand here"),
    ],
)
def test_mistakes_in_a_request_are_found_when_the_file_is_read(request_text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        listed(request_text, "")
    assert message in str(caught.value)


def test_a_body_without_a_method_is_posted() -> None:
    found: Any = listed('{url: "https://site.example/", json: ["{page:int}"]}')
    assert (found.method, found.json) == ("POST", [2])


def test_cookies_go_out_as_one_header() -> None:
    request = listed('{url: "https://site.example/{page}", cookies: {region: bj, seen: "p{page}"}, headers: {X: "1"}}')
    assert request.headers == {"X": "1", "Cookie": "region=bj; seen=p2"}


def test_a_cookie_that_would_be_two_is_an_error() -> None:
    with pytest.raises(UsageError, match="no cookie may have"):
        listed('{url: "https://site.example/{page}", cookies: {a: "{kind}"}}', "each: {kind: ['x; y=1']}")


def test_the_types_of_a_json_body() -> None:
    body = '{i: "{kind:int}", n: "{kind:number}", half: "{half:number}", yes: "{flag:bool}"}'
    request = listed(
        f'{{url: "https://site.example/{{page}}", json: {body}}}', "each: {kind: ['07'], half: ['1.5'], flag: ['true']}"
    )
    assert request.json == {"i": 7, "n": 7, "half": 1.5, "yes": True}
    with pytest.raises(UsageError, match="'x', no true or false"):
        listed('{url: "https://site.example/{page}", json: ["{kind:bool}"]}', "each: {kind: [x]}")
