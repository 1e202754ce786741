"""The frontier's calls, spread over its shards.

A task lives in the shard of its lane, and a lane is in one shard only, so each decision is one script (P1, P4). Calls
over several shards are split and joined; a permit in a lane of another shard lives there, with a deadline of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from fyke.errors import LeaseLost
from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.mending import Mended, Mender
from fyke.frontiers.redis.opening import (
    check_names,
    check_start,
    memory_share,
    read_epochs,
    read_runs,
    refuse_foreign,
)
from fyke.frontiers.redis.reading import Statistics, Sweep
from fyke.frontiers.redis.rows import (
    BATCH_LIMIT,
    WAIT_LIMIT_MS,
    best_first,
    check_batch,
    check_lanes,
    check_pool,
    check_tasks,
    delivery_of,
    member,
    offer_row,
    read_reaped,
    reference,
    retry_row,
    view_of,
)
from fyke.frontiers.redis.scripts import Script, load_scripts
from fyke.frontiers.redis.shard import Shard
from fyke.frontiers.redis.spread import Shards
from fyke.frontiers.redis.waking import Waker
from fyke.model import (
    Delivery,
    FrontierStats,
    LanePolicy,
    Leased,
    Reaped,
    Retry,
    Started,
    Task,
    TaskKind,
    TaskView,
)
from fyke.policy.politeness import strictest
from fyke.ports import Clock

log = logging.getLogger("fyke.frontier")
T = TypeVar("T")

LANES_A_CALL = 500
SKEW_MS = 500


class RedisFrontier:
    """Implements `ports.Frontier` on Redis 6.2 or later, or Valkey. Time is the server's.

    `open` connects and checks; then `rebuild` says whose frontier it is. Times that go in and out are the
    caller's, where `clock` tells them: the two servers' clocks may be apart.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        namespace: str,
        shards: int,
        lease_ms: int,
        random: Random,
        clock: Clock | None = None,
        scripts: Mapping[str, Script] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._random, self._lease_ms, self._monotonic = connection, random, lease_ms, monotonic
        self._still_until, self._clock = monotonic(), clock
        scripts = scripts or load_scripts()
        self._shards = Shards(
            Shard(connection, scripts, f"{{fyke:{namespace}:{number}}}:", monotonic, self._pause)
            for number in range(shards)
        )
        self._turn = 0
        self._waker = Waker(connection, [shard.prefix for shard in self._shards])
        self._sweep, self._statistics = Sweep(list(self._shards)), Statistics(list(self._shards))
        self._mender = Mender(connection, self._shards, monotonic)
        self._runs, self._namespace, self._take_over = set[str](), namespace, True

    @classmethod
    async def open(cls, url: str, *, namespace: str, shards: int, take_over: bool = False, **settings: Any) -> Self:
        """Connect, and refuse a server that would lose or evict tasks. `take_over`: see `rebuild`.

        Raises:
            UsageError: a person must change the address or the server's settings.
            TransientError: it cannot be reached now.
        """
        check_names(namespace, shards)
        connection = Connection(read_address(url))
        try:
            frontier = cls(connection, namespace=namespace, shards=shards, **settings)
            await check_start(connection, [shard.meta for shard in frontier._shards])
            await frontier.bind()
            frontier._take_over = take_over
        except BaseException:
            await connection.close()
            raise
        connection.starting = False
        return frontier

    async def bind(self) -> None:
        """Take the frontier as it is found; `rebuild` makes one that is not there."""
        for shard, epoch in zip(self._shards, await read_epochs(self._connection, list(self._shards)), strict=True):
            shard.epoch = epoch
        self._runs = await read_runs(self._connection, [shard.meta for shard in self._shards])

    # --- Lanes ---

    async def configure(self, lanes: Sequence[LanePolicy], *, tighten: bool = False) -> None:
        check_lanes(one.lane for one in lanes)
        rows: dict[Shard, list[tuple[str, int, int, int]]] = {shard: [] for shard in self._shards}
        for one in strictest(lanes):
            rows[self._shards.of(one.lane)].append((one.lane, one.gap, one.jitter, one.concurrency))
        for shard, own in rows.items():
            if tighten and not own:
                continue
            # A whole configuration counts from its last call on.
            stamp = 1 + await shard.call("configure", [0, True, False, []])
            for start in range(0, max(1, len(own)), LANES_A_CALL):
                last = start + LANES_A_CALL >= len(own)
                await shard.call("configure", [stamp, tighten, last, own[start : start + LANES_A_CALL]])

    async def hold(self, lane: str, until: int, reason: str) -> None:
        check_lanes([lane])
        left = until - self._clock.now() if until and self._clock else False
        await self._shards.of(lane).call("hold", [lane, until, left, reason])

    async def held(self, lane: str) -> int:
        wait: int = await self._shards.of(lane).call("held", [lane])
        return wait

    # --- Tasks ---

    async def offer(self, tasks: Sequence[Task]) -> int:
        check_tasks(tasks)
        wanted, moved = best_first(tasks), 0
        if len(self._shards) > 1:
            wanted, moved = await self._shards.not_elsewhere(wanted)
        parts: dict[Shard, list[list[object]]] = {}
        for key, task in wanted.items():
            parts.setdefault(self._shards.of(task.lane), []).append(offer_row(key, task))
        answers = await asyncio.gather(*(shard.call("offer", rows) for shard, rows in parts.items()))
        return sum(int(new) for new, _ in answers) - moved

    async def lease(self, limit: int, duration_ms: int, *, worker: str, pool: str = "text") -> Leased:
        check_pool(pool)
        self._waker.pools.add(pool)
        deliveries: list[Delivery] = []
        waits: list[int] = []
        # Each time another shard comes first, or it would have all that one worker can take.
        self._turn = (self._turn + 1) % len(self._shards)
        for shard in self._shards.from_turn(self._turn):
            room = min(max(0, limit - len(deliveries)), BATCH_LIMIT)
            if deliveries and not room:
                break
            now, (wait, rows) = await shard.timed("lease", partial(self._and_still, pool, room, worker, duration_ms))
            deliveries += [delivery_of(row, pool, worker, now + duration_ms, self._ahead(now)) for row in rows]
            waits.append(wait)
        deliveries.sort(key=lambda one: one.task.priority)
        return Leased(deliveries, min(waits))

    async def begin(self, deliveries: Sequence[Delivery]) -> list[Started]:
        draw = self._random.random
        answers = await self._shards.spread("begin", deliveries, lambda one: (*reference(one), draw()), list, list)
        return [Started(lost, starts, wait, reserved) for lost, starts, wait, reserved in answers]

    async def permit(self, delivery: Delivery, lane: str, limit_ms: int = 5_000) -> int:
        check_lanes([lane])
        home, there = self._shards.of(delivery.task.lane), self._shards.of(lane)
        key, token = reference(delivery)
        draw = self._random.random()
        if home is there:
            wait = await home.call("permit", partial(self._and_still, key, token, lane, limit_ms, draw))
        else:
            # Written down at home first, so that the end of the lease ends the place there.
            wait = await home.call("abroad", [key, token, lane])
            if wait is not False:
                place = [member(delivery), lane, limit_ms, draw, *wait]
                wait = await there.call("visit", partial(self._and_still, *place))
        if wait is False:
            raise LeaseLost(f"task {key} is not {delivery.worker}'s any more")
        return int(wait)

    async def extend(self, deliveries: Sequence[Delivery], duration_ms: int) -> list[bool]:
        def arguments(rows: list[Any]) -> list[Any]:
            return [duration_ms, rows]

        return await self._shards.end("extend", deliveries, reference, arguments, renewed=duration_ms)

    async def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        return await self._shards.end("finish", deliveries, reference, lambda rows: ["acked", rows])

    async def bury(self, deliveries: Sequence[Delivery]) -> list[bool]:
        return await self._shards.end("finish", deliveries, reference, lambda rows: ["buried", rows])

    async def release(self, deliveries: Sequence[Delivery]) -> list[bool]:
        return await self._shards.end("release", deliveries, reference, list)

    async def retry(self, retries: Sequence[Retry]) -> list[bool]:
        by_place = {id(one.delivery): one for one in retries}
        deliveries = [one.delivery for one in retries]
        if len(by_place) < len(retries):
            # One delivery twice in a batch: the first one counts.
            by_place = {id(one.delivery): one for one in reversed(retries)}
        return await self._shards.end("retry", deliveries, lambda one: retry_row(by_place[id(one)]), list)

    async def reap(self, limit: int = 100) -> list[Reaped]:
        reaped: list[Reaped] = []
        for shard in self._shards:
            room = min(limit, BATCH_LIMIT) - len(reaped)
            if room > 0:
                rows = await shard.call("reap", partial(self._and_still, room))
                reaped += [read_reaped(row) for row in rows]
        return reaped

    async def pause_reaping(self) -> None:
        self._pause()

    # --- Looking and mending ---

    async def keys(self, after: str = "", limit: int = 1000) -> list[tuple[str, int, TaskKind]]:
        if after == "":
            await self._mender.sweep_if_due()
        return await self._sweep.page(after, min(limit, BATCH_LIMIT))

    async def known(self, keys: Sequence[str]) -> list[int | None]:
        check_batch(keys)
        if not keys:
            return []
        answers = await asyncio.gather(*(shard.call("known", list(keys)) for shard in self._shards))
        return [max((one for one in found if one is not False), default=None) for found in zip(*answers, strict=True)]

    async def drop(self, keys: Sequence[tuple[str, int]]) -> int:
        check_batch(keys)
        if not keys:
            return 0
        return sum([await shard.call("drop", list(dict.fromkeys(keys))) for shard in self._shards])

    async def view(self, key: str) -> TaskView | None:
        for shard in self._shards:
            now, row = await shard.timed("view", [key])
            if row:
                return view_of(key, row, self._ahead(now))
        return None

    async def stats(self) -> FrontierStats:
        found = await self._statistics.read(self._ahead)
        return replace(found, memory=await memory_share(self._connection, [shard.meta for shard in self._shards]))

    async def rebuild(self, ledger_id: str, epoch: int) -> bool:
        """As the port says; one that serves another ledger is a LedgerClosed, unless it may be taken over."""
        if not self._take_over:
            refuse_foreign(await read_epochs(self._connection, list(self._shards)), ledger_id, self._namespace)
        mark = f"{self._random.getrandbits(64):016x}"
        made = [await shard.make(f"{ledger_id}:{epoch}", mark, len(self._shards)) for shard in self._shards]
        return any(made)

    @property
    def made(self) -> int:
        return self._shards.of("").made

    async def damaged(self) -> str:
        lost = [text for shard in self._shards if (text := shard.damage())]
        before, self._runs = self._runs, await read_runs(self._connection, [shard.meta for shard in self._shards])
        if before and self._runs and not self._runs <= before:
            lost.append("its server was started again, or another one took over")
        self._mender.wanted |= bool(lost)
        return "; ".join(dict.fromkeys(lost))

    async def mend(self) -> Mended:
        """Sweep all places both ways now; `keys` does so by itself from time to time."""
        return await self._mender.sweep()

    async def wait(self, timeout_ms: int) -> None:
        await self._waker.wait(min(max(timeout_ms, 0), WAIT_LIMIT_MS) / 1000)

    async def close(self) -> None:
        await self._waker.close()
        await self._connection.close()

    # --- Shards ---

    def _pause(self) -> None:
        self._still_until = self._monotonic() + self._lease_ms / 1000

    def _and_still(self, *values: object) -> list[object]:
        """Arguments that end with whether nothing may be taken for expired."""
        return [*values, self._still]

    def _ahead(self, now: int) -> int:
        """How far the server's clock, which says `now`, is ahead of the caller's; what NTP leaves counts as nothing."""
        ahead = now - self._clock.now() if self._clock else 0
        return ahead if abs(ahead) >= SKEW_MS else 0

    @property
    def _still(self) -> bool:
        return self._monotonic() < self._still_until or any(shard.was_away for shard in self._shards)
