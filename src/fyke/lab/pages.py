"""The lab site's pages as bytes: lists, details, the JSON API, the feed, and the pages that are none.

A page depends on the notices it shows and on nothing else: no clock, no counter. Encoded in GB18030 it
calls itself gb2312, as such sites do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from hashlib import blake2b
from html import escape
from typing import Final
from zoneinfo import ZoneInfo

from fyke.lab.truth import CORRECTION, TIME, Notice

SITE_NAME: Final = "鱼梁省公共资源公告网"
HTML: Final = "text/html; charset=utf-8"
# The header of such a page names no charset: only its meta element speaks, and wrongly.
HTML_UNNAMED: Final = "text/html"
JSON: Final = "application/json; charset=utf-8"
RSS: Final = "application/rss+xml; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
TITLE_CUT: Final = 24
ZONE: Final = ZoneInfo("Asia/Shanghai")

PARAGRAPH: Final = (
    "<p>供应商应当在公告期限内按照采购文件的要求获取文件并提交响应材料，逾期送达或者未按规定密封的，采购人将予以拒收。"
    "凡对本次公告内容提出询问，请按以下方式联系；其他补充事宜以本网站发布的信息为准，不再另行书面通知。</p>\n"
)


@dataclass(frozen=True, slots=True)
class Page:
    """An answer ready to be sent, and the ids that it shows."""

    kind: str
    path: str
    body: bytes
    content_type: str
    status: int = 200
    ids: tuple[str, ...] = ()
    etag: str = ""


def list_path(page: int) -> str:
    """The address of a list page: index.html, then index_2.html is page two."""
    return "/list/index.html" if page == 1 else f"/list/index_{page}.html"


def etag(body: bytes) -> str:
    return f'"{blake2b(body, digest_size=8).hexdigest()}"'


def encoded(text: str, gbk: bool) -> tuple[bytes, str]:
    """Body and Content-Type of an HTML text that has one CHARSET mark."""
    if gbk:
        return text.replace("CHARSET", "gb2312", 1).encode("gb18030"), HTML_UNNAMED
    return text.replace("CHARSET", "utf-8", 1).encode(), HTML


def list_html(rows: Sequence[Notice], pinned: int, page: int, pages: int, total: int, layout: int) -> str:
    """A list page; the first `pinned` rows stand on top. Layout 2 renames the container of the rows."""
    container = "list" if layout == 1 else "news-list"
    following = f'<a class="next" href="{list_path(page + 1)[6:]}">下一页</a>' if page < pages else ""
    items = "\n".join(_row(notice, number < pinned) for number, notice in enumerate(rows))
    return f"""{_head(f"采购公告_{SITE_NAME}")}
<div class="location">当前位置：<a href="/">首页</a> &gt; 采购公告</div>
<ul class="{container}">
{items}
</ul>
<div class="pager"><span class="total">共{total}条 第{page}/{pages}页</span> {following}</div>
</body></html>
"""


def _row(notice: Notice, top: bool) -> str:
    title = escape(notice.title)
    cut = title if len(notice.title) <= TITLE_CUT else f"{escape(notice.title[:TITLE_CUT])}…"
    mark = "【置顶】" if top else ""
    opening = '<li class="top">' if top else "<li>"
    link = f'<a href="..{notice.path}" title="{title}">{cut}</a>' if notice.linked else f"<b>{cut}</b>"
    return f"{opening}{mark}{link}<em>{notice.published}</em></li>"


def detail_html(notice: Notice, original: Notice | None, filler: str, layout: int, *, poison: bool) -> str:
    """A detail. A correction names the project number of its original; a poison page has no title element."""
    title = escape(notice.title)
    heading, body = ("h1", "content") if layout == 1 else ("h3", "zoom")
    head = "" if poison else f'<{heading} class="title">{title}</{heading}>'
    cells = (
        ("采购单位", escape(notice.buyer)),
        ("预算金额", money(notice.budget)),
        ("项目编号", notice.project_no),
        ("发布时间", notice.published),
    )
    table = "\n".join(f"<tr><th>{label}</th><td>{value}</td></tr>" for label, value in cells)
    text = (
        f"<p>{escape(notice.buyer)}就本项目（第{notice.version}版）公告如下。联系人：喆先生，地址：𠮷水路1号镕园。</p>"
    )
    if notice.kind == CORRECTION:
        text += f"\n<p>原公告的采购项目编号：{notice.project_no}</p>"
    if original is not None:
        text += f'\n<p>原公告：<a href="{original.path}">{escape(original.title)}</a></p>'
    return f"""{_head("" if poison else f"{title}_{SITE_NAME}")}
<div class="location">当前位置：<a href="/">首页</a> &gt; <a href="../list/index.html">采购公告</a> &gt; 正文</div>
{head}
<table class="info">
{table}
</table>
<div id="{body}">
{text}
{filler}</div>
</body></html>
"""


def _head(title: str) -> str:
    return (
        '<!doctype html>\n<html lang="zh-CN"><head>\n'
        '<meta http-equiv="Content-Type" content="text/html; charset=CHARSET">\n'
        f"<title>{title}</title>\n</head><body>"
    )


def filler(size: int) -> str:
    """Body text of about `size` bytes of UTF-8."""
    return PARAGRAPH * max(0, round(size / len(PARAGRAPH.encode())))


def money(yuan: int) -> str:
    """As notices write it: ``12.5 万元``, and ``980.00 元`` where that is shorter."""
    if yuan < 100_000:
        return f"{yuan:,}.00 元"
    return f"{yuan // 10_000}.{yuan % 10_000:04d}".rstrip("0").rstrip(".") + " 万元"


def api_json(rows: Sequence[Notice], pinned: int, page: int, pages: int, total: int) -> bytes:
    records = [
        {
            "id": notice.id if notice.linked else None,
            "title": notice.title,
            "buyer": notice.buyer,
            "published": notice.published,
            "url": notice.path if notice.linked else None,
            "top": number < pinned,
        }
        for number, notice in enumerate(rows)
    ]
    data = {"records": records, "total": total, "pages": pages, "current": page}
    return _json({"code": 200, "message": "success", "data": data})


def api_blocked() -> bytes:
    """What an API of this kind says, with status 200, to a client that asks too often."""
    return _json({"code": 829, "message": "访问过于频繁，请输入验证码", "data": None})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def feed_xml(rows: Sequence[Notice], base: str) -> bytes:
    """RSS 2.0 with the notice's id as guid; a row without a link has neither link nor guid."""
    items = "\n".join(_feed_item(notice, base) for notice in rows)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0"><channel>
<title>{SITE_NAME}</title><link>{base}/list/index.html</link><description>采购公告</description>
{items}
</channel></rss>
""".encode()


def _feed_item(notice: Notice, base: str) -> str:
    when = format_datetime(datetime.strptime(notice.published, TIME).replace(tzinfo=ZONE))
    link = ""
    if notice.linked:
        link = f'<link>{base}{notice.path}</link><guid isPermaLink="false">{notice.id}</guid>'
    return (
        f"<item><title>{escape(notice.title)}</title>{link}<pubDate>{when}</pubDate>"
        f"<description>{escape(notice.buyer)}，预算金额：{money(notice.budget)}</description></item>"
    )


def blocked_html() -> str:
    return f"{_head(f'频繁访问!{SITE_NAME}')}<p>您的访问过于频繁，请稍后再试。</p></body></html>\n"


def error_html(status: int) -> str:
    words = {404: "页面不存在", 410: "页面已删除", 429: "请求过多", 503: "服务暂时不可用"}
    return f"{_head(words.get(status, '错误'))}<h2>{status} {words.get(status, '错误')}</h2></body></html>\n"
