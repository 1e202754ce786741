"""The HTTP fetcher against real servers on loopback: what it sends, its limits, and an outcome for each fault."""

from __future__ import annotations

import asyncio
import base64
import gc
import gzip
import itertools
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fyke.errors import Deferred, FetchFailed
from fyke.fetchers import USER_AGENT, HttpFetcher, mask
from fyke.model import FetchPolicy, Request, Response

Streams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

LOCAL = FetchPolicy(private_addresses=True)
QUICK = FetchPolicy(
    private_addresses=True, connect_timeout=400, read_timeout=400, total_timeout=1_500, max_body=100_000
)
SECRET = "S3cr3t-m4rk"


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class OpenGate:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def admit(self, url: str) -> None:
        self.asked.append(url)


class ClosedGate:
    async def admit(self, url: str) -> None:
        raise Deferred("example.org", 60_000)


class Site:
    """Servers of one test; what each heard is kept."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.fetcher = HttpFetcher(SystemClock())
        self.gate = OpenGate()
        self.connections = 0
        self.requests: list[bytes] = []
        self.heard = asyncio.Semaphore(0)

    async def fetch(self, url: str, policy: FetchPolicy = QUICK, **request: Any) -> Response:
        return await self.fetcher.fetch(Request(url, **request), policy, self.gate)

    async def failure(self, url: str, policy: FetchPolicy = QUICK, **request: Any) -> FetchFailed:
        with pytest.raises(FetchFailed) as caught:
            await self.fetch(url, policy, **request)
        return caught.value

    async def raw(self, serve: Streams, *, tls: ssl.SSLContext | None = None, listens: bool = True) -> int:
        """A server of bytes; returns its port. If it listens, `serve` is called when the request's head was read."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            try:
                if listens:
                    self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                self.heard.release()
                await serve(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
        self._stack.push_async_callback(server.wait_closed)
        self._stack.callback(server.close)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def answering(self, answer: bytes) -> str:
        """A server that gives this one answer and closes; returns its address."""

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(answer)
            await writer.drain()

        return f"http://127.0.0.1:{await self.raw(serve)}/page"

    async def web(self, handler: Handler) -> str:
        runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        site = Site(stack)
        stack.push_async_callback(site.fetcher.close)
        yield site


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


async def echo(request: web.BaseRequest) -> web.Response:
    body = {
        "method": request.method,
        "target": request.raw_path,
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "body": (await request.read()).decode(),
    }
    return web.json_response(body)


def plain(body: bytes, headers: bytes = b"", status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n%b\r\n" % (status, len(body), headers) + body


# What is sent


async def test_a_request_says_who_asks_and_nothing_of_another(site: Site) -> None:
    base = await site.web(echo)
    heard = json.loads((await site.fetch(f"{base}/a%2fb?q=%7e+x", LOCAL)).body)
    assert heard["target"] == "/a%2fb?q=%7e+x"
    assert heard["headers"]["user-agent"] == USER_AGENT
    assert "Fyke/" in USER_AGENT
    assert "+https://" in USER_AGENT
    assert "cookie" not in heard["headers"]
    assert "content-type" not in heard["headers"]


async def test_forms_json_and_bytes_are_sent_as_such(site: Site) -> None:
    base = await site.web(echo)
    form = json.loads((await site.fetch(base, LOCAL, method="POST", form=[("q", "体育 场"), ("q", "2")])).body)
    assert form["body"] == "q=%E4%BD%93%E8%82%B2+%E5%9C%BA&q=2"
    assert form["headers"]["content-type"] == "application/x-www-form-urlencoded"
    sent = json.loads((await site.fetch(base, LOCAL, method="post", json={"关键词": [1, None]})).body)
    assert (sent["method"], json.loads(sent["body"])) == ("POST", {"关键词": [1, None]})
    assert sent["headers"]["content-type"] == "application/json"
    raw = await site.fetch(base, LOCAL, method="PUT", body=b"<x/>", headers={"Content-Type": "text/xml"})
    assert json.loads(raw.body)["headers"]["content-type"] == "text/xml"


async def test_any_status_is_a_response_with_its_times(site: Site) -> None:
    for status in (b"404 Not Found", b"503 Service Unavailable", b"999 Denied", b"302 Found"):
        url = await site.answering(plain(b"<p>\xe5\x85\xac\xe5\x91\x8a</p>", b"X-A: 1\r\nX-a: 2\r\n", status))
        before = SystemClock().now()
        response = await site.fetch(url)
        assert response.status == int(status.split()[0])
        assert (response.text, response.url, response.redirects) == ("<p>公告</p>", url, [])
        assert response.headers["x-a"] == "1, 2"
        assert before <= response.started_at <= SystemClock().now()
        assert 0 <= response.elapsed_ms < 5_000


async def test_cookies_are_not_kept_from_one_visit_to_the_next(site: Site) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        answer = web.Response(text=request.headers.get("Cookie", "none"))
        answer.set_cookie("session", "1")
        return answer

    base = await site.web(handler)
    assert [(await site.fetch(base)).text for _ in range(2)] == ["none", "none"]


async def test_no_request_is_repeated_by_the_library(site: Site) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    port = await site.raw(serve)
    failed = await site.failure(f"http://127.0.0.1:{port}/")
    assert failed.outcome == "network"
    assert site.connections == 1


# Redirects


async def test_each_hop_is_admitted_first_and_the_chain_is_kept(site: Site) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        step = int(request.path[1:])
        if step == 3:
            return await echo(request)
        return web.Response(status=302, headers={"Location": f"/{step + 1}?公告"}, body=b"x" * 100)

    base = await site.web(handler)
    response = await site.fetch(f"{base}/1", method="POST", form=[("a", "b")])
    query = "?%E5%85%AC%E5%91%8A"
    assert site.gate.asked == [f"{base}/2{query}", f"{base}/3{query}"]
    assert (response.url, response.redirects) == (f"{base}/3{query}", [f"{base}/1", f"{base}/2{query}"])
    heard = json.loads(response.body)
    assert (heard["method"], heard["body"]) == ("GET", "")


async def test_a_gate_that_defers_ends_the_visit_before_the_hop_goes_out(site: Site) -> None:
    url = await site.answering(plain(b"", b"Location: /elsewhere\r\n", b"301 Moved"))
    with pytest.raises(Deferred):
        await site.fetcher.fetch(Request(url), QUICK, ClosedGate())
    assert site.connections == 1


async def test_a_cookie_check_by_redirect_passes_within_one_visit(site: Site) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        if "checked=1" in request.headers.get("Cookie", ""):
            return web.Response(text="the page; " + request.headers["Cookie"])
        return web.Response(status=302, headers={"Location": request.raw_path, "Set-Cookie": "checked=1; Path=/"})

    base = await site.web(handler)
    response = await site.fetch(f"{base}/page", headers={"Cookie": "own=2"})
    assert response.text.startswith("the page")
    assert "own=2" in response.text


async def test_redirects_in_a_circle_and_without_end_are_errors_with_the_chain(site: Site) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        number = request.query.get("n")
        to = "/circle" if number is None else f"/?n={int(number) + 1}"
        return web.Response(status=307, headers={"Location": to})

    base = await site.web(handler)
    circle = await site.failure(f"{base}/circle")
    assert (circle.outcome, circle.evidence["redirects"]) == ("error", [f"{base}/circle"])
    endless = await site.failure(f"{base}/?n=0")
    assert endless.outcome == "error"
    assert len(endless.evidence["redirects"]) == QUICK.max_redirects + 1


async def test_secrets_stay_with_their_host(site: Site) -> None:
    other = await site.web(echo)

    async def away(_: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": f"{other}/x"})

    first = await site.web(away)
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Plain": "1"}
    heard = json.loads((await site.fetch(first, headers=headers)).body)["headers"]
    assert heard["x-plain"] == "1"
    assert not {"authorization", "cookie"} & set(heard)


# Addresses


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"]
)
async def test_a_private_address_is_refused_before_anything_is_sent(site: Site, host: str) -> None:
    url = (await site.answering(plain(b"inside"))).replace("127.0.0.1", host)
    failed = await site.failure(url, FetchPolicy())
    assert failed.outcome == "policy"
    assert site.connections == 0


async def test_a_name_that_points_inside_is_refused_when_it_resolves(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = (await site.answering(plain(b"inside"))).replace("127.0.0.1", "rebound.example")
    asked: list[str] = []

    async def resolve(_: Any, host: str, port: int = 0, family: Any = None) -> list[dict[str, Any]]:
        asked.append(host)
        one = {"hostname": host, "host": "127.0.0.1", "port": port, "proto": 0, "flags": 0}
        return [one | {"family": socket.AF_INET}]

    monkeypatch.setattr("fyke.fetchers.guard.ThreadedResolver.resolve", resolve)
    monkeypatch.setattr("aiohttp.connector.DefaultResolver.resolve", resolve)
    failed = await site.failure(url, FetchPolicy())
    assert (failed.outcome, site.connections) == ("policy", 0)
    assert "rebound.example resolves to non-public addresses only" in failed.reason
    # Nor may a connection that was opened for a source that means it be taken up by one that does not.
    assert (await site.fetch(url, LOCAL)).text == "inside"
    assert (await site.failure(url, FetchPolicy())).outcome == "policy"
    assert asked == ["rebound.example"] * 3


async def test_a_redirect_to_a_private_address_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = await site.answering(plain(b"inside"))
    outside = await site.answering(plain(b"", f"Location: {inside}\r\n".encode(), b"302 Found"))
    port = outside.split(":")[2].split("/")[0]

    async def resolve(_: Any, host: str, port: int = 0, family: Any = None) -> list[dict[str, Any]]:
        one = {"hostname": host, "host": "127.0.0.1", "port": port, "proto": 0, "flags": 0}
        return [one | {"family": socket.AF_INET}]

    # The test's only way to a "public" server on this machine.
    monkeypatch.setattr("fyke.fetchers.guard.ThreadedResolver.resolve", resolve)
    monkeypatch.setattr("fyke.fetchers.guard.GuardedResolver.resolve", resolve)
    failed = await site.failure(f"http://public.example:{port}/page", FetchPolicy())
    assert failed.outcome == "policy"
    assert failed.evidence["redirects"] == [f"http://public.example:{port}/page"]
    assert site.connections == 1


# Replay


async def test_replay_sends_everything_to_one_address_and_answers_as_the_original(site: Site) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        if request.path == "/old":
            return web.Response(status=302, headers={"Location": "//www.example.org/new?x=1"})
        return await echo(request)

    fetcher = HttpFetcher(SystemClock(), replay=await site.web(handler))
    try:
        policy = FetchPolicy(proxy="http://127.0.0.1:1")
        response = await fetcher.fetch(Request("https://example.org/old"), policy, site.gate)
        heard = json.loads(response.body)
        assert response.url == heard["headers"]["x-fyke-replay-url"] == "https://www.example.org/new?x=1"
        assert heard["target"] == "/new?x=1"
        assert site.gate.asked == ["https://www.example.org/new?x=1"]
        post = Request("http://例子.中国/搜索#top", method="POST", form=[("a", "b")])
        heard = json.loads((await fetcher.fetch(post, policy, site.gate)).body)
        assert (heard["method"], heard["body"], heard["target"]) == ("POST", "a=b", "/%E6%90%9C%E7%B4%A2")
        assert heard["headers"]["x-fyke-replay-url"] == "http://xn--fsqu00a.xn--fiqs8s/%E6%90%9C%E7%B4%A2"
        with pytest.raises(FetchFailed) as caught:
            await fetcher.fetch(Request("http://10.0.0.1/"), policy, site.gate)
        assert caught.value.outcome == "policy"
    finally:
        await fetcher.close()


# Limits


async def test_a_silent_server_times_out_while_headers_are_awaited(site: Site) -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    port = await site.raw(serve)
    failed = await site.failure(f"http://127.0.0.1:{port}/")
    assert (failed.outcome, failed.evidence["phase"]) == ("timeout", "headers")
    assert "nothing came for 0.4 s" in failed.reason


async def test_a_body_that_stops_times_out_with_what_came(site: Site) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n12345")
        await reader.read()

    port = await site.raw(serve)
    failed = await site.failure(f"http://127.0.0.1:{port}/")
    assert failed.outcome == "timeout"
    assert failed.evidence == {"url": f"http://127.0.0.1:{port}/", "phase": "body", "status": 200, "bytes": 5}


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"])
async def test_no_dribble_outlives_the_total(site: Site, head: bytes) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head or b"HTTP/1.1 200 OK\r\nX-A: ")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    port = await site.raw(serve)
    begun = time.monotonic()
    failed = await site.failure(f"http://127.0.0.1:{port}/")
    assert failed.outcome == "timeout"
    assert "not done within 1.5 s" in failed.reason
    assert 1.4 < time.monotonic() - begun < 3


async def test_the_total_counts_over_all_hops(site: Site) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(0.3)
        return web.Response(status=302, headers={"Location": f"/{int(request.path[1:]) + 1}"})

    base = await site.web(handler)
    begun = time.monotonic()
    failed = await site.failure(f"{base}/1", FetchPolicy(private_addresses=True, total_timeout=700, max_redirects=50))
    assert failed.outcome == "timeout"
    assert 0.6 < time.monotonic() - begun < 2
    assert len(failed.evidence["redirects"]) == 2


async def test_a_connection_that_is_not_taken_times_out(site: Site) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        # Fills the backlog, so that the next connection hangs.
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            failed = await site.failure(f"http://127.0.0.1:{port}/")
        finally:
            for one in waiting:
                one.close()
    assert failed.outcome == "timeout"


@pytest.mark.parametrize("chunked", [True, False])
async def test_an_endless_body_is_cut_off_at_the_cap(site: Site, chunked: bool) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"\r\n"))
        while not writer.is_closing():
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n" if chunked else b"x" * 4096)
            await writer.drain()

    port = await site.raw(serve)
    failed = await site.failure(f"http://127.0.0.1:{port}/")
    assert failed.outcome == "too_large"
    assert QUICK.max_body < failed.evidence["bytes"] < QUICK.max_body + 2**19


async def test_a_bomb_is_cut_off(site: Site) -> None:
    url = await site.answering(plain(gzip.compress(b"\0" * 20_000_000), b"Content-Encoding: gzip\r\n"))
    failed = await site.failure(url)
    assert failed.outcome == "too_large"
    assert failed.evidence["status"] == 200


async def test_compressed_pages_come_out_plain(site: Site) -> None:
    page = "<title>公告</title>".encode("gbk") * 50
    headers = b"Content-Encoding: gzip\r\nContent-Type: text/html; charset=gb2312\r\n"
    response = await site.fetch(await site.answering(plain(gzip.compress(page), headers)))
    assert (response.body, response.encoding, response.encoding_from) == (page, "gb18030", "http")


# Faults


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def test_a_reset_in_the_middle_is_a_fault_of_the_network(site: Site) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n12345")
        await writer.drain()
        await asyncio.sleep(0.05)
        reset(writer)

    port = await site.raw(serve)
    failed = await site.failure(f"http://127.0.0.1:{port}/")
    assert (failed.outcome, failed.evidence["phase"]) == ("network", "body")


CUT = {
    "no answer": b"",
    "half a status line": b"HTTP/1.1 20",
    "half the headers": b"HTTP/1.1 200 OK\r\nContent-",
    "less than announced": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
    "no last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    "a broken chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n12345\r\n0\r\n\r\n",
    "half a gzip": plain(gzip.compress(os.urandom(1_000))[:500], b"Content-Encoding: gzip\r\n"),
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
}


@pytest.mark.parametrize("cut", CUT)
async def test_an_answer_that_is_not_whole_is_no_answer(site: Site, cut: str) -> None:
    failed = await site.failure(await site.answering(CUT[cut]))
    assert failed.outcome == "network"
    assert failed.reason


async def test_refused_connections_and_unknown_names_are_faults_of_the_network(site: Site) -> None:
    refused = await site.failure(f"http://127.0.0.1:{free_port()}/")
    assert (refused.outcome, refused.evidence["phase"]) == ("network", "connect")
    unknown = await site.failure("http://no-such-host.invalid/")
    assert (unknown.outcome, unknown.evidence["phase"]) == ("network", "connect")
    assert "no-such-host.invalid" in unknown.reason


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory, backend_missing: Callable[[str], Any]) -> ssl.SSLContext:
    """A server context with a certificate that nobody trusts."""
    program = shutil.which("openssl")
    if program is None:
        backend_missing("openssl is not installed")
        raise AssertionError
    folder: Path = tmp_path_factory.mktemp("tls")
    files = [str(folder / "key.pem"), str(folder / "cert.pem")]
    command = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", files[0], "-out", files[1], "-days", "30", "-subj", "/CN=localhost"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files[1], files[0])
    return context


async def test_faults_of_tls_are_faults_of_the_network(site: Site, certificate: ssl.SSLContext) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(plain(b"trusted"))
        await writer.drain()

    untrusted = await site.failure(f"https://127.0.0.1:{await site.raw(serve, tls=certificate)}/")
    assert untrusted.outcome == "network"
    assert "certificate" in untrusted.reason
    no_tls = await site.failure(f"https://127.0.0.1:{await site.raw(serve, listens=False)}/")
    assert no_tls.outcome == "network"
    assert not any(b"GET" in request for request in site.requests)


ODD_HEADERS = {
    "bytes that are no UTF-8": (b"X-A: \xb9\xab\xb8\xe6\r\n", "ok"),
    "UTF-8": ("X-A: 公告\r\n".encode(), "ok"),
    "a field of 20 KB": (b"X-A: " + b"x" * 20_000 + b"\r\n", "ok"),
    "a field of 200 KB": (b"X-A: " + b"x" * 200_000 + b"\r\n", "too_large"),
    "fields without end": (b"X-A: 1\r\n" * 5_000, "too_large"),
    "a control character": (b"X-A: a\x00b\r\n", "network"),
    "no name": (b": x\r\n", "network"),
    "a length of letters": (b"", "network"),
}


@pytest.mark.parametrize("name", ODD_HEADERS)
async def test_odd_headers_have_an_outcome_each(site: Site, name: str) -> None:
    header, outcome = ODD_HEADERS[name]
    answer = plain(b"page", header)
    if name == "a length of letters":
        answer = answer.replace(b"Content-Length: 4", b"Content-Length: four")
    url = await site.answering(answer)
    if outcome == "ok":
        assert (await site.fetch(url)).headers["x-a"].encode("utf-8")
    else:
        assert (await site.failure(url)).outcome == outcome


@pytest.mark.parametrize(
    "request_",
    [
        {"headers": {"X-A": "a\r\nX-B: c"}},
        {"headers": {"X-A": "a\x00"}},
        {"headers": {"X-A": "\ud800"}},
        {"headers": {"X A\n": "a"}},
        {"method": "GET /x HTTP/1.1\r\nX: y"},
    ],
)
async def test_a_request_that_cannot_be_written_is_an_error_and_nothing_goes_out(site: Site, request_: Any) -> None:
    failed = await site.failure(await site.answering(plain(b"")), **request_)
    assert failed.outcome == "error"
    assert site.requests == []


# Proxies


def proxy_to(port: int, user: str = f"me:{SECRET}") -> FetchPolicy:
    return FetchPolicy(
        proxy=f"http://{user}@127.0.0.1:{port}", connect_timeout=400, read_timeout=400, total_timeout=1_500
    )


async def test_a_proxy_is_told_the_whole_address_and_its_own_user_only(site: Site) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(plain(b"through"))
        await writer.drain()

    port = await site.raw(serve)
    response = await site.fetch("http://name.only.proxy.knows.example/a?b", proxy_to(port))
    assert response.text == "through"
    head = site.requests[0].decode()
    assert head.startswith("GET http://name.only.proxy.knows.example/a?b HTTP/1.1\r\n")
    wanted = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert f"Proxy-Authorization: Basic {wanted}" in head
    inside = await site.failure("http://169.254.169.254/latest", proxy_to(port))
    assert inside.outcome == "policy"


async def test_https_through_a_proxy_is_a_tunnel(site: Site, certificate: ssl.SSLContext) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.start_tls(certificate)
        await reader.read()

    port = await site.raw(serve)
    failed = await site.failure("https://site.example/a", proxy_to(port))
    assert site.requests[0].startswith(b"CONNECT site.example:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic" in site.requests[0]
    assert failed.outcome == "network"
    assert "certificate" in failed.reason


FAULTY_PROXIES = {
    "407": plain(b"who are you", b"", b"407 Proxy Authentication Required"),
    "no answer": b"",
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1",
}


@pytest.mark.parametrize(
    ("scheme", "fault"),
    [
        *itertools.product(["http", "https"], [*FAULTY_PROXIES, "refuses", "unknown name", "other scheme"]),
        ("https", "503 to CONNECT"),  # a 503 without CONNECT may be the site's
    ],
)
async def test_faults_of_the_proxy_are_the_proxys_and_tell_no_secret(site: Site, scheme: str, fault: str) -> None:
    if fault in FAULTY_PROXIES:
        policy = proxy_to(int((await site.answering(FAULTY_PROXIES[fault])).split(":")[2].split("/")[0]))
    elif fault == "unknown name":
        policy = FetchPolicy(proxy=f"http://me:{SECRET}@no-such-proxy.invalid:8080", connect_timeout=1_000)
    elif fault == "other scheme":
        policy = FetchPolicy(proxy=f"socks5://me:{SECRET}@127.0.0.1:1080")
    elif fault == "503 to CONNECT":
        policy = proxy_to(int((await site.answering(plain(b"", b"", b"503 No"))).split(":")[2].split("/")[0]))
    else:
        policy = proxy_to(free_port())
    failed = await site.failure(f"{scheme}://site.example/a", policy)
    told = f"{failed} {failed.reason} {failed.evidence} {failed!r} {failed.__cause__!r} {failed.args}"
    assert failed.outcome == "proxy"
    assert SECRET not in told


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "http://[fe80::1]/", "http://metadata.example/"])
async def test_metadata_of_a_cloud_is_never_asked_for(site: Site, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    async def resolve(*_: object) -> list[dict[str, object]]:
        found = {"hostname": "metadata.example", "host": "169.254.169.254", "port": 80}
        return [found | {"family": socket.AF_INET, "proto": 0, "flags": 0}]

    monkeypatch.setattr("fyke.fetchers.guard.ThreadedResolver.resolve", resolve)
    failed = await site.failure(url, LOCAL)
    assert (failed.outcome, "also with fetch: {private_addresses: allow}" in failed.reason) == ("policy", True)


@pytest.mark.parametrize(
    "proxy",
    [
        *(f"me:{SECRET}@127.0.0.1:9", f"{SECRET}://::bad", f"{SECRET}", f"http://me:{SECRET}@h:bad"),
        *(f"http://me:{SECRET}@h:99999", f"http://me:/{SECRET}@h:1", f"http://{SECRET}:x@h:0", f"socks5://{SECRET}"),
    ],
)
async def test_of_a_proxy_that_cannot_be_read_nothing_is_told(site: Site, proxy: str) -> None:
    failed = await site.failure("http://site.example/a", FetchPolicy(proxy=proxy))
    told = f"{failed} {failed.reason} {failed.evidence} {failed!r} {failed.__cause__!r} {failed.__context__!r}"
    assert (failed.outcome, SECRET in told) == ("proxy", False)


def test_masking_hides_users_in_any_address() -> None:
    text = f"a http://me:{SECRET}@h:1/x and socks5://{SECRET}@h, 'https://a:p@{SECRET}@h/' me:{SECRET}"
    masked = mask(text, f"me:{SECRET}")
    assert SECRET not in masked
    assert masked == "a http://***@h:1/x and socks5://***@h, 'https://***@h/' ***"


async def test_secrets_of_an_address_are_in_no_evidence(site: Site) -> None:
    url = f"http://me:{SECRET}@127.0.0.1:{free_port()}/"
    failed = await site.failure(url)
    assert SECRET not in f"{failed} {failed.evidence}"
    good = (await site.answering(plain(b"ok"))).replace("127", f"me:{SECRET}@127", 1)
    assert SECRET not in (await site.fetch(good)).url
    assert b"Authorization: Basic" in site.requests[-1]


# Sockets


def descriptors() -> int:
    return len(list(Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd").iterdir()))


async def test_300_failing_requests_of_every_kind_leave_no_socket_open(site: Site) -> None:
    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    policy = FetchPolicy(
        private_addresses=True,
        connect_timeout=300,
        read_timeout=100,
        total_timeout=400,
        max_body=1_000,
        max_redirects=2,
    )
    hanging = f"http://127.0.0.1:{await site.raw(hang)}/"
    urls = [
        f"http://127.0.0.1:{free_port()}/",
        hanging,
        await site.answering(b""),
        await site.answering(CUT["less than announced"]),
        await site.answering(CUT["no HTTP"]),
        await site.answering(plain(b"x" * 5_000)),
        await site.answering(plain(b"x" * 500, b"Content-Encoding: gzip\r\n")),
        await site.answering(plain(b"x", b"Location: /page?\r\n", b"302 Found")),
        (await site.answering(plain(b""))).replace("http:", "https:"),
        "http://no-such-host.invalid/",
    ]
    site.fetcher = HttpFetcher(SystemClock(), concurrency=100)
    await asyncio.gather(*(site.failure(url, policy) for url in urls))
    before = descriptors()
    for _ in range(3):
        await asyncio.gather(*(site.failure(url, policy) for url in urls * 10))
    site.heard = asyncio.Semaphore(0)
    cancelled = [asyncio.ensure_future(site.fetch(hanging, LOCAL)) for _ in range(10)]
    for _ in cancelled:
        await site.heard.acquire()
    for one in cancelled:
        one.cancel()
    assert all(
        isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*cancelled, return_exceptions=True)
    )
    gc.collect()
    # Servers close their side when they see ours closed: some turns of the loop later.
    for _ in range(100):
        if descriptors() <= before:
            break
        await asyncio.sleep(0.01)
    assert descriptors() <= before
    await site.fetcher.close()
