"""Real `fyke` processes in a folder of their own, on a lab site in the test's process."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from fyke.app import open_stores
from fyke.app.run import crew
from fyke.app.sources import apply_sources, read_sources
from fyke.db.sqlite import open_connection
from fyke.lab.site import RunningSite, SiteConfig, serve_site
from fyke.pipeline.scheduler import open_by_hand
from fyke.settings import Settings, load_settings
from fyke.testing.effects import install_effect_log, written_twice

SOURCE = """\
id: lab
schedule: {{cron: ["0 8 1 1 *"], timezone: Asia/Shanghai}}
fetch:
  politeness: {{delay: 0s, jitter: 0s, concurrency: {concurrency}}}
  timeout: {{connect: 5s, read: 20s, total: 30s}}
  private_addresses: allow
listing:
  request: {{url: "{url}/list/{{page}}"}}
  pages: {{number: {{first: index.html, then: "index_{{n}}.html", from: 2}}, max: 200}}
  rows: {{in: ul.list, css: "> li"}}
  fields:
    url: {{css: "a::attr(href)", then: [absolute_url]}}
    title: {{css: "a::attr(title)"}}
    published: {{css: em, then: [{{datetime: "%Y-%m-%d %H:%M"}}]}}
  connect: {{known: 20}}
  start: all
identity: {{scope: lab, key: {{field: url, then: [{{regex: '_(\\d+)\\.html'}}]}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: "div#content", min_chars: 20}}
      fields:
        title: {{css: h1, required: true}}
        buyer: {{label: 采购单位}}
        budget: {{label: 预算金额, then: [{{money: CNY}}]}}
store: {{table: notices}}
"""
SETTINGS = """\
lease = "{lease}"
[worker]
concurrency = {concurrency}
processes = {processes}
grace = "{grace}"
[attempts]
limit = 10
delays = ["1s"]
[backoff]
first = "200ms"
[reap]
every = "1s"
[reconcile]
every = "2s"
grace = "3s"
"""


class Shop:
    """A folder with settings, a source of the site, and a ledger whose every written row is logged."""

    def __init__(self, folder: Path, site: RunningSite, settings: Settings) -> None:
        self.folder, self.site, self.settings = folder, site, settings
        self.log = folder / "run.log"
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """`fyke …`, its output in the log."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("FYKE_")}
        with self.log.open("ab") as written:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "fyke", *arguments),
                cwd=self.folder,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    async def open_run(self) -> None:
        """A run by hand, that workers of `fyke run` find."""
        async with open_stores(self.settings) as stores, crew(stores) as parts:
            await open_by_hand(parts.scheduler, stores.ledger, parts.shelf, ["lab"])

    def ask(self, question: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "fyke.db", timeout=30)) as connection:
            return connection.execute(question, values).fetchall()

    def count(self, what: str) -> int:
        return int(self.ask(f"SELECT count(*) FROM {what}")[0][0])

    def workers(self) -> list[int]:
        """Process ids of the workers that were there within the last seconds, newest first."""
        return [pid for (pid,) in self.ask("SELECT pid FROM worker WHERE pool = 'text' ORDER BY beat_at DESC")]

    def detail_hits(self) -> dict[str, int]:
        hits: dict[str, int] = self.site.hits()["detail"]
        return hits

    def broken(self, items: int) -> list[str]:
        """What is not as it must be once all is done."""
        found = []
        for what, wanted in (
            ("notices", items),
            ("item WHERE state = 'stored'", items),
            ("item WHERE state <> 'stored' OR pending = 1", 0),
            ("task", 0),
            ("dead", 0),
            ("pass WHERE state <> 'complete'", 0),
        ):
            if (there := self.count(what)) != wanted:
                found.append(f"{what}: {there}, wanted {wanted}")
        with closing(open_connection(self.folder / "fyke.db")) as connection:
            if twice := written_twice(connection):
                found.append(f"written twice: {twice}")
        return found

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4_000:]

    async def end(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
                await process.wait()


@asynccontextmanager
async def open_shop(
    folder: Path, config: SiteConfig, *, concurrency: int = 8, processes: int = 1, lease: str = "1s", grace: str = "2s"
) -> AsyncIterator[Shop]:
    """A site, a folder, a ledger with the source; all processes end with it."""
    async with await serve_site(config) as site:
        (folder / "sources").mkdir()
        (folder / "sources" / "lab.yaml").write_text(
            SOURCE.format(url=site.url, concurrency=concurrency * processes), encoding="utf-8"
        )
        (folder / "fyke.toml").write_text(
            SETTINGS.format(lease=lease, concurrency=concurrency, processes=processes, grace=grace), encoding="utf-8"
        )
        settings = load_settings(folder, {"FYKE_LEDGER": f"sqlite:///{folder / 'fyke.db'}"}).settings
        async with open_stores(settings) as stores:
            await apply_sources(stores, read_sources(folder / "sources"))
        with closing(open_connection(folder / "fyke.db")) as connection:
            install_effect_log(connection, "notices")
        shop = Shop(folder, site, settings)
        try:
            yield shop
        finally:
            await shop.end()


async def within(seconds: float, process: asyncio.subprocess.Process) -> int:
    """The exit code of a process that ends in time."""
    async with asyncio.timeout(seconds):
        return await process.wait()


async def until(condition: Callable[[], object], seconds: float) -> None:
    """Return when something outside this process has come true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - another process brings it about
            await asyncio.sleep(0.05)


def running(pids: Sequence[int]) -> list[int]:
    """Those of these processes that are alive; one that nobody has waited for is not."""
    found = []
    for pid in pids:
        try:
            state = (
                Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
            )
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found
