"""A host that only serves lists: a good page ends its blocks in a row, so that the next hold is short again."""

from __future__ import annotations

from pathlib import Path

from fyke.lab.site import SiteConfig, serve_site
from tests.scenarios.collecting import Collecting


async def test_a_good_list_page_ends_the_blocks_of_its_host(tmp_path: Path) -> None:
    async with await serve_site(SiteConfig(items=3, script={"/list/index.html": ("block",)})) as site:
        here = Collecting(tmp_path, site, settings='[hold]\nfirst = "200ms"\nlongest = "1s"')
        report = await here.once(wait_ms=30_000)
        assert here.ask("SELECT count(*) FROM event WHERE kind = 'blocked'") == [(1,)]
        assert report.problems == []
        assert here.ask("SELECT max(blocks) FROM lane") == [(0,)]
