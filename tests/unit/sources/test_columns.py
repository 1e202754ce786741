"""Rows of JSON that is no list of rows: columns side by side, JSON inside a script; and rows named twice."""

import json

import pytest

from fyke.errors import UsageError
from fyke.model import ListPage, Outcome
from tests.unit.sources.making import entries, made, read


def listing(rows: str, fields: str = "{id: {json: id}, title: {json: title}}") -> str:
    return f'listing:\n  request: {{url: "https://site.example/"}}\n  rows: {rows}\n  fields: {fields}\n'


def shown(rows: str, text: str) -> ListPage:
    return read(made(listing(rows)), text)


def test_columns_side_by_side_are_rows() -> None:
    text = json.dumps({"data": {"id": [2, 1], "title": ["b", None], "total": 2}})
    assert entries(made(listing("{columns: data}")), text) == [{"id": "2", "title": "b"}, {"id": "1"}]


def test_columns_without_names_are_read_by_their_number() -> None:
    source = made(listing("{columns: '[ids, titles]'}", '{id: {json: "[0]"}, title: {json: "[1]"}}'))
    assert entries(source, '{"ids": ["2", "1"], "titles": ["b", "a"]}') == [
        {"id": "2", "title": "b"},
        {"id": "1", "title": "a"},
    ]


def test_columns_of_different_length_are_a_misfit_for_nothing_says_what_is_in_a_row() -> None:
    page = shown("{columns: data}", '{"data": {"id": [3, 2, 1], "title": ["b", "a"]}}')
    assert (page.outcome, page.entries) == (Outcome.MISFIT, [])
    assert "id 3, title 2" in page.reason


@pytest.mark.parametrize("text", ['{"data": null}', "{}", '{"data": 7}', '{"data": {"a": 1}}', '{"data": [1, [2]]}'])
def test_an_answer_without_columns_is_a_misfit(text: str) -> None:
    assert shown("{columns: data}", text).outcome is Outcome.MISFIT


def test_empty_columns_are_blank() -> None:
    page = shown("{columns: data}", '{"data": {"id": [], "title": []}}')
    assert (page.outcome, page.blank) == (Outcome.OK, True)


ROWS = [{"id": 2, "title": "b"}, {"id": 1, "title": "a;}]"}]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (r"{regex: 'var rows = (\[)', json: '@'}", f"<script>var rows = {json.dumps(ROWS)};\nvar x = [1];</script>"),
        (r"{regex: 'var rows = (\[.*)', json: '@'}", f"<script>var rows = {json.dumps(ROWS)}; go()</script>"),
        (
            r"""{regex: 'id="__DATA__"[^>]*>(\{.*)', json: props.rows}""",
            f'<script id="__DATA__" type="application/json">{json.dumps({"props": {"rows": ROWS}})}</script>',
        ),
        (
            r"""{regex: 'JSON\.parse\((".*)\)', json: rows}""",
            f"<script>x = JSON.parse({json.dumps(json.dumps({'rows': ROWS}))})</script>",
        ),
        (
            r"""{regex: 'data-rows="([^"]+)"', json: '@'}""",
            '<div data-rows="[{&quot;id&quot;: 2, &quot;title&quot;: &quot;b&quot;}, '
            '{&quot;id&quot;: 1, &quot;title&quot;: &quot;a;}]&quot;}]"></div>',
        ),
        (
            r"{regex: 'jsonp\((.*)\)', columns: data}",
            'jsonp({"data": {"id": [2, 1], "title": ["b", "a;}]"]}})',
        ),
    ],
    ids=["begin", "greedy", "json script", "parsed string", "attribute", "jsonp columns"],
)
def test_json_inside_a_script(rows: str, text: str) -> None:
    # The pattern says where it begins; where it ends is the JSON's own affair.
    source = made(listing(rows))
    assert entries(source, text) == [{"id": "2", "title": "b"}, {"id": "1", "title": "a;}]"}]


@pytest.mark.parametrize(
    "text", ["<p>down</p>", "<script>var rows = nothing</script>", "<script>var rows = [{</script>"]
)
def test_a_page_without_the_json_is_a_misfit(text: str) -> None:
    page = shown(r"{regex: 'var rows = (.*)', json: '@'}", text)
    assert (page.outcome, page.blank) == (Outcome.MISFIT, False)


@pytest.mark.parametrize("rows", ["{regex: 'a', css: li}", "{regex: 'a', feed: entries}", "{regex: 'a'}"])
def test_a_pattern_needs_a_path_into_what_it_finds(rows: str) -> None:
    with pytest.raises(UsageError, match=r"regex' goes with json and columns rows|is not said"):
        made(listing(rows, "{id: {template: x}}"))


def test_rows_named_twice_in_one_answer_are_entries_of_one_key() -> None:
    # The page shows them twice; the ledger makes one item of them.
    text = '{"result": [{"id": 2}, {"id": 1}], "pageHelp": {"data": [{"id": 2}, {"id": 1}]}}'
    page = shown("{json: '[result, pageHelp.data][]'}", text)
    assert [entry.key for entry in page.entries] == ["2", "1", "2", "1"]
    assert page.entries[0].hash == page.entries[2].hash


def test_several_links_in_a_row_are_one_entry() -> None:
    source = made(
        """
        listing:
          request: {url: "https://site.example/"}
          rows: {in: table, css: tr}
          fields:
            id: {css: "a[href$='.html']::attr(href)", then: [{regex: '(\\d+)'}]}
            title: {first_of: [{css: "a[title]::attr(title)"}, {css: a}]}
            file: {css: "a[href$='.pdf']::attr(href)", optional: true}
        """
    )
    text = """<table><tr><td><a href="/7.html"><img src=t.jpg></a><a href="/7.pdf">PDF</a>
      <a href="/7.html" title="A whole title">A who...</a></td></tr></table>"""
    assert entries(source, text) == [{"id": "7", "title": "A whole title", "file": "/7.pdf"}]
