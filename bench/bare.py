"""The floor that everything is measured against: fetch, parse and store, with no ledger, no frontier, no promise."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from selectolax.lexbor import LexborHTMLParser

FIELDS = (
    "h1",
    "table.info tr:nth-child(1) td",
    "table.info tr:nth-child(2) td",
    "table.info tr:nth-child(3) td",
    "div#content",
)


def bare_loop(url: str, items: int, slots: int) -> dict[str, Any]:
    """Pages per CPU-second of this process."""
    with urllib.request.urlopen(f"{url}/_truth") as answer:  # loopback only
        addresses = [record["url"] for record in json.load(answer)["records"].values()][:items]
    addresses = [address if address.startswith("http") else url + address for address in addresses]
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        began, cpu = time.perf_counter(), time.process_time()
        runner.run(_collect(addresses, slots, Path(folder) / "bare.db"))
        used = time.process_time() - cpu
        return {"pages_per_cpu_s": len(addresses) / used, "pages_per_s": len(addresses) / (time.perf_counter() - began)}


async def _collect(addresses: list[str], slots: int, path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=wal")
    connection.execute("CREATE TABLE page (url TEXT PRIMARY KEY, a TEXT, b TEXT, c TEXT, d TEXT, e TEXT)")
    rows: list[tuple[str | None, ...]] = []
    waiting = iter(addresses)

    async def work(session: aiohttp.ClientSession) -> None:
        for address in waiting:
            async with session.get(address) as response:
                body = await response.read()
            page = LexborHTMLParser(body)
            found = [node.text(strip=True) if (node := page.css_first(field)) else None for field in FIELDS]
            rows.append((address, *found))
            if len(rows) >= 100:
                with connection:
                    connection.executemany("INSERT INTO page VALUES (?, ?, ?, ?, ?, ?)", rows)
                rows.clear()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=slots)) as session:
        await asyncio.gather(*(work(session) for _ in range(slots)))
    with connection:
        connection.executemany("INSERT INTO page VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.close()
