"""One hop after another: what is sent to which address, and what may not follow to another host."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlencode

import msgspec
from aiohttp import CookieJar
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from fyke.errors import FetchFailed
from fyke.fetchers.guard import read_address
from fyke.model import FetchPolicy, Outcome, Request

STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_SECRET_NAMES: Final = re.compile(r"auth|cookie|token|secret|api-?key|session|password", re.IGNORECASE)
_OF_A_BODY: Final = ("Content-Type", "Content-Length", "Content-Encoding", "Content-Language", "Transfer-Encoding")


class Hop:
    """One request as it goes out. `text`: its address as it is told to others."""

    __slots__ = ("body", "headers", "method", "text", "url")

    def __init__(self, url: URL, text: str, method: str, headers: CIMultiDict[str], body: bytes | None) -> None:
        self.url, self.text, self.method, self.headers, self.body = url, text, method, headers, body


def first_hop(request: Request, policy: FetchPolicy, defaults: CIMultiDict[str]) -> Hop:
    """Headers of the request come before those of the policy, and both before the defaults.

    Raises:
        FetchFailed: error or policy for an address that cannot be asked, error for a body that cannot be written.
    """
    url = read_address(request.url)
    headers = defaults.copy()
    if policy.user_agent:
        headers["User-Agent"] = policy.user_agent
    if policy.headers:
        headers.update(policy.headers)
    body = request.body
    try:
        if request.form is not None:
            body = urlencode(request.form).encode("ascii")
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        elif request.json is not None:
            body = msgspec.json.encode(request.json)
            headers["Content-Type"] = "application/json"
    except (ValueError, TypeError) as error:
        raise FetchFailed(Outcome.ERROR, f"the body of the request cannot be written: {error}") from None
    if request.headers:
        headers.update(request.headers)
    if request.headers or policy.headers:
        for name, value in headers.items():
            # A lone surrogate would go out as something else.
            if not value.isascii() and not _is_text(value):
                raise FetchFailed(Outcome.ERROR, f"the header {name} cannot be written: {value!r}")
    text = str(url) if url.user is None else str(url.with_user(None))
    return Hop(url, text, request.method.upper(), headers, body)


def location(raw: bytes) -> str:
    """A Location as an address: UTF-8 where it is, else the bytes that are no ASCII escaped as they came."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(chr(byte) if byte < 128 else f"%{byte:02X}" for byte in raw)


class Trail:
    """The hops of one visit. Cookies live as long as it does: some sites set one and send back to the same page."""

    def __init__(self, first: Hop) -> None:
        self.hop = first
        self.passed: list[str] = []
        self._jar: CookieJar | None = None
        self._states: set[tuple[str, str, str]] = set()

    def follow(self, status: int, to: str, cookies: list[str], limit: int) -> None:
        """Turn to the next hop.

        Raises:
            FetchFailed: error where it goes in a circle or further than the limit; what `first_hop` raises.
        """
        hop = self.hop
        self._states.add(self._state())
        self.passed.append(hop.text)
        if len(self.passed) > limit:
            raise FetchFailed(Outcome.ERROR, f"more than {limit} redirects")
        url = _target(hop.url, to)
        method, headers, body = hop.method, hop.headers.copy(), hop.body
        if (status == 303 and method != "HEAD") or (status in {301, 302} and method == "POST"):
            method, body = "GET", None
            for name in _OF_A_BODY:
                headers.popall(name, None)
        if not _same_site(hop.url, url):
            for name in {name for name in headers if _SECRET_NAMES.search(name)}:
                headers.popall(name, None)
        elif url.user is None and hop.url.user is not None:
            url = url.with_user(hop.url.user).with_password(hop.url.password)
        if cookies:
            if self._jar is None:
                self._jar = CookieJar(unsafe=True)
            self._jar.update_cookies_from_headers(cookies, hop.url)
        self.hop = Hop(url, str(url.with_user(None) if url.user else url), method, headers, body)
        state = self._state()
        if state in self._states:
            raise FetchFailed(Outcome.ERROR, f"redirects in a circle, back to {self.hop.text}")

    def cookies(self) -> dict[str, str] | None:
        """What the hops before this one set for its address."""
        if self._jar is None:
            return None
        return {name: morsel.value for name, morsel in self._jar.filter_cookies(self.hop.url).items()}

    def _state(self) -> tuple[str, str, str]:
        return self.hop.method, self.hop.text, repr(self.cookies())


def header_dict(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    """Names in lower case, repeated ones joined; bytes that are no UTF-8 read as Latin-1, as HTTP has it."""
    found: dict[str, str] = {}
    for given, value in headers.items():
        name, text = given.lower(), value if value.isascii() else _readable(value)
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _readable(value: str) -> str:
    raw = value.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _target(base: URL, to: str) -> URL:
    to = to.strip()
    if re.match(r"[a-z][a-z0-9+.-]*:", to, re.IGNORECASE):
        return read_address(to)
    if to.startswith("//"):
        return read_address(f"{base.scheme}:{to}")
    # Joined as text of a path and query; the base is already written as it goes on the wire.
    origin = f"{base.scheme}://{base.raw_authority}"
    path = base.raw_path or "/"
    if to.startswith("/"):
        return read_address(_dotless(origin, to))
    if to.startswith("?"):
        return read_address(f"{origin}{path}{to}")
    if not to or to.startswith("#"):
        return base
    return read_address(_dotless(origin, path.rpartition("/")[0] + "/" + to))


def _dotless(origin: str, target: str) -> str:
    cut = min((at for at in (target.find("?"), target.find("#")) if at >= 0), default=len(target))
    path, rest = target[:cut], target[cut:]
    if "/." in path:
        kept: list[str] = []
        parts = path.split("/")[1:]
        for part in parts:
            if part == "..":
                kept[-1:] = []
            elif part != ".":
                kept.append(part)
        path = "/" + "/".join(kept) + ("/" if parts[-1] in {".", ".."} and kept else "")
    return origin + path + rest


def _same_site(one: URL, other: URL) -> bool:
    if one.host != other.host:
        return False
    upgrade = one.scheme == "http" and other.scheme == "https" and one.is_default_port() and other.is_default_port()
    return upgrade or (one.scheme == other.scheme and one.port == other.port)
