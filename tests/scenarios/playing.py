"""A site, servers of our own behind relays, and real `fyke scheduler` and `fyke worker` processes on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from fyke.app import open_database, open_stores
from fyke.lab.chaos.arena import LEASE_S, SOURCE_ID, Arena, open_arena
from fyke.lab.chaos.checker import Verdict
from fyke.lab.chaos.history import History
from fyke.lab.chaos.plan import ChaosConfig
from fyke.lab.chaos.players import Player, Players
from fyke.lab.chaos.run import EffectLog, Watch, judge, make_players, prepare
from fyke.lab.servers import RedisServer
from fyke.model import RunRow
from fyke.settings import load_settings
from fyke.testing.effects import install_effect_log, written_twice

__all__ = ["LEASE_S", "Playing", "playing"]

EFFECTS = EffectLog(install_effect_log, written_twice)
T = TypeVar("T")


class Playing:
    """All that plays, and what is known of it from outside."""

    def __init__(self, arena: Arena, config: ChaosConfig) -> None:
        self.arena, self.config = arena, config
        self.settings = load_settings(config.folder, arena.variables(relayed=False)).settings
        self.history = History(config.folder)
        self.watch = Watch(self.settings, self.history, lambda _: None)
        self.players: Players = make_players(arena, self.history, lambda _: None)

    @property
    def redis(self) -> RedisServer:
        assert self.arena.redis is not None
        return self.arena.redis

    async def open_run(self) -> None:
        await self.watch.open_run(self.arena.site.url)

    def pids(self, role: str = "") -> dict[str, list[int]]:
        """Each place with its process and the children of it."""
        return {player.name: player.pids() for player in self.players.of(role)}

    def worker(self) -> Player:
        return self.players.of("worker")[0]

    async def ask(self, question: str) -> list[tuple[Any, ...]]:
        """Of the ledger's own tables."""
        async with open_database(self.settings) as database:
            return await database.read(lambda connection: connection.execute(question).fetchall())

    async def workers_since(self, moment: int) -> set[str]:
        """The workers that began a visit after this moment (ms) and ended it."""
        rows = await self.ask(f"SELECT DISTINCT worker FROM visit WHERE started_at > {int(moment)}")
        return {worker for (worker,) in rows}

    async def now(self) -> int:
        """The ledger's clock."""
        async with open_stores(self.settings) as stores:
            return await stores.ledger.now()

    async def runs(self) -> list[RunRow]:
        async with open_stores(self.settings) as stores:
            return await stores.ledger.runs(SOURCE_ID, limit=100)

    async def hits(self, kind: str) -> int:
        return sum((await self.arena.site.hits())[kind].values())

    async def settle(self, pids: dict[str, list[int]] | None = None) -> Verdict:
        """Wait until nothing is open; what the checker says then. `pids`: those that must be there still."""
        site = self.arena.site
        assert await self.watch.settle(site.url, (await site.truth())["listed_total"], self.config.settle), self.said()
        assert pids is None or self.pids() == pids
        await self.players.stop(20)
        verdict = await judge(self.settings, self.arena, EFFECTS, self.history)
        assert self.history.ended == [], self.said()
        return verdict

    def said(self) -> str:
        logs = self.arena.folder.glob("*.log")
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1_500:]}" for path in logs)


@asynccontextmanager
async def playing(folder: Path, **values: Any) -> AsyncIterator[Playing]:
    """Started, and waiting for a run; `values` are of `ChaosConfig`. All ends with it."""
    config = ChaosConfig(folder=folder / "play", **values)
    config.folder.mkdir()
    async with open_arena(config, ()) as arena:
        play = Playing(arena, config)
        await prepare(play.settings, EFFECTS)
        keeping = asyncio.create_task(play.players.keep())
        try:
            play.players.start()
            yield play
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            play.players.kill()
            play.history.close()


async def until(ask: Callable[[], Any], seconds: float) -> None:
    """Return when something outside this process has come true."""
    async with asyncio.timeout(seconds):
        while not await ask():  # noqa: ASYNC110 - other processes bring it about
            await asyncio.sleep(0.1)
