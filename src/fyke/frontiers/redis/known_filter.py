"""The known filter on Redis: exact (whole numbers in small sets) or Bloom (bits), by month, in one hash slot.

It may lose everything at any time: a mark that is gone only means that the ledger is asked (P2).
"""

from __future__ import annotations

import hashlib
import logging
import math
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self

from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.scripts import Script
from fyke.ports import Clock, FilterStats

log = logging.getLogger("fyke.known_filter")

Kind = Literal["exact", "bloom"]

# Redis keeps a set of at most 512 whole numbers as a sorted array (set-max-intset-entries): 8 bytes each.
A_BUCKET: Final = 300
CHUNK_BITS: Final = 1 << 20
MOST_BITS: Final = 1 << 36
DAY_S: Final = 86_400
MOST_DAYS: Final = 31


def _script(name: str, text: str) -> Script:
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


# KEYS[1]: the space's counters. ARGV: months (newest first) as one text, seconds to keep, then pairs.
# A mark that is found in an older month is remembered in this one again.
EXACT_HITS: Final = _script(
    "known_exact_hits",
    """
local found, months = {}, {}
for month in string.gmatch(ARGV[1], '%S+') do months[#months + 1] = month end
for i = 3, #ARGV, 2 do
  local hit = 0
  for n, month in ipairs(months) do
    if redis.call('SISMEMBER', KEYS[1] .. ':' .. month .. ':' .. ARGV[i], ARGV[i + 1]) == 1 then
      hit = n
      break
    end
  end
  found[#found + 1] = hit
end
return found
""",
)
EXACT_ADD: Final = _script(
    "known_exact_add",
    """
local month, added = string.match(ARGV[1], '%S+'), 0
for i = 3, #ARGV, 2 do
  local key = KEYS[1] .. ':' .. month .. ':' .. ARGV[i]
  if redis.call('SADD', key, ARGV[i + 1]) == 1 then
    added = added + 1
    if redis.call('SCARD', key) == 1 then redis.call('EXPIRE', key, ARGV[2]) end
  end
end
local total = redis.call('HINCRBY', KEYS[1], month, added)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return total
""",
)
# Each mark is the positions of its bits, joined by blanks.
BLOOM_HITS: Final = _script(
    "known_bloom_hits",
    """
local found, months = {}, {}
for month in string.gmatch(ARGV[1], '%S+') do months[#months + 1] = month end
for i = 3, #ARGV do
  local hit = 0
  for n, month in ipairs(months) do
    local all = true
    for chunk, bit in string.gmatch(ARGV[i], '(%d+):(%d+)') do
      if redis.call('GETBIT', KEYS[1] .. ':' .. month .. ':' .. chunk, bit) == 0 then
        all = false
        break
      end
    end
    if all then
      hit = n
      break
    end
  end
  found[#found + 1] = hit
end
return found
""",
)
BLOOM_ADD: Final = _script(
    "known_bloom_add",
    """
local month, added = string.match(ARGV[1], '%S+'), 0
for i = 3, #ARGV do
  local new = 0
  for chunk, bit in string.gmatch(ARGV[i], '(%d+):(%d+)') do
    local key = KEYS[1] .. ':' .. month .. ':' .. chunk
    if redis.call('SETBIT', key, bit, 1) == 0 then
      new = 1
      if redis.call('TTL', key) == -1 then redis.call('EXPIRE', key, ARGV[2]) end
    end
  end
  added = added + new
end
local total = redis.call('HINCRBY', KEYS[1], month, added)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return total
""",
)


class RedisKnownFilter:
    """Implements `ports.KnownFilter`.

    `planned`: entries that it is made for, over all spaces of a namespace together: the size of its buckets or bits.
    `months`: how many calendar months a mark outlives the last time that it was met, this one included.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        *,
        kind: Kind,
        namespace: str,
        planned: int,
        error_rate: float = 0.001,
        months: int = 2,
    ) -> None:
        self._connection, self._clock, self._kind, self._namespace = connection, clock, kind, namespace
        self._planned, self._months = planned, months
        self.exact = kind == "exact"
        self._buckets = max(1, math.ceil(planned / A_BUCKET))
        self._bits, self._hashes = bloom_size(planned, error_rate)
        self._told: set[str] = set()

    @classmethod
    def at(cls, url: str, clock: Clock, **settings: Any) -> Self:
        """At a frontier's address; connects with the first call."""
        return cls(Connection(read_address(url)), clock, **settings)

    async def hits(self, space: str, marks: Sequence[bytes]) -> list[bool]:
        if not marks:
            return []
        months = self._names()
        script = EXACT_HITS if self.exact else BLOOM_HITS
        found = await self._connection.run(script, self._key(space), " ".join(months), 0, *self._places(marks))
        old = [mark for mark, month in zip(marks, found, strict=True) if int(month) > 1]
        if old:
            await self.add(space, old)
        return [int(month) > 0 for month in found]

    async def add(self, space: str, marks: Sequence[bytes]) -> None:
        if not marks:
            return
        months, script = self._names(), EXACT_ADD if self.exact else BLOOM_ADD
        keep = self._months * MOST_DAYS * DAY_S
        total = await self._connection.run(script, self._key(space), " ".join(months), keep, *self._places(marks))
        if int(total) > self._planned and months[0] not in self._told:
            self._told.add(months[0])
            log.warning(
                "the known filter holds %d marks and was planned for %d: set known_filter.planned higher",
                int(total),
                self._planned,
            )

    async def stats(self, space: str) -> FilterStats:
        counts = await self._connection.ask("HMGET", self._key(space), *self._names(), key=self._key(space))
        return FilterStats(self._kind, max((int(count or 0) for count in counts), default=0), self._planned)

    async def close(self) -> None:
        await self._connection.close()

    def _key(self, space: str) -> str:
        return f"{{fyke:{self._namespace}:known}}:{self._kind}:{space}"

    def _names(self) -> list[str]:
        """This month and those before it that count, as YYYYMM."""
        year, month = divmod(_months_since_zero(self._clock.now()), 12)
        found = []
        for _ in range(self._months):
            found.append(f"{year:04}{month + 1:02}")
            year, month = (year, month - 1) if month else (year - 1, 11)
        return found

    def _places(self, marks: Sequence[bytes]) -> list[str | int]:
        if self.exact:
            places: list[str | int] = []
            for mark in marks:
                bucket, member = struct.unpack(">Iq", mark)
                places += (bucket % self._buckets, member)
            return places
        return [self._bits_of(mark) for mark in marks]

    def _bits_of(self, mark: bytes) -> str:
        # Two hashes make any number of them: Kirsch and Mitzenmacher, "Less hashing, same performance" (2006).
        first, second = int.from_bytes(mark[:6], "big"), int.from_bytes(mark[6:], "big") | 1
        positions = ((first + number * second) % self._bits for number in range(self._hashes))
        return " ".join(f"{position // CHUNK_BITS}:{position % CHUNK_BITS}" for position in positions)


def bloom_size(planned: int, error_rate: float) -> tuple[int, int]:
    """Bits and hashes of a Bloom filter: m = -n ln p / (ln 2)^2, k = m/n ln 2 (Bloom 1970)."""
    bits = min(MOST_BITS, max(64, math.ceil(-planned * math.log(error_rate) / math.log(2) ** 2)))
    return bits, max(1, round(bits / planned * math.log(2)))


def _months_since_zero(ms: int) -> int:
    """Months of the calendar (UTC) since year 0."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.year * 12 + moment.month - 1
