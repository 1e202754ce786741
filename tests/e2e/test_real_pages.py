"""Saved pages of real sites: the values that were read of them by other means come out of our sources exactly."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fyke.fetchers.encoding import decode
from fyke.model import Fields, ListPage, Outcome, Response
from fyke.sources.loader import load_file
from fyke.sources.source import FileSource

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "realdata"
EXAMPLES = ROOT / "examples" / "real"
SOURCES = Path(__file__).with_name("real_sources")

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the saved pages are not here")


def source(name: str) -> FileSource:
    path = EXAMPLES / f"{name}.yaml"
    return load_file(path if path.is_file() else SOURCES / f"{name}.yaml").source


def saved(name: str, url: str) -> Response:
    (path,) = (path for path in DATA.glob(f"{name}_*") if path.suffix != ".headers")
    body = path.read_bytes()
    return Response(url, 200, {}, body, decode(body, "", None).text)


def listed(name: str, page: str, url: str | None = None) -> tuple[FileSource, ListPage]:
    """A list page that fits whole: no refused rows."""
    read = source(name)
    (listing,) = read.listings()
    found = read.read_page(listing, saved(page, url or read.list_request(listing, None).url), None)
    assert (found.outcome, found.reason, found.refused) == (Outcome.OK, "", [])
    return read, found


def ends(page: ListPage, *names: str) -> list[Sequence[Any]]:
    """The key and named fields of the first and the last entry."""
    return [(entry.key, *(entry.fields.get(name) for name in names)) for entry in (page.entries[0], page.entries[-1])]


def keys(page: ListPage) -> list[str]:
    return [entry.key for entry in page.entries]


GGZY = "https://www.ggzy.gov.cn/information/deal/html"
FIRST_TITLE = "德清县体育中心（县少年儿童体育学校）的少体校学生就学、训练、参赛等用车服务采购项目合同"


def test_ggzy_lists_twenty_notices_by_an_api() -> None:
    _, page = listed("ggzy", "a01")
    assert (len(page.entries), len(set(keys(page)))) == (20, 20)
    assert ends(page, "title", "published", "url") == [
        (
            "003346ed9dd8b0494c7aa507db162810f636",
            FIRST_TITLE,
            "2026-03-17T00:00:00+08:00",
            f"{GGZY}/a/330000/0203/20260317/003346ed9dd8b0494c7aa507db162810f636.html",
        ),
        (
            "0037038d6b654a574a1fb1ed6fe433ac24b2",
            "山东省体育总会秘书处2026年度赛事活动项目（三）公开招标公告",
            "2026-03-16T00:00:00+08:00",
            f"{GGZY}/a/370000/0201/20260316/0037038d6b654a574a1fb1ed6fe433ac24b2.html",
        ),
    ]
    days = [entry.fields["published"][:10] for entry in page.entries]
    assert days == ["2026-03-17"] * 6 + ["2026-03-16"] * 14
    assert [entry.fields["kind"] for entry in page.entries].count("更正事项") == 2
    assert {entry.lane for entry in page.entries} == {"www.ggzy.gov.cn"}


def test_ggzy_s_detail_is_two_hops_and_a_true_zero_stays() -> None:
    read, page = listed("ggzy", "a01")
    entry = page.entries[0]
    shell = read.read_detail(0, saved("a02", read.detail_request(0, entry.fields).url), entry.fields)
    assert (shell.outcome, shell.fields) == (
        Outcome.OK,
        {
            "project_no": "330521253680050000027-ZJXCXZF-2025-JC57",
            "body_url": f"{GGZY}/b/330000/0203/20260317/003346ed9dd8b0494c7aa507db162810f636.html",
        },
    )
    fields = entry.fields | shell.fields
    body = read.read_detail(1, saved("a03", read.detail_request(1, fields).url), fields)
    assert body.outcome is Outcome.OK
    record, _, filled = read.record(entry.fields, fields | body.fields)
    assert all(filled.values())
    assert {name: record[name] for name in ("title", "published", "buyer", "supplier", "amount", "signed")} == {
        "title": FIRST_TITLE,
        # Not the template's stamps of 2024.
        "published": "2026-03-17T00:00:00+08:00",
        "buyer": "德清县体育中心（德清县少年儿童体育学校）",
        "supplier": "湖州新国旅外事旅游汽车服务有限公司",
        "amount": "0",
        "signed": "2026-03-17T00:32:09+08:00",
    }


def test_ggzy_s_shell_alone_is_never_stored_as_the_body() -> None:
    read = source("ggzy")
    assert read.read_detail(1, saved("a02", "https://www.ggzy.gov.cn/x"), {}).outcome is Outcome.MISFIT


def test_ccgp_s_award_notice() -> None:
    read = source("ccgp")
    found = read.read_detail(0, saved("a06", "http://www.ccgp.gov.cn/cggg/dfgg/zbgg/202506/t20250627_24857711.htm"), {})
    assert found.outcome is Outcome.OK
    html = found.fields.pop("body_html")
    text = found.fields.pop("body_text")
    assert found.fields == {
        "title": "清镇市2025年农村综合改革转移支付预算（农村公益事业财政奖补）项目"
        "麦格苗族布依族乡太阳能路灯采购的中标(成交)结果公告",
        "published": "2025-06-27T17:52:00+08:00",
        "buyer": "清镇市麦格苗族布依族乡人民政府",
        "region": "贵州省",
        "agency": "贵州励柯工程咨询有限公司",
        # ￥56.980000 万元 and 569800.00(元) are one sum.
        "amount": "569800.00",
        "bid": "569800.00",
        "winner": "江苏新煦光电科技有限公司",
        "project_no": "LKZX2025-CG013",
    }
    assert "<style" not in html
    assert "border:1px" not in text
    assert text.startswith("一、项目编号：LKZX2025-CG013 二、项目名称：清镇市")


def test_ccgp_s_small_list_leads_to_the_notice() -> None:
    read = source("ccgp")
    text = (EXAMPLES / "pages" / "ccgp_list.html").read_text(encoding="utf-8")
    page = read.read_page(read.listings()[0], Response("http://www.ccgp.gov.cn/x/index.htm", 200, {}, b"", text), None)
    (entry,) = page.entries
    assert (entry.key, entry.url) == (
        "24857711",
        "http://www.ccgp.gov.cn/cggg/dfgg/zbgg/202506/t20250627_24857711.htm",
    )


def test_ccgp_s_search_rows_keep_highlighted_titles_whole() -> None:
    _, page = listed("ccgp_search", "a05")
    assert ends(page, "title", "published", "buyer", "kind", "region") == [
        (
            "t20250829_25257111",
            "西安市雁塔区电子城社区卫生服务中心2025年西安市红会医院卫星医院（电子城）医用设备采购中标（成交）结果公告",
            "2025-08-29T15:04:16+08:00",
            "西安市雁塔区电子城社区卫生服务中心",
            "成交公告",
            "陕西",
        ),
        (
            "t20200304_13957968",
            "德州市公安局互联网门户网站建设项目（恢复）更正公告",
            "2020-03-04T16:02:21+08:00",
            "德州市公安局",
            "更正公告",
            "山东",
        ),
    ]


def test_fbo_s_query_only_addresses() -> None:
    _, page = listed("fbo", "a07")
    assert len(set(keys(page))) == 20
    head = "https://www.fbo.gov/index?s=opportunity&mode=form&id="
    assert ends(page, "title", "published") == [
        ("278b51579163559fab8483e9b1a6305c", "ROTOR,GENERATOR", "2016-03-10T00:00:00-05:00"),
        ("302df152d00b0519818892afffa38ab0", "F--Legionella Testing Services", "2016-03-10T00:00:00-05:00"),
    ]
    assert page.entries[0].url == f"{head}278b51579163559fab8483e9b1a6305c&tab=core&_cview=0"
    assert page.entries[0].fields["number"] == "SPE4A516R0526"


def test_dfa66_s_titles_are_whole_and_its_dates_are_those_of_the_list() -> None:
    read, page = listed("dfa66", "a09")
    assert len(set(keys(page))) == 10
    home = "https://www.dfa66.com/dfaets/contents/2020"
    assert ends(page, "title", "published", "url") == [
        (
            "b51327b18dff4d8aa163774fcd9240e6",
            "东方阿尔法优势产业混合型发起式证券投资基金可投资于科创板股票的公告",
            "2020-07-02T00:00:00+08:00",
            f"{home}/7/2-b51327b18dff4d8aa163774fcd9240e6.html",
        ),
        (
            "3319672aa166452389171d8cebd0167d",
            "东方阿尔法基金管理有限公司关于公司住所变更的公告",
            "2019-11-16T00:00:00+08:00",
            f"{home}/4/14-3319672aa166452389171d8cebd0167d.html",
        ),
    ]
    assert read.list_request(read.listings()[0], page.next).url.endswith("/announcement/index2.html")


def test_rtfund_is_read_by_xpath_in_utf_8_whatever_it_declares() -> None:
    _, page = listed("rtfund", "a11")
    assert len(page.entries) == 15
    assert ends(page, "title", "published", "url") == [
        (
            "12323944",
            "融通关于旗下部分开放式基金新增华瑞保险销售有限公司为销售机构并参加其费率优惠活动的公告",
            "2020-07-09T00:00:00+08:00",
            "http://www.rtfund.com/main/a/20200709/12323944.shtml",
        ),
        (
            "12323017",
            "关于融通通源短融债券型证券投资基金B类新增兴业银行股份有限公司为销售机构的公告",
            "2020-07-06T00:00:00+08:00",
            "http://www.rtfund.com/main/a/20200706/12323017.shtml",
        ),
    ]


def test_jslcae_s_items_have_two_links_and_two_of_them_one_title() -> None:
    _, page = listed("jslcae", "a13")
    assert len(set(keys(page))) == 20
    assert keys(page)[:4] == ["127", "126", "124", "125"]
    assert keys(page)[-1] == "66"
    assert page.entries[2].fields["title"] == page.entries[3].fields["title"]
    assert ends(page, "title", "url")[0] == (
        "127",
        "【宁夏金丝路资讯】笑傲和田玉界的羊脂白玉",
        "http://jslcae.com/huiyuanfuwu/huodongzhuanqu/2016/0423/127.html",
    )
    assert (page.next, page.last_by_hint) == (
        {"url": "http://jslcae.com/huiyuanfuwu/huodongzhuanqu/list_70_2.html"},
        False,
    )


def test_edgar_s_two_shapes_of_addresses() -> None:
    _, page = listed("edgar", "a15")
    assert len(set(keys(page))) == 28
    home = "https://www.sec.gov/Archives/edgar/data/320193"
    assert ends(page, "published", "url") == [
        (
            "0000320193-19-000119",
            "2019-10-31T00:00:00-04:00",
            f"{home}/000032019319000119/0000320193-19-000119-index.htm",
        ),
        ("0000320193-94-000016", "1994-12-13T00:00:00-05:00", f"{home}/0000320193-94-000016-index.html"),
    ]


def test_cninfo_s_milliseconds_are_days_in_shanghai() -> None:
    _, page = listed("cninfo", "b02")
    assert ends(page, "title", "published", "url") == [
        (
            "1208388950",
            "关于持股5%以上股东权益变动达1%的提示公告",
            "2020-09-04T00:00:00+08:00",
            "http://static.cninfo.com.cn/finalpage/2020-09-04/1208388950.PDF",
        ),
        (
            "1208345383",
            "2020年半年度报告",
            "2020-08-31T00:00:00+08:00",
            "http://static.cninfo.com.cn/finalpage/2020-08-31/1208345383.PDF",
        ),
    ]


def test_a_tender_api_whose_optional_fields_are_absent() -> None:
    _, page = listed("tender", "b03")
    assert len(page.entries) == 16
    assert page.entries[0].key == "ABCY1wIfjxYND0vNGBjZGIkDzAoQBFgV3h9KAUwPz0dZFZzb1pUCf4%3D"
    assert [row[1:] for row in ends(page, "title", "published", "amount", "budget")] == [
        (
            "邹城市人民医院孟子湖院区智能手术室行为支持系统重新采购竞争性磋商项目成交公告",
            "2021-04-28T15:21:47+08:00",
            "1805917",
            None,
        ),
        ("浙北医学中心手术室行为管理系统项目采购文件意见征询", "2020-04-10T00:00:00+08:00", None, "2200000"),
    ]


@pytest.mark.parametrize(
    ("page", "count", "first", "last"),
    [
        (
            "c01",
            16,
            {"key": "http://www.cnblog.org/blog/archives/2004_08_29_cnblog_archive.html#109424958546889584"},
            {"key": "http://www.cnblog.org/blog/archives/2004_08_15_cnblog_archive.html#109263639395084299"},
        ),
        (
            "c05",
            15,
            {
                "key": "https://noticias.uol.com.br/politica/eleicoes/2018/noticias/2018/09/24/"
                "ibope-bolsonaro-perde-de-haddad-ciro-e-alckmin-em-simulacoes-de-2-turno.htm",
                "title": "Ibope: Bolsonaro perde de Haddad, Ciro e Alckmin em simulações de 2º turno",
                "raw_date": "Seg, 24 Set 2018 19:42:40 -0300",
            },
            {},
        ),
        (
            "c07",
            15,
            {
                "key": "http://heise.de/-3088438",
                "published": "2016-02-01T17:22:00+01:00",
                "title": "Java-Anwendungsserver: Red Hat gibt WildFly 10 frei",
            },
            {"key": "http://heise.de/-3086458"},
        ),
        (
            "c09",
            25,
            {"key": "http://sfbay.craigslist.org/eby/apa/6186664607.html", "published": "2017-06-21T10:33:10-07:00"},
            {"key": "http://sfbay.craigslist.org/eby/apa/6170845890.html"},
        ),
        (
            "c11",
            48,
            {
                "key": "https://daringfireball.net/linked/2017/06/26/the-talk-show-195",
                "url": "https://daringfireball.net/linked/2017/06/26/the-talk-show-195",
                "published": "2017-06-27T00:54:17+00:00",
            },
            {"key": "https://daringfireball.net/2017/06/update_on_the_talk_show_live_from_wwdc_2017"},
        ),
        (
            "c15",
            25,
            {
                "key": "1559104147038",
                "title": "PM Modi-Xi Jinping informal summit in Varanasi this October: Report",
                "published": "2019-05-29T10:16:00+00:00",
            },
            {"key": "1559022596374"},
        ),
    ],
)
def test_feeds(page: str, count: int, first: Fields, last: Fields) -> None:
    _, found = listed("feed_id", page)
    assert (len(found.entries), len(set(keys(found)))) == (count, count)
    for entry, expected in ((found.entries[0], first), (found.entries[-1], last)):
        shown = {"key": entry.key, **entry.fields}
        assert {name: shown.get(name) for name in expected} == expected


def test_a_forum_s_feed_is_identified_by_one_parameter() -> None:
    _, page = listed("kc0011", "c03")
    assert len(set(keys(page))) == 20
    assert ends(page, "title", "published")[0] == (
        "25164257",
        "建国35周年纪念，华表，和平鸽",
        "2020-01-10T14:33:00+08:00",
    )
    assert keys(page)[-1] == "25164080"


def test_monkeydom_s_guids_are_no_addresses() -> None:
    _, page = listed("monkeydom", "c13")
    assert len(set(keys(page))) == 13
    assert ends(page, "url")[0] == ("cocoa-dom:tcmportmapper", "https://github.com/monkeydom/TCMPortMapper")
    assert keys(page)[-1] == "cocoa-dom:games-icloud-and-gamecenter"


def test_a_base_element_and_blanks_in_addresses() -> None:
    _, page = listed("towerrevo", "d20")
    assert len(page.entries) == 7
    assert ends(page, "published") == [
        ("http://www.towerrevo.jp/article/20952/", "2016-03-18T00:00:00+09:00"),
        ("http://www.towerrevo.jp/article/20872/", "2016-03-09T00:00:00+09:00"),
    ]


def test_sticky_threads_are_pinned() -> None:
    _, page = listed("mindfactory", "d25")
    assert [entry.key for entry in page.entries if entry.pinned] == ["78242", "74230", "82431"]
    normal = [entry for entry in page.entries if not entry.pinned]
    assert (len(normal), normal[0].key, normal[-1].key) == (30, "93170", "93114")
    assert normal[0].fields["url"] == "https://forum.mindfactory.de/t93170-vorgangsnummer-4609939-a.html"


def test_an_article_escaped_in_a_script_is_unescaped() -> None:
    read = source("toutiao")
    found = read.read_detail(0, saved("d26", "https://www.toutiao.com/item/6594796352390038020/"), {})
    assert found.outcome is Outcome.OK
    assert found.fields["title"] == "滁州一地发布干部职务任免通知！"
    assert found.fields["published"] == "2018-08-28T23:37:59+08:00"
    assert "<strong>天长" in found.fields["body_html"]


@pytest.mark.parametrize("page", ["d01", "d03", "d05", "d08", "d09", "d28"])
def test_a_block_login_or_shell_is_no_list_and_no_detail(page: str) -> None:
    response = saved(page, "https://site.example/")
    for name in ("ccgp", "ggzy", "dfa66", "monkeydom"):
        read = source(name)
        assert read.read_page(read.listings()[0], response, None).outcome is Outcome.MISFIT
        for step in range(read.steps):
            assert read.read_detail(step, response, {"title": "from the list"}).outcome is Outcome.MISFIT
