"""A plain GET over the client library's connections.

Its session does much for each request that such a one does not need (cookies, bodies, proxies, redirects, traces, and a
request of its own to make), and takes longer over it than the exchange itself. Keeps P4: nothing is sent twice.
"""

from __future__ import annotations

from typing import Any, Final, TypedDict, Unpack

import aiohttp
from aiohttp import ClientRequest
from multidict import CIMultiDictProxy
from yarl import URL

from fyke.fetchers.redirects import Hop

ORIGINS_KEPT: Final = 1_000
# Headers that change how the library sends or reads.
_NOT_PLAIN: Final = ("Host", "Expect", "Transfer-Encoding", "Content-Length", "Upgrade")


class Limits(TypedDict):
    """Of the headers of an answer, as the library names them."""

    max_line_size: int
    max_field_size: int
    max_headers: int


class Answer:
    """An answer whose headers are there, with the names that the library gives them; `content` is its body."""

    __slots__ = ("_connection", "content", "headers", "raw_headers", "status")

    def __init__(self, connection: Any, message: Any, content: aiohttp.StreamReader) -> None:
        self._connection, self.content = connection, content
        self.status: int = message.code
        self.headers: CIMultiDictProxy[str] = message.headers
        self.raw_headers: tuple[tuple[bytes, bytes], ...] = message.raw_headers

    def release(self) -> None:
        """Hand the connection back; one whose answer was not read whole is closed."""
        self._connection.release()


class PlainGets:
    """Sends GETs without a body over the connector of a session, which keeps all other requests."""

    def __init__(self, session: aiohttp.ClientSession, **limits: Unpack[Limits]) -> None:
        self._session, self._limits = session, limits
        self._origins: dict[URL, ClientRequest] = {}

    @staticmethod
    def fit(hop: Hop, cookies: object) -> bool:
        """Whether the request is so plain."""
        if hop.method != "GET" or hop.body is not None or cookies or hop.url.raw_user is not None:
            return False
        headers = hop.headers
        return not any(name in headers for name in _NOT_PLAIN)

    async def send(self, hop: Hop, timeout: aiohttp.ClientTimeout) -> Answer:
        """The answer as soon as its headers are there; raises what the library raises. Its total is the caller's."""
        head = _head(hop)
        connector = self._session.connector
        assert connector is not None
        try:
            connection = await connector.connect(self._origin(hop.url), traces=[], timeout=timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"Connection timeout to host {hop.url}") from error
        try:
            protocol = connection.protocol
            assert protocol is not None
            protocol.set_response_params(
                read_until_eof=True,
                auto_decompress=False,
                read_timeout=timeout.sock_read,
                timeout_ceil_threshold=timeout.ceil_threshold,
                **self._limits,
            )
            transport = protocol.transport
            if transport is None or transport.is_closing():
                raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")
            transport.write(head)
            protocol.start_timeout()
            message, content = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:
                message, content = await protocol.read()
        except BaseException:
            connection.close()
            raise
        return Answer(connection, message, content)

    def _origin(self, url: URL) -> ClientRequest:
        """What the connector wants to know of a request: where it goes."""
        origin = url.origin()
        found = self._origins.get(origin)
        if found is None:
            if len(self._origins) >= ORIGINS_KEPT:
                self._origins.clear()
            found = self._origins[origin] = ClientRequest("GET", origin, session=self._session)
        return found


def _head(hop: Hop) -> bytes:
    fields = [f"{name}: {value}" for name, value in hop.headers.items()]
    lines = [f"GET {hop.url.raw_path_qs} HTTP/1.1", f"Host: {hop.url.host_port_subcomponent}", *fields]
    text = "\r\n".join(lines)
    if text.count("\r") >= len(lines) or text.count("\n") >= len(lines) or "\0" in text:
        raise ValueError("a header holds a line break")
    return f"{text}\r\n\r\n".encode()
