"""Sums and numbers: in characters and in figures, said once or twice; the laws that reading them keeps."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.sources.amounts import plain_number, read_money, read_number
from fyke.sources.capitals import numeral, sums
from fyke.sources.faults import Doubt
from tests.unit.sources.making import LISTED, field_of, made, read, response

DIGITS = "零壹贰叁肆伍陆柒捌玖"
EVERYDAY = str.maketrans("零壹贰叁肆伍陆柒捌玖拾佰仟", "零一二三四五六七八九十百千")
PLACES = ("", "拾", "佰", "仟")


def in_characters(number: int) -> str:
    """A whole number as a bank writes it: an own writer, that knows nothing of the reader."""
    if number == 0:
        return DIGITS[0]
    groups = []
    while number:
        number, group = divmod(number, 10_000)
        groups.append(group)
    text, gap = "", False
    for at in range(len(groups) - 1, -1, -1):
        group = groups[at]
        if not group:
            gap = bool(text)
            # Only an empty group of 万 below 亿 leaves a 零 behind; its own unit is not written.
            continue
        if text and (gap or group < 1_000):
            text += DIGITS[0]
        gap = False
        text += four(group) + ("", "万", "亿")[at]
    return text


def four(group: int) -> str:
    text, zero = "", False
    for place in (3, 2, 1, 0):
        digit = group // 10**place % 10
        if digit:
            text += (DIGITS[0] if zero and text else "") + DIGITS[digit] + PLACES[place]
            zero = False
        else:
            zero = True
    return text


def sum_in_characters(fen: int) -> str:
    whole, jiao, cent = fen // 100, fen // 10 % 10, fen % 10
    text = f"{in_characters(whole)}元"
    if jiao:
        text += f"{DIGITS[jiao]}角"
    if cent:
        text += (DIGITS[0] if not jiao else "") + f"{DIGITS[cent]}分"
    return text + ("" if cent else "整")


WHOLE = st.one_of(st.integers(0, 10**12 - 1), st.integers(0, 99_999), st.sampled_from([10**n for n in range(12)]))


@given(WHOLE)
def test_what_a_bank_writes_in_characters_is_read_as_the_same_number(number: int) -> None:
    assert numeral(in_characters(number)) == number
    assert numeral(in_characters(number).translate(EVERYDAY)) == number


@given(st.integers(0, 10**14 - 1))
def test_a_sum_in_characters_is_the_same_as_in_figures(fen: int) -> None:
    written = sum_in_characters(fen)
    assert [found.value for found in sums(f"人民币（大写）：{written}")] == [Decimal(fen).scaleb(-2)]
    figures = f"{Decimal(fen).scaleb(-2):,.2f}"
    for text in (f"{written}（¥{figures}）", f"小写：{figures}元，大写：{written}", f"{figures}（{written}）"):
        assert Decimal(read_money(text, "CNY") or "nothing") == Decimal(fen).scaleb(-2)


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_sum_said_twice_is_never_taken_where_the_two_differ(first: int, second: int) -> None:
    text = f"{sum_in_characters(first)}（¥{Decimal(second).scaleb(-2)}）"
    if first == second:
        assert Decimal(read_money(text, "CNY") or "nothing") == Decimal(first).scaleb(-2)
    else:
        with pytest.raises(Doubt, match="said twice and differs"):
            read_money(text, "CNY")


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=0, max_value=10**15, places=4)


@given(DECIMALS)
def test_a_number_keeps_every_digit_whatever_its_marks(number: Decimal) -> None:
    english = f"{number:,}"
    german = english.translate(str.maketrans(",.", ".,"))
    assert read_number(english) == read_number(german, ",") == plain_number(number)
    assert read_number(english.replace(",", " ")) == plain_number(number)


@given(DECIMALS, st.sampled_from([("万元", 4), ("亿元", 8), ("元", 0), ("百万元", 6)]))
def test_a_unit_moves_the_point_and_loses_nothing(number: Decimal, unit: tuple[str, int]) -> None:
    name, places = unit
    assert read_money(f"{number}{name}", "CNY") == plain_number(number.scaleb(places))


@given(st.text(alphabet="零一二三四五六七八九十百千万亿壹贰叁拾佰仟〇两元角分整0123456789.,（）", max_size=40))
def test_no_text_of_numbers_breaks_the_reader(text: str) -> None:
    try:
        found = read_money(text, "CNY")
    except Doubt:
        return
    assert found is None or Decimal(found) >= 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("人民币贰佰万元整", "2000000"),
        ("贰 佰 万 元 整", "2000000"),
        ("人民币伍拾万", "500000"),
        ("叁佰元零伍分", "300.05"),
        ("伍角整", "0.50"),
        ("零元整", "0"),
        ("0元 人民币", "0"),
        ("二百万元", "2000000"),
        ("第1包 贰佰万元整", "2000000"),
        ("56.98万元（569800元）", "569800"),
        # The one is the other rounded: the finer one counts.
        ("56.98万元（569812.34元）", "569812.34"),
        ("100万元（分2期，每期50万元）", "1000000"),
        ("预算5万元；控制价：叁万元整", "50000"),
        # Two ways to read it are none.
        ("两百五元", None),
        ("统一采购", None),
        ("二〇二四年", None),
    ],
)
def test_sums_in_characters_and_sums_said_twice(text: str, expected: str | None) -> None:
    assert read_money(text, "CNY") == expected


@pytest.mark.parametrize("text", ["贰佰万元整（¥20000000.00）", "56.98万元（5698000元）", "大写：叁万元整 小写：2万元"])
def test_sums_that_differ_are_a_doubt(text: str) -> None:
    with pytest.raises(Doubt):
        read_money(text, "CNY")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2万", "12000"),
        ("浏览 3.5万次", "35000"),
        ("3 万科", "3"),
        ("三百二十", "320"),
        ("共十二个月", "12"),
        ("统一", None),
        ("两百五", None),
        ("9 900,00 zł", None),
    ],
)
def test_numbers_of_everyday_writing(text: str, expected: str | None) -> None:
    assert read_number(text) == expected


@pytest.mark.parametrize(
    "text", ["1～2万元", "10万元至20万元", "3-5 万元", "预算：1.5—2.5亿元", "5.5万元~6万元", "100元到200元"]
)
def test_neither_end_of_a_range_is_the_sum(text: str) -> None:
    with pytest.raises(Doubt, match="is a range"):
        read_money(text, "CNY")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50%", None),
        ("费率：12.5 ‰", None),
        ("下浮率12.5%，报价1000", "1000"),
        ("100万元至2026年12月", "1000000"),
        ("2026-2027年度预算100万元", "1000000"),
        ("ZB-2026-100万元", "1000000"),
        ("（1-3标段）合计50万元", "500000"),
    ],
)
def test_a_share_is_no_sum_and_a_number_of_years_no_range(text: str, expected: str | None) -> None:
    assert read_money(text, "CNY") == expected


def test_a_doubt_leaves_the_field_empty_and_is_told_with_the_page() -> None:
    source = made(
        LISTED
        + """
    budget: {css: i, then: [{money: CNY}], optional: true}
detail:
  steps:
    - request: {url: "https://site.example/{id}.html"}
      fields: {title: {css: h1}, sum: {css: p, then: [{money: CNY}], required: true}}
"""
    )
    page = "<h1>t</h1><p>贰佰万元整（¥20000000.00）</p>"
    found = source.read_detail(0, response(page), {"id": "1"})
    assert (found.outcome, found.missing, "sum" in found.fields) == ("misfit", ["sum"], False)
    assert [text.startswith("field 'sum': the sum is said twice") for text in found.flags] == [True]
    listed = read(source, "<ul class=list><li><a href=/1.html>a</a><i>贰佰元（¥20）</i></ul>")
    assert ("budget" in listed.entries[0].fields, len(listed.flags), listed.refused) == (False, 1, [])


UNITS: list[tuple[str, str, Any]] = [
    ("<table><tr><td>预 算 金 额（万元）：</td><td>56.98</td></tr></table>", "预算金额", "569800"),
    ("<table><tr><th>预算金额(元)</th><td>569,800.00</td></tr></table>", "预算金额", "569800.00"),
    ("<p>预 算&nbsp;金　额 （万元） ：56.98</p>", "预算金额", "569800"),
    ("<p>预算金额（元）：56.98 最高限价：无</p>", "预算金额（元）", "56.98"),
    ("<p>预算金额（万元）：56.98万元</p>", "预算金额", "569800"),
    ("<p>预算金额（万元）：详见附件</p>", "预算金额", None),
]


@pytest.mark.parametrize(("page", "label", "expected"), UNITS)
def test_the_unit_of_a_label_is_that_of_its_number(page: str, label: str, expected: str | None) -> None:
    spec = f"{{label: {label}, then: [{{money: CNY}}], optional: true}}"
    assert field_of(spec, f"<html><head></head><body>{page}</body></html>") == expected
