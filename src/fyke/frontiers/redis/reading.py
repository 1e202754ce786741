"""Reading much in small calls: all live tasks in order of key, and the statistics."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from fyke.frontiers.redis.rows import POOLS
from fyke.frontiers.redis.shard import Shard
from fyke.model import FrontierStats, LaneStats, TaskKind

KEYS_A_CALL: Final = 1_000
LANES_A_CALL: Final = 1_000
MOST_LANES: Final = 200
# Delayed and leased tasks beyond are in the totals, but not told by lane.
MOST_TOLD: Final = 20_000


class Sweep:
    """All live tasks page by page. A hash has no order: the names are read at the first page and kept to the last."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._rows: list[tuple[str, int]] = []

    async def page(self, after: str, limit: int) -> list[tuple[str, int, TaskKind]]:
        if after == "" or not self._rows:
            self._rows = await self._read()
        start = bisect_right(self._rows, after, key=lambda row: row[0])
        page = self._rows[start : start + limit]
        if len(page) < limit:
            self._rows = []
        return [(key, generation, TaskKind(key[0])) for key, generation in page]

    async def _read(self) -> list[tuple[str, int]]:
        found: dict[str, int] = {}
        for shard in self._shards:
            cursor = "0"
            while True:
                cursor, rows = await shard.call("keys", [cursor, KEYS_A_CALL])
                for key, generation in rows:
                    found[key] = max(generation, found.get(key, generation))
                if int(cursor) == 0:
                    break
        return sorted(found.items())


class Statistics:
    """Counts in calls of bounded length, so that nobody waits for them."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards

    async def read(self, ahead: Callable[[int], int]) -> FrontierStats:
        """`ahead`: how far a server whose clock says so is before the caller."""
        parts = [_Part(shard, ahead) for shard in self._shards]
        for part in parts:
            await part.read()
        totals = [sum(numbers) for numbers in zip(*(part.totals for part in parts), strict=True)]
        ready, delayed, leased, acked, buried, aside = totals
        lanes = sorted((lane for part in parts for lane in part.lanes), key=_most_tasks)
        pools = Counter[str]()
        for part in parts:
            pools.update(part.pools)
        return FrontierStats(
            ready,
            delayed,
            leased,
            min((part.oldest for part in parts if part.oldest), default=None),
            max((part.last for part in parts if part.last), default=None),
            lanes[:MOST_LANES],
            acked=acked,
            buried=buried,
            next_at=min((at for part in parts for at in part.soon), default=None),
            pools=dict(pools),
            aside=aside,
        )


class _Part:
    """The statistics of one shard."""

    def __init__(self, shard: Shard, ahead: Callable[[int], int]) -> None:
        self._shard, self._ahead = shard, ahead
        self.totals: tuple[int, ...] = ()
        self.soon: list[int] = []
        self.last = self.oldest = 0
        self.pools = Counter[str]()
        self.lanes: list[LaneStats] = []

    async def read(self) -> None:
        answer = await self._shard.call("stats", ["totals", 0, 0])
        ready, delayed, leased, last, acked, buried, soon, aside = answer
        self.totals = (ready, delayed, leased, acked, buried, aside)
        by_lane = {
            "ready": await self._ready(),
            "delayed": await self._told("delayed"),
            "leased": await self._told("leased"),
        }
        now, held = await self._held()
        ahead = self._ahead(now)
        names = {lane for counts in by_lane.values() for lane in counts} | held.keys()
        best = sorted(names, key=lambda lane: (-sum(counts[lane] for counts in by_lane.values()), lane))[:MOST_LANES]
        times = await self._shard.call("stats", ["lanes", best, 0]) if best else []
        for lane, (next_at, hold) in zip(best, times, strict=True):
            ready, delayed, leased = (by_lane[state][lane] for state in ("ready", "delayed", "leased"))
            if ready + delayed + leased or hold > now:
                told = [at and at - ahead for at in (next_at, hold)]
                self.lanes.append(LaneStats(lane, ready, delayed, leased, *told))
        self.soon = [at - ahead for at in soon]
        self.last, self.oldest = last and last - ahead, self.oldest and self.oldest - ahead

    async def _ready(self) -> Counter[str]:
        lanes: dict[tuple[str, str], int] = {}
        for pool in POOLS:
            for number in range(3):
                first: Any = 0
                while first is not False:
                    part = f"ready:{pool}:{number}"
                    first, rows, since = await self._shard.call("stats", [part, first, LANES_A_CALL])
                    # A lane may stand in two classes: what is there counts once.
                    lanes.update({(pool, lane): count for lane, count in rows if count})
                    if since and (not self.oldest or since < self.oldest):
                        self.oldest = since
        counts = Counter[str]()
        for (pool, lane), count in lanes.items():
            counts[lane] += count
            self.pools[pool] += count
        return counts

    async def _told(self, state: str) -> Counter[str]:
        counts, first = Counter[str](), "0"
        cursor: Any = 0 if state == "delayed" else first
        while cursor is not False and counts.total() < MOST_TOLD:
            cursor, lanes = await self._shard.call("stats", [state, cursor, KEYS_A_CALL])
            counts.update(lanes)
            if cursor == "0":
                break
        return counts

    async def _held(self) -> tuple[int, dict[str, int]]:
        held: dict[str, int] = {}
        cursor = "0"
        while True:
            now, (cursor, rows) = await self._shard.timed("stats", ["held", cursor, KEYS_A_CALL])
            held.update({lane: till for lane, till in rows if till > now})
            if int(cursor) == 0:
                return now, held


def _most_tasks(lane: LaneStats) -> tuple[int, str]:
    return (-(lane.ready + lane.delayed + lane.leased), lane.lane)
