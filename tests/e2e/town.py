"""Roles of many machines as real processes, on servers of their own, collecting from a lab site."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from fyke.app import open_stores
from fyke.app.sources import apply_sources, read_sources
from fyke.app.stores import Stores, open_database
from fyke.lab.servers import ServerProcess
from fyke.lab.site import RunningSite, SiteConfig, serve_site
from fyke.model import SourceCounts
from fyke.settings import Settings, load_settings
from tests.crash.shop import SOURCE

T = TypeVar("T")

PASSWORD = "S3cr3t-m4rk"
SHORT = """\
lease = "2s"
[worker]
concurrency = {concurrency}
grace = "{grace}"
[attempts]
limit = 10
delays = ["1s"]
[backoff]
first = "200ms"
longest = "2s"
[scheduler]
lease = "2s"
[reap]
every = "1s"
[reconcile]
every = "2s"
grace = "3s"
{more}
"""


class Role:
    """One `fyke …` process, with what it says."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process, self.log = process, log

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def tell(self, number: int) -> None:
        self.process.send_signal(number)

    async def ended(self, seconds: float) -> int:
        async with asyncio.timeout(seconds):
            return await self.process.wait()


class Town:
    """A folder, a site, and the addresses of a ledger and a frontier."""

    def __init__(self, folder: Path, site: RunningSite, ledger: str, frontier: str, settings: Settings) -> None:
        self.folder, self.site, self.settings = folder, site, settings
        self.environ = {"FYKE_LEDGER": ledger, "FYKE_FRONTIER": frontier}
        self.roles: list[Role] = []

    async def start(self, *arguments: str, on: Sequence[str] = (), **environ: str) -> Role:
        """`fyke …` in the folder; `on`: a command that runs it elsewhere."""
        log = self.folder / f"{len(self.roles)}-{arguments[0]}.log"
        own = {name: value for name, value in os.environ.items() if not name.startswith("FYKE_")}
        with log.open("wb") as written:
            process = await asyncio.create_subprocess_exec(
                *(*on, sys.executable, "-m", "fyke", *arguments),
                cwd=self.folder,
                env=own | self.environ | environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
        role = Role(process, log)
        self.roles.append(role)
        return role

    async def ask(self, question: Callable[[Stores], Awaitable[T]]) -> T:
        """Ask ledger and frontier, as a verb does."""
        async with open_stores(self.settings) as stores:
            return await question(stores)

    async def counts(self) -> SourceCounts:
        async def ask(stores: Stores) -> SourceCounts:
            (counts,) = await stores.ledger.counts()
            return counts

        return await self.ask(ask)

    async def make_due(self) -> None:
        """The source has had a slot some minutes ago, that nobody has taken."""
        async with open_database(self.settings) as database:
            await database.write(
                lambda connection: connection.execute("UPDATE source SET applied_at = applied_at - 200000")
            )

    def detail_hits(self) -> dict[str, int]:
        hits: dict[str, int] = self.site.hits()["detail"]
        return hits

    async def stored(self, number: int, seconds: float) -> None:
        """Return when so many items are stored; fails with what the processes said."""
        found: Any = None
        try:
            async with asyncio.timeout(seconds):
                while (found := await self.counts()).stored < number:  # noqa: ASYNC110 - others bring it about
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise AssertionError(f"{found} in place of {number} stored; {self.told()}") from None

    def told(self) -> str:
        return "\n".join(f"--- {role.log.name}\n{role.said[-3_000:]}" for role in self.roles)

    async def end(self) -> None:
        for role in self.roles:
            if role.alive:
                with suppress(ProcessLookupError):
                    os.killpg(role.process.pid, signal.SIGKILL)
                await role.process.wait()


async def open_town(
    stack: AsyncExitStack,
    folder: Path,
    ledger: str,
    frontier: str,
    config: SiteConfig,
    *,
    concurrency: int = 4,
    grace: str = "2s",
    more: str = "",
    cron: str = "* * * * *",
    host: str = "127.0.0.1",
) -> Town:
    """A town whose source is applied; all its processes end with `stack`. `host`: where the site listens."""
    site = await stack.enter_async_context(await serve_site(config, host))
    (folder / "sources").mkdir()
    text = SOURCE.format(url=site.url, concurrency=16).replace("0 8 1 1 *", cron)
    (folder / "sources" / "lab.yaml").write_text(text, encoding="utf-8")
    toml = SHORT.format(concurrency=concurrency, grace=grace, more=more)
    (folder / "fyke.toml").write_text(toml, encoding="utf-8")
    settings = load_settings(folder, {"FYKE_LEDGER": ledger, "FYKE_FRONTIER": frontier}).settings
    async with open_stores(settings) as stores:
        await apply_sources(stores, read_sources(folder / "sources"))
    town = Town(folder, site, ledger, frontier, settings)
    stack.push_async_callback(town.end)
    return town


async def until(condition: Callable[[], object], seconds: float, town: Town) -> None:
    """Return when something outside this process has come true; fails with what the processes said."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - another process brings it about
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(town.told()) from None


async def in_thread(call: Callable[[], Any]) -> None:
    """Servers are started and stopped by blocking calls."""
    await asyncio.to_thread(call)


async def away(servers: list[ServerProcess], town: Town, seconds: float) -> None:
    """The servers are killed, and started again after a while; no process ends meanwhile."""
    for server in servers:
        await in_thread(server.kill)
    await asyncio.sleep(seconds)
    assert all(role.alive for role in town.roles), town.told()
    for server in servers:
        await in_thread(server.start)
