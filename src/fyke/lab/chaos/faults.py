"""What each fault does to the servers, the processes and the connections of an arena, and how it is healed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from fyke.lab.chaos.arena import LEASE_S, Arena
from fyke.lab.chaos.nemesis import Act
from fyke.lab.chaos.players import Player, Players
from fyke.lab.servers import RedisServer, ServerProcess
from fyke.lab.servers.redis import ask

BURST_S: Final = 5.0
DOWN_S: Final = (0.3, 2.0)
SWALLOW_S: Final = 5.0
MOST_CUT: Final = 20_000
KEYS_A_SCAN: Final = 1_000

Record = Callable[[str], None]


class Faults:
    """The acts of the nemesis, by name."""

    def __init__(self, arena: Arena, players: Players, random: Random) -> None:
        self._arena, self._players, self._random = arena, players, random
        self._outage = arena.config.outage

    def acts(self, names: tuple[str, ...]) -> Mapping[str, Act]:
        """Those of these names. Poison is no act: the site has it from the start."""
        known: dict[str, Act] = {
            "kill": self.kill,
            "kill-scheduler": self.kill_scheduler,
            "stop": self.stop,
            "term": self.term,
            "redis-kill": self.redis_kill,
            "redis-restart": self.redis_restart,
            "redis-cut": self.redis_cut,
            "redis-flush": self.redis_flush,
            "redis-stream": self.redis_stream,
            "redis-freeze": self.redis_freeze,
            "database-kill": self.database_kill,
            "database-away": self.database_away,
            "cut": self.cut,
            "swallow": self.swallow,
            "burst": self.burst,
        }
        return {name: known[name] for name in names if name in known}

    # --- processes ---

    async def kill(self, record: Record) -> None:
        record(self._one("worker").kill_one(self._random))

    async def kill_scheduler(self, record: Record) -> None:
        record(self._one("scheduler").kill_one(self._random))

    async def stop(self, record: Record) -> None:
        player = self._one()
        seconds = LEASE_S + self._random.uniform(0.5, 3.0)
        player.freeze()
        record(f"{player.name} for {seconds:.1f} s")
        try:
            await asyncio.sleep(seconds)
        finally:
            player.thaw()

    async def term(self, record: Record) -> None:
        player = self._one()
        player.term()
        record(player.name)

    # --- Redis ---

    async def redis_kill(self, record: Record) -> None:
        await self._bounce(self._redis(), record)

    async def redis_restart(self, record: Record) -> None:
        await self._bounce(self._redis(), record, kill=False)

    async def redis_cut(self, record: Record) -> None:
        redis = self._redis()
        size = self._random.randint(1, MOST_CUT)
        await self._bounce(redis, record, before_start=lambda: f", {redis.cut_tail(size)} bytes cut off")

    async def redis_flush(self, record: Record) -> None:
        if self._arena.redis is not None:
            await asyncio.to_thread(self._arena.redis.ask, "FLUSHALL")
            record("all keys")
            return
        keys = await self._keys(f"{{fyke:{self._arena.namespace}:*")
        for key in keys:
            await asyncio.to_thread(ask, self._arena.redis_url, "DEL", key)
        record(f"{len(keys)} keys")

    async def redis_stream(self, record: Record) -> None:
        keys = await self._keys(f"{{fyke:{self._arena.namespace}:*}}:s:*")
        for key in keys:
            await asyncio.to_thread(ask, self._arena.redis_url, "DEL", key)
        record(f"{len(keys)} streams")

    async def redis_freeze(self, record: Record) -> None:
        redis, relay = self._arena.redis, self._arena.redis_relay
        if redis is not None:
            redis.freeze()
        elif relay is not None:
            relay.freeze()
        record(f"for {self._outage:.1f} s")
        try:
            await asyncio.sleep(self._outage)
        finally:
            if redis is not None:
                redis.thaw()
            elif relay is not None:
                await relay.heal()

    # --- the database ---

    async def database_kill(self, record: Record) -> None:
        await self._bounce(self._database(), record)

    async def database_away(self, record: Record) -> None:
        if self._arena.database is not None:
            await self._bounce(self._arena.database, record, seconds=self._outage)
        elif self._arena.database_relay is not None:
            await self._arena.database_relay.refuse()
            record(f"for {self._outage:.1f} s")
            try:
                await asyncio.sleep(self._outage)
            finally:
                await self._arena.database_relay.heal()

    # --- connections and the site ---

    async def cut(self, record: Record) -> None:
        record(f"{sum(relay.cut() for relay in self._arena.relays)} connections")

    async def swallow(self, record: Record) -> None:
        relay, cut = self._random.choice(self._arena.relays), self._random.random() < 0.5
        what = "Redis" if relay is self._arena.redis_relay else "the database"
        try:
            reply = await asyncio.wait_for(relay.swallow(cut=cut), SWALLOW_S)
        except TimeoutError:
            return  # nothing was asked meanwhile
        record(f"{len(reply)} bytes of {what}" + (", and the connection" if cut else ""))

    async def burst(self, record: Record) -> None:
        await self._arena.site.control(everywhere="503")
        record(f"for {BURST_S:.1f} s")
        try:
            await asyncio.sleep(BURST_S)
        finally:
            await self._arena.site.control(everywhere=None)

    # --- the parts ---

    def _one(self, role: str = "") -> Player:
        players = self._players.of(role)
        running = [player for player in players if player.running and not player.frozen]
        return self._random.choice(running or players)

    def _redis(self) -> RedisServer:
        assert self._arena.redis is not None  # `chosen_faults` has seen to it
        return self._arena.redis

    def _database(self) -> ServerProcess:
        assert self._arena.database is not None  # `chosen_faults` has seen to it
        return self._arena.database

    async def _bounce(
        self,
        server: ServerProcess,
        record: Record,
        *,
        kill: bool = True,
        seconds: float | None = None,
        before_start: Callable[[], str] = str,
    ) -> None:
        down = self._random.uniform(*DOWN_S) if seconds is None else seconds
        try:
            await asyncio.to_thread(server.kill if kill else server.stop)
            record(f"{server.name}, down for {down:.1f} s{before_start()}")
            await asyncio.sleep(down)
        finally:
            await asyncio.to_thread(server.start)

    async def _keys(self, pattern: str) -> list[str]:
        url, found, cursor = self._arena.redis_url, [], "0"
        while True:
            cursor, keys = await asyncio.to_thread(ask, url, "SCAN", cursor, "MATCH", pattern, "COUNT", KEYS_A_SCAN)
            found += keys
            if cursor == "0":
                return found
