"""How fast rows pass the ledger: list pages of 50 entries, new and known, and commits of many visits at once.

`python bench/ledger.py` measures each database that can be started here; `--json` is for programs. Asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import Struct
from run import machine

from fyke.app import SystemClock
from fyke.db.address import parse_address
from fyke.db.connection import Connection
from fyke.db.sqlite import SqliteDatabase
from fyke.lab.servers import MariaServer, PostgresServer
from fyke.lab.servers.process import family
from fyke.ledgers.sql import SqlLedger
from fyke.model import (
    Column,
    ColumnType,
    Committed,
    Entry,
    ItemState,
    Listing,
    NewRun,
    Outcome,
    PageCommit,
    PassEnd,
    PassState,
    ResolvedSource,
    Result,
    Task,
)
from fyke.ports import Ledger

PER_PAGE = 50
SOURCE = ResolvedSource(
    id="bench",
    title="bench",
    text="{}",
    hash="1",
    scope="bench",
    table="bench_rows",
    identity="key",
    columns=(Column("title"), Column("buyer"), Column("budget", ColumnType.NUMBER), Column("body")),
    has_detail=True,
)


KINDS = ("sqlite", "postgres-15", "postgres-18", "mariadb")
VERSION = {"sqlite": "SELECT sqlite_version()", "postgres": "SHOW server_version", "mysql": "SELECT version()"}


class Target(Struct):
    ledger: SqlLedger
    database: Any
    server_cpu: Callable[[], float]


def entry(number: int) -> Entry:
    key = blake2b(number.to_bytes(8, "big"), digest_size=16).hexdigest()  # random order: the worst for an index
    fields = {"title": f"某某市公共资源交易中心采购公告 {number}"}
    return Entry(
        number % PER_PAGE, key, fields, number.to_bytes(16, "big"), f"http://e.example/{key}.html", "e.example"
    )


def result(task: Task) -> Result:
    record = {"title": f"采购公告 {task.ref}", "buyer": "某某市教育局", "budget": task.ref * 100, "body": "正文" * 60}
    return Result(
        item_id=task.ref,
        generation=task.generation,
        outcome=Outcome.OK,
        final=ItemState.STORED,
        worker="bench",
        started_at=1_000,
        ended_at=1_200,
        starts=1,
        record=record,
        record_hash=task.ref.to_bytes(16, "big"),
        filled={"title": True, "buyer": True, "budget": True, "body": True},
    )


async def walk(ledger: Ledger, pages: list[list[Entry]]) -> tuple[list[Task], float]:
    """One pass over all pages: what it made due, and its seconds."""
    await asyncio.sleep(0.002)  # each walk has a slot of its own
    now = await ledger.now()
    opened = await ledger.open_run(NewRun("bench", now, [Listing("main")], ["e.example"]))
    lease = await ledger.start_pass(opened.tasks[0].ref, "bench")
    assert lease is not None
    began, due = time.perf_counter(), []
    for number, entries in enumerate(pages, 1):
        commit = PageCommit(number, 0, "http://e.example/", now, entries, [], b"{}")
        due += (await ledger.page(lease.pass_id, lease.fence, commit)).due
    seconds = time.perf_counter() - began
    await ledger.end_pass(lease.pass_id, lease.fence, PassEnd(PassState.COMPLETE))
    return due, seconds


async def measure(target: Target, rows: int, batch: int, writers: int) -> dict[str, float]:
    """Rows/s of each step on a ledger that has `rows` items already; CPU microseconds for each row of a commit.

    `writers` commits are under way at the same time, as several workers have them.
    """
    ledger, database = target.ledger, target.database
    await ledger.migrate()
    await ledger.apply_source(SOURCE)
    await commit_all(ledger, (await walk(ledger, pages_of(0, rows)))[0], batch, 1)
    await database.write(settle)
    due, listing = await walk(ledger, pages_of(rows, rows))
    client, server = _cpu(), target.server_cpu()
    committing = await commit_all(ledger, due, batch, writers)
    client, server = _cpu() - client, target.server_cpu() - server
    _, known = await walk(ledger, pages_of(0, rows))
    return {
        "page_new": rows / listing,
        "page_known": rows / known,
        f"commit_{batch}": rows / committing,
        "commit_client_us": client / rows * 1e6,
        "commit_server_us": server / rows * 1e6,
    }


def pages_of(first: int, rows: int) -> list[list[Entry]]:
    return [[entry(number) for number in range(at, at + PER_PAGE)] for at in range(first, first + rows, PER_PAGE)]


async def commit_all(ledger: Ledger, due: list[Task], batch: int, writers: int) -> float:
    """Seconds until all are stored."""
    tasks = sorted(due, key=lambda task: task.ref)
    batches = [[result(task) for task in tasks[at : at + batch]] for at in range(0, len(tasks), batch)]
    began = time.perf_counter()

    async def work() -> None:
        while batches:
            answers = await ledger.commit(batches.pop(0))
            assert all(answer is Committed.COMMITTED for answer, _ in answers)

    await asyncio.gather(*(work() for _ in range(writers)))
    return time.perf_counter() - began


def settle(connection: Connection) -> None:
    """Let a planner look at what is there, as the server does by itself within a minute."""
    if connection.dialect == "postgres":
        connection.execute("ANALYZE")
    if connection.dialect == "mysql":
        for table in ("item", "sighting", "visit", "version", SOURCE.table):
            connection.execute(f"ANALYZE TABLE {table}").fetchall()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu_of(pid: int) -> float:
    """CPU seconds of a server with its children, ended ones too; 0 where there is no /proc."""
    ticks = 0
    for one in family(pid):
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[Target]:
    """A new ledger on a database of `KINDS`, whose commits reach the disk."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server: PostgresServer | MariaServer | None = None
        database: Any
        if kind == "sqlite":
            database = SqliteDatabase(folder / "bench.db")
        elif kind == "mariadb":
            from fyke.db.mysql import MysqlDatabase

            server = stack.enter_context(MariaServer(folder, fsync=True))
            database = MysqlDatabase(parse_address(server.url))
        else:
            from fyke.db.postgres import PostgresDatabase

            server = stack.enter_context(PostgresServer(folder, int(kind.removeprefix("postgres-")), fsync=True))
            database = PostgresDatabase(parse_address(server.url))
        pid = server.pid if server is not None else 0
        yield Target(SqlLedger(database, SystemClock()), database, lambda: _cpu_of(pid) if pid else 0.0)
        await database.close()


def why_not(kind: str) -> str:
    """Why this one cannot be measured here; empty if it can."""
    if kind == "sqlite":
        return ""
    return MariaServer.missing() if kind == "mariadb" else PostgresServer.missing(int(kind.removeprefix("postgres-")))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--writers", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(), "rows": given.rows, "writers": given.writers, "databases": {}}
    for kind in given.only or KINDS:
        missing = why_not(kind)
        if missing:
            found["databases"][kind] = {"missing": missing}
            continue
        async with opened(kind) as target:
            rates = await measure(target, given.rows, given.batch, given.writers)
            version = await target.database.read(lambda c: c.execute(VERSION[c.dialect]).fetchone()[0])
            found["databases"][kind] = {"version": version, **rates}
    if given.json:
        print(json.dumps(found))
        return
    print(f"{found['machine']}, {given.rows} rows, {given.writers} commits at a time; rows/s, CPU us for each row")
    for kind, rates in found["databases"].items():
        print(f"{kind:12}", "  ".join(f"{k} {v:,.0f}" if isinstance(v, float) else f"{v}" for k, v in rates.items()))


if __name__ == "__main__":
    asyncio.run(main())
