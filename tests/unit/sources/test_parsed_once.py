"""A page is parsed once by each parser that its fields ask for, and no selector is compiled while pages are read."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jmespath
import pytest
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from fyke.model import Outcome
from tests.unit.sources.making import made, read, response

ROWS = "".join(f'<li><a href="/{n}.html">甲 {n}</a><b>x</b><i>2025-01-0{n}</i></li>' for n in range(1, 6))
LISTED = """
listing:
  request: {url: "https://site.example/"}
  rows: {in: ul, css: "> li"}
  fields:
    id: {css: "a::attr(href)", then: [{regex: '(\\d+)'}]}
    title: {css: a}
    day: {xpath: ".//i", then: [{datetime: "%Y-%m-%d"}]}
    bold: {xpath: ".//b"}
"""
WIDE = (
    LISTED
    + """
detail:
  attachments: {css: "a::attr(href)"}
  steps:
    - request: {url: "https://site.example/{id}"}
      ready: {css: body, min_chars: 3}
      fields:
        title: {css: h1}
        again: {css: h1, then: [html]}
        body: {css: body}
        text: {xpath: "string(//h1)"}
        link: {xpath: "//a/@href"}
        buyer: {label: 采购人}
        sum: {label: 金额, then: [{money: CNY}]}
        data: {regex: 'data = (\\{.+\\})', json: "x.y"}
"""
)
PAGE = '<h1>title</h1><p>采购人：甲</p><p>金额：12元</p><a href=/x.pdf>x</a><script>data = {"x": {"y": 1}}</script>'


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each parser was given a text of the document."""
    found: Counter[str] = Counter()
    strings = etree.fromstring

    def lexbor(data: Any) -> LexborHTMLParser:
        found["css"] += 1
        return LexborHTMLParser(data)

    def lxml(*args: Any, **more: Any) -> Any:
        found["xpath"] += 1
        return strings(*args, **more)

    monkeypatch.setattr("fyke.sources.document.LexborHTMLParser", lexbor)
    monkeypatch.setattr("fyke.sources.document.etree.fromstring", lxml)
    return found


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often anything was compiled."""
    found: Counter[str] = Counter()

    def counting(name: str, real: Any) -> Any:
        def count(*args: Any, **more: Any) -> Any:
            found[name] += 1
            return real(*args, **more)

        return count

    monkeypatch.setattr(etree, "XPath", counting("xpath", etree.XPath))
    monkeypatch.setattr(jmespath, "compile", counting("json", jmespath.compile))
    monkeypatch.setattr(re, "compile", counting("regex", re.compile))
    return found


def test_a_detail_is_parsed_once_by_each_parser_however_many_fields_it_has(parsed: Counter[str]) -> None:
    source = made(WIDE)
    page = source.read_detail(0, response(PAGE), {"id": "1"})
    assert (page.outcome, len(page.fields), len(page.attachments)) == (Outcome.OK, 8, 1)
    assert parsed == {"css": 1, "xpath": 1}


def test_a_page_that_only_css_reads_is_not_parsed_for_xpath(parsed: Counter[str]) -> None:
    source = made(LISTED.replace('xpath: ".//i"', "css: i").replace('xpath: ".//b"', "css: b"))
    assert len(read(source, f"<ul>{ROWS}</ul>").entries) == 5
    assert parsed == {"css": 1}


def test_a_row_is_read_once_more_for_all_of_its_xpaths_together(parsed: Counter[str]) -> None:
    assert len(read(made(LISTED), f"<ul>{ROWS}</ul>").entries) == 5
    assert parsed == {"css": 1, "xpath": 5}


def test_nothing_is_compiled_while_pages_are_read(compiled: Counter[str]) -> None:
    source = made(WIDE)
    assert {"xpath", "json", "regex"} <= set(compiled)
    read(source, f"<ul>{ROWS}</ul>")  # a format of times is made into a pattern with the first time
    source.read_detail(0, response(PAGE), {"id": "1"})
    compiled.clear()
    for _ in range(3):
        assert len(read(source, f"<ul>{ROWS}</ul>").entries) == 5
        assert source.read_detail(0, response(PAGE), {"id": "1"}).outcome is Outcome.OK
    assert compiled == {}
