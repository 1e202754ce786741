"""Fetching: one request in, one whole response or one `FetchFailed` out."""

from __future__ import annotations

from typing import Protocol

from fyke.model import FetchPolicy, Request, Response


class Gate(Protocol):
    """Asked before each further request of a task: hops, redirects, robots (P4)."""

    async def admit(self, url: str) -> None:
        """Return when a request to `url` may go out now.

        Raises:
            Deferred: it would wait longer than may be waited for in hand.
            FetchFailed: robots.txt or policy forbids the address.
            LeaseLost: the task is not ours any more.
        """
        ...


class Fetcher(Protocol):
    async def fetch(self, request: Request, policy: FetchPolicy, gate: Gate) -> Response:
        """Send one request and read the whole answer within the limits of `policy`.

        The first request goes out at once (its start was granted by `begin` or `permit`); each redirect hop asks
        `gate.admit` first. Any status is a Response, also 404 and 503. A body is cut off while streaming, before and
        after decompression. The address of each hop is checked against non-public networks, by name and by resolved
        address.

        Raises:
            FetchFailed: outcome network, timeout, proxy, too_large or policy, with evidence; secrets masked.
            Deferred, LeaseLost: from the gate.
        """
        ...

    async def close(self) -> None: ...


class Robots(Protocol):
    """robots.txt, asked once per host and day for the whole cluster; answers live in the ledger."""

    async def check(self, url: str, policy: FetchPolicy, gate: Gate) -> int | None:
        """Return when `url` may be fetched; the crawl delay in ms where the file names one for us.

        4xx: allowed. 5xx or no answer: raises FetchFailed(unavailable), to be repeated later.

        Raises:
            FetchFailed: outcome robots where the file forbids it.
        """
        ...
