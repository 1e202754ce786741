import json

from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

from fyke.lab import pages
from fyke.lab.truth import CORRECTION, Notice

NOTICE = Notice(
    id="25000007",
    kind=CORRECTION,
    title="镕城区𠮷水喆图书馆 <A&B> 2026年办公家具采购项目（第2包）更正公告",
    buyer="镕城区图书馆",
    budget=125_000,
    project_no="AZC2026-00001",
    published="2026-11-20 08:00",
    corrects="25000001",
)


def only(tree: LexborHTMLParser | LexborNode, selector: str) -> LexborNode:
    (node,) = tree.css(selector)
    return node


def test_a_row_shows_a_cut_title_and_the_whole_one_in_its_attribute() -> None:
    html = pages.list_html([NOTICE, NOTICE], 1, 1, 3, 41, 1)
    tree = LexborHTMLParser(html)
    top, row = tree.css("ul.list > li")
    assert top.attributes["class"] == "top"
    assert "置顶" in top.text()
    link = only(row, "a")
    assert link.attributes["title"] == NOTICE.title
    assert link.text() == NOTICE.title[: pages.TITLE_CUT] + "…"
    assert link.attributes["href"] == "../detail/t20261120_25000007.html"
    assert only(row, "em").text() == "2026-11-20 08:00"
    assert only(tree, "span.total").text() == "共41条 第1/3页"
    assert only(tree, "a.next").attributes["href"] == "index_2.html"


def test_the_last_page_has_no_next_link_and_a_new_layout_no_container() -> None:
    tree = LexborHTMLParser(pages.list_html([NOTICE], 0, 3, 3, 41, 2))
    assert tree.css_first("a.next") is None
    assert tree.css_first("ul.list") is None


def test_a_row_without_a_link_has_none() -> None:
    notice = Notice(**{**{name: getattr(NOTICE, name) for name in Notice.__slots__}, "linked": False})
    assert LexborHTMLParser(pages.list_html([notice], 0, 1, 1, 1, 1)).css_first("ul.list a") is None
    (record,) = json.loads(pages.api_json([notice], 0, 1, 1, 1))["data"]["records"]
    assert (record["id"], record["url"]) == (None, None)
    item = etree.fromstring(pages.feed_xml([notice], "http://site")).find("channel/item")
    assert item is not None
    assert item.find("link") is None


def test_a_detail_has_title_table_and_body_and_names_its_original() -> None:
    tree = LexborHTMLParser(pages.detail_html(NOTICE, None, pages.filler(3_000), 1, poison=False))
    assert only(tree, "h1").text() == NOTICE.title
    cells = {only(row, "th").text(): only(row, "td").text() for row in tree.css("table.info tr")}
    assert cells == {
        "采购单位": "镕城区图书馆",
        "预算金额": "12.5 万元",
        "项目编号": "AZC2026-00001",
        "发布时间": "2026-11-20 08:00",
    }
    body = only(tree, "div#content").text()
    assert "原公告的采购项目编号：AZC2026-00001" in body
    assert len(body.encode()) > 2_000


def test_poison_and_the_new_layout_take_the_title_element_away() -> None:
    poison = LexborHTMLParser(pages.detail_html(NOTICE, None, "", 1, poison=True))
    assert poison.css_first("h1") is None
    assert poison.css_first("div#content") is not None
    changed = LexborHTMLParser(pages.detail_html(NOTICE, None, "", 2, poison=False))
    assert changed.css_first("h1") is None
    assert changed.css_first("div#content") is None
    assert only(changed, "h3.title").text() == NOTICE.title


def test_a_page_in_gb18030_calls_itself_gb2312_and_needs_more_than_that() -> None:
    text = pages.detail_html(NOTICE, None, "", 1, poison=False)
    body, content_type = pages.encoded(text, gbk=True)
    assert content_type == "text/html"
    assert b"charset=gb2312" in body
    assert NOTICE.title.replace("<A&B>", "&lt;A&amp;B&gt;") in body.decode("gb18030")
    for charset in ("gb2312", "gbk"):
        assert "�" in body.decode(charset, "replace")


def test_money_is_written_as_notices_write_it() -> None:
    amounts = {125_000: "12.5 万元", 82_300: "82,300.00 元", 59_000_000: "5900 万元", 10_012_300: "1001.23 万元"}
    assert {yuan: pages.money(yuan) for yuan in amounts} == amounts


def test_the_feed_is_rss_with_ids_that_are_no_addresses() -> None:
    item = etree.fromstring(pages.feed_xml([NOTICE], "http://site")).find("channel/item")
    assert item is not None
    assert item.findtext("guid") == "25000007"
    assert item.findtext("link") == "http://site/detail/t20261120_25000007.html"
    assert item.findtext("title") == NOTICE.title
    assert item.findtext("pubDate") == "Fri, 20 Nov 2026 08:00:00 +0800"
