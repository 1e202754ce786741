"""SCENARIOS 5, 6, 9, 12, 14, 17, 18, 20, 24 on each pair of servers: Redis, or the sql frontier, and a ledger."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fyke.lab.site import RunningSite, SiteConfig, serve_site
from tests.scenarios import storing, watching
from tests.scenarios.collecting import Collecting
from tests.scenarios.pairs import PAIRS, QUICK, Addresses

Here = Callable[..., Collecting]
on_the_first_pair = pytest.mark.parametrize(
    "here", [pytest.param(pair, marks=QUICK[pair]) for pair in PAIRS], indirect=True
)


@pytest.fixture(params=PAIRS)
def here(request: pytest.FixtureRequest, tmp_path: Path, addresses: Addresses) -> Here:
    ledger, frontier = addresses(request.param)

    def make(site: RunningSite, **values: Any) -> Collecting:
        return Collecting(tmp_path, site, ledger=ledger, frontier=frontier, **values)

    return make


async def test_a_page_gone_three_times_is_dead_and_replayed_it_is_stored(here: Here) -> None:
    async with await serve_site(SiteConfig(items=20)) as site:
        await storing.gone_three_times(site, here(site))


async def test_an_orphan_is_reported_mended_and_then_a_row(here: Here) -> None:
    async with await serve_site(SiteConfig(items=5)) as site:
        await storing.orphan(here(site))


async def test_a_row_that_the_database_refuses_takes_no_neighbour_with_it(here: Here) -> None:
    async with await serve_site(SiteConfig(items=30)) as site:
        await storing.refused_row(site, here(site), 30)


@pytest.mark.crash_long
async def test_of_a_thousand_rows_the_refused_one_alone_is_dead(here: Here) -> None:
    async with await serve_site(SiteConfig(items=1_000)) as site:
        await storing.refused_row(site, here(site, concurrency=32, at_once=32), 1_000)


async def test_the_second_run_reads_the_list_and_fetches_only_what_is_new_or_changed(here: Here) -> None:
    async with await serve_site(SiteConfig(items=20)) as site:
        await storing.second_run(site, here(site))


@on_the_first_pair
async def test_eight_writers_of_two_thousand_shared_keys_write_each_once(here: Here) -> None:
    async with await serve_site(SiteConfig(items=1)) as site:
        await storing.eight_writers(here(site))


@on_the_first_pair
@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
async def test_what_was_in_hand_and_in_the_buffer_at_a_kill_ends_as_rows(here: Here) -> None:
    """SCENARIOS 17: killed amid the work, three times; each item is a row, and only what was in hand came again."""
    items, slots, kills = 120, 8, 3
    async with await serve_site(SiteConfig(items=items, latency_ms=40)) as site:
        there = here(site, concurrency=slots, at_once=slots, lease="2s")
        for number in range(1, kills + 1):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "fyke", "run", "--once"),
                cwd=there.folder,
                env=there.environ(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                await site.wait_hits(items * number // (kills + 1), 60)
            finally:
                process.kill()
                await process.wait()
        report = await there.once()
        assert report.problems == []
        await storing.balanced(there, rows=items)
        hits = site.hits()["detail"]
        assert len(hits) == items
        assert sum(hits.values()) - items <= kills * slots


async def test_a_page_that_takes_longer_than_the_lease_is_fetched_once(here: Here) -> None:
    async with await serve_site(SiteConfig(items=1, slow=1.0, slow_seconds=3.0)) as site:
        await watching.slow_page(site, here(site, lease="1s", read="3s", total="20s"))


async def test_an_empty_list_where_there_were_entries_is_suspicious_and_told(here: Here) -> None:
    async with await serve_site(SiteConfig(items=20)) as site:
        await watching.empty_list(site, here(site))


async def test_a_renamed_title_stores_no_empty_row_and_names_the_field(here: Here) -> None:
    async with await serve_site(SiteConfig(items=20)) as site:
        await watching.renamed_title(site, here(site, ready="table.info"))


@pytest.mark.serial
async def test_retry_after_holds_the_host_for_all_and_the_task_starts_once_when_it_is_due(here: Here) -> None:
    async with await serve_site(SiteConfig(items=12, retry_after=3)) as site:
        await watching.waited_for(site, here(site, at_once=1, concurrency=4, lease="1s"), 3)


@pytest.mark.serial
async def test_four_processes_worth_of_workers_share_the_budget(here: Here) -> None:
    async with await serve_site(SiteConfig(items=15)) as site:
        await watching.shared_budget(site, here(site, delay="200ms", at_once=4), 200)


async def test_producers_of_the_same_ids_make_each_new_once(here: Here) -> None:
    async with await serve_site(SiteConfig(items=1)) as site:
        await watching.producers(here(site), 10, 200, 50)


@pytest.mark.crash_long
async def test_fifty_producers_of_the_same_thousand_ids_make_each_new_once(here: Here) -> None:
    async with await serve_site(SiteConfig(items=1)) as site:
        await watching.producers(here(site), 50, 1_000, 100)
