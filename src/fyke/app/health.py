"""What an orchestrator asks of a process: /healthz says that it lives, /readyz that its servers answer.

Liveness stays green in an outage, for nothing is won by a restart then; readiness turns red.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from fyke.app.stores import Stores
from fyke.errors import FykeError, UsageError
from fyke.settings import Settings, hidden

if TYPE_CHECKING:
    from aiohttp import web

ANSWER_S: Final = 2.0
FRESH_S: Final = 1.0


class Health:
    """Answers at `health.host` and `health.port`, where that is set. `stores`: None until they are opened."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.stores: Stores | None = None
        self.port = 0
        self._looking = asyncio.Lock()
        self._found: dict[str, str] = {}
        self._at = float("-inf")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        """
        Raises:
            UsageError: another process has the port.
        """
        host, port = self._settings.health.host, self._settings.health.port
        if not port:
            yield self
            return
        from aiohttp import web

        app = web.Application()
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/readyz", self._ready)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await self._bind(web.TCPSite(runner, host, port), f"{host}:{port}")
            yield self
        finally:
            await runner.cleanup()

    async def _bind(self, site: web.TCPSite, where: str) -> None:
        try:
            await site.start()
        except OSError as error:
            hint = "another port for each process of a machine, or 0 for none"
            raise UsageError(f"{where} cannot be used: {error.strerror}", field="health.port", hint=hint) from error

    async def _alive(self, _: web.Request) -> web.Response:
        from aiohttp import web

        return web.json_response({"alive": True})

    async def _ready(self, _: web.Request) -> web.Response:
        from aiohttp import web

        async with self._looking:
            # However many ask: the servers are asked once a second.
            now = asyncio.get_running_loop().time()
            if now - self._at >= FRESH_S:
                self._found, self._at = await self.look(), now
        return web.json_response({"ready": not self._found, "away": self._found}, status=503 if self._found else 200)

    async def look(self) -> dict[str, str]:
        """What does not answer now, and why; empty where all do."""
        stores = self.stores
        if stores is None:
            return {"process": "it is starting or ending"}
        ledger, frontier = await asyncio.gather(
            self._fault(stores.ledger.identity()), self._fault(stores.frontier.held("readyz.invalid"))
        )
        return {name: fault for name, fault in (("ledger", ledger), ("frontier", frontier)) if fault}

    async def _fault(self, question: Awaitable[Any]) -> str:
        try:
            await asyncio.wait_for(question, ANSWER_S)
        except FykeError as error:
            return hidden(self._settings, str(error))
        except TimeoutError:
            return f"no answer for {ANSWER_S:g} s"
        return ""
