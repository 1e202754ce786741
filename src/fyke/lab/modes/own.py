"""Fyke in the comparison: two schedulers and the workers, as commands, on the same site with the same kills."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fyke.app import Stores, apply_folder, open_stores
from fyke.errors import TransientError
from fyke.lab.crew import Crew, Member
from fyke.lab.modes.stage import Place
from fyke.model import Listing, NewRun
from fyke.policy.politeness import lane_of
from fyke.settings import load_settings

SOURCE_ID: Final = "modes"
SCHEDULERS: Final = 2
SETTINGS: Final = """\
# One request at a time in a worker, as the others; a lease of 4 s instead of 30 s, so that a death costs seconds.
ledger = "{ledger}"
frontier = "{frontier}"
lease = "4s"
[worker]
concurrency = 1
grace = "2s"
[reap]
every = "1s"
[reconcile]
every = "2s"
grace = "2s"
"""
SOURCE: Final = """\
id: modes
schedule: {{cron: ["0 0 1 1 *"]}}
fetch: {{politeness: {{delay: 0s, jitter: 0s, concurrency: 100}}, private_addresses: allow}}
listing:
  request: {{url: "{url}/list/{{page}}"}}
  pages: {{number: {{first: index.html, then: "index_{{n}}.html", from: 2}}, max: 10000}}
  rows: {{in: ul.list, css: "> li"}}
  fields:
    url: {{css: "a::attr(href)", then: [absolute_url]}}
    title: {{css: "a::attr(title)"}}
  connect: all
identity: {{scope: modes, key: {{field: url, then: [{{regex: '_(\\d+)\\.html'}}]}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: "div#content"}}
      fields:
        buyer: {{css: "table.info td", required: true}}
store: {{table: gov_procure}}
"""


@asynccontextmanager
async def prepared(place: Place) -> AsyncIterator[Stores]:
    """A folder as a user has it, with its source applied."""
    folder = Path(place.folder)
    frontier = place.redis or "sql"
    (folder / "fyke.toml").write_text(SETTINGS.format(ledger=place.database, frontier=frontier), encoding="utf-8")
    (folder / "sources").mkdir()
    (folder / "sources" / "modes.yaml").write_text(SOURCE.format(url=place.site), encoding="utf-8")
    settings = load_settings(folder, {"FYKE_SOURCES": str(folder / "sources")}).settings
    async with open_stores(settings) as stores:
        await apply_folder(stores, strict=True)
        yield stores


def crew(place: Place, workers: int) -> Crew:
    members = [Member(f"scheduler-{n}", ["fyke", "scheduler"]) for n in range(SCHEDULERS)]
    members += [Member(f"worker-{n}", ["fyke", "worker"]) for n in range(workers)]
    return Crew(Path(place.folder), members)


async def open_run(stores: Stores, url: str) -> None:
    """One run by hand, as `fyke run --once` opens it."""
    now = await stores.ledger.now()
    run = NewRun(SOURCE_ID, now, [Listing("main")], [lane_of(url)], trigger="hand")
    opened = await stores.ledger.open_run(run)
    await stores.frontier.offer(opened.tasks)


async def ended(stores: Stores, items: int) -> bool:
    try:
        return await stores.ledger.open_count([SOURCE_ID]) == 0
    except TransientError:
        return False


async def rows(stores: Stores, truth: Mapping[str, Any]) -> list[str]:
    """The key of each row, once more for each version that the site never had: a second effect shows."""
    keys = []
    async for chunk in stores.ledger.rows(SOURCE_ID):
        for row in chunk:
            key = str(row["_key"])
            keys += [key] * max(1, 1 + int(row["_version"]) - int(truth["records"][key]["version"]))
    return keys
