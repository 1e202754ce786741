"""How long whole commands take with 1,000,000 waiting tasks on 200 hosts: status, explain, a new worker, audit.

Redis and PostgreSQL are throw-away servers of this machine; the hosts are addresses of its loopback network, one small
site answers for all. `--items N` for fewer, `--frontier sql` without Redis, `--ledger mariadb`. Asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from run import environment, machine

from fyke.app import apply_folder, open_stores
from fyke.lab.servers import MariaServer, PostgresServer, RedisServer
from fyke.model import Entry, Listing, NewRun, PageCommit, PassEnd, PassState, Task
from fyke.policy.politeness import lane_of
from fyke.settings import load_settings

SOURCE = """\
id: million
fetch: {{politeness: {{delay: 1s, jitter: 0s, concurrency: 2}}, private_addresses: allow}}
listing:
  request: {{url: "http://127.0.1.1:{port}/list"}}
  rows: {{in: ul, css: "> li"}}
  fields: {{url: {{css: "a::attr(href)"}}}}
  connect: all
identity: {{scope: million, key: {{field: url}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: h1}}
      fields: {{title: {{css: h1}}}}
store: {{table: million_rows}}
"""
HOSTS, PER_PAGE = 200, 2_000


class Site(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Answers everything with one page, on all loopback addresses; knows when it was first asked."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 512

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.first = 0.0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                detail = self.path.startswith("/item")
                if detail and not site.asked.is_set():
                    site.first = time.perf_counter()
                    site.asked.set()
                page = b"<html><body><h1>notice</h1></body></html>"
                self.send_response(200 if detail else 404)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: Any) -> None: ...

        super().__init__(("0.0.0.0", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def url_of(number: int, port: int) -> str:
    host = number % HOSTS
    key = blake2b(number.to_bytes(8, "big"), digest_size=10).hexdigest()  # random order: the worst for an index
    return f"http://127.0.{1 + host // 100}.{1 + host % 100}:{port}/item/{key}.html"


def entry(number: int, port: int) -> Entry:
    url = url_of(number, port)
    return Entry(number % PER_PAGE, url, {"url": url}, number.to_bytes(16, "big"), url, lane_of(url))


async def fill(folder: Path, items: int, port: int) -> dict[str, float]:
    """All items into the ledger by one walk, all their tasks into the frontier."""
    settings = load_settings(folder, environment()).settings
    async with open_stores(settings) as stores:
        await apply_folder(stores, strict=True)
        began, due = time.perf_counter(), list[Task]()
        opened = await stores.ledger.open_run(
            NewRun("million", await stores.ledger.now(), [Listing("main")], [f"127.0.1.1:{port}"])
        )
        lease = await stores.ledger.start_pass(opened.tasks[0].ref, "bench")
        assert lease is not None
        for number, at in enumerate(range(0, items, PER_PAGE), 1):
            entries = [entry(one, port) for one in range(at, min(at + PER_PAGE, items))]
            commit = PageCommit(number, 0, "http://127.0.1.1/list", await stores.ledger.now(), entries, [], b"{}")
            due += (await stores.ledger.page(lease.pass_id, lease.fence, commit)).due
        await stores.ledger.end_pass(lease.pass_id, lease.fence, PassEnd(PassState.COMPLETE))
        listed = time.perf_counter()
        for at in range(0, len(due), 500):
            await stores.frontier.offer(due[at : at + 500])
        return {"ledger_s": listed - began, "offers_s": time.perf_counter() - listed, "waiting": len(due)}


def timed(folder: Path, *words: str, times: int = 3) -> dict[str, Any]:
    """The shortest of three runs of a command: its wall seconds with the start of its process."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "fyke", *words], cwd=folder, env=environment(), capture_output=True, check=False
        )
        found.append((time.perf_counter() - began, done.returncode))
    seconds, code = min(found)
    return {"seconds": round(seconds, 3), "exit": code}


def first_task(folder: Path, site: Site) -> float:
    """Seconds from the start of a worker's process to its first request of a detail."""
    began = time.perf_counter()
    with (folder / "worker.log").open("wb") as log:
        worker = subprocess.Popen([sys.executable, "-m", "fyke", "worker"], cwd=folder, env=environment(), stderr=log)
    try:
        if not site.asked.wait(120):
            raise SystemExit(f"no request in 120 s: {(folder / 'worker.log').read_text()[-2_000:]}")
        return round(site.first - began, 2)
    finally:
        worker.terminate()
        worker.wait()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = PostgresServer(folder / "database", 15)
        if options.ledger == "mariadb":
            database = MariaServer(folder / "database")  # type: ignore[assignment]
        stack.enter_context(database)
        database.create_database("million")
        lines = [f'ledger = "{database.url_of("million")}"', f'sources = "{folder / "sources"}"']
        if options.frontier == "redis":
            lines.append(f'frontier = "{stack.enter_context(RedisServer(folder / "redis", "valkey-9")).url}"')
        site = stack.enter_context(Site())
        stack.callback(site.shutdown)
        port = site.server_address[1]
        (folder / "sources").mkdir()
        (folder / "sources" / "million.yaml").write_text(SOURCE.format(port=port), encoding="utf-8")
        (folder / "fyke.toml").write_text("\n".join([*lines, "[log]", 'level = "warning"', ""]), encoding="utf-8")
        found: dict[str, Any] = {"filling": asyncio.run(fill(folder, options.items, port))}
        found["first_task_s"] = first_task(folder, site)
        found["status"] = timed(folder, "status")
        found["explain"] = timed(folder, "explain", "million", url_of(options.items // 2, port))
        found["audit"] = timed(folder, "audit", times=1)
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--frontier", choices=("redis", "sql"), default="redis")
    parser.add_argument("--ledger", choices=("postgres", "mariadb"), default="postgres")
    options = parser.parse_args()
    print(json.dumps({**machine(), **vars(options), **measure(options)}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
