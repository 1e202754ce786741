"""Known entries/s with the known filter off, exact and Bloom, on SQLite and PostgreSQL; bytes a mark; wrong hits.

A listing is walked again and again, as the lister does it: the walks are timed once the filter has learned it. Servers
are throw-away ones of this machine, started by this script, so a question to PostgreSQL costs no network.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

from known import PER_PAGE, SOURCE, pages
from run import machine

from fyke.app import SystemClock
from fyke.app.stores import open_clocked
from fyke.frontiers.redis.known_filter import RedisKnownFilter
from fyke.lab.servers import PostgresServer, RedisServer
from fyke.lab.servers.redis import ask
from fyke.ledgers.sql import SqlLedger
from fyke.model import (
    Entry,
    ItemState,
    Listing,
    NewRun,
    Outcome,
    PageCommit,
    PageResult,
    PassEnd,
    PassLease,
    PassState,
    Result,
    Task,
)
from fyke.pipeline.knowing import Asking, Knowing
from fyke.policy.identity import mark_of
from fyke.ports import KnownFilter, Ledger
from fyke.settings import Settings

KINDS = ("off", "exact", "bloom")
WALKS = 3
A_BATCH = 500


class Spent:
    """Seconds by the wall, and of CPU: ours and the servers'."""

    def __init__(self, pids: list[int]) -> None:
        self._pids, self.wall, self.cpu = pids, 0.0, 0.0

    def __enter__(self) -> None:
        self._began = (time.perf_counter(), self._used())

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._began
        self.wall, self.cpu = self.wall + time.perf_counter() - wall, self.cpu + self._used() - cpu

    def _used(self) -> float:
        return time.process_time() + sum(map(used_by, self._pids))


def used_by(pid: int) -> float:
    """CPU seconds of a process and of its children, those that have ended too."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(used_by(int(child)) for child in children)


async def walk(ledger: Ledger, knowing: Knowing, lists: list[Any], at: int, spent: Spent) -> int:
    """Entries that were skipped. What the details cost is not counted."""
    opened = await ledger.open_run(NewRun("known", at, [Listing("main")], ["e.example"]))
    lease = await ledger.start_pass(opened.tasks[0].ref, "bench")
    assert lease is not None
    asking, skipped = Asking(knowing, lease, SOURCE.scope), 0
    due: list[Task] = []
    with spent:
        for number, entries in enumerate(lists, 1):
            commit, result = await _page(ledger, asking, lease, entries, number)
            skipped += commit.skipped
            due += result.due
    for start in range(0, len(due), A_BATCH):
        await ledger.commit([_stored(task.ref, task.generation) for task in due[start : start + A_BATCH]])
    await ledger.end_pass(lease.pass_id, lease.fence, PassEnd(PassState.COMPLETE))
    return skipped


async def _page(
    ledger: Ledger, asking: Asking, lease: PassLease, entries: list[Entry], number: int
) -> tuple[PageCommit, PageResult]:
    for ask_filter in (True, False):
        known = await asking.recognise(entries, ask_filter=ask_filter)
        left = [entry for entry in entries if entry.key not in known.skipped]
        commit = PageCommit(number, 0, "http://e.example/", await ledger.now(), left, [], b"{}")
        commit.skipped, commit.fresh = len(entries) - len(left), known.fresh
        commit.known_space, commit.told = known.space, known.told
        result = await ledger.page(lease.pass_id, lease.fence, commit)
        await asking.written(known, result)
        if not result.misjudged:
            break
    return commit, result


def _stored(item: int, generation: int) -> Result:
    record = {"title": f"{item}"}
    return Result(
        item_id=item,
        generation=generation,
        outcome=Outcome.OK,
        final=ItemState.STORED,
        worker="bench",
        started_at=1,
        ended_at=2,
        starts=1,
        record=record,
        record_hash=item.to_bytes(16, "big"),
    )


async def rates(settings: Settings, known_filter: KnownFilter | None, items: int, pids: list[int]) -> dict[str, float]:
    """The first walk, in which all are new, and the walks after the filter has learned."""
    async with open_clocked(settings) as (database, clock):
        ledger = SqlLedger(database, clock)
        await ledger.migrate()
        await ledger.apply_source(SOURCE)
        knowing, lists, at = Knowing(ledger, clock, Random(1), known_filter), pages(items), clock.now()
        first, known, learning = Spent(pids), Spent(pids), Spent(pids)
        await walk(ledger, knowing, lists, at, first)
        await walk(ledger, knowing, lists, at + 1, learning)
        skipped = sum([await walk(ledger, knowing, lists, at + 2 + n, known) for n in range(WALKS)])
        await ledger.close()
    return {
        "known_per_s": round(items * WALKS / known.wall),
        "known_cpu_ms_per_1000": round(known.cpu / items / WALKS * 1e6, 1),
        "skipped_share": round(skipped / items / WALKS, 3),
        "new_per_s": round(items / first.wall),
        "new_cpu_ms_per_1000": round(first.cpu / items * 1e6, 1),
    }


async def memory(url: str, count: int) -> dict[str, float]:
    """Bytes a mark, as Redis counts each key, and the share of new entries that are taken for known."""
    found: dict[str, float] = {}
    for kind in ("exact", "bloom"):
        ask(url, "FLUSHALL")
        known_filter = RedisKnownFilter.at(url, SystemClock(), kind=kind, namespace="bench", planned=count, months=1)
        marks = [mark_of("a", str(number)) for number in range(count)]
        began = time.perf_counter()
        for start in range(0, count, A_BATCH):
            await known_filter.add("bench:1:1", marks[start : start + A_BATCH], marks[start : start + A_BATCH])
        found[f"{kind}_added_per_s"] = round(count / (time.perf_counter() - began))
        used = sum(ask(url, "MEMORY", "USAGE", key, "SAMPLES", "0") for key in ask(url, "KEYS", "*"))
        found[f"{kind}_bytes_per_mark"] = round(used / count, 2)
        wrong = 0
        for start in range(0, count, A_BATCH):
            new = [mark_of("b", str(number)) for number in range(start, start + A_BATCH)]
            wrong += sum(await known_filter.hits("bench:1:1", new, new))
        found[f"{kind}_wrong_share"] = wrong / count
        await known_filter.close()
    return found


async def measure(items: int, marks: int, ledgers: list[str], kinds: list[str]) -> dict[str, Any]:
    report: dict[str, Any] = {"machine": machine(), "entries": items, "per_page": PER_PAGE}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fyke-bench-")))
        redis = stack.enter_context(RedisServer(folder / "redis", "valkey-9"))
        postgres = None
        if "postgres" in ledgers and not PostgresServer.missing(15):
            postgres = stack.enter_context(PostgresServer(folder / "postgres", 15))
        pids = [redis.pid, *([postgres.pid] if postgres is not None else [])]
        for name in (name for name in ledgers if name == "sqlite" or postgres is not None):
            for kind in kinds:
                ask(redis.url, "FLUSHALL")
                url = f"sqlite:///{folder / f'{kind}.db'}"
                if name == "postgres" and postgres is not None:
                    url = postgres.create_database(f"bench_{kind}")
                known_filter = None
                if kind != "off":
                    known_filter = RedisKnownFilter.at(
                        redis.url, SystemClock(), kind=kind, namespace="bench", planned=max(items, 10_000)
                    )
                    stack.push_async_callback(known_filter.close)
                report[f"{name}_{kind}"] = await rates(Settings(ledger=url), known_filter, items, pids)
                print(f"{name:9} {kind:6} {report[f'{name}_{kind}']}", flush=True)
        if marks:
            report["marks"] = await memory(redis.url, marks)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--marks", type=int, default=1_000_000)
    parser.add_argument("--ledgers", default="sqlite,postgres")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    report = asyncio.run(measure(options.entries, options.marks, options.ledgers.split(","), options.kinds.split(",")))
    print(json.dumps(report, indent=None if options.json else 2, ensure_ascii=False))


if __name__ == "__main__":
    main()
