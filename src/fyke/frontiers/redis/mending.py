"""What somebody did to the frontier's keys from outside is found and set right: places are swept both ways (P2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.rows import POOLS
from fyke.frontiers.redis.shard import Shard

PARTS: Final = (
    "t",
    "l",
    "ends",
    "att",
    "per",
    "pe",
    "delay",
    *(f"{name}:{pool}" for name in ("s", "pending") for pool in POOLS),
)
BY_LANE: Final = (*(f"r:{pool}" for pool in POOLS), "slots")
A_CALL: Final = 200
EVERY_S: Final = 600.0


class Mended(Struct, frozen=True):
    """`requeued`: tasks without a place; `restored`: leases without their entry; `removed`: left-overs of all kinds."""

    requeued: int = 0
    restored: int = 0
    removed: int = 0


class Mender:
    """Sweeps in small calls, beside all other work."""

    def __init__(self, connection: Connection, shards: Iterable[Shard], monotonic: Callable[[], float]) -> None:
        self._connection, self._shards, self._monotonic = connection, shards, monotonic
        self._swept_at = monotonic()
        self.wanted = False

    async def sweep_if_due(self) -> None:
        """Every ten minutes, and once after something was found lost."""
        if self.wanted or self._monotonic() - self._swept_at >= EVERY_S:
            await self.sweep()

    async def sweep(self) -> Mended:
        self.wanted, self._swept_at = False, self._monotonic()
        counts = [0, 0, 0]
        for shard in self._shards:
            for part in PARTS:
                await self._part(shard, part, counts)
            for name in BY_LANE:
                async for found in self._connection.found(f"{shard.prefix}{name}:*", shard.meta):
                    for key in found:
                        await self._part(shard, key.decode().removeprefix(shard.prefix), counts)
        return Mended(*counts)

    async def _part(self, shard: Shard, part: str, counts: list[int]) -> None:
        cursor = "0"
        while True:
            cursor, *numbers = await shard.call("verify", [part, cursor, A_CALL])
            counts[:] = [total + number for total, number in zip(counts, numbers, strict=True)]
            if cursor == "0":
                return
