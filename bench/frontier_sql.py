"""Speed of the sql frontier on each database: offers and leases by lanes and handles, and what a million tasks cost.

Each handle is a process of its own. Servers are throw-away ones of this machine; a missing one is said and left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from run import machine

from fyke.app.stores import SystemClock
from fyke.db.address import parse_address
from fyke.db.frontier_tables import create_frontier_tables
from fyke.db.server import ServerClock
from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers.sql import SqlFrontier
from fyke.lab.servers import MariaServer, PostgresServer
from fyke.model import LanePolicy, Task, TaskKind

LEASE_MS = 60_000
OFFER, TAKE = 100, 64
SERVERS = {
    **dict.fromkeys(("postgresql", "postgres"), ("PostgresDatabase", "fyke.db.postgres")),
    **dict.fromkeys(("mysql", "mariadb"), ("MysqlDatabase", "fyke.db.mysql")),
}


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[SqlFrontier]:
    """A handle as a process of its own has it."""
    database: Any
    clock: Any = SystemClock()
    if url.startswith("sqlite:///"):
        database = SqliteDatabase(Path(url.removeprefix("sqlite:///")))
        await database.write(create_frontier_tables)
    else:
        address = parse_address(url)
        name, module = SERVERS[address.scheme]
        database = getattr(import_module(module), name)(address)
        await database.upgrade()
        clock = ServerClock(database, clock)
    try:
        yield SqlFrontier(database, clock, Random(1), lease_ms=LEASE_MS)
    finally:
        await database.close()


def lane(number: int, lanes: int) -> str:
    return f"host{number % lanes}.example"


async def configure(url: str, lanes: int) -> float:
    async with opened(url) as frontier:
        await frontier.rebuild(str(time.time_ns()), lanes)
        began = time.perf_counter()
        await frontier.configure([LanePolicy(lane(n, lanes), 0, 0, 1_000) for n in range(lanes)])
        return time.perf_counter() - began


async def offer(url: str, lanes: int, first: int, count: int) -> float:
    """Tasks a second, in batches of 100."""
    async with opened(url) as frontier:
        await frontier.offer([])
        began = time.perf_counter()
        for start in range(first, first + count, OFFER):
            batch = [Task(TaskKind.ITEM, ref, 1, lane(ref, lanes)) for ref in range(start, start + OFFER)]
            await frontier.offer(batch)
        return count / (time.perf_counter() - began)


async def lease_and_ack(url: str, worker: int, seconds: float) -> tuple[float, int, int]:
    """Tasks a second, leases that took nothing, tasks."""
    async with opened(url) as frontier:
        done = empty = 0
        began = time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            leased = await frontier.lease(TAKE, LEASE_MS, worker=f"w{worker}")
            if leased.deliveries:
                answers = await frontier.ack(leased.deliveries)
                assert all(answers), "a task was leased twice"
                done += len(leased.deliveries)
            else:
                empty += 1
                if leased.wait_ms >= 1_000:
                    break
                await asyncio.sleep(leased.wait_ms / 1000)
        return done / spent, empty, done


async def looks(url: str) -> dict[str, float]:
    """What a person waits for, in ms: the slowest of three."""
    async with opened(url) as frontier:
        times: dict[str, float] = {"stats": 0.0, "view": 0.0}
        for _ in range(3):
            began = time.perf_counter()
            stats = await frontier.stats()
            times["stats"] = max(times["stats"], time.perf_counter() - began)
            assert stats.ready + stats.leased > 0
            began = time.perf_counter()
            assert await frontier.view("i777") is not None
            times["view"] = max(times["view"], time.perf_counter() - began)
        return {name: round(spent * 1000, 1) for name, spent in times.items()}


def run(call: Callable[..., Coroutine[Any, Any, Any]], *values: Any) -> Any:
    return asyncio.run(call(*values))


def together(call: Callable[..., Coroutine[Any, Any, Any]], values: list[tuple[Any, ...]]) -> list[Any]:
    """One process for each."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(len(values)) as pool:
        return pool.starmap(run, [(call, *one) for one in values])


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'frontier.db'}"
        return
    if kind == "mariadb":
        why, make = MariaServer.missing(), lambda: MariaServer(folder)
    else:
        version = int(kind.removeprefix("postgres"))
        why, make = PostgresServer.missing(version), lambda: PostgresServer(folder, version)
    if why:
        raise LookupError(why)
    with make() as server:
        yield server.create_database("frontier")


def measure(url: str, lanes: int, handles: int, count: int, seconds: float) -> dict[str, Any]:
    run(configure, url, lanes)
    share = count // handles // OFFER * OFFER
    offers = together(offer, [(url, lanes, n * share, share) for n in range(handles)])
    taken = together(lease_and_ack, [(url, n, seconds) for n in range(handles)])
    return {
        "lanes": lanes,
        "handles": handles,
        "offer_per_s": round(sum(offers)),
        "lease_ack_per_s": round(sum(rate for rate, _, _ in taken)),
        "empty": sum(empty for _, empty, _ in taken),
        "tasks": sum(done for _, _, done in taken),
    }


def many_waiting(url: str, waiting: int, lanes: int, handles: int) -> dict[str, Any]:
    run(configure, url, lanes)
    share = waiting // handles // OFFER * OFFER
    offers = together(offer, [(url, lanes, n * share, share) for n in range(handles)])
    found = {"waiting": share * handles, "lanes": lanes, "offer_per_s": round(sum(offers)), **run(looks, url)}
    (first,) = together(lease_and_ack, [(url, 0, 0.001)])
    return {**found, "first_lease_tasks": first[2]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--databases", default="sqlite,postgres15,postgres18,mariadb")
    parser.add_argument("--lanes", default="1,200,10000")
    parser.add_argument("--handles", default="1,4")
    parser.add_argument("--tasks", type=int, default=200_000, help="offered for each figure")
    parser.add_argument("--seconds", type=float, default=3.0, help="of leases and acks for each figure")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="tasks for the looks; 0 leaves them out")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    report: dict[str, Any] = {"machine": machine()}
    for kind in given.databases.split(","):
        rows: list[dict[str, Any]] = []
        with tempfile.TemporaryDirectory(prefix="fyke-bench-") as folder:
            try:
                with database(kind, Path(folder)) as url:
                    for lanes in map(int, given.lanes.split(",")):
                        for handles in map(int, given.handles.split(",")):
                            rows.append(measure(url, lanes, handles, given.tasks, given.seconds))
                            if not given.json:
                                print(kind, rows[-1], flush=True)
                    if given.waiting:
                        rows.append(many_waiting(url, given.waiting, 200, 2))
                        if not given.json:
                            print(kind, rows[-1], flush=True)
            except LookupError as why:
                rows.append({"missing": str(why)})
        report[kind] = rows
    if given.json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
