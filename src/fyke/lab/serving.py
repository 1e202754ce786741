"""What the lab servers share: how they listen and stop, and the log of who asked for what and when.

Everything that is kept of the requests has a stated maximum; a server stops within a second, whatever it
was sending.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from aiohttp import web

if sys.platform == "win32":
    new_loop = asyncio.new_event_loop
else:
    import uvloop

    new_loop = uvloop.new_event_loop

OTHER_PATHS_KEPT: Final = 1_000
LONGEST_WAIT: Final = 60.0

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Arrivals:
    """Who asked for what and when: counts by kind and path, and the last arrivals one by one."""

    def __init__(self, kept: int, kinds: Sequence[str]) -> None:
        self._kinds = (*kinds, "other")
        self._log: deque[tuple[float, str, int]] = deque(maxlen=kept)
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self.reset()

    def reset(self) -> None:
        self._hits: dict[str, dict[str, int]] = {kind: {} for kind in self._kinds}
        self._log.clear()
        self.total = 0

    def note(self, moment: float, kind: str, path: str, status: int) -> None:
        counts = self._hits[kind]
        moment_ms = round(moment * 1000, 2)
        # Unknown addresses are the only ones without a natural bound.
        if kind == "other" and path not in counts and len(counts) >= OTHER_PATHS_KEPT:
            path = "*"
        counts[path] = counts.get(path, 0) + 1
        self._log.append((moment_ms, path, status))
        self.total += 1
        if self._waiting:
            for wanted, future in self._waiting:
                if self.total >= wanted and not future.done():
                    future.set_result(None)

    async def wait(self, hits: int, seconds: float) -> int:
        """Return the number of hits once it has reached `hits`, or after `seconds`."""
        if self.total < hits:
            waiting = (hits, asyncio.get_running_loop().create_future())
            self._waiting.append(waiting)
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(waiting[1], seconds)
            finally:
                self._waiting.remove(waiting)
        return self.total

    def report(self) -> dict[str, Any]:
        return {
            **{kind: dict(counts) for kind, counts in self._hits.items()},
            "arrivals": list(self._log),
            "arrivals_dropped": self.total - len(self._log),
        }


class Running(Protocol):
    """A server that listens."""

    url: str

    async def close(self) -> None: ...


def address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def listen(handler: Handler, host: str, port: int) -> web.ServerRunner:
    # An endless answer is cut off soon after the close, not waited for.
    server = web.Server(handler, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=1024).start()
    return runner


def until_stopped(start: Callable[[], Awaitable[Running]], ready: Callable[[str], None]) -> None:
    async def serve() -> None:
        stop = asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(name, stop.set)
        running = await start()
        ready(running.url)
        await stop.wait()
        await running.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve())
