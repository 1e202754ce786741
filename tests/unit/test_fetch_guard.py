"""What may be asked: http and https, public addresses, in whatever form they are written."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest

from fyke.errors import FetchFailed
from fyke.fetchers.guard import GuardedResolver, NonPublic, check_host, is_public, literal, read_address


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "https://www.ggzy.gov.cn/information/html/a/330000/0203/20260317/003346ed.html",
        "http://example.org:8080/a%20b?q=%7e+x&sig=AbC%2f%2F==&y=[1]|2",
        "http://ex_ample.org/a/../b;p=1,2(3)!'*~",
    ],
)
def test_an_address_that_needs_no_escaping_is_sent_as_it_stands(url: str) -> None:
    assert str(read_address(url)) == url


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        (" http://example.org/a\t ", "http://example.org/a"),
        ("http://example.org/a?b#c?d", "http://example.org/a?b"),
        ("HTTP://EXAMPLE.org/A#part", "http://example.org/A"),
        ("http://例子.中国/公告?q=采购 x", "http://xn--fsqu00a.xn--fiqs8s/%E5%85%AC%E5%91%8A?q=%E9%87%87%E8%B4%AD%20x"),
        ("http://example.org?q=1", "http://example.org/?q=1"),
        ("http://example.org\\@evil.example/x", "http://example.org/%5C@evil.example/x"),
        ("http://example.org/%zz?a=%", "http://example.org/%zz?a=%"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
        ('http://example.org/"<>{}^`', "http://example.org/%22%3C%3E%7B%7D%5E%60"),
    ],
)
def test_what_a_browser_escapes_is_escaped_and_all_else_stays(url: str, sent: str) -> None:
    assert str(read_address(url)) == sent


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "file:///etc/passwd", "javascript:alert(1)", "data:,x", "mailto:a@b"]
)
def test_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        read_address(url)
    assert caught.value.outcome == "policy"


@pytest.mark.parametrize(
    "url",
    [
        *("", "/a", "example.org/x", "http://", "http:///x", "http:x", "http://a/\r\nX: y", "http://a\x00b/"),
        *("http://[::1", "http://a/\x7f", "http://exa mple.org\x1f/", "http://" + "ü" * 300 + "/"),
        *("http://a:99999/", "http://a:0/", "HTTP://a:99999/", "http://a:b/"),
    ],
)
def test_what_is_no_address_is_an_error(url: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        read_address(url)
    assert caught.value.outcome == "error"


NON_PUBLIC = [
    *("127.0.0.1", "127.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.1", "127.0.0.1."),
    *("10.0.0.1", "172.16.5.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "255.255.255.255"),
    *("224.0.0.1", "240.0.0.1", "192.0.2.1", "198.18.0.1", "999.1.1.1", "1.2.3.4.5", "0x"),
    *(
        "::1",
        "::",
        "fe80::1",
        "fe80::1%25eth0",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "fec0::1",
        "2001:db8::1",
        "64:ff9b:1::1",
    ),
    *(
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "100::1",
        "3fff::1",
        "::g",
    ),
    *("localhost", "LOCALHOST.", "a.localhost", "printer.local", "metadata.google.internal", "router.home.arpa"),
]


@pytest.mark.parametrize("host", NON_PUBLIC)
def test_a_non_public_host_is_refused_in_any_form(host: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        check_host(host)
    assert caught.value.outcome == "policy"
    assert "private_addresses" in caught.value.reason


@pytest.mark.parametrize(
    "host",
    [
        "8.8.8.8",
        "134744072",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "example.org",
        "localhost.example.org",
        "12306.cn",
        "xn--fsqu00a.xn--fiqs8s",
        "1.example",
    ],
)
def test_a_public_host_is_let_through(host: str) -> None:
    check_host(host)


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "2130706433", "0177.0.0.1"])
def test_odd_forms_are_read_as_the_resolver_reads_them(host: str) -> None:
    read = socket.getaddrinfo(host, 80, family=socket.AF_INET, type=socket.SOCK_STREAM)[0][4][0]
    assert str(literal(host)) == read == "127.0.0.1"


def test_ipv6_that_carries_ipv4_is_judged_by_it() -> None:
    assert is_public(ip_address("2002:808:808::1"))
    assert not is_public(ip_address("2002:a00:1::1"))


async def test_a_name_that_resolves_to_private_addresses_only_is_refused() -> None:
    resolver = GuardedResolver()
    with pytest.raises(NonPublic):
        await resolver.resolve("localhost", 80, socket.AF_INET)
    await resolver.close()


async def test_of_mixed_addresses_only_the_public_ones_are_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(host: str) -> dict[str, object]:
        return {"hostname": "x", "host": host, "port": 80, "family": socket.AF_INET, "proto": 0, "flags": 0}

    async def resolve(*_: object) -> list[dict[str, object]]:
        return [answer("10.0.0.1"), answer("8.8.8.8"), answer("fe80::1%eth0")]

    monkeypatch.setattr("fyke.fetchers.guard.ThreadedResolver.resolve", resolve)
    found = await GuardedResolver().resolve("mixed.example", 80)
    assert [one["host"] for one in found] == ["8.8.8.8"]


METADATA = [
    *("169.254.169.254", "169.254.0.23", "2852039166", "0xa9fea9fe", "169.254.43518", "100.100.100.200"),
    *("fe80::1", "fe80::1%25eth0", "febf::1", "fd00:ec2::254"),
    *("::ffff:169.254.169.254", "::a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"),
]


@pytest.mark.parametrize("host", METADATA)
def test_where_clouds_tell_their_keys_is_refused_though_private_addresses_are_allowed(host: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        check_host(host, private=True)
    assert (caught.value.outcome, "also with fetch" in caught.value.reason) == ("policy", True)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "169.253.255.255", "fd12::1", "::1", "localhost", "a.local"])
def test_the_rest_of_a_private_network_is_let_through_where_a_source_says_so(host: str) -> None:
    check_host(host, private=True)


@pytest.mark.parametrize("inside", [[], ["10.0.0.1"]])
async def test_a_name_never_leads_to_where_clouds_tell_their_keys(
    monkeypatch: pytest.MonkeyPatch, inside: list[str]
) -> None:
    async def resolve(*_: object) -> list[dict[str, object]]:
        return [{"hostname": "x", "host": host, "port": 80} for host in ("169.254.169.254", "fe80::1%eth0", *inside)]

    monkeypatch.setattr("fyke.fetchers.guard.ThreadedResolver.resolve", resolve)
    resolver = GuardedResolver(private=True)
    if inside:
        assert [one["host"] for one in await resolver.resolve("metadata.example", 80)] == inside
        return
    with pytest.raises(NonPublic) as caught:
        await resolver.resolve("metadata.example", 80)
    assert caught.value.never
