"""The lab site in a process of its own that keeps the start and the end of each request: ``python -m … CONFIG``.

`/_requests` tells them in seconds of this machine's monotonic clock.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final

import msgspec
from aiohttp import web

from fyke.lab.serving import listen, until_stopped
from fyke.lab.site import RunningSite, Site, SiteConfig

MOST_KEPT: Final = 1_000_000


class RecordingSite(Site):
    """Notes each detail: (begin, end, path, status)."""

    def __init__(self, config: SiteConfig) -> None:
        super().__init__(config)
        self.requests: list[tuple[float, float, str, int]] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path == "/_requests":
            return web.Response(body=json.dumps(self.requests).encode(), content_type="application/json")
        began = time.monotonic()
        response = await super().handle(request)
        if request.raw_path.startswith("/detail/") and len(self.requests) < MOST_KEPT:
            self.requests.append((began, time.monotonic(), request.raw_path, response.status))
        return response


async def _serve(config: SiteConfig) -> RunningSite:
    site = RecordingSite(config)
    return RunningSite(site, await listen(site.handle, "127.0.0.1", 0), "127.0.0.1")


def _tell(url: str) -> None:
    print(url, flush=True)


def main() -> None:
    values: dict[str, Any] = msgspec.json.decode(sys.argv[1].encode())
    config = SiteConfig(**values)
    until_stopped(lambda: _serve(config), _tell)


if __name__ == "__main__":
    main()
