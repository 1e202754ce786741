"""What `fyke run --once` says at its end, and when that is."""

from __future__ import annotations

from pathlib import Path

from fyke.app import open_stores
from fyke.lab.site import SiteConfig, serve_site
from tests.scenarios.collecting import Collecting


async def test_it_ends_when_nothing_can_become_due_before_its_wait_is_over(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=5, dead=1)) as site:
        here = Collecting(tmp_path, site)
        text = (tmp_path / "fyke.toml").read_text()
        (tmp_path / "fyke.toml").write_text(text.replace('["100ms", "200ms"]', '["1h"]'))
        report = await here.once(wait_ms=120_000)
        assert report.seconds < 30
        assert report.still_open == 1
        assert any("still open: lab (1)" in problem for problem in report.problems)


async def test_a_list_that_could_not_be_read_is_named_with_its_reason(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=5, script={"/list/index.html": ("503",) * 40})) as site:
        here = Collecting(tmp_path, site)
        report = await here.once(wait_ms=2_000)
        (problem,) = [problem for problem in report.problems if "run 1" in problem]
        assert "is still going" in problem
        assert "503" in problem


async def test_a_paused_source_and_its_open_items_are_said(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=5)) as site:
        here = Collecting(tmp_path, site)
        await here.once()
        site.control(add=3)
        async with open_stores(here.settings()) as stores:
            await stores.ledger.pause_source("lab", "the site asked us to")
        report = await here.once()
        assert report.runs == []
        assert any("paused: the site asked us to" in problem for problem in report.problems)
        assert [row.source_id for row in report.sources] == ["lab"]
