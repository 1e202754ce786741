"""A detail becomes fields, or an outcome that says why not; never an empty record."""

from pathlib import Path

import pytest

from fyke.errors import UsageError
from fyke.model import ColumnType, Outcome
from fyke.sources.source import FileSource
from tests.unit.sources.making import LISTED, made, read, response

HOPS = (
    LISTED
    + """
    url: {css: "a::attr(href)", then: [absolute_url]}
detail:
  steps:
    - request: {url: "{url}"}
      ready: {css: h1}
      fields: {title: {css: h1}, body_url: {css: "a.body::attr(href)", then: [absolute_url], required: true}}
    - request: {url: "{body_url}", method: POST, form: {n: "{id}"}}
      ready: {css: "#content", min_chars: 10}
      fields:
        body: {css: "#content", required: true}
        note: {css: "#note"}
        extra: {css: "#extra", optional: true}
        amount: {label: 金额, then: [{money: CNY}], optional: true}
"""
)


def two_hops() -> FileSource:
    return made(HOPS)


def test_a_second_hop_uses_the_fields_of_the_first() -> None:
    source = two_hops()
    fields = {"id": "7", "url": "https://site.example/7.html", "title": "cut..."}
    assert source.steps == 2
    assert source.detail_request(0, fields).url == "https://site.example/7.html"
    first = source.read_detail(0, response("<h1>Whole</h1><a class=body href=../b/7.html>x</a>", fields["url"]), fields)
    assert (first.outcome, first.fields) == (
        Outcome.OK,
        {"title": "Whole", "body_url": "https://site.example/b/7.html"},
    )
    fields |= first.fields
    request = source.detail_request(1, fields)
    assert (request.method, request.url, request.form) == ("POST", "https://site.example/b/7.html", [("n", "7")])
    second = source.read_detail(1, response("<div id=content>long enough 金额：5万元</div>", request.url), fields)
    assert second.fields == {"body": "long enough 金额：5万元", "amount": "50000"}


def test_a_request_without_its_field_is_a_mistake_that_names_it() -> None:
    with pytest.raises(UsageError, match=r"\{body_url\} has no value"):
        two_hops().detail_request(1, {"id": "7"})


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("<html><body><p>please log in</p></body></html>", "not ready: '#content' is not on the page"),
        ("<div id=content>short</div>", "not ready: '#content' has 5 characters, fewer than 10"),
        ("<div id=content><script>var long = 'enough enough';</script></div>", "has 0 characters"),
    ],
)
def test_a_page_that_is_not_ready_is_a_misfit(page: str, reason: str) -> None:
    found = two_hops().read_detail(1, response(page), {"id": "7"})
    assert (found.outcome, found.fields) == (Outcome.MISFIT, {})
    assert reason in found.reason


def test_ready_by_json_and_xpath() -> None:
    source = made(HOPS.replace("ready: {css: h1}", "ready: {xpath: '//h1[@class]'}"))
    assert source.read_detail(0, response("<h1>x</h1>"), {}).outcome is Outcome.MISFIT
    api = made(
        LISTED
        + """
    url: {css: "a::attr(href)", then: [absolute_url]}
detail:
  steps:
    - request: {url: "{url}"}
      ready: {json: data}
      fields: {body: {json: data.text}}
"""
    )
    assert api.read_detail(0, response('{"data": {"text": "x"}}'), {}).fields == {"body": "x"}
    assert api.read_detail(0, response('{"data": null}'), {}).outcome is Outcome.MISFIT
    assert "is no JSON" in api.read_detail(0, response("<html>blocked</html>"), {}).reason


def test_missing_required_fields_are_named() -> None:
    found = two_hops().read_detail(0, response("<h1>Whole</h1>"), {"title": "from the list"})
    assert (found.outcome, found.missing) == (Outcome.MISFIT, ["body_url"])
    assert "'body_url'" in found.reason


def test_a_required_field_of_the_detail_is_not_filled_by_the_list() -> None:
    source = made(HOPS.replace("title: {css: h1}", "title: {css: h2, required: true}"))
    found = source.read_detail(0, response("<h1>x</h1><a class=body href=x>x</a>"), {"title": "from the list"})
    assert found.missing == ["title"]


def test_a_page_of_which_nothing_can_be_read_is_a_misfit() -> None:
    source = made(
        LISTED + '\ndetail: {steps: [{request: {url: "https://site.example/{id}"}, fields: {body: {css: article}}}]}'
    )
    found = source.read_detail(0, response("<html><body><div id=app></div><script src=x></script></body></html>"), {})
    assert (found.outcome, found.missing) == (Outcome.MISFIT, ["body"])


def test_an_empty_page_is_empty() -> None:
    assert two_hops().read_detail(0, response(" \n "), {}).outcome is Outcome.EMPTY


PYTHON = (
    LISTED
    + """
    shout: {css: a, then: [{python: "steps_of_ours:shout"}], optional: true}
detail:
  steps:
    - request: {url: "https://site.example/{id}"}
      fields: {body: {css: p, then: [{python: "steps_of_ours:with_context"}]}}
"""
)
STEPS = """
def shout(value, context):
    if value == "bad":
        raise ValueError("cannot\\nshout")
    return value.upper()

def with_context(value, context):
    return f"{value} {context.url} {context.fields['id']} {len(context.text)} {dict(context.listing)}"
"""


@pytest.fixture
def python(tmp_path: Path) -> FileSource:
    (tmp_path / "steps_of_ours.py").write_text(STEPS)
    return made(PYTHON, folder=tmp_path)


def test_a_python_step_beside_the_file_gets_value_and_context(python: FileSource) -> None:
    found = python.read_detail(0, response("<p>text</p>", "https://site.example/1"), {"id": "1"})
    assert found.fields == {"body": "text https://site.example/1 1 11 {}"}


def test_an_exception_in_a_step_refuses_its_row_only(python: FileSource) -> None:
    page = read(python, "<ul class=list><li><a href=/1.html>good</a><li><a href=/2.html>bad</a></ul>")
    assert [entry.fields["shout"] for entry in page.entries] == ["GOOD"]
    assert page.refused[0].reason == "field 'shout', step python: ValueError: cannot shout"


def test_an_exception_in_a_step_of_a_detail_is_an_error_with_its_text(python: FileSource) -> None:
    found = python.read_detail(0, response("<p>text</p>"), {})
    assert (found.outcome, found.reason) == (Outcome.ERROR, "field 'body', step python: KeyError: 'id'")


def test_python_steps_are_found_again_from_the_ledger_s_text(python: FileSource) -> None:
    from fyke.sources.compile import compile_text

    again = compile_text(python.resolved.text)
    assert again.read_detail(0, response("<p>text</p>"), {"id": "1"}).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere_at_all:x", "the module 'nowhere_at_all' is not beside the source file"),
        ("steps_of_ours:shuot", "has no 'shuot'.*did you mean 'shout'"),
        ("steps_of_ours", "names no Python"),
        ("steps_of_ours:__name__", "is no function"),
    ],
)
def test_a_python_step_that_is_not_there_is_a_mistake(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "steps_of_ours.py").write_text(STEPS)
    with pytest.raises(UsageError, match=message):
        made(PYTHON.replace("steps_of_ours:shout", name), folder=tmp_path)


def test_columns_and_their_types_come_from_fields_and_steps() -> None:
    source = made(
        LISTED
        + """
    day: {css: span, then: [{datetime: auto}]}
    price: {css: b, then: [{money: EUR}], optional: true}
    rank: {css: i, type: integer}
    tags: {css: u, type: json}
detail:
  steps:
    - request: {url: "https://site.example/{id}"}
      fields: {title: {css: h1, required: true}, n: {css: b, then: [number]}}
"""
    )
    assert [(column.name, column.type, column.required, column.expected) for column in source.resolved.columns] == [
        ("id", ColumnType.TEXT, False, True),
        ("title", ColumnType.TEXT, True, True),
        ("day", ColumnType.DATETIME, False, True),
        ("price", ColumnType.NUMBER, False, False),
        ("rank", ColumnType.INTEGER, False, True),
        ("tags", ColumnType.JSON, False, True),
        ("n", ColumnType.NUMBER, False, True),
    ]


RECORD = (
    LISTED
    + """
    day: {css: span, then: [{datetime: auto}]}
    price: {css: b, then: [{money: CNY}], optional: true}
    rank: {css: i, type: integer, optional: true}
    open: {css: u, type: boolean, optional: true}
detail: {steps: [{request: {url: "https://site.example/{id}"}, fields: {title: {css: h1}, body: {css: p}}}]}
"""
)


def test_a_record_is_the_entry_overlaid_by_the_detail() -> None:
    entry = {"id": "1", "title": "cut...", "day": "2025-06-27T00:00:00+08:00", "stray": "x"}
    record, _, filled = made(RECORD).record(entry, {"title": "whole", "body": None})
    assert record == {"id": "1", "title": "whole", "day": "2025-06-27T00:00:00+08:00"}
    assert filled == {"id": True, "title": True, "day": True, "body": False}


def test_a_record_brings_any_value_into_its_column_s_form() -> None:
    given = {"id": 7, "day": "2025-06-27 8:00", "price": "5.00", "rank": "1,200", "open": "是", "body": "  "}
    record, _, _ = made(RECORD).record(given, {})
    assert record == {
        "id": "7",
        "day": "2025-06-27T08:00:00+08:00",
        "price": "5.00",
        "rank": 1200,
        "open": True,
        "body": "  ",
    }
    assert made(RECORD).record(record, {})[0] == record


def test_the_hash_is_over_compared_fields_without_the_noise() -> None:
    def hash_of(fields: dict[str, str], updates: str = "") -> bytes:
        return made(RECORD + updates).record(fields, {})[1]

    base = {"id": "1", "title": "a", "body": "text 浏览次数：12"}
    assert hash_of(base) != hash_of(base | {"body": "text 浏览次数：13"})
    noise = "updates: {ignore: ['浏览次数：\\d+']}"
    assert hash_of(base, noise) == hash_of(base | {"body": "text 浏览次数：13"}, noise)
    assert hash_of(base, noise) != hash_of(base | {"body": "other"}, noise)
    only = "updates: {compare: [title]}"
    assert hash_of(base, only) == hash_of(base | {"body": "other"}, only)
    assert hash_of(base) == hash_of(dict(reversed(base.items())))
    # A new field that has no value changes nothing.
    assert hash_of(base) == hash_of(base | {"price": ""})
