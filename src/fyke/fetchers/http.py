"""The HTTP fetcher: one request in, one whole response or one `FetchFailed` out.

Keeps P4: nothing goes out that the gate did not admit, and no request is repeated behind its back. Every wait and
every size has a limit.
"""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
from aiohttp import encode_basic_auth
from multidict import CIMultiDict
from yarl import URL

from fyke import __version__
from fyke.errors import FetchFailed
from fyke.fetchers.body import ACCEPTED, Progress, read_body
from fyke.fetchers.encoding import decode
from fyke.fetchers.exchange import Answer, Limits, PlainGets
from fyke.fetchers.faults import ERRORS, failure, mask
from fyke.fetchers.guard import GuardedResolver, check_host, read_address
from fyke.fetchers.redirects import STATUSES, Hop, Trail, first_hop, header_dict, location
from fyke.model import FetchPolicy, Outcome, Request, Response
from fyke.ports import Clock, Gate

HOME: Final = "https://github.com/fyke/fyke"
USER_AGENT: Final = f"Mozilla/5.0 (compatible; Fyke/{__version__}; +{HOME})"
REPLAY_HEADER: Final = "X-Fyke-Replay-Url"

# Shorter than the servers' (5 s with many): a connection that they close while we take it up would fail the request.
KEEP_ALIVE_S: Final = 4.0
NAMES_KEPT_S: Final = 60
TIMEOUTS_KEPT: Final = 100
OTHER_PROXIES: Final = frozenset({"https", "socks4", "socks4a", "socks5", "socks5h"})
HEADERS: Final[Limits] = {"max_line_size": 16 * 1024, "max_field_size": 32 * 1024, "max_headers": 200}


class HttpFetcher:
    """Fetches over HTTP and HTTPS, directly or through one proxy.

    Args:
        user_agent: of policies that name none; "": Fyke's own.
        replay: every request goes to this address in plain HTTP, the address it means in a header.
        concurrency: how many requests the caller has in hand at the same time.
    """

    def __init__(
        self, clock: Clock, *, user_agent: str = USER_AGENT, replay: str | None = None, concurrency: int = 8
    ) -> None:
        self._clock, self._concurrency = clock, concurrency
        self._replay = read_address(replay) if replay else None
        self._headers = CIMultiDict(
            {"User-Agent": user_agent or USER_AGENT, "Accept": "text/html,*/*;q=0.8", "Accept-Encoding": ACCEPTED}
        )
        self._timeouts: dict[tuple[int, int], aiohttp.ClientTimeout] = {}
        # Two, so that no connection to a non-public address is taken up by a request that may not have it.
        self._public: tuple[aiohttp.ClientSession, PlainGets] | None = None
        self._any: tuple[aiohttp.ClientSession, PlainGets] | None = None

    async def fetch(self, request: Request, policy: FetchPolicy, gate: Gate) -> Response:
        started_at, begun = self._clock.now(), self._clock.monotonic()
        progress = Progress()
        sent_at = begun
        trail: Trail | None = None
        try:
            trail = Trail(first_hop(request, policy, self._headers))
            left = policy.total_timeout / 1000
            while (answer := await self._send(trail, policy, left, progress)) is None:
                # What the gate takes is politeness, not slowness of the site.
                left -= self._clock.monotonic() - sent_at
                await gate.admit(trail.hop.text)
                sent_at = self._clock.monotonic()
        except FetchFailed as failed:
            failed.evidence = _evidence(request, trail, progress) | failed.evidence
            raise
        status, headers, body = answer
        text, encoding, source, replaced = decode(body, headers.get("content-type", ""), policy.encoding)
        return Response(
            url=trail.hop.text,
            status=status,
            headers=headers,
            body=body,
            text=text,
            encoding=encoding,
            encoding_from=source,
            replaced=replaced,
            redirects=trail.passed,
            started_at=started_at,
            elapsed_ms=int((self._clock.monotonic() - begun) * 1000),
        )

    async def close(self) -> None:
        for pair in (self._public, self._any):
            if pair is not None:
                await pair[0].close()
        self._public = self._any = None

    async def _send(
        self, trail: Trail, policy: FetchPolicy, left: float, progress: Progress
    ) -> tuple[int, dict[str, str], bytes] | None:
        """The answer to the trail's hop; None where it was a redirect and the trail turned to the next one."""
        hop = trail.hop
        check_host(hop.url.raw_host or "", private=policy.private_addresses)
        proxied = policy.proxy is not None and self._replay is None
        progress.phase, progress.status, progress.received = "connect", 0, 0
        response: aiohttp.ClientResponse | Answer | None = None
        try:
            if left <= 0:
                raise TimeoutError
            async with asyncio.timeout(left):
                response = await self._request(hop, trail.cookies(), policy)
                progress.phase, progress.status = "body", response.status
                if proxied and response.status == 407:
                    raise FetchFailed(Outcome.PROXY, "the proxy wants other credentials (407)")
                if response.status in STATUSES and (to := _raw_location(response)) is not None:
                    progress.phase = "redirect"
                    cookies = response.headers.getall("Set-Cookie", [])
                    trail.follow(response.status, location(to), cookies, policy.max_redirects)
                    return None
                headers = header_dict(response.headers)
                body = await read_body(
                    response.content.readany,
                    headers.get("content-length"),
                    headers.get("content-encoding"),
                    policy.max_body,
                    progress,
                )
        except ERRORS as error:
            raise failure(error, progress, policy, hop.url.host or "", proxied) from None
        finally:
            if response is not None:
                # Hands the connection back where the answer was read whole, and closes it else.
                response.release()
        return response.status, headers, body

    async def _request(
        self, hop: Hop, cookies: dict[str, str] | None, policy: FetchPolicy
    ) -> aiohttp.ClientResponse | Answer:
        url, headers = hop.url, hop.headers
        proxy: URL | None = None
        proxy_headers: dict[str, str] | None = None
        if self._replay is not None:
            url = URL(f"{self._replay.scheme}://{self._replay.raw_authority}{hop.url.raw_path_qs}", encoded=True)
            headers = headers.copy()
            headers[REPLAY_HEADER] = hop.text
        elif policy.proxy is not None:
            proxy, credentials = _proxy(policy.proxy)
            if credentials and url.scheme == "https":
                proxy_headers = {"Proxy-Authorization": credentials}
            elif credentials:
                headers = headers.copy()
                headers["Proxy-Authorization"] = credentials
        direct = proxy is None and self._replay is None
        session, plain = self._session(public=direct and not policy.private_addresses)
        timeout = self._timeout(policy)
        if direct and plain.fit(hop, cookies):
            return await plain.send(hop, timeout)
        return await session.request(
            hop.method,
            url,
            headers=headers,
            data=hop.body,
            cookies=cookies,
            allow_redirects=False,
            proxy=proxy,
            proxy_headers=proxy_headers,
            timeout=timeout,
        )

    def _timeout(self, policy: FetchPolicy) -> aiohttp.ClientTimeout:
        key = (policy.connect_timeout, policy.read_timeout)
        found = self._timeouts.get(key)
        if found is None:
            connect, read = policy.connect_timeout / 1000, policy.read_timeout / 1000
            found = aiohttp.ClientTimeout(
                total=None, connect=connect, sock_connect=connect, sock_read=read, ceil_threshold=float("inf")
            )
            if len(self._timeouts) < TIMEOUTS_KEPT:
                self._timeouts[key] = found
        return found

    def _session(self, *, public: bool) -> tuple[aiohttp.ClientSession, PlainGets]:
        found = self._public if public else self._any
        if found is None:
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=GuardedResolver(private=not public),
                    limit=2 * self._concurrency,
                    keepalive_timeout=KEEP_ALIVE_S,
                    ttl_dns_cache=NAMES_KEPT_S,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                **HEADERS,
                skip_auto_headers=("Content-Type",),
            )
            # The library would repeat a request whose connection broke; one lease pays for one request (P4).
            session._retry_connection = False
            found = (session, PlainGets(session, **HEADERS))
            if public:
                self._public = found
            else:
                self._any = found
        return found


def _proxy(text: str) -> tuple[URL, str | None]:
    """The proxy's address without its user, and the header for its user.

    Raises:
        FetchFailed: it is not of our form. What cannot be read cannot be masked either, so nothing of it is told.
    """
    try:
        url = URL(text)
        readable = url.scheme == "http" and bool(url.host and url.port)
    except ValueError:
        url, readable = URL(), False
    if not readable:
        other = f", and {url.scheme} is not spoken" if url.scheme in OTHER_PROXIES else ""
        raise FetchFailed(Outcome.PROXY, f"the proxy is not of the form http://user:password@host:port{other}")
    if url.user is None:
        return url, None
    return url.with_user(None), encode_basic_auth(url.user, url.password or "")


def _raw_location(response: aiohttp.ClientResponse | Answer) -> bytes | None:
    return next((value for name, value in response.raw_headers if name.lower() == b"location"), None)


def _evidence(request: Request, trail: Trail | None, progress: Progress) -> dict[str, object]:
    """What is known of a request that failed, without secrets."""
    found: dict[str, object] = {"url": mask(trail.hop.text if trail else request.url)[:2_000], "phase": progress.phase}
    if progress.status:
        found["status"] = progress.status
    if progress.received:
        found["bytes"] = progress.received
    if trail is not None and trail.passed:
        found["redirects"] = [mask(url)[:2_000] for url in trail.passed]
    return found
