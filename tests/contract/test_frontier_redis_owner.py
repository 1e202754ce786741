"""A namespace serves one ledger: a command with another one takes nothing away, unless it is told to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random

import pytest

from fyke.errors import LedgerClosed
from fyke.frontiers.redis import RedisFrontier
from fyke.testing.frontier_harness import item


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_frontier_of_another_ledger_is_left_alone_until_it_may_be_taken_over(
    shards: int, fresh_redis: Callable[..., str]
) -> None:
    url = fresh_redis()
    async with AsyncExitStack() as stack:

        async def handle(*, take_over: bool = False) -> RedisFrontier:
            found = await RedisFrontier.open(
                url, namespace="owner", shards=shards, lease_ms=3_000, random=Random(1), take_over=take_over
            )
            stack.push_async_callback(found.close)
            return found

        mine = await handle()
        assert await mine.rebuild("ledger-a", 1)
        await mine.offer([item(1), item(2)])

        other = await handle()
        with pytest.raises(LedgerClosed, match="namespace 'owner' of this Redis serves ledger ledger-a, and yours is"):
            await other.rebuild("ledger-b", 1)
        assert await mine.known(["i1", "i2"]) == [1, 1]
        assert not await mine.rebuild("ledger-a", 1)
        assert await mine.rebuild("ledger-a", 2), "a new epoch of the same ledger empties it, as ever"

        assert await (await handle(take_over=True)).rebuild("ledger-b", 1)
        with pytest.raises(LedgerClosed, match="serves ledger ledger-b"):
            await mine.rebuild("ledger-a", 2)
