"""`fyke demo`: the main job on a site that misbehaves, with a worker killed in the middle, and the proof at the end.

The site runs in this process and knows the truth; the collecting is done by real `fyke run --once` processes, just as a
person would type it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from fyke.app import Stores, open_stores
from fyke.errors import TransientError, UsageError
from fyke.lab.site import RunningSite, SiteConfig, serve_site
from fyke.model import SourceCounts
from fyke.pipeline.auditor import audit
from fyke.settings import load_settings

MARKER: Final = ".fyke-demo"
SOURCE_ID: Final = "demo"
ADDED: Final = 24
KILL_AFTER: Final = 90
ROUND_S: Final = 50.0
WHY: Final = "the site has such rows"

SETTINGS: Final = """\
# The demo's settings: short waits, so that it ends within a minute. Everything else is as it comes.
lease = "4s"
[worker]
concurrency = 16
[attempts]
delays = ["500ms", "1s"]      # by default 30s and 10m: lists are often minutes ahead of their pages
[backoff]
first = "300ms"               # by default 2s
"""

SOURCE: Final = """\
# One site in one file: where the list is, what a row says, what a page says.
id: demo
title: 演示站 (the lab's announcement site)
schedule: {{cron: ["0 8 * * *"], timezone: Asia/Shanghai}}
fetch:
  # Only because the site is ours; the default is 1.2 s apart, two at a time.
  politeness: {{delay: 0s, jitter: 0s, concurrency: 16}}
  timeout: {{connect: 2s, read: 3s, total: 6s}}
  private_addresses: allow  # the site runs on this machine
listing:
  request: {{url: "{url}/list/{{page}}"}}
  pages: {{number: {{first: index.html, then: "index_{{n}}.html", from: 2}}}}
  rows: {{in: ul.list, css: "> li", pinned: "li.top"}}
  fields:
    url: {{css: "a::attr(href)", then: [absolute_url]}}
    title: {{css: "a::attr(title)"}}
    published: {{css: em, then: [{{datetime: "%Y-%m-%d %H:%M"}}]}}
  connect: {{known: 20}}
  start: all
identity: {{scope: demo, key: {{field: url, then: [{{regex: '_(\\d+)\\.html'}}]}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: "div#content", min_chars: 20}}
      fields:
        title: {{css: h1, required: true}}
        buyer: {{label: 采购单位}}
        budget: {{label: 预算金额, then: [{{money: CNY}}]}}
        project_no: {{label: 项目编号}}
        body_text: {{css: "div#content"}}
updates: {{compare: [title, buyer, budget, body_text]}}
store: {{table: gov_procure}}
"""


class DemoReport(Struct, frozen=True):
    """The site's truth against the ledger."""

    folder: str
    truth: int
    listed: int
    stored: int
    dead: int
    dead_expected: int
    refused: int
    open: int
    lost: list[str]
    doubled: list[str]
    kills: int
    balanced: bool
    seconds: float

    @property
    def good(self) -> bool:
        return not self.lost and not self.doubled and self.balanced and self.open == 0


async def run_demo(folder: Path, tell: Callable[[str], None], *, seed: int = 7) -> DemoReport:
    """Run the whole demo in `folder`, which it makes anew.

    Raises:
        UsageError: the folder exists and is not the demo's own.
    """
    began = asyncio.get_running_loop().time()
    make_folder(folder)
    async with await serve_site(SiteConfig.demo(seed, dead=3)) as site:
        (folder / "sources").mkdir()
        (folder / "sources" / "demo.yaml").write_text(SOURCE.format(url=site.url), encoding="utf-8")
        tell(
            f"A site with {site.truth()['listed_total']} notices runs at {site.url}; it resets connections, answers 503"
        )
        tell("and 429, moves its rows while they are read, and a few of its pages are gone for good.")
        settings = load_settings(folder, {"FYKE_LEDGER": f"sqlite:///{folder / 'fyke.db'}"}).settings
        async with open_stores(settings) as stores:
            tell("")
            tell("Run 1: `fyke run --once`, and its process is killed in the middle (SIGKILL).")
            kills = await _collect(folder, stores, tell, kill_after=KILL_AFTER)
            await _accept(stores, tell)
            site.control(add=ADDED)
            tell("")
            tell(f"Run 2: meanwhile the site has {ADDED} new notices.")
            await _collect(folder, stores, tell, kill_after=None)
            return await _compare(folder, stores, site, kills, asyncio.get_running_loop().time() - began)


def make_folder(folder: Path) -> None:
    """An empty folder with the demo's settings; one that an earlier demo left is removed first."""
    if folder.exists():
        if not (folder / MARKER).exists() and any(folder.iterdir()):
            raise UsageError(
                f"{folder} exists and is not the demo's", hint="name another one with --dir, or move it away"
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()
    (folder / "fyke.toml").write_text(SETTINGS, encoding="utf-8")


async def _collect(folder: Path, stores: Stores, tell: Callable[[str], None], *, kill_after: int | None) -> int:
    """Run `fyke run --once` to its end; with `kill_after` it is killed once so many items are stored, and run again."""
    process = await _start(folder)
    loop = asyncio.get_running_loop()
    shown, killed, quiet_until = "", 0, 0.0
    try:
        async with asyncio.timeout(ROUND_S):
            while process.returncode is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), 0.1)
                counts = await _counts(stores)
                if counts is None:
                    continue
                line = f"  listed {counts.listed}  stored {counts.stored}  waiting {counts.open}  dead {counts.dead}"
                if line != shown and loop.time() >= quiet_until:
                    shown, quiet_until = line, loop.time() + 1
                    tell(line)
                if kill_after is not None and not killed and counts.stored >= kill_after and process.returncode is None:
                    process.send_signal(signal.SIGKILL)
                    await process.wait()
                    killed += 1
                    tell(f"  killed with {counts.stored} stored; the same command again:")
                    process = await _start(folder)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode not in (0, 1):
        raise UsageError(f"`fyke run --once` ended with {process.returncode}", file=str(folder / "run.log"))
    return killed


async def _start(folder: Path) -> asyncio.subprocess.Process:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FYKE_")}
    with (folder / "run.log").open("ab") as written:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fyke", "run", "--once", "--wait", f"{ROUND_S:.0f}s"),
            cwd=folder,
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )


async def _counts(stores: Stores) -> SourceCounts | None:
    try:
        return next((row for row in await stores.ledger.counts() if row.source_id == SOURCE_ID), None)
    except TransientError:
        return None


async def _accept(stores: Stores, tell: Callable[[str], None]) -> None:
    """A row without a link makes a walk suspicious, and a suspicious walk covers nothing until a person says it may."""
    for run in await stores.ledger.runs(SOURCE_ID, limit=5):
        if run.refused and run.accepted_at is None:
            tell(
                f"  {run.refused} row(s) had no link: kept and shown; the run is suspicious until a person accepts it:"
            )
            tell(f"  fyke runs accept {run.id} --reason '{WHY}'")
            await stores.ledger.accept_run(run.id, WHY)


async def _compare(folder: Path, stores: Stores, site: RunningSite, kills: int, seconds: float) -> DemoReport:
    truth: dict[str, Any] = site.truth()
    report = await audit(stores.ledger, stores.frontier)
    stored: dict[str, int] = {}
    doubled: list[str] = []
    async for chunk in stores.ledger.rows(SOURCE_ID):
        for row in chunk:
            key = row["_key"]
            if key in stored or row["_version"] > truth["records"][key]["version"]:
                doubled.append(key)
            stored[key] = row["_version"]
    gone = set(truth["dead"]) | set(truth["poison"]) | set(truth["private"])
    lost = [key for key in truth["ids"] if key not in stored and key not in gone]
    return DemoReport(
        folder=str(folder),
        truth=truth["listed_total"],
        listed=report.listed,
        stored=report.stored,
        dead=report.dead,
        dead_expected=len(gone),
        refused=report.refused,
        open=report.open,
        lost=lost,
        doubled=doubled,
        kills=kills,
        balanced=report.balanced,
        seconds=round(seconds, 1),
    )
