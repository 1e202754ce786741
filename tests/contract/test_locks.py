"""The schedulers' lock, one contract for all that keep one: one holder, an end without renewal, tokens that grow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from fyke.app import open_stores
from fyke.ports import Lock
from fyke.settings import load_settings
from tests.servers import DATABASES

LONG_MS, SHORT_MS = 60_000, 100
KINDS = ("sqlite", *DATABASES, "valkey-9", "redis-6.2")


@pytest.fixture(params=KINDS)
async def lock(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    fresh_database: Callable[[str], str],
    fresh_redis: Callable[[str], str],
) -> AsyncIterator[Lock]:
    kind = request.param
    environ = {"FYKE_LEDGER": f"sqlite:///{tmp_path / 'fyke.db'}"}
    if kind in DATABASES:
        environ["FYKE_LEDGER"] = fresh_database(kind)
    elif kind != "sqlite":
        environ["FYKE_FRONTIER"] = fresh_redis(kind)
    async with open_stores(load_settings(tmp_path, environ).settings) as stores:
        yield stores.lock


async def taken(lock: Lock, owner: str) -> int:
    """The token, once the lock could be had."""
    async with asyncio.timeout(10):
        while (token := await lock.acquire("plan", owner, LONG_MS)) is None:  # noqa: ASYNC110 - it ends by itself
            await asyncio.sleep(0.02)
    return token


async def test_of_many_that_ask_at_once_one_gets_it(lock: Lock) -> None:
    answers = await asyncio.gather(*(lock.acquire("plan", f"p{n}", LONG_MS) for n in range(10)))
    assert sum(token is not None for token in answers) == 1


async def test_a_holder_renews_and_frees_it_and_nobody_else_does(lock: Lock) -> None:
    token = await lock.acquire("plan", "a", LONG_MS)
    assert token is not None
    assert await lock.acquire("plan", "a", LONG_MS) is None
    assert await lock.acquire("plan", "b", LONG_MS) is None
    assert [await lock.renew("plan", *whose, LONG_MS) for whose in (("b", token), ("a", token + 1))] == [False, False]
    assert [await lock.release("plan", *whose) for whose in (("b", token), ("a", token - 1))] == [False, False]
    assert await lock.renew("plan", "a", token, LONG_MS)
    assert await lock.release("plan", "a", token)
    later = await lock.acquire("plan", "b", LONG_MS)
    assert later is not None
    assert later > token
    assert not await lock.release("plan", "a", token)


async def test_a_holder_that_does_not_renew_loses_it_and_finds_out(lock: Lock) -> None:
    token = await lock.acquire("plan", "a", SHORT_MS)
    assert token is not None
    assert await taken(lock, "b") > token
    assert not await lock.renew("plan", "a", token, LONG_MS)
    assert not await lock.release("plan", "a", token)
    assert await lock.acquire("plan", "c", LONG_MS) is None


async def test_renewal_counts_from_now(lock: Lock) -> None:
    token = await lock.acquire("plan", "a", SHORT_MS)
    assert token is not None
    assert await lock.renew("plan", "a", token, LONG_MS)
    await asyncio.sleep(3 * SHORT_MS / 1000)
    assert await lock.acquire("plan", "b", LONG_MS) is None


async def test_locks_of_other_names_are_other_locks(lock: Lock) -> None:
    assert await lock.acquire("plan", "a", LONG_MS) is not None
    assert await lock.acquire("another", "b", LONG_MS) is not None
