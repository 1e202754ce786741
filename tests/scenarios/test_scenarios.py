"""SCENARIOS 5, 6, 9, 12, 14, 16-18, 21, 24 on the embedded default: real site, real files, the real pipeline in this
process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fyke.lab.site import SiteConfig, serve_site
from tests.scenarios import storing, watching
from tests.scenarios.collecting import Collecting

BLOCK = "block"


def paths(site_truth: dict[str, object], keys: list[str]) -> list[str]:
    records = site_truth["records"]
    assert isinstance(records, dict)
    return ["/" + records[key]["url"].split("/", 3)[3] for key in keys]


async def test_a_page_that_takes_longer_than_the_lease_is_fetched_once(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=1, slow=1.0, slow_seconds=3.0)) as site:
        await watching.slow_page(site, Collecting(tmp_path, site, lease="1s", read="3s", total="20s"))


async def test_an_empty_list_where_there_were_entries_is_suspicious_and_told(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=20)) as site:
        await watching.empty_list(site, Collecting(tmp_path, site))


async def test_a_renamed_title_stores_no_empty_row_and_names_the_field(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=20)) as site:
        await watching.renamed_title(site, Collecting(tmp_path, site, ready="table.info"))


async def test_a_page_gone_three_times_is_dead_and_replayed_it_is_stored(tmp_path: Path) -> None:
    """SCENARIOS 14: 19 rows and a dead letter; after replay 20 rows."""
    async with await serve_site(SiteConfig(items=20)) as site:
        await storing.gone_three_times(site, Collecting(tmp_path, site))


async def test_an_orphan_is_reported_mended_and_then_a_row(tmp_path: Path) -> None:
    """SCENARIOS 14: what is known without a row, a task or a letter is named; repair makes it a row."""
    async with await serve_site(SiteConfig(items=5)) as site:
        await storing.orphan(Collecting(tmp_path, site))


async def test_block_pages_are_never_stored_and_pause_the_source(tmp_path: Path) -> None:
    """SCENARIOS 16, one address: 0 rows, every task kept with the reason, the source paused and a person told."""
    async with await serve_site(SiteConfig(items=8)) as site:
        truth = site.truth()
        site.control(script={path: [BLOCK] * 50 for path in paths(truth, truth["ids"])})
        more = 'blocks_to_pause = 3\n[hold]\nfirst = "100ms"\nlongest = "200ms"'
        here = Collecting(tmp_path, site)
        text = (tmp_path / "fyke.toml").read_text()
        (tmp_path / "fyke.toml").write_text("blocks_to_pause = 3\n" + text + more.split("\n", 1)[1] + "\n")
        report = await here.once(wait_ms=20_000)
        assert here.rows() == []
        assert here.states() == {"open": 8}
        assert any("paused" in problem for problem in report.problems)
        assert here.ask("SELECT count(*) > 0 FROM event WHERE kind = 'blocked'") == [(1,)]
        assert here.ask("SELECT DISTINCT outcome FROM visit") == [("blocked",)]


async def test_a_row_that_the_database_refuses_takes_no_neighbour_with_it(tmp_path: Path) -> None:
    """SCENARIOS 17: the bad row is a dead letter with the database's message; all others are stored."""
    async with await serve_site(SiteConfig(items=30)) as site:
        await storing.refused_row(site, Collecting(tmp_path, site), 30)


async def test_the_second_run_reads_the_list_and_fetches_only_what_is_new_or_changed(tmp_path: Path) -> None:
    """SCENARIOS 18: 20 details, then 3 new and 1 changed; 23 rows, one of them in version 2."""
    async with await serve_site(SiteConfig(items=20)) as site:
        await storing.second_run(site, Collecting(tmp_path, site))


async def test_a_page_that_always_fails_is_dead_after_its_attempts_and_the_others_are_stored(tmp_path: Path) -> None:
    """SCENARIOS 21: 1 dead letter with 3 attempts and its reason; the rest are rows."""
    async with await serve_site(SiteConfig(items=40, poison=1)) as site:
        here = Collecting(tmp_path, site)
        await here.once()
        assert len(here.rows()) == 39
        ((outcome, attempts, reason),) = here.ask("SELECT outcome, attempts, reason FROM dead")
        assert (outcome, attempts) == ("misfit", 3)
        assert reason
        assert here.ask("SELECT count(*) FROM task") == [(0,)]


@pytest.mark.serial
async def test_retry_after_holds_the_host_for_all_and_the_item_is_stored(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=12, retry_after=2)) as site:
        await watching.waited_for(site, Collecting(tmp_path, site, at_once=1, concurrency=4), 2)


@pytest.mark.serial
async def test_four_processes_worth_of_workers_share_the_budget(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=15)) as site:
        await watching.shared_budget(site, Collecting(tmp_path, site, delay="200ms", at_once=4), 200)


async def test_producers_of_the_same_ids_make_each_new_once(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=1)) as site:
        await watching.producers(Collecting(tmp_path, site), 10, 200, 50)
