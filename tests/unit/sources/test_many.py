"""Steps and selectors that end on many values: lists, tables, texts with lines; addresses that only scripts name."""

from html import escape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.errors import UsageError
from fyke.model import ColumnType
from fyke.sources.tables import grid_of_html
from tests.unit.sources.making import LISTED, field_of, made

BODY = "<html><head></head><body>{}</body></html>"

LOTS = """
<table>
<tr><td colspan=3>采购清单</td></tr>
<tr><th>品 目</th><th>单价（万元）</th><th>数量</th></tr>
<tr><td rowspan=2>床</td><td>1,200.50</td><td>3</td></tr>
<tr><td>5万元</td><td>2<table><tr><td>inner</td></tr></table></td></tr>
<tr><td></td><td></td><td></td></tr>
<tr><th>品 目</th><th>单价（万元）</th><th>数量</th></tr>
<tr><td>柜</td><td>详见附件</td><td></td></tr>
</table>
"""


def of(spec: str, inner: str, **given: Any) -> Any:
    return field_of(spec, BODY.format(inner), **given)


def test_a_table_becomes_rows_named_by_its_headings() -> None:
    assert of("{css: table, then: [table]}", LOTS) == [
        {"品目": "床", "单价（万元）": "1,200.50", "数量": "3"},
        {"品目": "床", "单价（万元）": "5万元", "数量": "2 inner"},
        {"品目": "品 目", "单价（万元）": "单价（万元）", "数量": "数量"},
        {"品目": "柜", "单价（万元）": "详见附件", "数量": ""},
    ]


@pytest.mark.parametrize("selector", ["css: body", "css: table", "xpath: '//table'"])
def test_columns_are_chosen_by_heading_with_its_unit_and_have_steps(selector: str) -> None:
    columns = "{item: 品目, price: {heading: [价格, 单价], then: [{money: CNY}]}, n: {heading: 数量, then: [number]}}"
    assert of(f"{{{selector}, then: [{{table: {{columns: {columns}}}}}]}}", LOTS) == [
        {"item": "床", "price": "12005000", "n": "3"},
        {"item": "床", "price": "50000", "n": "2"},
        {"item": "柜", "price": None, "n": None},
    ]


def test_a_table_without_headings_is_rows_of_texts() -> None:
    page = "<table><tr><td>a</td><td colspan=2>b</td></tr><tr><td>c</td></tr></table>"
    assert of("{css: table, then: [{table: {headings: false}}]}", page) == [["a", "b", "b"], ["c", "", ""]]


def test_what_has_no_such_table_has_no_value() -> None:
    spec = "{css: body, then: [{table: {columns: {a: 品目}}}], optional: true}"
    assert of(spec, "<p>no table</p>") is None
    assert of(spec, "<table><tr><td>x</td></tr></table>") is None


@pytest.mark.parametrize("span", ["99999999999", "-1", "0", "x", "1e9", "٣"])
def test_cells_that_say_that_they_cover_everything_are_bounded(span: str) -> None:
    page = f"<table><tr><td colspan='{span}' rowspan='{span}'>a</td><td>b</td></tr><tr><td>c</td></tr></table>"
    grid = grid_of_html(page)
    assert len(grid) == 2
    assert all(len(line) <= 300 for line in grid)


CELL = st.tuples(st.text("ab<&", max_size=3), st.integers(1, 4), st.integers(1, 4))


@given(st.lists(st.lists(CELL, max_size=4), max_size=5))
def test_every_grid_is_a_rectangle_with_each_text_in_it(rows: list[list[tuple[str, int, int]]]) -> None:
    html = "".join(
        "<tr>" + "".join(f"<td colspan={w} rowspan={h}>x{i}y{j}</td>" for j, (_, w, h) in enumerate(row)) + "</tr>"
        for i, row in enumerate(rows)
    )
    grid = grid_of_html(f"<table>{html}</table>")
    assert len({len(line) for line in grid}) <= 1
    found = {text for line in grid for text in line if text}
    assert found == {f"x{i}y{j}" for i, row in enumerate(rows) for j in range(len(row))}


def test_every_hit_is_a_list() -> None:
    page = "<ul><li>a</li><li><b>b</b></li></ul><a href=x>1</a><a>2</a><a href=../y>3</a>"
    assert of("{css: li, all: true}", page) == ["a", "b"]
    assert of("{xpath: '//li', all: true}", page) == ["a", "b"]
    assert of("{regex: '<li>(\\w)', all: true}", page) == ["a"]
    assert of("{css: 'a::attr(href)', all: true, then: [{map: [absolute_url]}]}", page) == [
        "https://site.example/news/x",
        "https://site.example/y",
    ]
    assert of("{css: i, all: true, optional: true}", page) is None
    with pytest.raises(UsageError, match="'label' has one value"):
        of("{label: x, all: true}", page)


def test_split_map_and_join() -> None:
    page = "<p>甲公司、 乙公司 ，,丙</p>"
    assert of("{css: p, then: [{split: {regex: '[、,，]'}}]}", page) == ["甲公司", "乙公司", "丙"]
    assert of("{css: p, then: [{split: 、}, {join: ' | '}]}", page) == "甲公司 | 乙公司 ，,丙"
    assert of("{css: li, all: true, then: [join]}", "<li>a<li>b") == "a, b"
    table = "{招标: tender, '中标': award}"
    assert of(f"{{css: p, then: [{{map: {table}}}]}}", "<p> 招标 </p>") == "tender"
    assert of(f"{{css: p, then: [{{map: {table}}}], optional: true}}", "<p>其他</p>") is None
    assert of("{css: p, then: [{map: {招标: tender, '*': other}}]}", "<p>其他</p>") == "other"
    assert of(f"{{css: p, then: [{{split: '/'}}, {{map: {table}}}]}}", "<p>中标/其他/招标</p>") == ["award", "tender"]
    assert of("{css: p, then: [{split: '/'}, {map: [number]}]}", "<p>1/x/2.50</p>") == ["1", "2.50"]


def test_columns_of_lists_are_json() -> None:
    source = made(
        LISTED
        + """
    many: {css: a, all: true}
    split: {css: a, then: [{split: ","}]}
    mapped: {css: a, then: [{split: ","}, {map: {a: b}}]}
    each: {css: a, then: [{map: [number]}]}
    one: {css: a, then: [{split: ","}, join]}
    word: {css: a, then: [{map: {a: b}}]}
"""
    )
    types = {column.name: column.type for column in source.resolved.columns}
    assert {name for name, kind in types.items() if kind is ColumnType.JSON} == {"many", "split", "mapped", "each"}
    assert (types["one"], types["word"]) == (ColumnType.TEXT, ColumnType.TEXT)


def test_text_with_its_lines() -> None:
    page = "<div><p>a <b>b</b></p>c<br>d<ul><li>1<li>2</ul><table><tr><td>x</td> <td><p>y</p></td></tr></table></div>"
    assert of("{css: div, then: [html_to_text]}", page) == "a b\nc\nd\n1\n2\nx | \ny"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("showDetail(this,'0203','/information/b/1.html')", "https://site.example/information/b/1.html"),
        ("javascript:window.open('../x.html')", "https://site.example/x.html"),
        ('javascript:location.href="view.jsp?id=7"', "https://site.example/news/view.jsp?id=7"),
        ("return go('https://other.example/a?b=1');", "https://other.example/a?b=1"),
        ("open('?id=3')", "https://site.example/news/list.html?id=3"),
        # Two addresses, or none: nothing is guessed.
        ("go('/a.html','/b.html')", None),
        ("go('0203','x')", None),
        ("javascript:void(0)", None),
        ("javascript:;", None),
    ],
)
def test_an_address_that_only_a_call_names_is_taken(call: str, expected: str | None) -> None:
    page = f'<a onclick="{escape(call)}">x</a>'
    assert of('{css: "a::attr(onclick)", then: [absolute_url], optional: true}', page) == expected


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("//cdn.example/deep/", "https://cdn.example/deep/x.html"),
        (" /up/ ", "https://site.example/up/x.html"),
        ("?page=2", "https://site.example/news/x.html"),
        ("mailto:a@b.example", "https://site.example/news/x.html"),
    ],
)
def test_bases_of_every_kind(base: str, expected: str) -> None:
    page = f'<html><head><BASE href="{base}"></head><body><a href=" x.html ">x</a></body></html>'
    assert field_of('{css: "a::attr(href)", then: [absolute_url]}', page) == expected
