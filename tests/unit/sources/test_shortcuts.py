"""Short ways of reading end where the long way ends, whatever the page holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from random import Random
from urllib.parse import urljoin, urlsplit

import pytest
from selectolax.lexbor import LexborHTMLParser

from fyke.model import ColumnType, Response
from fyke.sources.addresses import absolute_url
from fyke.sources.amounts import read_money, read_number
from fyke.sources.document import Document
from fyke.sources.joining import joined
from fyke.sources.markup import tag_number, text_of_html, text_of_node
from fyke.sources.nodes import Context, stored_value
from fyke.sources.timestamps import read_time
from tests.unit.sources.making import made

BLOCKS = (
    "p",
    "div",
    "br",
    "td",
    "tr",
    "table",
    "ul",
    "li",
    "h1",
    "pre",
    "select",
    "option",
    "hr",
    "dl",
    "dt",
    "center",
)
OTHERS = ("b", "span", "a", "script", "style", "img", "title", "textarea", "template", "svg", "noscript", "font")
TEXTS = ("a", "b ", " c", "\n", "&nbsp;", "&amp;lt;", "\u3000", "&lt;", "\u200b", "中文", "x&amp;y;", "&#0;", "\r\n")
REMARKS = ("<!-- c -->", "<?x?>", "</ z>", "<!x>")

PARTS = (
    *("..", ".", "/", "//", "a", "b.html", "?", "x=1", "&", "#", "f", ";", "p", ":", "http", "https://", "h.example"),
    *("中文", "%20", " ", "\\", "\n", "~", "[", "]", "@", "\x01", "\u3000", "...", ".x", "8", "-", "_", "\x85"),
)
BASES = (
    *(
        "http://h.example",
        "http://h.example/",
        "https://H.example:81/a/b/c.html?q=1#f",
        "http://h.example/a//b/../c/./d",
    ),
    *("http://h.example/../x/y", "http://h.example/a;p/b;q", "HTTP://h.example/a/", "http://h.example?x=/y/z"),
    *(
        "http://u:p@h.example/a/b",
        "http://h.example/a/..",
        "ftp://h/x",
        "about:blank",
        "",
        "http://[::1]/a",
    ),
)


def page_of(random: Random, tags: tuple[str, ...]) -> str:
    parts = []
    for _ in range(random.randrange(1, 40)):
        tag = random.choice(tags)
        kinds = (f"<{tag}>", f'<{tag} x="<y>">', f"</{tag}>", random.choice(TEXTS), random.choice(TEXTS))
        parts.append(random.choice(kinds) if random.random() < 0.97 else random.choice(REMARKS))
    return "".join(parts)


@pytest.mark.parametrize("tags", [BLOCKS, BLOCKS * 6 + OTHERS, BLOCKS + OTHERS], ids=["blocks", "mostly", "mixed"])
def test_text_of_a_node_is_the_text_of_its_html(tags: tuple[str, ...]) -> None:
    for seed in range(400):
        html = page_of(Random(seed), tags)
        for node in LexborHTMLParser(html).css("*"):
            assert text_of_node(node) == text_of_html(node.inner_html or ""), (seed, node.tag, html)


def test_a_tag_looked_for_by_its_number_is_the_one_that_its_selector_finds() -> None:
    names = [name for name in ("em", "a", "b", "p", "td", "title", "script", "svg", "q") for _ in range(2)]
    for seed in range(400):
        html = page_of(Random(seed), BLOCKS + OTHERS)
        for row in LexborHTMLParser(html).css("*"):
            document = Document("", "")
            for name in names:
                first, found = row.css_first(name), document.first_in(row, name, tag_number(name))
                assert (first and first.mem_id) == (found and found.mem_id), (seed, row.tag, name, html)


@pytest.mark.parametrize("value", ["0", "1", "12.50", "1.234", "1234.567", "123456789012345678.1", "0.001", "0.0"])
def test_a_number_in_its_stored_form_is_read_as_it_stands(value: str) -> None:
    assert stored_value(value, ColumnType.NUMBER, UTC) == read_number(value) == value


@pytest.mark.parametrize("value", ["007", "-0", "1,234", "1.", ".5", "٣", "1" * 61])
def test_a_number_in_another_form_is_brought_into_the_stored_one(value: str) -> None:
    assert stored_value(value, ColumnType.NUMBER, UTC) == read_number(value) != value


@pytest.mark.parametrize("unit", ["元", "万元", "千万元", "亿元", " 万圆"])
@pytest.mark.parametrize("number", ["1", "12.5", "12.50", "1.00001", "980.00", "123456789012345", "1.234"])
def test_a_cell_with_a_sum_alone_comes_to_what_the_sum_in_a_sentence_comes_to(number: str, unit: str) -> None:
    assert read_money(f"{number}{unit}", "CNY") == read_money(f"合计{number}{unit}。", "CNY") is not None


def test_blocks_without_markup_between_their_words_are_apart() -> None:
    node = LexborHTMLParser("<div><p>one</p><p>two<br>three</p>four</div>").css_first("div")
    assert node is not None
    assert text_of_node(node) == "one two three four"


def long_way(text: str, base: str) -> str | None:
    try:
        found = urljoin(base, text)
        parts = urlsplit(found)
    except ValueError:
        return None
    return found if parts.scheme in ("http", "https") and parts.netloc else None


def test_addresses_are_joined_as_the_standard_library_joins_them() -> None:
    for seed in range(8_000):
        random = Random(seed)
        text = "../" * random.choice((0, 0, 1, 2, 3)) + "".join(random.choices(PARTS, k=random.randrange(1, 8)))
        text = random.choice(("", "", "", "http://", "https://", "HTTP://")) + text
        base = random.choice(BASES)
        read = re.sub(r"[\t\r\n]", "", text.strip()).replace("\\", "/").replace(" ", "%20")
        # One slash and the bare # have rules of their own.
        if read.startswith("/") or read in ("", "#"):
            continue
        context = Context(Document("", base), UTC, {}, {})
        assert absolute_url(text, context) == long_way(read, base), (seed, text, base)


def test_links_of_feeds_are_joined_as_the_standard_library_joins_them() -> None:
    for seed in range(4_000):
        random = Random(seed)
        text = random.choice(("http://", "https://", "")) + "".join(random.choices(PARTS, k=random.randrange(1, 8)))
        try:
            expected = urljoin("http://h.example/a/", text)
        except ValueError:
            expected = None
        assert joined("http://h.example/a/", text) == expected, text


def test_a_time_in_figures_is_read_as_strptime_reads_it() -> None:
    forms = (
        "%Y-%m-%d",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%d %H:%M:%S",
        "%Y%m%d",
        "%d.%m.%Y",
        "%Y年%m月%d日",
        "[%Y/%m/%d]",
        "%Y-%m-%dT%H:%M:%S",
        "%H:%M %d/%m/%Y",
    )
    for seed in range(4_000):
        random = Random(seed)
        form = random.choice(forms)
        text = form.replace("%Y", random.choice(("2025", "0000", "1999", "25", "9999", "٢٠٢٥")))
        for sign in ("%m", "%d", "%H", "%M", "%S"):
            text = text.replace(sign, random.choice(("00", "01", "1", "12", "13", "24", "31", "59", "60", "٣٣", " 3")))
        text = random.choice(
            (text, text, text, f" {text}", f"{text}x", text.replace(" ", "  "), text.replace(":", "."))
        )
        try:
            expected = datetime.strptime(text.strip(), form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            expected = None
        assert read_time(text, (form,), UTC) == expected, (form, text)


def test_bytes_are_parsed_as_they_came_only_where_they_are_the_text() -> None:
    text = "<p>喆\0</p>"
    body = text.encode()
    sound = Response("", 200, {}, "<p>喆</p>".encode(), "<p>喆</p>", "utf-8", "utf-8", 0)
    assert Document.of(sound).data is sound.body
    others = [
        Response("", 200, {}, body, text, "utf-8", "utf-8", 0),
        Response("", 200, {}, body[1:], text, "utf-8", "utf-8", 1),
        Response("", 200, {}, text.encode("gb18030"), text, "gb18030", "meta", 0),
        Response("", 200, {}, b"\xef\xbb\xbf" + body, text, "utf-8", "bom", 0),
    ]
    for response in others:
        assert Document.of(response).data == "<p>喆\ufffd</p>".encode()


def test_an_attribute_of_another_case_is_not_taken_for_the_one_asked_for() -> None:
    source = made(
        """
        listing:
          request: {url: "https://site.example/"}
          rows: {css: li}
          fields:
            id: {css: "a::attr(href)"}
            box: {css: "svg::attr(viewbox)"}
        """
    )
    text = '<li><a href="1">x</a><svg viewBox="0 0 1 1"></svg>'
    page = source.read_page(source.listings()[0], Response("https://site.example/", 200, {}, b"", text), None)
    assert [entry.fields for entry in page.entries] == [{"id": "1"}]
