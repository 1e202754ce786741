"""What saved pages of real sites hold, told by other means (../shared/realdata/INDEX.tsv), by source of examples/real.

The pages themselves are never copied here: tests that read them skip where the folder is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
DATA: Final = ROOT.parent / "shared" / "realdata"
EXAMPLES: Final = ROOT / "examples" / "real"
REPLAY: Final = EXAMPLES / "replay.tsv"

needs_saved_pages = pytest.mark.skipif(not DATA.is_dir(), reason="the saved pages are not here")


@dataclass(frozen=True, slots=True)
class Listed:
    """One list page: how many rows, and the first and last of them, which have `key` beside their fields.

    `file` begins as the saved page's name; "" for a small page of our own. `column`: all values of a field.
    """

    file: str
    rows: int
    first: dict[str, Any]
    last: dict[str, Any]
    refused: int = 0
    total: int | None = None
    last_page: int | None = None
    next: str | None = None
    column: dict[str, list[Any]] = field(default_factory=dict)


def day(text: str, zone: str = "+08:00") -> str:
    return f"{text}T00:00:00{zone}"


GGZY: Final = "https://www.ggzy.gov.cn/information/deal/html"
DFA66: Final = "https://www.dfa66.com/dfaets"
EDGAR: Final = "https://www.sec.gov/Archives/edgar/data/320193"
UOL: Final = "https://noticias.uol.com.br/politica/eleicoes/2018/noticias/2018/09/24"
BLOG: Final = "http://www.cnblog.org/blog/archives"
HEBDEN: Final = "http://www.hebdenbridgetimes.co.uk/news/local"
RINGS: Final = "http://www.michelson.pl/pierscionki-zareczynowe-1-html"
FBO: Final = "https://www.fbo.gov/index?s=opportunity&mode=form&id="
EURO: Final = "https://actualidadeurovision.blogspot.com"
ISSUES: Final = "https://api.github.com/repositories/11439734/issues?state=all&per_page=100&page=2"
SHOP: Final = "https://www.mypapershop.com"
SHOP_LIST: Final = (
    f"{SHOP}/mm5/merchant.mvc?Store_Code=MPS&Screen=CTGY&Category_Code=patricks-day-supplies&CatListingOffset={{0}}"
    "&Offset={0}&Per_Page=24&Sort_By=disp_order"
)
FIRST_TITLE: Final = "德清县体育中心（县少年儿童体育学校）的少体校学生就学、训练、参赛等用车服务采购项目合同"
LAMPS: Final = (
    "清镇市2025年农村综合改革转移支付预算（农村公益事业财政奖补）项目麦格苗族布依族乡太阳能路灯采购的中标(成交)结果公告"
)

LISTS: Final[dict[str, list[Listed]]] = {
    "ggzy": [
        Listed(
            "a01",
            20,
            {
                "key": "003346ed9dd8b0494c7aa507db162810f636",
                "title": FIRST_TITLE,
                "published": day("2026-03-17"),
                "url": f"{GGZY}/a/330000/0203/20260317/003346ed9dd8b0494c7aa507db162810f636.html",
            },
            {
                "key": "0037038d6b654a574a1fb1ed6fe433ac24b2",
                "title": "山东省体育总会秘书处2026年度赛事活动项目（三）公开招标公告",
                "published": day("2026-03-16"),
                "url": f"{GGZY}/a/370000/0201/20260316/0037038d6b654a574a1fb1ed6fe433ac24b2.html",
            },
            total=1598,
            last_page=80,
            column={"published": [day("2026-03-17")] * 6 + [day("2026-03-16")] * 14},
        )
    ],
    "ccgp_search": [
        Listed(
            "a05",
            2,
            {
                "key": "t20250829_25257111",
                "title": "西安市雁塔区电子城社区卫生服务中心2025年西安市红会医院卫星医院（电子城）医用设备采购"
                "中标（成交）结果公告",
                "published": "2025-08-29T15:04:16+08:00",
                "buyer": "西安市雁塔区电子城社区卫生服务中心",
                "kind": "成交公告",
                "region": "陕西",
            },
            {
                "key": "t20200304_13957968",
                "title": "德州市公安局互联网门户网站建设项目（恢复）更正公告",
                "published": "2020-03-04T16:02:21+08:00",
                "buyer": "德州市公安局",
                "kind": "更正公告",
                "region": "山东",
            },
        )
    ],
    "ccgp": [Listed("", 1, {"key": "24857711", "title": LAMPS}, {})],
    "fbo": [
        Listed(
            "a07",
            20,
            {
                "key": "278b51579163559fab8483e9b1a6305c",
                "title": "ROTOR,GENERATOR",
                "number": "SPE4A516R0526",
                "published": day("2016-03-10", "-05:00"),
                "url": f"{FBO}278b51579163559fab8483e9b1a6305c&tab=core&_cview=0",
            },
            {
                "key": "302df152d00b0519818892afffa38ab0",
                "title": "F--Legionella Testing Services",
                "published": day("2016-03-10", "-05:00"),
            },
            total=28488,
            last_page=1425,
            next="https://www.fbo.gov/index?s=opportunity&mode=list&tab=list&pageID=2",
        )
    ],
    "dfa66": [
        Listed(
            "a09",
            10,
            {
                "key": "b51327b18dff4d8aa163774fcd9240e6",
                "title": "东方阿尔法优势产业混合型发起式证券投资基金可投资于科创板股票的公告",
                "published": day("2020-07-02"),
                "url": f"{DFA66}/contents/2020/7/2-b51327b18dff4d8aa163774fcd9240e6.html",
            },
            {
                "key": "3319672aa166452389171d8cebd0167d",
                "title": "东方阿尔法基金管理有限公司关于公司住所变更的公告",
                "published": day("2019-11-16"),
                "url": f"{DFA66}/contents/2020/4/14-3319672aa166452389171d8cebd0167d.html",
            },
            next=f"{DFA66}/news/infodisclosure/announcement/index2.html",
        )
    ],
    "rtfund": [
        Listed(
            "a11",
            15,
            {
                "key": "12323944",
                "title": "融通关于旗下部分开放式基金新增华瑞保险销售有限公司为销售机构并参加其费率优惠活动的公告",
                "published": day("2020-07-09"),
                "url": "http://www.rtfund.com/main/a/20200709/12323944.shtml",
            },
            {
                "key": "12323017",
                "title": "关于融通通源短融债券型证券投资基金B类新增兴业银行股份有限公司为销售机构的公告",
                "published": day("2020-07-06"),
                "url": "http://www.rtfund.com/main/a/20200706/12323017.shtml",
            },
            last_page=436,
            next="http://www.rtfund.com/servlet/fund/AboutNewsAction?catalogId=2933%2C2935%2C2934%2C2936&style=1"
            "&expert=expertList1&divname=paging1&curPage=2",
        )
    ],
    "jslcae": [
        Listed(
            "a13",
            20,
            {
                "key": "127",
                "title": "【宁夏金丝路资讯】笑傲和田玉界的羊脂白玉",
                "url": "http://jslcae.com/huiyuanfuwu/huodongzhuanqu/2016/0423/127.html",
            },
            {"key": "66"},
            total=26,
            last_page=2,
            next="http://jslcae.com/huiyuanfuwu/huodongzhuanqu/list_70_2.html",
        )
    ],
    "edgar": [
        Listed(
            "a15",
            28,
            {
                "key": "0000320193-19-000119",
                "published": day("2019-10-31", "-04:00"),
                "url": f"{EDGAR}/000032019319000119/0000320193-19-000119-index.htm",
            },
            {
                "key": "0000320193-94-000016",
                "published": day("1994-12-13", "-05:00"),
                "url": f"{EDGAR}/0000320193-94-000016-index.html",
            },
        )
    ],
    "cninfo": [
        Listed(
            "b02",
            2,
            {
                "key": "1208388950",
                "title": "关于持股5%以上股东权益变动达1%的提示公告",
                "published": day("2020-09-04"),
                "url": "http://static.cninfo.com.cn/finalpage/2020-09-04/1208388950.PDF",
                "columns": ["250401", "251302"],
            },
            {"key": "1208345383", "title": "2020年半年度报告", "published": day("2020-08-31")},
            total=761,
            next="http://www.cninfo.com.cn/new/hisAnnouncement/query",
        )
    ],
    "tender": [
        Listed(
            "b03",
            16,
            {
                "key": "ABCY1wIfjxYND0vNGBjZGIkDzAoQBFgV3h9KAUwPz0dZFZzb1pUCf4%3D",
                "title": "邹城市人民医院孟子湖院区智能手术室行为支持系统重新采购竞争性磋商项目成交公告",
                "published": "2021-04-28T15:21:47+08:00",
                "amount": "1805917",
                "budget": None,
            },
            {
                "title": "浙北医学中心手术室行为管理系统项目采购文件意见征询",
                "published": day("2020-04-10"),
                "amount": None,
                "budget": "2200000",
            },
        )
    ],
    "github": [
        Listed(
            "b07",
            100,
            {"key": "150", "title": "Different results from Betamax vs Requests"},
            {"key": "51", "title": "Make __all__ immutable."},
            next=ISSUES,
            column={"number": [*range(150, 50, -1)]},
        ),
        Listed(
            "b06",
            50,
            {
                "key": "50",
                "id": 53166882,
                "title": "Fix some docstrings.",
                "published": "2014-12-31T04:37:15+00:00",
            },
            {"key": "1", "title": "Track history as well?", "published": "2013-08-05T17:17:17+00:00"},
            column={"number": [*range(50, 0, -1)]},
        ),
    ],
    "cnblog": [
        Listed(
            "c01",
            16,
            {"key": f"{BLOG}/2004_08_29_cnblog_archive.html#109424958546889584"},
            {"key": f"{BLOG}/2004_08_15_cnblog_archive.html#109263639395084299"},
        )
    ],
    "kc0011": [
        Listed(
            "c03",
            20,
            {
                "key": "25164257",
                "url": "http://www.kc0011.net/dispbbs.asp?BoardID=10&ID=25164257&Page=1",
                "title": "建国35周年纪念，华表，和平鸽",
                "published": "2020-01-10T14:33:00+08:00",
            },
            {"key": "25164080"},
        )
    ],
    "uol": [
        Listed(
            "c05",
            15,
            {
                "key": f"{UOL}/ibope-bolsonaro-perde-de-haddad-ciro-e-alckmin-em-simulacoes-de-2-turno.htm",
                "title": "Ibope: Bolsonaro perde de Haddad, Ciro e Alckmin em simulações de 2º turno",
                "published": "2018-09-24T19:42:40-03:00",
            },
            {},
        )
    ],
    "heise": [
        Listed(
            "c07",
            15,
            {
                "key": "http://heise.de/-3088438",
                "published": "2016-02-01T17:22:00+01:00",
                "title": "Java-Anwendungsserver: Red Hat gibt WildFly 10 frei",
            },
            {"key": "http://heise.de/-3086458"},
        )
    ],
    "craigslist": [
        Listed(
            "c09",
            25,
            {
                "key": "6186664607",
                "id": "http://sfbay.craigslist.org/eby/apa/6186664607.html",
                "published": "2017-06-21T10:33:10-07:00",
                "title": "Bright, Spacious Beautiful Victorian (oakland north / temescal) $4300 3bd 1930ft2",
                "price": "4300",
            },
            {"key": "6170845890", "id": "http://sfbay.craigslist.org/eby/apa/6170845890.html"},
        )
    ],
    "daringfireball": [
        Listed(
            "c11",
            48,
            {
                "key": "https://daringfireball.net/linked/2017/06/26/the-talk-show-195",
                "url": "https://daringfireball.net/linked/2017/06/26/the-talk-show-195",
                "published": "2017-06-27T00:54:17+00:00",
            },
            {"key": "https://daringfireball.net/2017/06/update_on_the_talk_show_live_from_wwdc_2017"},
        )
    ],
    "monkeydom": [
        Listed(
            "c13",
            13,
            {"key": "cocoa-dom:tcmportmapper", "url": "https://github.com/monkeydom/TCMPortMapper"},
            {"key": "cocoa-dom:games-icloud-and-gamecenter"},
        )
    ],
    "livemint": [
        Listed(
            "c15",
            25,
            {
                "key": "1559104147038",
                "title": "PM Modi-Xi Jinping informal summit in Varanasi this October: Report",
                "published": "2019-05-29T10:16:00+00:00",
            },
            {"key": "1559022596374"},
        )
    ],
    "hebdenbridge": [
        Listed(
            "c17",
            74,
            {
                "url": f"{HEBDEN}/video-tour-de-yorkshire-in-calderdale-1-7242580",
                "changed": "2015-05-03T18:51:50+01:00",
            },
            {
                "url": f"{HEBDEN}/now-you-see-it-now-you-don-t-it-s-off-the-wall-1-7229940",
                "changed": "2015-04-26T17:47:55+01:00",
            },
        )
    ],
    "eurovision_index": [
        Listed(
            "c19",
            0,
            {},
            {},
            next="https://andrescoto487.github.io/actualidadeurovision_sitemap/sitemap1.xml",
        )
    ],
    "eurovision": [
        Listed(
            "c20",
            271,
            {"key": f"{EURO}/"},
            {"key": f"{EURO}/2025/05/exclusion-israel-eurovision-2025.html"},
            column={"changed": ["2025-05-31T10:49:28+00:00"] * 271},
        )
    ],
    "mkdocs": [Listed("c22", 0, {}, {}, refused=5)],
    "weixin": [
        Listed(
            "d11",
            10,
            {
                "title": "高考有多重要,为什么要重视高考?丨微观点",
                # 1498908951
                "published": "2017-07-01T19:35:51+08:00",
                "account": "占豪",
            },
            # 1498642262
            {"title": "高考填志愿,如何选专业?学长学姐有话说", "published": "2017-06-28T17:31:02+08:00"},
        )
    ],
    "mypapershop": [
        Listed("", 1, {"key": "000001", "price": "1030.95"}, {}, next=SHOP_LIST.format(24)),
        Listed(
            "d14",
            24,
            {
                "key": "059500",
                "title": "Shamrock Jewel Party Tattoos",
                "price": "30.95",
                "url": f"{SHOP}/059500/shamrock-jewel-party-tattoos.html",
            },
            {
                "title": "Green Foil Fringe Door Curtains",
                "price": "39.95",
                "url": f"{SHOP}/141007/green-foil-door-fringe.html",
            },
            next=SHOP_LIST.format(48),
        ),
    ],
    "michelson": [
        Listed(
            "d16",
            11,
            {
                "key": "m-p-585b-214r-072",
                "price": "9900.00",
                "url": f"{RINGS}/urok-luksusu-pierscionek-z-diamentami-o-lacznej-masie-0-72-ct;m-p-585b-214r-072/",
            },
            {"title": "MONACO - ZŁOTY PIERŚCIONEK Z DIAMENTEM 0,06 CT W PRÓBIE 585", "price": "1199.00"},
            next=f"{RINGS}/?p=2",
        )
    ],
    "towerrevo": [
        Listed(
            "d20",
            7,
            {"url": "http://www.towerrevo.jp/article/20952/", "published": day("2016-03-18", "+09:00")},
            {"url": "http://www.towerrevo.jp/article/20872/", "published": day("2016-03-09", "+09:00")},
        )
    ],
    "mindfactory": [
        Listed(
            "d25",
            33,
            {"key": "78242"},
            {"key": "93114"},
            last_page=573,
            next="https://forum.mindfactory.de/f42-bestellungen-2.html",
        )
    ],
    "people": [Listed("", 1, {"key": "31153719"}, {})],
    "stcn": [Listed("", 1, {"key": "15409036"}, {})],
    "toutiao": [Listed("", 1, {"key": "6594796352390038020"}, {})],
}


@dataclass(frozen=True, slots=True)
class Detailed:
    """The one detail that was saved of a source: of which files, its key and the values of its record."""

    files: tuple[str, ...]
    key: str
    record: dict[str, Any]


DETAILS: Final[dict[str, Detailed]] = {
    "ggzy": Detailed(
        ("a02", "a03"),
        "003346ed9dd8b0494c7aa507db162810f636",
        {
            "title": FIRST_TITLE,
            # Not the template's stamps of 2024.
            "published": day("2026-03-17"),
            "project_no": "330521253680050000027-ZJXCXZF-2025-JC57",
            "platform": "湖州市公共资源交易网",
            "body_url": f"{GGZY}/b/330000/0203/20260317/003346ed9dd8b0494c7aa507db162810f636.html",
            "buyer": "德清县体育中心（德清县少年儿童体育学校）",
            "supplier": "湖州新国旅外事旅游汽车服务有限公司",
            "amount": "0",
            "signed": "2026-03-17T00:32:09+08:00",
        },
    ),
    "ccgp": Detailed(
        ("a06",),
        "24857711",
        {
            "title": LAMPS,
            "published": "2025-06-27T17:52:00+08:00",
            "buyer": "清镇市麦格苗族布依族乡人民政府",
            "region": "贵州省",
            "agency": "贵州励柯工程咨询有限公司",
            # ￥56.980000 万元 and 569800.00(元) are one sum.
            "amount": "569800.00",
            "bid": "569800.00",
            "winner": "江苏新煦光电科技有限公司",
            "project_no": "LKZX2025-CG013",
        },
    ),
    "people": Detailed(
        ("d18",),
        "31153719",
        {
            "title": "女儿出嫁，郑板桥画了几笔兰花当嫁妆",
            "content_id": "31153719",
            "day": day("2019-06-15"),
            "published": "2019-06-15T08:18:00+08:00",
            "origin": "人民网-文化频道",
        },
    ),
    "stcn": Detailed(
        ("d22",),
        "15409036",
        {
            "title": "午间公告：天奇股份中标广汽丰田项目；运达股份中标7亿元项目",
            "published": "2019-09-26T12:11:01+08:00",
            "origin": "证券时报网",
        },
    ),
    "toutiao": Detailed(
        ("d26",),
        "6594796352390038020",
        {"title": "滁州一地发布干部职务任免通知！", "published": "2018-08-28T23:37:59+08:00"},
    ),
}

# Pages that stand in for the page: what a visit comes to, and a word of the reason.
OUTCOMES: Final[dict[str, tuple[str, str]]] = {
    "d01": ("blocked", "频繁"),
    "d03": ("blocked", "Just a moment"),
    "d05": ("blocked", "Access denied"),
    "d08": ("login", "Sign in"),
    "d09": ("login", ""),
    "d28": ("misfit", "tutorial-frequencies.html"),
}
ROBOTS: Final = "c24"


def saved_file(name: str) -> Path:
    """The saved page whose name begins so."""
    (path,) = (path for path in DATA.glob(f"{name}_*") if path.suffix != ".headers")
    return path


def checked_files() -> set[str]:
    """The saved pages that some test reads."""
    lists = {page.file for pages in LISTS.values() for page in pages if page.file}
    return lists | {name for each in DETAILS.values() for name in each.files} | {*OUTCOMES, ROBOTS}
