"""What a client library raises → one outcome and a sentence for people, with secrets masked.

No text of a library reaches a log, a letter or a page without `mask`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import aiohttp
from aiohttp import http_exceptions

from fyke.errors import FetchFailed
from fyke.fetchers.body import Progress
from fyke.fetchers.guard import NonPublic, refused_name
from fyke.model import FetchPolicy, Outcome

_USER: Final = re.compile(r"([a-z][a-z0-9+.-]*://)[^\s/?#'\"<>]*@", re.IGNORECASE)


# All that the client raises for what is the network's, the site's or the request's fault.
ERRORS: Final = (
    *(NonPublic, aiohttp.ClientError, http_exceptions.HttpProcessingError, TimeoutError, OSError),
    *(ValueError, EOFError),
)

_CONNECTING: Final = (
    NonPublic,
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
)


def mask(text: str, *secrets: str) -> str:
    """Hide what stands before @ in any address, and the given secrets."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return _USER.sub(r"\1***@", text)


def failure(error: BaseException, progress: Progress, policy: FetchPolicy, host: str, proxied: bool) -> FetchFailed:
    """The FetchFailed for an error of the client; evidence is added by the caller."""
    if progress.phase == "connect" and not isinstance(error, _CONNECTING):
        progress.phase = "headers"
    if isinstance(error, NonPublic) and not proxied:
        return refused_name(host, never=error.never)
    outcome, reason = _judge(error, progress, policy, host, proxied)
    return FetchFailed(outcome, mask(reason, policy.proxy or ""))


def _judge(
    error: BaseException, progress: Progress, policy: FetchPolicy, host: str, proxied: bool
) -> tuple[Outcome, str]:
    where = "the proxy" if proxied else host
    lost = Outcome.PROXY if proxied else Outcome.NETWORK
    if isinstance(error, TimeoutError):
        return _timeout(error, progress, policy, where, proxied)
    if isinstance(error, NonPublic):
        return Outcome.PROXY, "the name of the proxy resolves to link-local addresses only"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Outcome.PROXY, f"the proxy answered {error.status} to CONNECT"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return lost, f"the name of {where} does not resolve: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ClientSSLError | aiohttp.ClientConnectorCertificateError):
        return Outcome.NETWORK, f"no TLS with {host}: {error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return lost, f"no connection to {where}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.InvalidURL):
        return Outcome.ERROR, f"the address cannot be asked: {error}"
    if isinstance(error, aiohttp.ClientResponseError | http_exceptions.HttpProcessingError):
        return _not_http(error, host)
    if isinstance(error, aiohttp.ClientPayloadError | EOFError):
        return lost, f"the answer of {host} ended after {progress.received:,} bytes, before it was whole"
    if isinstance(error, aiohttp.ClientError | OSError):
        return lost, f"{where} broke the connection: {str(error) or type(error).__name__}"
    return Outcome.ERROR, f"the request cannot be sent: {error}"


def _timeout(
    error: BaseException, progress: Progress, policy: FetchPolicy, where: str, proxied: bool
) -> tuple[Outcome, str]:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        limit = f"{policy.connect_timeout / 1000:g} s"
        return Outcome.PROXY if proxied else Outcome.TIMEOUT, f"no connection to {where} within {limit}"
    if isinstance(error, aiohttp.SocketTimeoutError):
        limit = f"{policy.read_timeout / 1000:g} s"
        return Outcome.TIMEOUT, f"nothing came for {limit}, after {progress.received:,} bytes"
    limit = f"{policy.total_timeout / 1000:g} s"
    return Outcome.TIMEOUT, f"not done within {limit}, after {progress.received:,} bytes"


def _not_http(error: Any, host: str) -> tuple[Outcome, str]:
    if "Got more than" in str(error) or "Too many" in str(error):
        return Outcome.TOO_LARGE, f"the headers of {host} are larger than is borne"
    return Outcome.NETWORK, f"{host} answered what is not HTTP: {getattr(error, 'message', '') or error}"[:300]
