"""SCENARIOS 16: a block page with status 200 must not count as success, and a good page must not count as a block."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fyke.fetchers.encoding import decode
from fyke.model import Outcome
from fyke.policy.blocks import LOOKED_AT, find_block, sends_on, title_of

REAL = Path(__file__).resolve().parents[3] / "shared" / "realdata"
real = pytest.mark.skipif(not REAL.exists(), reason="the saved pages are not here")

LONG = "<p>本项目的采购人为市体育局，采购方式为公开招标，预算金额五十万元。</p>" * 80


def html(title: str, body: str) -> str:
    return f"<html><head><title>{title}</title></head><body>{body}</body></html>"


def saved() -> dict[str, str]:
    files = [path for path in REAL.iterdir() if path.suffix not in {".tsv", ".headers"}]
    return {path.name: decode(path.read_bytes()).text for path in sorted(files)}


@real
def test_every_saved_block_and_login_page_is_recognised_and_no_good_page_is() -> None:
    found = {name: block[0] for name, text in saved().items() if (block := find_block(200, text))}
    assert found == {
        "d01_block_sogou_antispider.html": Outcome.BLOCKED,
        "d03_block_cloudflare_just_a_moment_2019.html": Outcome.BLOCKED,
        "d05_block_cloudflare_access_denied.html": Outcome.BLOCKED,
        "d08_login_github.html": Outcome.LOGIN,
        "d09_login_jsshell_metarefresh_scrapinghub.html": Outcome.LOGIN,
    }


BLOCKED = {
    "ccgp": html("频繁访问!中国政府采购网", "<p>您的访问过于频繁，请稍后再试。</p>"),
    "ccgp without a title": "<html><body>您的访问过于频繁,请稍后再试</body></html>",
    "ccgp busy": html("中国政府采购网", "<script>location='/serverisbusy.html'</script>"),
    "sogou": html("搜狗搜索", "<script src=/static/js/antispider.min.js></script><p>请输入验证码</p>"),
    "operation": html("提示", "操作太频繁，请稍后再试"),
    "slider": html("滑动验证页面", "<div id=nc></div>"),
    "aliyun": "<html><script>\nvar arg1='6E5A1C3B';"
    + "var _0x4818=['x'];" * 400
    + "setCookie('acw_sc__v2', x)</script></html>",
    "cloudflare": html("Just a moment...", "<div id=challenge-form>"),
    "cloudflare wait": html("Attention Required! | Cloudflare", "<p>Please complete the security check.</p>"),
    "incapsula": '<html><iframe src="/_Incapsula_Resource?SWUDNSAI=31"></iframe></html>',
}


@pytest.mark.parametrize("name", BLOCKED)
def test_a_page_that_stands_in_for_the_page_is_blocked(name: str) -> None:
    found = find_block(200, BLOCKED[name])
    assert found is not None
    assert found[0] is Outcome.BLOCKED
    assert found[1]


def test_a_challenge_with_status_503_is_a_block_and_a_plain_503_is_none() -> None:
    challenge = html("请稍候…", "<script>window._cf_chl_opt={}</script>" + "<!-- -->" * 1_000)
    assert find_block(503, challenge) is not None
    assert find_block(503, html("503 Service Unavailable", "<center>nginx</center>")) is None


GOOD = {
    "a shield's script": html("中标公告", "<script src=/_bot_sbu/a.js></script><script>var _bot_sbu=1</script>" + LONG),
    "cloudflare's detection on a good page": html(
        "公告", "<script src=/cdn-cgi/challenge-platform/x.js></script>" + LONG
    ),
    "a captcha in the page's search form": html("采购公告", "<form><input name=captcha>请输入验证码</form>" + LONG),
    "news about a site": html("关于系统访问过于频繁问题的说明", LONG),
    "news that speak of it": html("说明", "<p>近期有用户反映访问过于频繁。</p>" + LONG),
    "rain": html("气象", "<p>近期降雨频繁。</p>"),
    "a login box on a good page": html("首页 - 采购网", "<form><input type=password></form>" + LONG),
    "an article about logging in": html("如何登录采购平台参加投标", "<form><input type=password></form>" + LONG),
    "a login title without a form": html("Login", LONG),
    "access in a headline": html("Access denied: how one city lost its records", LONG),
    "json": '{"code":200,"data":[{"title":"公告"}]}',
    "nothing": "",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_page_is_no_block(name: str) -> None:
    assert find_block(200, GOOD[name]) is None


@pytest.mark.parametrize(
    "title",
    [
        "用户登录",
        "登录",
        "请登录 - 采购网",
        "中国采购网-用户登录",
        "Sign in",
        "Log in | Portal",
        "Login · Site",
        "统一身份认证平台",
    ],
)
def test_a_login_page_is_told_by_title_and_password_field(title: str) -> None:
    found = find_block(200, html(title, '<form><input name="p" type="password"></form>'))
    assert found == (Outcome.LOGIN, title)


def test_marks_of_the_source_count_anywhere() -> None:
    page = html("公告", LONG + "验证码829")
    assert find_block(200, page) is None
    assert find_block(200, page, ("", "验证码829")) == (Outcome.BLOCKED, "验证码829")


def test_what_is_looked_at_is_bounded() -> None:
    assert find_block(200, "x" * LOOKED_AT + "mark", ("mark",)) is None


@pytest.mark.parametrize("page", ["<title>", "<title", "<title>" + "x" * 1_000, "<TITLE>a\n b</TITLE>"])
def test_broken_titles_do_no_harm(page: str) -> None:
    assert title_of(page) in {"", "a b"}
    assert find_block(200, page) is None


@pytest.mark.parametrize(
    "page", ["<input " * 9_000, "<script" * 9_000, "<!--" * 16_000, "<" * 60_000, "<style>" * 9_000]
)
def test_hostile_markup_does_not_hold_the_worker(page: str) -> None:
    begun = time.process_time()
    find_block(503, f"<title>登录</title>访问过于频繁{page}")
    assert time.process_time() - begun < 1


@pytest.mark.serial
def test_a_page_of_15_kb_is_judged_within_40_microseconds() -> None:
    page = html("公告", "<p>体育中心采购项目的中标公告 <a href=/a/b>more</a></p>" * 330)[:15_000]
    best = 1.0
    for _ in range(20):
        begun = time.perf_counter()
        for _ in range(20):
            find_block(200, page)
        best = min(best, (time.perf_counter() - begun) / 20)
    assert best < 40e-6


MOVED = {
    "this page has moved": (
        html("Redirecting…", "<p>This page has moved. <a href=b.html>click here</a></p>").replace(
            "<title>", '<meta http-equiv="refresh" content="0; url=b.html"><title>'
        ),
        "b.html",
    ),
    "attributes the other way round": ("<META content='3;URL=\"/c?d=1\"' HTTP-EQUIV='Refresh'>", "/c?d=1"),
    "no quotes": ("<meta http-equiv=refresh content=0;url=/e>正在跳转", "/e"),
    "no seconds": ('<meta http-equiv="refresh" content=";url=/f">', "/f"),
}


@pytest.mark.parametrize("name", MOVED)
def test_a_page_that_only_sends_on_is_told_with_its_target(name: str) -> None:
    page, target = MOVED[name]
    assert sends_on(page) == target


STAYS = {
    "a news site that loads itself anew": '<meta http-equiv="refresh" content="600">' + LONG,
    "the same with its address": '<meta http-equiv="refresh" content="300; url=/news/">',
    "a page with text that sends on": '<meta http-equiv="refresh" content="0; url=/b">' + LONG,
    "for browsers without scripts": '<noscript><meta http-equiv="refresh" content="0; URL=/nojs/"></noscript>',
    "a remark": '<!-- <meta http-equiv="refresh" content="0; url=/old"> --><p>公告</p>',
    "a text about it": '<p>write &lt;meta http-equiv="refresh" content="0; url=/x"></p>',
    "no page": '{"refresh": "0; url=/x"}',
}


@pytest.mark.parametrize("name", STAYS)
def test_a_page_that_has_something_to_read_stays(name: str) -> None:
    assert sends_on(STAYS[name]) is None


@real
def test_of_the_saved_pages_one_only_sends_on() -> None:
    assert {name: found for name, text in saved().items() if (found := sends_on(text))} == {
        "d28_metarefresh_redirect_page.html": "tutorial-frequencies.html"
    }


@pytest.mark.parametrize("text", ["<meta ", "<meta http-equiv=refresh ", "<noscript></script>", "<!--"])
def test_markup_that_never_ends_does_not_hold_who_looks_for_a_refresh(text: str) -> None:
    before = time.process_time()
    assert sends_on("refresh" + text * 20_000) is None
    assert time.process_time() - before < 2
