"""Pages that a site shows instead of the page: challenges, "too frequent", login, "this page has moved". Pure.

A mark alone is no proof: good pages carry scripts of bot shields, and news speak of them. A phrase counts in the
title, or where hardly anything else is to be read.
"""

from __future__ import annotations

import re
from typing import Final

from fyke.model import Outcome

LOOKED_AT: Final = 65_536
LITTLE_TO_READ: Final = 1_500  # characters
TITLE_WITHIN: Final = 16_384

_BLOCKED_TITLE: Final = re.compile(
    r"just a moment\.\.\.|attention required! \| cloudflare|\bused cloudflare to restrict access"
    r"|access denied|请稍候|访问过于频繁|频繁访问|滑动验证|安全验证|访问验证|人机验证|访问被拒绝|访问受限"
    r"|您的访问被阻断",
    re.IGNORECASE,
)
# Only challenges and refusals have these in their markup. Looked for where an answer is small or no good one anyway:
# every good page pays for each search.
_MARKUP: Final = (
    *("cf-browser-verification", "cf-error-details", "_cf_chl_opt", 'id="challenge-form"', "antispider.min.js"),
    *("/_Incapsula_Resource?SWUDNSAI", "serverisbusy", "acw_sc__v2"),
)
SMALL: Final = 4_096
# The Aliyun shell: a script that sets a cookie and loads the page anew, and nothing else.
_ALIYUN: Final = "var arg1="
ALIYUN_WITHIN: Final = 512
_OFTEN: Final = "频繁"
_TOO_OFTEN: Final = re.compile(r"(?:访问|操作|请求|查询|搜索|浏览)(?:次数|速度)?(?:过于|太过|太|过)频繁")

_LOGIN_TITLE: Final = re.compile(
    r"(?:please |user |member |account |customer )?(?:sign[ -]?in|log[ -]?in|login)(?: page| required| to .{1,40})?"
    r"|(?:请|请先|用户|会员|账号|帐号|账户|系统|统一|统一身份认证)?(?:登录|登陆)(?:页|页面|界面|入口|系统|平台|/注册|注册)?"
    r"|.{1,16}(?:用户|会员|系统|平台|账号)(?:登录|登陆)|统一身份认证(?:平台|系统|中心)?",
    re.IGNORECASE,
)
_LOGIN_WORD: Final = re.compile(r"log[ -]?in|sign[ -]?in|登录|登陆|统一身份认证", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"\s+[-–—|·»:]+\s+|[|·»_—]+|-{1,2}")
_PASSWORD: Final = re.compile(r"<input\b[^<>]{0,500}?\btype\s*=\s*[\"']?password\b", re.IGNORECASE)
_UNREAD: Final = re.compile(r"<(script|style|noscript)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^<>]*>", re.I | re.S)
_BLANKS: Final = re.compile(r"\s+")
# A refresh in <noscript> is for browsers without scripts: it leads to a page that says so.
_HIDDEN: Final = re.compile(r"<(script|style|noscript)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.I | re.S)
_REFRESH_WORDS: Final = ("efresh", "REFRESH")
REFRESH_WITHIN: Final = 4_096  # characters: every good page pays for the search
_REFRESH: Final = re.compile(r"<meta\b[^<>]{0,300}?\bhttp-equiv\s*=\s*[\"']?\s*refresh\b[^<>]{0,3000}>", re.IGNORECASE)
_REFRESH_TO: Final = re.compile(
    r"\bcontent\s*=\s*[\"']?\s*(?P<after>\d{0,6})[\d.]{0,6}\s*[;,]\s*url\s*=\s*[\"']?\s*(?P<to>[^\"'<>\s]+)",
    re.IGNORECASE,
)
SOON: Final = 10  # seconds: who waits longer shows a page of its own and loads it anew


def find_block(status: int, text: str, extra: tuple[str, ...] = ()) -> tuple[Outcome, str] | None:
    """blocked or login with the mark that was found, or None for what may be a good page.

    Args:
        status: a mark explains a 403 or 503 better than the number does.
        extra: marks of the source; each counts wherever it stands.
    """
    head = text if len(text) <= LOOKED_AT else text[:LOOKED_AT]
    for mark in extra:
        if mark and mark in head:
            return Outcome.BLOCKED, mark
    title = title_of(head)
    if title:
        found = _BLOCKED_TITLE.search(title)
        if found and (status != 200 or _little(head)):
            return Outcome.BLOCKED, found[0]
        if _LOGIN_WORD.search(title) and _is_login(title) and _PASSWORD.search(head):
            return Outcome.LOGIN, title
    elif head.find(_ALIYUN, 0, ALIYUN_WITHIN) >= 0 and _little(head):
        return Outcome.BLOCKED, "acw_sc__v2"
    if status != 200 or len(head) <= SMALL:
        for mark in _MARKUP:
            if mark in head and _little(head):
                return Outcome.BLOCKED, mark
    if _OFTEN in head:
        found = _TOO_OFTEN.search(head)
        if found and _little(head):
            return Outcome.BLOCKED, found[0]
    return None


def sends_on(text: str) -> str | None:
    """Where a page that shows hardly anything sends its readers by itself (meta refresh); None for any other page."""
    if all(text.find(word, 0, REFRESH_WITHIN) < 0 for word in _REFRESH_WORDS):
        return None
    head = text if len(text) <= LOOKED_AT else text[:LOOKED_AT]
    element = _REFRESH.search(_HIDDEN.sub("", head))
    found = _REFRESH_TO.search(element[0]) if element else None
    if found is None or int(found["after"] or 0) > SOON or not _little(head):
        return None
    return found["to"]


def title_of(page: str) -> str:
    """The text of the page's title, blanks squeezed; "" for what is no page."""
    start = page.find("<title", 0, TITLE_WITHIN)
    if start < 0:
        start = page.find("<TITLE", 0, TITLE_WITHIN)
    if start < 0:
        return ""
    start = page.find(">", start) + 1
    end = page.find("<", start, start + 300) if start else -1
    return _BLANKS.sub(" ", page[start:end]).strip() if end > 0 else ""


def _is_login(title: str) -> bool:
    return any(_LOGIN_TITLE.fullmatch(part.strip()) for part in _BETWEEN.split(title))


def _little(page: str) -> bool:
    return len(_BLANKS.sub("", _UNREAD.sub("", page))) <= LITTLE_TO_READ
