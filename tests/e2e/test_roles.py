"""Roles of many machines as processes: any order, outages, wipes, stops (SCENARIOS 1, 7, 8)."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fyke.app.stores import Stores
from fyke.lab.servers import MariaServer, PostgresServer, RedisServer
from fyke.lab.site import SiteConfig
from tests.e2e.town import PASSWORD, Town, away, in_thread, open_town, until

pytestmark = [pytest.mark.serial, pytest.mark.skipif(sys.platform == "win32", reason="stops by signal")]

ITEMS = 150


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as found:
        yield found


async def all_told_to_stop(town: Town, number: int = signal.SIGTERM) -> None:
    for role in town.roles:
        if role.alive:
            role.tell(number)
    assert [await role.ended(15) for role in town.roles] == [0] * len(town.roles), town.told()


async def check_balance(town: Town, items: int = ITEMS) -> None:
    counts = await town.counts()
    assert (counts.listed, counts.stored, counts.open, counts.dead) == (items, items, 0, 0)
    audit = await town.start("audit", "--json")
    assert await audit.ended(30) == 0, audit.said
    report = json.loads(audit.said)
    assert (report["balanced"], report["unaccounted"], report["stored"]) == (True, 0, items)


@pytest.mark.parametrize("pair", ["Redis and PostgreSQL", "MariaDB alone"])
async def test_roles_that_start_before_their_servers_wait_for_them_and_collect(
    stack: AsyncExitStack,
    tmp_path: Path,
    own_postgres: Callable[..., PostgresServer],
    own_maria: Callable[..., MariaServer],
    own_redis: Callable[..., RedisServer],
    pair: str,
) -> None:
    servers: list[Any] = [own_maria()] if pair == "MariaDB alone" else [own_postgres(), own_redis()]
    frontier = "sql" if pair == "MariaDB alone" else servers[1].url
    town = await open_town(stack, tmp_path, servers[0].url, frontier, SiteConfig(items=ITEMS, latency_ms=5))
    await town.make_due()
    for server in servers:
        await in_thread(server.stop)
    roles = [
        await town.start(*arguments) for arguments in (("worker", "--processes", "2"), ("reconciler",), ("scheduler",))
    ]
    await until(lambda: all("waiting for" in role.said for role in roles), 30, town)
    for server in reversed(servers):
        await in_thread(server.start)
    await town.stored(ITEMS, 60)
    assert all(role.alive for role in roles)
    await all_told_to_stop(town)
    assert set(town.detail_hits().values()) == {1}
    await check_balance(town)


async def test_outages_of_both_servers_and_a_wipe_end_no_process_and_lose_nothing(
    stack: AsyncExitStack,
    tmp_path: Path,
    own_postgres: Callable[..., PostgresServer],
    own_redis: Callable[..., RedisServer],
) -> None:
    """Killed and started again, one after the other, and emptied; what was in hand may be fetched once more."""
    items, slots, faults = 900, 8, 3
    postgres, redis = own_postgres(), own_redis()
    town = await open_town(stack, tmp_path, postgres.url, redis.url, SiteConfig(items=items, latency_ms=100))
    await town.make_due()
    for arguments in (("scheduler",), ("worker", "--processes", "2"), ("reconciler",)):
        await town.start(*arguments)
    pids = [role.process.pid for role in town.roles]

    await until(lambda: len(town.detail_hits()) > 50, 40, town)
    await away([redis], town, 6)
    await progress(town)
    await away([postgres], town, 6)
    await progress(town)
    redis.ask("FLUSHALL")
    await progress(town)
    await town.stored(items, 120)
    assert [role.process.pid for role in town.roles if role.alive] == pids

    async def events(stores: Stores) -> list[str]:
        return [event.message for event in await stores.ledger.events(limit=1_000) if event.kind == "lost"]

    assert any("lost its content" in text for text in await town.ask(events))
    await all_told_to_stop(town)
    hits = Counter(town.detail_hits())
    assert len(hits) == items
    # In hand is what is being fetched, and as many results that are not committed yet.
    assert sum(hits.values()) - items <= faults * 2 * slots, hits.most_common(10)
    await check_balance(town, items)


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")


def asked_for(town: Town, number: int) -> bool:
    return sum(town.detail_hits().values()) >= number


async def progress(town: Town) -> None:
    """New pages are asked for within ten seconds of the servers' return."""
    before = len(town.detail_hits())
    await until(lambda: len(town.detail_hits()) > before + 5, 10, town)


async def test_a_server_that_never_comes_is_named_with_the_reason_and_without_its_password(
    stack: AsyncExitStack, tmp_path: Path, own_redis: Callable[..., RedisServer]
) -> None:
    redis = own_redis()
    ledger = f"sqlite:///{tmp_path / 'fyke.db'}"
    town = await open_town(stack, tmp_path, ledger, redis.url, SiteConfig(items=1))
    await in_thread(redis.stop)
    url = f"redis://:{PASSWORD}@127.0.0.1:{redis.port}/0"
    roles = [
        await town.start(name, "--set", "servers.wait=3s", "--set", f"frontier={url}")
        for name in ("worker", "scheduler", "reconciler")
    ]
    await until(lambda: all("waiting for" in role.said for role in roles), 30, town)
    lines = [command_line(role.process.pid) for role in roles]
    assert [(PASSWORD in line, "***" in line) for line in lines] == [(False, True)] * 3
    assert [await role.ended(30) for role in roles] == [1, 1, 1]
    for role in roles:
        assert f"redis://***@127.0.0.1:{redis.port}/0 cannot be used after 3 s (servers.wait)" in role.said
        assert "cannot be reached" in role.said
        assert PASSWORD not in role.said


async def test_a_worker_told_to_stop_gives_back_within_its_grace_time_and_a_second_signal_ends_it_at_once(
    stack: AsyncExitStack,
    tmp_path: Path,
    own_redis: Callable[..., RedisServer],
) -> None:
    redis = own_redis()
    ledger = f"sqlite:///{tmp_path / 'fyke.db'}"
    town = await open_town(stack, tmp_path, ledger, redis.url, SiteConfig(items=8), grace="1s")
    truth = town.site.truth()
    paths = [record["url"].removeprefix(town.site.url) for record in truth["records"].values()]
    town.site.control(script={path: ["hold", "hold"] for path in paths})
    await town.make_due()
    scheduler = await town.start("scheduler")
    for second in (False, True):
        before = sum(town.detail_hits().values())
        worker = await town.start("worker")
        await until(partial(asked_for, town, before + 4), 30, town)
        worker.tell(signal.SIGTERM)
        if second:
            await asyncio.sleep(0.2)
            worker.tell(signal.SIGTERM)
        code = await worker.ended(10)
        assert code == (128 + signal.SIGTERM if second else 0), town.told()
    scheduler.tell(signal.SIGTERM)
    assert await scheduler.ended(15) == 0

    async def stats(stores: Stores) -> int:
        return (await stores.frontier.stats()).ready

    # The first four were given back; the second four come back when their leases end.
    assert await town.ask(stats) >= 4
