"""Real roles on each pair of servers: killed, told to stop, paused, idle, poisoned (SCENARIOS 1, 5, 6, 12, 15, 21)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from fyke.app.run import crew
from fyke.app.sources import apply_sources, read_sources
from fyke.app.stores import Stores, open_database
from fyke.lab.crew import kill
from fyke.lab.servers.process import family, signal_all
from fyke.lab.site import RunningSite, SiteConfig, serve_site
from fyke.model import DeadFilter
from fyke.pipeline.auditor import audit
from fyke.pipeline.scheduler import open_by_hand
from fyke.testing.effects import install_effect_log, written_twice
from tests.crash.shop import SOURCE
from tests.e2e.town import Town, open_town, until
from tests.scenarios.pairs import PAIRS, QUICK, Addresses

pytestmark = [pytest.mark.serial, pytest.mark.skipif(sys.platform == "win32", reason="stops by signal")]

Build = Callable[..., Awaitable[Town]]
on_each_pair = pytest.mark.parametrize("pair", [pytest.param(pair, marks=QUICK[pair]) for pair in PAIRS])
LEASE_S: Final = 2  # as in town.SHORT


@pytest.fixture
async def build(tmp_path: Path, addresses: Addresses) -> AsyncIterator[Build]:
    """`await build(pair, config, …)`: a town whose source has no slot soon; whatever is written there is logged."""
    async with AsyncExitStack() as stack:

        async def make(pair: str, config: SiteConfig, **values: Any) -> Town:
            ledger, frontier = addresses(pair)
            town = await open_town(stack, tmp_path, ledger, frontier, config, cron="0 8 1 1 *", **values)
            async with open_database(town.settings) as database:
                await database.write(lambda connection: install_effect_log(connection, "notices"))
            return town

        yield make


async def open_run(town: Town, *sources: str) -> None:
    async def ask(stores: Stores) -> None:
        async with crew(stores) as parts:
            await open_by_hand(parts.scheduler, stores.ledger, parts.shelf, list(sources or ("lab",)))

    await town.ask(ask)


async def look(town: Town, question: str) -> list[tuple[Any, ...]]:
    async with open_database(town.settings) as database:
        return await database.read(lambda connection: [tuple(row) for row in connection.execute(question)])


async def settled(town: Town, *, stored: int, dead: int = 0) -> None:
    """P2 and P3: each item is what it must be, the audit balances, the frontier is empty, nothing is written twice."""
    counts = await town.counts()
    assert (counts.stored, counts.dead, counts.open) == (stored, dead, 0), town.told()

    async def ask(stores: Stores) -> None:
        stats = await stores.frontier.stats()
        assert (stats.ready, stats.delayed, stats.leased) == (0, 0, 0)
        report = await audit(stores.ledger, stores.frontier)
        assert report.findings == []
        assert report.balanced

    await town.ask(ask)
    async with open_database(town.settings) as database:
        assert await database.read(written_twice) == []


def asked_for(town: Town, number: int) -> bool:
    return sum(town.detail_hits().values()) >= number


def details_of(site: RunningSite) -> list[str]:
    return [record["url"].removeprefix(site.url) for record in site.truth()["records"].values()]


# --- 1 ---


@pytest.mark.crash_long
@pytest.mark.parametrize("pair", PAIRS)
async def test_three_workers_one_of_which_is_killed_each_two_seconds_write_each_item_once(
    build: Build, pair: str
) -> None:
    """SCENARIOS 1: nothing is lost; only what a killed one had in hand is asked for again."""
    items, slots, random = 200, 2, Random(1)
    town = await build(pair, SiteConfig(items=items, latency_ms=500), concurrency=slots)
    await town.start("reconciler")
    workers = [await town.start("worker") for _ in range(3)]
    await open_run(town)
    kills = 0
    await until(partial(asked_for, town, 10), 60, town)
    while (await town.counts()).stored < items - 20:
        number = random.randrange(3)
        kill(workers[number].process.pid)
        kills += 1
        workers[number] = await town.start("worker")
        await asyncio.sleep(2)
        assert kills < 60, town.told()
    await town.stored(items, 60)
    await settled(town, stored=items)
    assert kills >= 3
    assert sum(town.detail_hits().values()) - items <= kills * slots


@on_each_pair
async def test_a_worker_told_to_stop_hands_over_at_once_and_spends_no_attempt(build: Build, pair: str) -> None:
    """SCENARIOS 1: 8 pages in hand that do not end, a grace time of 1 s, a lease of a minute."""
    town = await build(pair, SiteConfig(items=8), concurrency=8, grace="1s")
    town.environ["FYKE_LEASE"] = "60s"
    town.site.control(script={path: ["hold"] for path in details_of(town.site)})
    first = await town.start("worker")
    await open_run(town)
    await until(partial(asked_for, town, 8), 60, town)
    second = await town.start("worker")
    await until_worker(town, 2)
    loop = asyncio.get_running_loop()
    first.tell(signal.SIGTERM)
    told = loop.time()
    assert await first.ended(10) == 0, town.told()
    ended = loop.time()
    assert ended - told < 4, town.told()
    await until(partial(asked_for, town, 16), 10, town)
    # By itself, a lease would have lasted a minute.
    assert loop.time() - ended < 5, town.told()
    await town.stored(8, 30)
    assert second.alive
    assert await look(town, "SELECT max(starts) FROM visit") == [(1,)]
    await settled(town, stored=8)


async def until_worker(town: Town, number: int) -> None:
    """So many workers have said that they live."""
    async with asyncio.timeout(60):
        while len(await look(town, "SELECT worker FROM worker WHERE pool = 'text'")) < number:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


# --- 5 ---


@on_each_pair
async def test_a_worker_that_was_paused_past_its_lease_wakes_and_changes_nothing(build: Build, pair: str) -> None:
    """SCENARIOS 5: two requests, one row written once, a late result, nothing left."""
    town = await build(pair, SiteConfig(items=1, latency_ms=2_000), concurrency=1)
    paused = await town.start("worker")
    await open_run(town)
    await until(partial(asked_for, town, 1), 60, town)
    signal_all(family(paused.process.pid), signal.SIGSTOP)
    try:
        await town.start("worker")
        await town.start("reconciler")
        await town.stored(1, 60)
    finally:
        signal_all(family(paused.process.pid), signal.SIGCONT)
    # It has been back at work when it says that it lives; what it held is over by then.
    since = (await look(town, "SELECT max(beat_at) FROM worker"))[0][0]
    async with asyncio.timeout(30):
        while not await look(  # noqa: ASYNC110 - another process brings it about
            town, f"SELECT 1 FROM worker WHERE started_at = (SELECT min(started_at) FROM worker) AND beat_at > {since}"
        ):
            await asyncio.sleep(0.2)
    paused.tell(signal.SIGTERM)
    assert await paused.ended(20) == 0, town.told()
    assert list(town.detail_hits().values()) == [2]
    await settled(town, stored=1)


# --- 6 ---


@pytest.mark.crash_long
@pytest.mark.parametrize("pair", PAIRS)
async def test_a_blocked_worker_is_told_within_130_s_and_replaced_and_all_is_done(build: Build, pair: str) -> None:
    """SCENARIOS 6: the loop of the only worker stands still with 50 tasks waiting; nobody does anything by hand."""
    town = await build(pair, SiteConfig(items=50, latency_ms=200), concurrency=2)
    supervisor = await town.start("worker")
    await town.start("reconciler")
    await open_run(town)
    await until(partial(asked_for, town, 4), 60, town)
    child = family(supervisor.process.pid)[-1]
    assert child != supervisor.process.pid
    signal_all([child], signal.SIGSTOP)
    blocked = asyncio.get_running_loop().time()
    try:
        while not await look(town, "SELECT 1 FROM event WHERE kind = 'stalled'"):
            # The lease of what it held comes before the two minutes.
            assert asyncio.get_running_loop().time() - blocked < 130 + 3 * LEASE_S, town.told()
            await asyncio.sleep(1)
        await town.stored(50, 60)
    finally:
        signal_all([child], signal.SIGCONT)
    await settled(town, stored=50)


# --- 12 ---


@pytest.mark.crash_long
@pytest.mark.parametrize("pair", PAIRS)
async def test_four_workers_keep_a_slow_site_s_gap_and_let_no_other_site_wait(build: Build, pair: str) -> None:
    """SCENARIOS 12: site A twice a second, its own log; B and C without a limit are done long before it."""
    pages = 60
    town = await build(pair, SiteConfig(items=pages, latency_ms=50), concurrency=8)
    async with (
        await serve_site(SiteConfig(items=pages, latency_ms=50), "127.0.0.2") as quick,
        await serve_site(SiteConfig(items=pages, latency_ms=50), "127.0.0.3") as other,
    ):
        folder = town.folder / "sources"
        slow = (folder / "lab.yaml").read_text(encoding="utf-8")
        (folder / "lab.yaml").write_text(slow.replace("delay: 0s", "delay: 500ms"), encoding="utf-8")
        for name, site in (("b", quick), ("c", other)):
            text = SOURCE.format(url=site.url, concurrency=16).replace("id: lab", f"id: {name}")
            text = text.replace("scope: lab", f"scope: {name}").replace("table: notices", f"table: notices_{name}")
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")

        async def apply(stores: Stores) -> None:
            await apply_sources(stores, read_sources(folder))

        await town.ask(apply)
        for _ in range(4):
            await town.start("worker")
        await until_worker(town, 4)
        await open_run(town, "lab", "b", "c")
        await until(partial(asked_for, town, pages), 120, town)
        # The site's clock, in ms; robots.txt, the list and the details alike.
        arrivals = [[ms for ms, _, _ in site.hits()["arrivals"]] for site in (town.site, quick, other)]
        slow_arrivals = arrivals[0]
        assert min(later - earlier for earlier, later in pairwise(slow_arrivals)) >= 450
        span = slow_arrivals[-1] - slow_arrivals[0]
        assert span <= 1.06 * 500 * (len(slow_arrivals) - 1)
        for quick_arrivals in arrivals[1:]:
            assert len(quick_arrivals) >= pages
            assert quick_arrivals[-1] - slow_arrivals[0] < span / 2


# --- 15 ---


@on_each_pair
async def test_an_idle_worker_says_nothing_and_starts_the_first_task_within_a_second(build: Build, pair: str) -> None:
    """SCENARIOS 15: no error and no new connection while nothing waits; then it is there at once."""
    town = await build(pair, SiteConfig(items=1))
    worker = await town.start("worker")
    await until_worker(town, 1)
    said = worker.said
    # Longer than a blocking read, twice. The ten minutes of the scenario differ from this in nothing but their length.
    await asyncio.sleep(float(os.environ.get("FYKE_IDLE_SECONDS", "12")))
    assert worker.said == said
    await open_run(town)
    loop = asyncio.get_running_loop()
    offered = loop.time()
    assert await town.site.wait_hits(1, 30) >= 1
    assert loop.time() - offered < 1.5, town.told()
    await town.stored(1, 30)
    assert "WARN" not in worker.said
    assert "ERROR" not in worker.said


# --- 21 ---


@on_each_pair
async def test_of_a_hundred_and_two_one_always_fails_one_kills_its_worker_and_the_rest_are_rows(
    build: Build, pair: str
) -> None:
    """SCENARIOS 21: exactly 2 dead letters with 3 attempts each and the right reasons, 3 deaths, nothing pending."""
    town = await build(pair, SiteConfig(items=102, poison=1, latency_ms=5), concurrency=4)
    town.environ["FYKE_ATTEMPTS_LIMIT"] = "3"
    records, poison = town.site.truth()["records"], town.site.site.board.poison
    path = next(record["url"] for key, record in records.items() if key not in poison).removeprefix(town.site.url)
    town.site.control(script={path: ["hold"] * 10})
    supervisor = await town.start("worker")
    await town.start("reconciler")
    await open_run(town)
    for death in range(1, 4):
        await until(lambda death=death: town.detail_hits().get(path, 0) >= death, 60, town)  # type: ignore[misc]
        kill(family(supervisor.process.pid)[-1])
    await town.stored(100, 120)
    async with asyncio.timeout(60):
        while (await town.counts()).dead < 2:  # noqa: ASYNC110 - another process brings it about
            await asyncio.sleep(0.2)
    assert supervisor.alive

    async def letters(stores: Stores) -> list[tuple[str, int]]:
        return sorted((one.outcome, one.attempts) for one in await stores.ledger.dead_letters(DeadFilter()))

    assert await town.ask(letters) == [("misfit", 3), ("worker_died", 3)]
    assert town.detail_hits()[path] == 3
    await settled(town, stored=100, dead=2)
