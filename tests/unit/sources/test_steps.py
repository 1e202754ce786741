"""What each step makes of what sites write."""

from typing import Any

import pytest

from fyke.sources.steps import STEPS
from tests.unit.sources.making import field_of

BODY = "<html><head></head><body>{}</body></html>"


def of(inner: str, steps: str, css: str = "p", **given: Any) -> Any:
    return field_of(f"{{css: '{css}', then: {steps}, optional: true}}", BODY.format(inner), **given)


def text(value: str, steps: str, **given: Any) -> Any:
    return of(f"<p>{value}</p>", steps, **given)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2025年06月27日 17:52", "2025-06-27T17:52:00+08:00"),
        ("2025年6月7日下午3点", "2025-06-07T15:00:00+08:00"),
        ("2025.08.29 15:04:16 | 采购人", "2025-08-29T15:04:16+08:00"),
        ("2020/1/10 14:33:00", "2020-01-10T14:33:00+08:00"),
        ("发布时间：2026-03-17", "2026-03-17T00:00:00+08:00"),
        ("2025-06-27 星期五 17:52", "2025-06-27T17:52:00+08:00"),
        ("2016.03.18&nbsp;UP", "2016-03-18T00:00:00+08:00"),
        ("20250627", "2025-06-27T00:00:00+08:00"),
        ("Mar 10, 2016", "2016-03-10T00:00:00+08:00"),
        ("10 March 2016 3:05 PM", "2016-03-10T15:05:00+08:00"),
        ("Wed, 29 May 2019 10:16:00 GMT", "2019-05-29T10:16:00+00:00"),
        ("2014-12-31T04:37:15Z", "2014-12-31T04:37:15+00:00"),
        ("2017-06-21T10:33:10-07:00", "2017-06-21T10:33:10-07:00"),
        # Local midnight in Shanghai: another day in UTC.
        ("1599148800000", "2020-09-04T00:00:00+08:00"),
        ("1619594507", "2021-04-28T15:21:47+08:00"),
        ("2020-01-01 24:00", "2020-01-02T00:00:00+08:00"),
        ("2024-02-30", None),
        ("项目编号 123-2020-1", None),
        ("Seg, 24 Set 2018 19:42:40 -0300", "2018-09-24T19:42:40-03:00"),
        ("", None),
    ],
)
def test_dates_are_told_as_sites_write_them(value: str, expected: str | None) -> None:
    assert text(value, "[{datetime: auto}]") == expected


def test_formats_are_tried_in_order_and_the_zone_is_the_schedule_s() -> None:
    steps = '[{datetime: ["%d/%m/%Y", "%d/%m/%Y %H:%M"]}]'
    assert text("03/04/2025 10:00", steps, zone="Europe/Berlin") == "2025-04-03T10:00:00+02:00"
    assert text("03/01/2025", steps, zone="Europe/Berlin") == "2025-01-03T00:00:00+01:00"
    assert text("2025-04-03", steps) is None
    assert text("1619594507", "[{datetime: epoch_s}]", zone="UTC") == "2021-04-28T07:21:47+00:00"
    assert text("99999999999999999999", "[{datetime: epoch_ms}]") is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("￥56.980000 万元（人民币）", "569800.00"),
        ("总价形式报价:569800.00(元)", "569800.00"),
        ("0元 人民币", "0"),
        ("0.00", "0.00"),
        ("1,234,567.89元", "1234567.89"),
        ("3亿5000万元", "350000000"),
        ("约1.2亿元，分2期", "120000000"),
        ("合同包1：569800元", "569800"),
        ("2025年预算100万元", "1000000"),
        ("金额（万元）：56.98", "569800"),
        ("￥０.５０元", "0.50"),
        ("总价-569800元", "569800"),
        ("2200000", "2200000"),
        ("详见公告", None),
        ("100万美元", None),
        ("$1,234", None),
        ("1.234,56 元", None),
        ("人民币贰佰万元", "2000000"),
        # The first number counts: the second is another thing.
        ("12,5 共 2 项", None),
        ("100千克", "100"),
        ("5千元", "5000"),
        ("预算 5 万元，约合 7000 美元", "50000"),
        ("7000 美元（约 5 万元）", None),
    ],
)
def test_sums_of_money_come_out_exact_in_whole_units(value: str, expected: str | None) -> None:
    assert text(value, "[{money: CNY}]") == expected


@pytest.mark.parametrize(
    ("value", "mark", "expected"),
    [
        ("1.234.567,89 €", ",", "1234567.89"),
        ("12,5", ",", "12.5"),
        ("12,5", ".", None),
        ("12.5", ",", None),
        ("1 234", ".", "1234"),
        ("-3.50", ".", "-3.50"),
        ("-0", ".", "0"),
        ("total: 7", ".", "7"),
        ("none", ".", None),
        ("9" * 61, ".", None),
    ],
)
def test_numbers_are_never_guessed_by_a_factor_of_a_thousand(value: str, mark: str, expected: str | None) -> None:
    assert text(value, f'[{{number: {{decimal: "{mark}"}}}}]') == expected


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("x.html", "https://site.example/a/b/x.html"),
        ("../x.html", "https://site.example/a/x.html"),
        ("../../../../x.html", "https://site.example/x.html"),
        ("./x.html", "https://site.example/a/b/x.html"),
        ("/x/../y.html", "https://site.example/y.html"),
        ("?s=1&amp;id=2", "https://site.example/a/b/c.html?s=1&id=2"),
        ("//cdn.example/x", "https://cdn.example/x"),
        (" http://other.example/x ", "http://other.example/x"),
        ("x y.html", "https://site.example/a/b/x%20y.html"),
        ("/x\n  y.html", "https://site.example/x%20%20y.html"),
        ("\\\\x\\\\y".replace("\\\\", "\\"), "https://site.example/x/y"),
        ("x.html#part", "https://site.example/a/b/x.html#part"),
        ("javascript:;", None),
        ("JavaScript:void(0)", None),
        ("mailto:a@b.example", None),
        ("#", None),
        ("", None),
        ("http://[broken", None),
        ("data:text/html,x", None),
    ],
)
def test_addresses_are_made_absolute_or_are_none(href: str, expected: str | None) -> None:
    found = of(f'<p><a href="{href}">x</a>', "[absolute_url]", "a::attr(href)", url="https://site.example/a/b/c.html")
    assert found == expected


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("/", "https://site.example/x.html"),
        ("https://other.example/deep/", "https://other.example/deep/x.html"),
        ("../up/", "https://site.example/a/up/x.html"),
        ("", "https://site.example/a/b/x.html"),
        ("javascript:", "https://site.example/a/b/x.html"),
    ],
)
def test_the_base_of_a_page_counts(base: str, expected: str) -> None:
    page = f'<html><head><base href="{base}"></head><body><a href="x.html">x</a></body></html>'
    spec = '{css: "a::attr(href)", then: [absolute_url]}'
    assert field_of(spec, page, "https://site.example/a/b/c.html") == expected


def test_an_address_in_a_script_call_is_taken_by_a_regex() -> None:
    inner = """<p><a href="javascript:;" onclick="showDetail(this,'0203','/information/b/1.html')">x</a>"""
    spec = """[{regex: "'(/information/[^']+)'"}, absolute_url]"""
    found = field_of(f'{{css: "a::attr(onclick)", then: {spec}}}', BODY.format(inner))
    assert found == "https://site.example/information/b/1.html"


def test_whole_text_keeps_words_together_and_blocks_apart() -> None:
    inner = (
        "<div>医院<font>卫星</font>医院<b>A</b><p>二</p>三<br>四<td>五<script>var x='<b>'</script><style>p{}</style>"
    )
    assert of(inner, "[text]", "div") == "医院卫星医院A 二 三 四五"
    assert of("<div>a&nbsp;&lt;b&gt;\u3000\u200bc<!-- x --></div>", "[squeeze]", "div") == "a <b> c"


def test_own_text_leaves_out_the_children() -> None:
    assert of("<div>own <b>child</b> text</div>", "[squeeze]", "div::text") == "own text"


def test_clean_html_runs_nothing() -> None:
    inner = (
        '<div onclick="x()" class="c" title="he is on top of &lt;x&gt;"><script>alert(1)</script><style>p{}</style>'
        '<!-- note --><a href=" JaVaScript:alert(1)" ONMOUSEOVER=y()>a</a><a href="/ok">b</a><iframe src=x></iframe>'
        '<img src="x.png" onerror=z() alt="a > b"><svg onload=q()></svg><p style="color:red">t</p></div>'
    )
    cleaned = of(inner, "[html, clean]", "div")
    for bad in ("script", "style", "note", "iframe", "onclick", "onerror", "onload", "onmouseover", "alert"):
        assert bad not in cleaned.lower()
    for good in ('class="c"', 'href="/ok"', "he is on top of", 'alt="a &gt; b"', "<p>t</p>"):
        assert good in cleaned
    assert of(inner, "[clean]", "div") == cleaned


def test_clean_parses_a_text_before_it_is_trusted() -> None:
    found = text(
        "&lt;b title='&gt;'&gt;x&lt;/b&gt;&lt;script&gt;a()&lt;/script&gt;&lt;i onload=x&gt;", "[squeeze, clean]"
    )
    assert found == '<b title="&gt;">x</b><i></i>'


def test_unescape_takes_entities_once_more() -> None:
    assert text("&amp;#x0024;4300 &amp;amp;amp;", "[unescape]") == "$4300 &amp;"


def test_regex_gives_its_group_or_the_whole_match() -> None:
    assert text("编号：A-1", "[{regex: '编号：(\\S+)'}]") == "A-1"
    assert text("编号：A-1", "[{regex: 'A-\\d'}]") == "A-1"
    assert text("编号：", "[{regex: 'A-\\d'}]") is None


def test_json_inside_a_script() -> None:
    page = '<script>window.DATA = {"a": {"title": "T &amp; x", "n": 1.50}};</script>'
    assert field_of("{regex: 'DATA = (\\{.*\\});', json: a.title}", page) == "T &amp; x"
    assert field_of("{regex: 'DATA = (\\{.*\\});', then: [{json: a.n}, number]}", page) == "1.50"
    assert field_of("{regex: 'DATA = (.*?)a', json: a.n, optional: true}", page) is None


def test_hash_and_template() -> None:
    assert len(text("x", "[hash]")) == 32
    assert len(text("x", "[{hash: sha256}]")) == 64
    assert text("7", '[{template: "https://site.example/{value}/{id}"}]') == "https://site.example/7/1"


@pytest.mark.parametrize(
    ("page", "label", "expected"),
    [
        ("<table><tr><th>采购人</th><td>甲</td></tr></table>", "采购人", "甲"),
        (
            "<table><tr><td>预算</td><td>1</td><td>采 购 人：</td><td><p>甲</p>公司</td></tr></table>",
            "采购人",
            "甲 公司",
        ),
        ("<dl><dt>采购人</dt><dd>甲</dd></dl>", "采购人", "甲"),
        ("<p>一、采购人：甲公司</p><p>二、其他：乙</p>", "采购人", "甲公司"),
        ("<p><strong>项目编号：</strong><samp>LKZX-1</samp></p>", "项目编号", "LKZX-1"),
        (
            "<p><span>签署时间：2026-03-17 00:32</span><span>信息来源：<label>湖州</label></span></p>",
            "签署时间",
            "2026-03-17 00:32",
        ),
        ("<p><span>签署时间：2026-03-17</span><span>信息来源：<label>湖州</label></span></p>", "信息来源", "湖州"),
        ("<span>2025.08.29\n | 采购人：甲\n | 代理机构：乙<br>", "采购人", "甲"),
        ("<p>采购人：甲<font>乙</font>丙</p>", "采购人", "甲乙丙"),
        # A label that is only a part of another one.
        ("<p>代理采购人：乙</p>", "采购人", None),
        # An empty value gives way to the next match; a column's head is no label.
        ("<table><tr><td>采购人</td><td> </td></tr></table><p>采购人：甲</p>", "采购人", "甲"),
        ("<table><thead><tr><td>采购人</td><td>地址</td></tr></thead></table>", "采购人", None),
        ("<table><tr><td>采购人</td></tr></table>", "采购人", None),
    ],
)
def test_labels_lead_to_their_values(page: str, label: str, expected: str | None) -> None:
    assert field_of(f"{{label: {label}, optional: true}}", BODY.format(page)) == expected


def test_the_first_label_that_has_a_value_wins() -> None:
    page = BODY.format("<table><tr><td>采购单位</td><td></td></tr><tr><td>采购人</td><td>甲</td></tr></table>")
    assert field_of("{label: [采购单位, 采购人]}", page) == "甲"


def test_xpath_on_a_page() -> None:
    page = BODY.format("<div><p class=a>1</p><p>2<b>3</b><script>x</script></p></div>")
    assert field_of("{xpath: '//p[2]'}", page) == "23"
    assert field_of("{xpath: 'count(//p)', then: [number]}", page) == "2.0"
    assert field_of("{xpath: '//p/@class'}", page) == "a"


def test_every_step_says_what_it_does() -> None:
    assert [name for name, kind in STEPS.items() if len(kind.doc) < 10] == []
