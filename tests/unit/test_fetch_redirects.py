"""Redirects: methods, locations, and what may not follow to another host."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from fyke.errors import FetchFailed
from fyke.fetchers.redirects import Hop, Trail, first_hop, location
from fyke.model import FetchPolicy, Request

BASE = "http://example.org/a/b.html?x=1"


def trail(url: str = BASE, **request: object) -> Trail:
    return Trail(first_hop(Request(url, **request), FetchPolicy(), CIMultiDict({"User-Agent": "F"})))  # type: ignore[arg-type]


def follow(hops: Trail, to: str, status: int = 302, cookies: list[str] | None = None) -> Hop:
    hops.follow(status, to, cookies or [], 5)
    return hops.hop


@pytest.mark.parametrize(
    ("to", "target"),
    [
        ("/c", "http://example.org/c"),
        ("c.html", "http://example.org/a/c.html"),
        ("../c", "http://example.org/c"),
        ("../../../c/./d/", "http://example.org/c/d/"),
        ("c/..", "http://example.org/a/"),
        ("?y=2", "http://example.org/a/b.html?y=2"),
        ("//other.example/c", "http://other.example/c"),
        ("https://other.example/公告?q=a b", "https://other.example/%E5%85%AC%E5%91%8A?q=a%20b"),
        ("  /c?u=http://x/../y#z ", "http://example.org/c?u=http://x/../y"),
        ("c?d=..%2f..", "http://example.org/a/c?d=..%2f.."),
    ],
)
def test_a_location_is_joined_as_a_browser_joins_it(to: str, target: str) -> None:
    assert follow(trail(), to).text == target


def test_bytes_of_a_location_that_are_no_utf8_are_escaped_as_they_came() -> None:
    assert location("/公告".encode()) == "/公告"
    assert follow(trail(), location("/公告".encode("gbk"))).text == "http://example.org/%B9%AB%B8%E6"


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        *((status, "POST", "GET") for status in (301, 302, 303)),
        *((status, "POST", "POST") for status in (307, 308)),
        *((status, "GET", "GET") for status in (301, 302, 303, 307, 308)),
        (303, "PUT", "GET"),
        (302, "PUT", "PUT"),
        (303, "HEAD", "HEAD"),
    ],
)
def test_the_method_follows_the_rules_and_the_body_follows_the_method(status: int, method: str, then: str) -> None:
    hops = trail(method=method, json={"a": 1} if method in {"POST", "PUT"} else None)
    body = hops.hop.body
    hop = follow(hops, "/c", status)
    assert hop.method == then
    assert hop.body == (body if then == method else None)
    assert ("Content-Type" in hop.headers) == (hop.body is not None)


@pytest.mark.parametrize(
    "to", ["http://other.example/", "https://example.org:444/", "http://example.org:81/", "http://www.example.org/"]
)
def test_secrets_do_not_follow_to_another_host(to: str) -> None:
    secrets = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "X-Token": "t", "Referer": "http://r/"}
    hop = follow(trail(headers=secrets), to)
    assert set(hop.headers) == {"User-Agent", "Referer"}


@pytest.mark.parametrize("to", ["/c", "https://example.org/c", "http://EXAMPLE.org:80/c"])
def test_secrets_follow_on_the_same_host(to: str) -> None:
    hop = follow(trail(headers={"Authorization": "Bearer x", "Cookie": "a=b"}), to)
    assert (hop.headers["Authorization"], hop.headers["Cookie"]) == ("Bearer x", "a=b")


def test_secrets_do_not_follow_from_https_to_http() -> None:
    hops = trail("https://example.org/", headers={"Authorization": "Bearer x"})
    assert "Authorization" not in follow(hops, "http://example.org/").headers


def test_a_user_in_the_address_stays_with_its_host_and_out_of_the_text() -> None:
    hops = trail("http://me:S3cr3t@example.org/a")
    assert hops.hop.text == "http://example.org/a"
    assert follow(hops, "/b").url.password == "S3cr3t"
    assert hops.hop.text == "http://example.org/b"
    assert follow(hops, "http://example.org/c").url.password == "S3cr3t"
    assert follow(hops, "http://other.example/").url.user is None
    assert "S3cr3t" not in " ".join(hops.passed)


async def test_a_circle_is_an_error_and_a_cookie_breaks_it() -> None:
    hops = trail()
    follow(hops, BASE, cookies=["visited=1; Path=/"])
    assert hops.cookies() == {"visited": "1"}
    with pytest.raises(FetchFailed, match="circle") as caught:
        follow(hops, BASE, cookies=["visited=1; Path=/"])
    assert caught.value.outcome == "error"
    assert hops.passed == [BASE, BASE]


async def test_cookies_go_to_their_host_only() -> None:
    hops = trail()
    follow(hops, "http://other.example/", cookies=["a=b; Path=/"])
    assert hops.cookies() == {}
    follow(hops, "http://example.org/c")
    assert hops.cookies() == {"a": "b"}


def test_a_chain_over_the_limit_is_an_error() -> None:
    hops = trail()
    for step in range(5):
        follow(hops, f"/{step}")
    with pytest.raises(FetchFailed, match="more than 5 redirects"):
        follow(hops, "/6")


@pytest.mark.parametrize(
    ("to", "outcome"), [("ftp://x/", "policy"), ("javascript:x", "policy"), ("http://", "error"), ("/\x01", "error")]
)
def test_a_location_that_cannot_be_asked_has_an_outcome(to: str, outcome: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        follow(trail(), to)
    assert caught.value.outcome == outcome


def test_headers_of_the_request_come_before_those_of_the_policy() -> None:
    policy = FetchPolicy(user_agent="P", headers={"accept": "p", "X-A": "p"})
    hop = first_hop(Request(BASE, headers={"x-a": "r"}), policy, CIMultiDict({"User-Agent": "F", "Accept": "f"}))
    assert {name.lower(): value for name, value in hop.headers.items()} == {
        "user-agent": "P",
        "accept": "p",
        "x-a": "r",
    }


@pytest.mark.parametrize("value", [object(), "\ud800", {1: {2, object()}}])
def test_a_body_that_cannot_be_written_is_an_error(value: object) -> None:
    with pytest.raises(FetchFailed) as caught:
        trail(method="POST", json=value)
    assert caught.value.outcome == "error"
    with pytest.raises(FetchFailed):
        trail(method="POST", form=[("a", "\ud800")])
