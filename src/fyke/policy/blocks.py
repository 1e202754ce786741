"""Pages that a site shows instead of the page: challenges, "too frequent", login. Pure.

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
# Only challenges and refusals have these in their markup.
_MARKUP: Final = (
    *("cf-browser-verification", "cf-error-details", "_cf_chl_opt", 'id="challenge-form"', "antispider.min.js"),
    *("/_Incapsula_Resource?SWUDNSAI", "serverisbusy", "acw_sc__v2"),
)
# Of these a good page may have the name only: a shell has little else.
_SHELL_ONLY: Final = frozenset({"acw_sc__v2", "serverisbusy"})
_PHRASES: Final = ("过于频繁", "频繁访问", "滑动验证页面", "unusual traffic from your computer network")

_LOGIN_TITLE: Final = re.compile(
    r"(?:please |user |member |account |customer )?(?:sign[ -]?in|log[ -]?in|login)(?: page| required| to .{1,40})?"
    r"|(?:请|请先|用户|会员|账号|帐号|账户|系统|统一|统一身份认证)?(?:登录|登陆)(?:页|页面|界面|入口|系统|平台|/注册|注册)?"
    r"|.{1,16}(?:用户|会员|系统|平台|账号)(?:登录|登陆)|统一身份认证(?:平台|系统|中心)?",
    re.IGNORECASE,
)
_BETWEEN: Final = re.compile(r"\s+[-–—|·»:]+\s+|[|·»_—]+|-{1,2}")
_PASSWORD: Final = re.compile(r"<input\b[^>]{0,500}?\btype\s*=\s*[\"']?password\b", re.IGNORECASE)
_UNREAD: Final = re.compile(r"<(script|style|noscript)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^>]*>", re.I | re.S)
_BLANKS: Final = re.compile(r"\s+")


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
        if _is_login(title) and _PASSWORD.search(head):
            return Outcome.LOGIN, title
    for mark in _MARKUP:
        if mark in head and (mark not in _SHELL_ONLY or _little(head)):
            return Outcome.BLOCKED, mark
    for phrase in _PHRASES:
        if phrase in head and _little(head):
            return Outcome.BLOCKED, phrase
    return None


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
