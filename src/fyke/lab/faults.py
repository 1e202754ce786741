"""How the lab site misbehaves: which fault a hit of a page meets, and the doing of it.

What happens to a page depends on the seed, the page and the number of the hit, not on the time or on other
pages; after its planned faults a page is good for ever, so that every fault can be overcome.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from aiohttp import web

from fyke.lab import pages
from fyke.lab.truth import SiteConfig

# Their order decides what a seed draws: append only.
FAULTS: Final = ("block", "404", "503", "429", "reset", "cut", "slow", "endless", "empty", "hold", "ok")
FAULTY_KINDS: Final = frozenset({"list", "detail"})
# What an arrival is noted with; a reset has no status.
STATUS: Final = {"404": 404, "503": 503, "429": 429, "reset": 0}

ENDLESS_BYTES: Final = 256 * 2**20
HOLD_SECONDS: Final = 600.0
SLOW_PIECES: Final = 20


class Faults:
    """The planned faults of each page, drawn when it is first asked for."""

    def __init__(self, config: SiteConfig) -> None:
        self._config = config
        self._plans: dict[str, tuple[str, ...]] = {}
        self._hits: dict[str, int] = {}
        self._everywhere: str | None = None
        self._gate = asyncio.Event()
        self.script(config.script)

    def script(self, plans: Mapping[str, Sequence[str]]) -> None:
        """Give pages exact faults, one a hit from their next hit on."""
        for path, plan in plans.items():
            for name in plan:
                check(name)
            self._plans[path] = tuple(plan)
            self._hits[path] = 0

    def everywhere(self, fault: str | None) -> None:
        """Let every list and detail have this fault, whatever was planned, until None takes it back."""
        if fault is not None:
            check(fault)
        self._everywhere = fault

    def release(self) -> None:
        """Let all answers go that `hold` keeps back now; those that come later are kept again."""
        self._gate.set()
        self._gate = asyncio.Event()

    async def held(self) -> None:
        """Return when released, or after ten minutes."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._gate.wait(), HOLD_SECONDS)

    def next(self, path: str, kind: str) -> str | None:
        """The fault of this hit, which is counted; None for a good answer."""
        hit = self._hits[path] = self._hits.get(path, 0) + 1
        plan = self._plans.get(path)
        if plan is None:
            plan = self._plans[path] = self._draw(path, kind)
        fault = plan[hit - 1] if hit <= len(plan) else None
        if self._everywhere is not None and kind in FAULTY_KINDS:
            fault = self._everywhere
        return None if fault == "ok" else fault

    def _draw(self, path: str, kind: str) -> tuple[str, ...]:
        config = self._config
        shares = {
            "block": (config.soft_blocks, config.soft_block_hits),
            "404": (config.late if kind == "detail" else 0.0, config.late_hits),
            "503": (config.busy, config.burst),
            "429": (config.throttled, config.burst),
            "reset": (config.resets, 1),
            "cut": (config.cuts, 1),
            "slow": (config.slow, 1),
            "endless": (config.endless, 1),
            "empty": (config.empty_lists if kind == "list" else 0.0, 1),
        }
        if kind not in FAULTY_KINDS or not any(share for share, _ in shares.values()):
            return ()
        # One draw for each kind, used or not: switching one fault on does not move the others.
        rng = Random(f"{config.seed}:faults:{path}")
        drawn = [(name, rng.random()) for name in shares]
        return tuple(name for name, draw in drawn for _ in range(shares[name][1]) if draw < shares[name][0])


def check(name: str) -> None:
    """Raises ValueError for a fault that does not exist."""
    if name not in FAULTS:
        raise ValueError(f"no fault {name!r}; there are {', '.join(FAULTS)}")


def refusal(fault: str, page: pages.Page, retry_after: int) -> web.Response | None:
    """The answer of a fault that is a whole page of its own; None for the others."""
    if fault == "block":
        if page.content_type == pages.JSON:
            return web.Response(body=pages.api_blocked(), headers={"Content-Type": pages.JSON})
        return _html(200, pages.blocked_html(), {})
    if fault in {"404", "503", "429"}:
        headers = {"Retry-After": str(retry_after)} if fault == "429" else {}
        return _html(int(fault), pages.error_html(int(fault)), headers)
    return None


def _html(status: int, text: str, headers: dict[str, str]) -> web.Response:
    body, content_type = pages.encoded(text, gbk=False)
    return web.Response(status=status, body=body, headers={"Content-Type": content_type, **headers})


def reset(request: web.BaseRequest) -> web.StreamResponse:
    """Cut the connection with RST, before a byte of the answer."""
    transport = request.transport
    if transport is not None:
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()


async def cut(request: web.BaseRequest, page: pages.Page) -> web.StreamResponse:
    """Promise the whole body, send half of it, close."""
    response = _stream(page, length=len(page.body))
    with suppress(ConnectionError):
        await response.prepare(request)
        await response.write(page.body[: len(page.body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


async def slow(request: web.BaseRequest, page: pages.Page, seconds: float) -> web.StreamResponse:
    """Send the whole body in pieces over so many seconds."""
    response = _stream(page, length=len(page.body))
    step = max(1, -(-len(page.body) // SLOW_PIECES))
    with suppress(ConnectionError):
        await response.prepare(request)
        for start in range(0, len(page.body), step):
            if start:
                await asyncio.sleep(seconds / (SLOW_PIECES - 1))
            await response.write(page.body[start : start + step])
        await response.write_eof()
    return response


async def endless(request: web.BaseRequest, page: pages.Page) -> web.StreamResponse:
    """Send the page, then body text until the client goes (256 MiB at most)."""
    response = _stream(page, length=None)
    more = pages.filler(64 * 1024).encode()
    with suppress(ConnectionError):
        await response.prepare(request)
        await response.write(page.body)
        for _ in range(ENDLESS_BYTES // len(more)):
            await response.write(more)
    return response


def _stream(page: pages.Page, length: int | None) -> web.StreamResponse:
    response = web.StreamResponse(status=page.status, headers={"Content-Type": page.content_type})
    if length is None:
        response.enable_chunked_encoding()
    else:
        response.content_length = length
    return response
