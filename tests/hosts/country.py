"""Roles on hosts of a network, and what a test asks of them."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from fyke.app.run import crew
from fyke.app.stores import open_database
from fyke.lab.site import SiteConfig
from fyke.pipeline.scheduler import open_by_hand
from fyke.testing.effects import written_twice
from tests.e2e.town import Role, Town
from tests.hosts.network import Host, Network


class Country:
    """The town's folder, site and addresses, and the hosts that its roles run on."""

    def __init__(self, town: Town, network: Network) -> None:
        self.town, self.network = town, network

    async def start(self, host: Host, *arguments: str) -> Role:
        return await self.town.start(*arguments, on=host.command, **host.environ)

    async def open_run(self) -> None:
        async def ask(stores: Any) -> None:
            async with crew(stores) as parts:
                await open_by_hand(parts.scheduler, stores.ledger, parts.shelf, ["lab"])

        await self.town.ask(ask)

    async def ask(self, question: str) -> list[tuple[Any, ...]]:
        """Of the ledger's own tables."""
        async with open_database(self.town.settings) as database:
            return await database.read(lambda connection: [tuple(row) for row in connection.execute(question)])

    async def now(self) -> int:
        """The ledger's clock."""
        async with open_database(self.town.settings) as database:
            return database.now()

    async def visits(self, host: Host, since: int) -> int:
        """Those that workers of this host began after this moment (ms) and ended."""
        rows = await self.ask(f"SELECT worker FROM visit WHERE started_at > {int(since)}")
        return sum(worker.startswith(f"{host.name}:") for (worker,) in rows)

    async def until(self, condition: Callable[[], Awaitable[object]], seconds: float) -> None:
        """Return when something outside this process has come true; fails with what the processes said."""
        try:
            async with asyncio.timeout(seconds):
                while not await condition():  # noqa: ASYNC110 - another process brings it about
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(self.town.told()) from None

    async def stop(self) -> None:
        """All roles are told to stop, and end well."""
        for role in self.town.roles:
            if role.alive:
                role.tell(signal.SIGTERM)
        assert [await role.ended(20) for role in self.town.roles] == [0] * len(self.town.roles), self.town.told()

    async def check(self, items: int) -> None:
        """All is stored, nothing is twice, and the audit balances."""
        counts = await self.town.counts()
        assert (counts.listed, counts.stored, counts.open, counts.dead) == (items, items, 0, 0)
        async with open_database(self.town.settings) as database:
            assert await database.read(written_twice) == []
        audit = await self.town.start("audit", "--json")
        assert await audit.ended(60) == 0, audit.said
        report = json.loads(audit.said)
        assert (report["balanced"], report["unaccounted"], report["stored"]) == (True, 0, items)


class Make(Protocol):
    async def __call__(self, pair: str, config: SiteConfig, *, cron: str = ..., concurrency: int = ...) -> Country: ...
