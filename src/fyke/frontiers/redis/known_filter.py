"""The known filter on Redis: exact (whole numbers in small sets) or Bloom (bits), by month, in one hash slot.

It may lose everything at any time: a mark that is gone only means that the ledger is asked (P2). An exact one that may
have lost something remembers nothing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self

from fyke.errors import UsageError
from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.known_scripts import BLOOM_ADD, BLOOM_HITS, EXACT_ADD, EXACT_HITS, EXACT_VOID
from fyke.ports import Clock, FilterStats

Kind = Literal["exact", "bloom"]

# Redis keeps a set of at most 512 whole numbers as a sorted array (set-max-intset-entries): 8 bytes each.
A_BUCKET: Final = 300
CHUNK_BITS: Final = 1 << 20
MOST_BITS: Final = 1 << 36
DAY_S: Final = 86_400
MOST_DAYS: Final = 31


class RedisKnownFilter:
    """Implements `ports.KnownFilter`.

    `planned`: entries that it is made for, of one ledger in one month: the number of its buckets, or bits.
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
        self.planned, self._months = planned, months
        self.exact = kind == "exact"
        self._buckets = max(1, math.ceil(planned / A_BUCKET))
        self.shape = f"{kind}:{namespace}:{self._buckets}:{months}"
        # Each month may be wrong, and any of them is enough.
        self._bits, self._hashes = (0, 0) if self.exact else bloom_size(planned, error_rate / months)

    @classmethod
    def at(cls, url: str, clock: Clock, **settings: Any) -> Self:
        """At a frontier's address; connects with the first call."""
        connection = Connection(read_address(url))
        # The frontier has told what a person must change; no walk ends for a filter.
        connection.starting = False
        return cls(connection, clock, **settings)

    async def hits(self, space: str, marks: Sequence[bytes], voids: Sequence[bytes] = ()) -> list[bool]:
        if not marks:
            return []
        if self.exact:
            words = _triples(self._buckets, marks, voids)
            found = await self._connection.run(EXACT_HITS, self._key(space), *self._kept(), space, words)
            return [int(month) > 0 for month in found]
        bits = ",".join(map(self._bits_of, marks))
        found = await self._connection.run(BLOOM_HITS, self._key(space), *self._kept(), bits)
        old = [mark for mark, month in zip(marks, found, strict=True) if int(month) > 1]
        if old:
            await self.add(space, old)
        return [int(month) > 0 for month in found]

    async def add(self, space: str, marks: Sequence[bytes], voids: Sequence[bytes] = ()) -> int:
        if not marks:
            return 0
        if self.exact:
            words = _triples(self._buckets, marks, voids)
            return int(await self._connection.run(EXACT_ADD, self._key(space), *self._kept(), space, words))
        bits = ",".join(map(self._bits_of, marks))
        return int(await self._connection.run(BLOOM_ADD, self._key(space), *self._kept(), bits, CHUNK_BITS - 1))

    async def void(self, space: str, voids: Sequence[bytes]) -> None:
        if not voids or not self.exact:
            return
        (this, *others), keep = self._names(), self._keep
        # By another machine's clock it may be the month before, or the next one already.
        before, following = self._month(-1), self._month(1)
        older = [name for name in others if name != before]
        months = " ".join((this, before, following, *older))
        words = " ".join("{}:{}".format(*_places(self._buckets, void)) for void in voids)
        await self._connection.run(EXACT_VOID, self._key(space), months, keep, space, 3, words)

    async def stats(self, space: str) -> FilterStats:
        """Of the fullest of the months that count. Asks with the script that walks ask with, so its rights show."""
        await self.hits(space, [bytes(12)], [bytes(12)])
        counts = await self._connection.ask("HMGET", self._key(space), *self._names(), key=self._key(space))
        return FilterStats(self._kind, max((int(count or 0) for count in counts), default=0), self.planned)

    async def close(self) -> None:
        await self._connection.close()

    def _key(self, space: str) -> str:
        return f"{{fyke:{self._namespace}:known}}:{self._kind}:{space.partition(':')[0]}"

    @property
    def _keep(self) -> int:
        return self._months * MOST_DAYS * DAY_S

    def _kept(self) -> tuple[str, int]:
        return " ".join(self._names()), self._keep

    def _names(self) -> list[str]:
        """This month and those before it that count, as YYYYMM."""
        return [self._month(-back) for back in range(self._months)]

    def _month(self, offset: int) -> str:
        moment = datetime.fromtimestamp(self._clock.now() / 1000, UTC)
        year, month = divmod(moment.year * 12 + moment.month - 1 + offset, 12)
        return f"{year:04}{month + 1:02}"

    def _bits_of(self, mark: bytes) -> str:
        # Two hashes make any number of them: Kirsch and Mitzenmacher, "Less hashing, same performance" (2006).
        first, second = int.from_bytes(mark[:6], "big"), int.from_bytes(mark[6:], "big") | 1
        positions = ((first + number * second) % self._bits for number in range(self._hashes))
        return " ".join(f"{position // CHUNK_BITS}:{position % CHUNK_BITS}" for position in positions)


def bloom_size(planned: int, error_rate: float) -> tuple[int, int]:
    """Bits and hashes of a Bloom filter: m = -n ln p / (ln 2)^2, k = m/n ln 2 (Bloom 1970).

    Raises:
        UsageError: it would be too large.
    """
    bits = max(64, math.ceil(-planned * math.log(error_rate) / math.log(2) ** 2))
    if bits > MOST_BITS:
        raise UsageError(
            f"a Bloom filter for {planned} entries needs {bits // 8_000_000_000} GB a month, and 8 is the most",
            field="known_filter.planned",
            hint="a smaller known_filter.planned or known_filter.one_in, or known_filter.kind = 'exact'",
        )
    return bits, max(1, round(bits / planned * math.log(2)))


def _places(buckets: int, mark: bytes) -> tuple[int, int]:
    bucket, member = struct.unpack(">Iq", mark)
    return bucket % buckets, member


def _triples(buckets: int, marks: Sequence[bytes], voids: Sequence[bytes]) -> str:
    """bucket:mark:void of each."""
    found = []
    for mark, void in zip(marks, voids, strict=True):
        bucket, member = _places(buckets, mark)
        found.append(f"{bucket}:{member}:{_places(buckets, void)[1]}")
    return " ".join(found)
