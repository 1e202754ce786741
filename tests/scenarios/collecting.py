"""A lab site, a folder with a source, and `fyke run --once` in this process: what the scenario tests are made of."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fyke.app import apply_folder, open_database, open_stores, run_once_here
from fyke.db.connection import Connection
from fyke.lab.site import RunningSite
from fyke.pipeline.once import OnceReport
from fyke.settings import Settings, load_settings

SHORT = """\
lease = "{lease}"
[worker]
concurrency = {concurrency}
grace = "3s"
[attempts]
limit = {limit}
delays = ["100ms", "200ms"]
[backoff]
first = "100ms"
[reap]
every = "500ms"
{more}
"""

SOURCE = """\
id: lab
schedule: {{cron: ["0 8 * * *"]}}
fetch:
  politeness: {{delay: {delay}, jitter: 0s, concurrency: {at_once}}}
  timeout: {{connect: 2s, read: {read}, total: {total}}}
  private_addresses: allow
listing:
  request: {{url: "{url}/list/{{page}}"}}
  pages: {{number: {{first: index.html, then: "index_{{n}}.html", from: 2}}}}
  rows: {{in: ul.list, css: "> li", pinned: li.top}}
  fields:
    url: {{css: "a::attr(href)", then: [absolute_url]}}
    title: {{css: "a::attr(title)"}}
    published: {{css: em, then: [{{datetime: "%Y-%m-%d %H:%M"}}]}}
  connect: {{known: 5}}
  start: all
identity: {{scope: lab, key: {{field: url, then: [{{regex: '_(\\d+)\\.html'}}]}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: "{ready}"}}
      fields:
        title: {{css: h1, required: true}}
        buyer: {{label: 采购单位}}
        budget: {{label: 预算金额, then: [{{money: CNY}}]}}
        body_text: {{css: "div#content"}}
updates: {{compare: [title, buyer, budget, body_text]}}
{more}
store: {{table: notices}}
"""


class Collecting:
    """One working folder and its source on a lab site. `ledger`, `frontier`: addresses, where they are on servers."""

    def __init__(
        self,
        folder: Path,
        site: RunningSite,
        *,
        settings: str = "",
        ledger: str = "",
        frontier: str = "sql",
        **values: Any,
    ) -> None:
        self.folder, self.site = folder, site
        self.ledger, self.frontier = ledger or f"sqlite:///{folder / 'fyke.db'}", frontier
        options = {"lease": "5s", "concurrency": 8, "limit": 3} | {
            name: values.pop(name) for name in ("lease", "concurrency", "limit") if name in values
        }
        (folder / "sources").mkdir(exist_ok=True)
        (folder / "fyke.toml").write_text(SHORT.format(**options, more=settings), encoding="utf-8")
        given = {"delay": "0s", "at_once": 8, "read": "3s", "total": "6s", "ready": "h1", "more": ""} | values
        text = SOURCE.format(url=site.url, **given)
        (folder / "sources" / "lab.yaml").write_text(text, encoding="utf-8")

    @property
    def path(self) -> Path:
        return self.folder / "fyke.db"

    def variables(self, **more: str) -> dict[str, str]:
        here = {"FYKE_LEDGER": self.ledger, "FYKE_FRONTIER": self.frontier}
        return here | {"FYKE_SOURCES": str(self.folder / "sources")} | more

    def environ(self) -> dict[str, str]:
        """For a process of its own in this folder."""
        return {name: value for name, value in os.environ.items() if not name.startswith("FYKE_")} | self.variables()

    def settings(self, **more: str) -> Settings:
        return load_settings(self.folder, self.variables(**more)).settings

    async def once(self, wait_ms: int = 60_000) -> OnceReport:
        """`fyke run --once` here; the source file is applied first."""
        settings = self.settings()
        async with open_stores(settings) as stores:
            await apply_folder(stores, strict=True)
            return await run_once_here(stores, [], wait_ms)

    async def look(self, question: str) -> list[tuple[Any, ...]]:
        """Ask the ledger's database, wherever it is."""
        async with open_database(self.settings()) as database:
            return await database.read(lambda connection: [tuple(row) for row in connection.execute(question)])

    async def do(self, *statements: str) -> None:
        """Change something behind the ledger's back."""

        def call(connection: Connection) -> None:
            for statement in statements:
                connection.execute(statement)

        async with open_database(self.settings()) as database:
            await database.write(call)

    def rows(self, columns: str = "_key, title") -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.path) as connection:
            return connection.execute(f"SELECT {columns} FROM notices ORDER BY _item_id").fetchall()

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.path) as connection:
            return connection.execute(sql).fetchall()

    def states(self) -> Mapping[str, int]:
        return dict(self.ask("SELECT state, count(*) FROM item GROUP BY state"))
