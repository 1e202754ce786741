"""Real processes, killed and stopped (CRASH-WINDOWS 8, 11, 29, 36; SCENARIOS 1)."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from fyke.lab.site import SiteConfig
from tests.crash.shop import Shop, open_shop, running, until, within

pytestmark = [pytest.mark.serial, pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")]

ITEMS, KILLS, SLOTS = 2_000, 20, 8


async def test_two_thousand_items_and_twenty_kills_leave_two_thousand_rows_each_written_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("FYKE_CRASH_SEED", "0")) or Random().randrange(10**6)
    print(f"FYKE_CRASH_SEED={seed}")
    random = Random(seed)
    config = SiteConfig(seed=seed, items=ITEMS, latency_ms=15, detail_size=1_000)
    async with open_shop(tmp_path, config, concurrency=SLOTS) as shop:
        process = await shop.start("run", "--once", "--wait", "60s")
        for number in range(KILLS):
            # Most of them amid the work, after so many more requests; each fifth while it starts.
            if number % 5 == 4:
                await asyncio.sleep(random.uniform(0.0, 1.0))
            else:
                await shop.site.wait_hits(shop.site.site.arrivals.total + random.randint(1, 90), 30)
            process.kill()
            await process.wait()
            process = await shop.start("run", "--once", "--wait", "60s")
        assert await within(60, process) == 0, shop.said()
        assert shop.broken(ITEMS) == []
        hits = shop.detail_hits()
        assert len(hits) == ITEMS
        assert sum(hits.values()) - ITEMS <= KILLS * SLOTS
        audit = await shop.start("audit", "--json")
        assert await within(30, audit) == 0, shop.said()


async def test_a_process_whose_file_another_program_locks_for_seconds_ends_well(tmp_path: Path) -> None:
    """Row 22, with the driver's own patience: 5 s, in which no page is fetched twice."""
    items = 300
    async with open_shop(tmp_path, SiteConfig(items=items, latency_ms=15), lease="2s") as shop:
        process = await shop.start("run", "--once", "--wait", "60s")
        await shop.site.wait_hits(items // 2, 30)
        with closing(sqlite3.connect(tmp_path / "fyke.db", isolation_level=None, timeout=30)) as other:
            other.execute("BEGIN EXCLUSIVE")
            await asyncio.sleep(5)
            other.execute("ROLLBACK")
        assert await within(60, process) == 0, shop.said()
        assert shop.broken(items) == []
        assert set(shop.detail_hits().values()) == {1}


async def test_workers_of_one_supervisor_that_are_killed_each_second_lose_nothing(tmp_path: Path) -> None:
    items, slots, kills = 1_000, 4, 8
    random = Random(11)
    config = SiteConfig(items=items, latency_ms=60, detail_size=1_000)
    async with open_shop(tmp_path, config, concurrency=slots, processes=3) as shop:
        await shop.open_run()
        supervisor = await shop.start("run")
        await shop.site.wait_hits(30, 30)
        killed = 0
        while killed < kills:
            alive = running(shop.workers())
            if alive:
                os.kill(random.choice(alive), signal.SIGKILL)
                killed += 1
            await asyncio.sleep(1)
        await until(lambda: nothing_is_left(shop), 60)
        supervisor.send_signal(signal.SIGTERM)
        assert await within(20, supervisor) == 0, shop.said()
        assert running(shop.workers()) == []
        assert shop.broken(items) == []
        # In hand is what it was fetching, and as many results that were not committed yet.
        assert sum(shop.detail_hits().values()) - items <= kills * 2 * slots
        assert shop.count("event WHERE kind = 'worker_died'") >= 1


def nothing_is_left(shop: Shop) -> bool:
    return not any(shop.count(what) for what in ("pass WHERE state = 'running'", "item WHERE pending = 1", "task"))


async def test_a_worker_told_to_stop_hands_over_at_once_and_spends_no_attempt(tmp_path: Path) -> None:
    """Row 29: 8 tasks in hand of 5 s each, a grace time of 1 s."""
    config = SiteConfig(items=8, latency_ms=0)
    async with open_shop(tmp_path, config, lease="60s", grace="1s") as shop:
        shop.site.control(script={path: ["hold"] for path in details_of(shop)})
        process = await shop.start("run", "--once", "--wait", "60s")
        await until(lambda: len(shop.detail_hits()) == 8, 30)
        loop = asyncio.get_running_loop()
        told = loop.time()
        process.send_signal(signal.SIGTERM)
        assert await within(10, process) == 0, shop.said()
        assert loop.time() - told < 3
        assert shop.ask("SELECT state, starts FROM task WHERE kind = 'i'") == [(0, 0)] * 8
        shop.site.control(release=True)
        again = await shop.start("run", "--once", "--wait", "60s")
        assert await within(30, again) == 0, shop.said()
        # The lease is a minute: they were free at once.
        assert loop.time() - told < 30
        assert shop.broken(8) == []
        assert shop.ask("SELECT max(starts) FROM visit") == [(1,)]


async def test_workers_whose_supervisor_was_killed_give_back_and_end(tmp_path: Path) -> None:
    """Row 36."""
    config = SiteConfig(items=8)
    async with open_shop(tmp_path, config, concurrency=4, processes=2, lease="60s", grace="500ms") as shop:
        shop.site.control(script={path: ["hold"] for path in details_of(shop)})
        await shop.open_run()
        supervisor = await shop.start("run")
        await until(lambda: len(shop.detail_hits()) == 8 and len(shop.workers()) == 2, 30)
        workers = shop.workers()
        assert len(running(workers)) == 2
        supervisor.kill()
        await supervisor.wait()
        await until(lambda: not running(workers), 10)
        assert shop.ask("SELECT state, starts FROM task WHERE kind = 'i'") == [(0, 0)] * 8


def details_of(shop: Shop) -> list[str]:
    truth = shop.site.truth()
    return [record["url"].removeprefix(shop.site.url) for record in truth["records"].values()]
