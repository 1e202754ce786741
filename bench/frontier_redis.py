"""Speed and memory of the Redis frontier: offers beside a bare script, leases with acks, bytes a waiting task.

A throw-away server of this machine, without append-only file; the client is a process of its own with a few calls in
flight. The server's own CPU time is told beside each rate, for a busy machine changes the rates and not that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from redis.asyncio import Redis
from run import machine

from fyke.frontiers.redis import RedisFrontier
from fyke.frontiers.redis.scripts import load_scripts
from fyke.lab.servers import RedisServer
from fyke.lab.servers.redis import FLAVOURS
from fyke.model import LanePolicy, Task, TaskKind

LEASE_MS = 60_000
OFFER, TAKE = 100, 64
SOURCE = "0123456789abcdef" * 2
# What the article's gate does for each id: mark, and put on the stream where it was not marked.
GATE = """
local new = 0
for i = 1, #ARGV do
  if redis.call('SADD', KEYS[1], ARGV[i]) == 1 then
    redis.call('XADD', KEYS[2], '*', 'id', ARGV[i])
    new = new + 1
  end
end
return new
"""


def lane(number: int, lanes: int) -> str:
    return f"host{number % lanes}.example"


async def opened(url: str) -> RedisFrontier:
    return await RedisFrontier.open(url, namespace="bench", shards=1, lease_ms=LEASE_MS, random=Random(1))


async def configure(url: str, lanes: int) -> None:
    frontier = await opened(url)
    await frontier.rebuild(str(time.time_ns()), lanes)
    await frontier.configure([LanePolicy(lane(n, lanes), 0, 0, 1_000) for n in range(lanes)])
    await frontier.close()


async def gate(url: str, count: int, flights: int) -> float:
    """Ids a second through the article's gate."""
    client = Redis.from_url(url, protocol=2)
    script = client.register_script(GATE)
    keys = ["{gate}seen", "{gate}stream"]

    async def flight(first: int) -> None:
        for start in range(first, count, OFFER * flights):
            await script(keys=keys, args=[f"i{ref}" for ref in range(start, start + OFFER)])

    await script(keys=keys, args=[])
    began = time.perf_counter()
    await asyncio.gather(*(flight(number * OFFER) for number in range(flights)))
    spent = time.perf_counter() - began
    await client.unlink(*keys)
    await client.aclose()
    return count / spent


async def bare(url: str, lanes: int, count: int, flights: int) -> float:
    """Tasks a second through the offer script alone: its arguments are made before, its replies are not read."""
    client, script, meta = Redis.from_url(url, protocol=2), load_scripts()["offer"], "{fyke:bench:0}:meta"
    epoch, rows, pack = await client.hget(meta, "epoch"), list[bytes](), msgspec.msgpack.encode
    for start in range(0, count, OFFER):
        batch = range(start, start + OFFER)
        rows.append(pack([[f"i{ref}", 1, lane(ref, lanes), "text", 1, SOURCE, 0] for ref in batch]))
    await client.script_load(script.text)

    async def flight(number: int) -> None:
        for row in rows[number::flights]:
            await client.evalsha(script.sha, 1, meta, epoch, 0, row)

    began = time.perf_counter()
    await asyncio.gather(*(flight(number) for number in range(flights)))
    spent = time.perf_counter() - began
    await client.aclose()
    return count / spent


async def offer(url: str, lanes: int, count: int, flights: int) -> float:
    """Tasks a second."""
    frontier = await opened(url)

    async def flight(first: int) -> int:
        new = 0
        for start in range(first, count, OFFER * flights):
            batch = range(start, start + OFFER)
            tasks = [Task(TaskKind.ITEM, ref, 1, lane(ref, lanes), source_hash=SOURCE) for ref in batch]
            new += await frontier.offer(tasks)
        return new

    await frontier.stats()
    began = time.perf_counter()
    new = await asyncio.gather(*(flight(number * OFFER) for number in range(flights)))
    spent = time.perf_counter() - began
    assert sum(new) == count, "every task was new"
    await frontier.close()
    return count / spent


async def lease_and_ack(url: str, flights: int) -> tuple[float, int]:
    """Tasks a second, and their number; until nothing is left."""
    frontier = await opened(url)

    async def flight(number: int) -> int:
        done = 0
        while True:
            leased = await frontier.lease(TAKE, LEASE_MS, worker=f"w{number}")
            if not leased.deliveries and leased.wait_ms > 0:
                return done
            if leased.deliveries:
                assert all(await frontier.ack(leased.deliveries)), "a task was leased twice"
            done += len(leased.deliveries)

    await frontier.stats()
    began = time.perf_counter()
    done = sum(await asyncio.gather(*(flight(number) for number in range(flights))))
    spent = time.perf_counter() - began
    await frontier.close()
    return done / spent, done


async def looks(url: str) -> dict[str, float]:
    """What a person or a new worker waits for, in ms."""
    frontier = await opened(url)
    times = {}
    calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "stats_ms": frontier.stats,
        "view_ms": lambda: frontier.view("i777"),
        "first_lease_ms": lambda: frontier.lease(1, LEASE_MS, worker="w"),
        "mend_ms": frontier.mend,
    }
    for name, call in calls.items():
        began = time.perf_counter()
        await call()
        times[name] = round((time.perf_counter() - began) * 1000, 1)
    await frontier.close()
    return times


def run(call: Callable[..., Coroutine[Any, Any, Any]], *values: Any) -> Any:
    """In a process of its own, as a worker is."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (call, *values))


def _run(call: Callable[..., Coroutine[Any, Any, Any]], *values: Any) -> Any:
    logging.disable(logging.WARNING)  # that the throw-away server keeps no file is meant so
    return asyncio.run(call(*values))


class Busy:
    """CPU time and memory that the server says it used."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.cpu, self.memory = self._read()

    def _read(self) -> tuple[float, int]:
        text = self._server.ask("INFO", "cpu") + self._server.ask("INFO", "memory")
        info = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"]), int(info["used_memory"])

    def since(self, count: int) -> tuple[float, float]:
        """µs of CPU and bytes a task."""
        cpu, memory = self._read()
        return round((cpu - self.cpu) * 1e6 / count, 1), round((memory - self.memory) / count, 1)


def measure(server: RedisServer, lanes: int, count: int, flights: int) -> dict[str, Any]:
    server.ask("FLUSHALL")
    gate_rate = run(gate, server.url, count, flights)
    run(configure, server.url, lanes)
    bare_rate = run(bare, server.url, lanes, count, flights)
    server.ask("FLUSHALL")
    run(configure, server.url, lanes)
    busy = Busy(server)
    offered = run(offer, server.url, lanes, count, flights)
    offer_us, waiting_bytes = busy.since(count)
    busy = Busy(server)
    rate, done = run(lease_and_ack, server.url, flights)
    assert done == count, "every task was acknowledged"
    return {
        "lanes": lanes,
        "article_gate_per_s": round(gate_rate),
        "bare_script_per_s": round(bare_rate),
        "offer_per_s": round(offered),
        "offer_server_us": offer_us,
        "bytes_a_waiting_task": waiting_bytes,
        "lease_ack_per_s": round(rate),
        "lease_ack_server_us": busy.since(count)[0],
    }


def waiting(server: RedisServer, count: int, flights: int) -> dict[str, Any]:
    server.ask("FLUSHALL")
    run(configure, server.url, 200)
    busy = Busy(server)
    run(offer, server.url, 200, count, flights)
    return {"waiting": count, "bytes_a_waiting_task": busy.since(count)[1], **run(looks, server.url)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="valkey-9", help=f"of {', '.join(FLAVOURS)}")
    parser.add_argument("--lanes", default="1,200,10000")
    parser.add_argument("--tasks", type=int, default=100_000, help="offered for each figure")
    parser.add_argument("--flights", type=int, default=4, help="calls of one client in flight")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="tasks for the looks; 0 leaves them out")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    report: dict[str, Any] = {"machine": machine()}
    if not given.json:
        print(report["machine"])
    for flavour in given.servers.split(","):
        if why := RedisServer.missing(flavour):
            report[flavour] = [{"missing": why}]
            continue
        rows: list[dict[str, Any]] = []
        with (
            tempfile.TemporaryDirectory(prefix="fyke-bench-") as folder,
            RedisServer(Path(folder), flavour, appendonly=False) as server,
        ):
            for lanes in map(int, given.lanes.split(",")):
                rows.append(measure(server, lanes, given.tasks, given.flights))
                if not given.json:
                    print(flavour, rows[-1], flush=True)
            if given.waiting:
                rows.append(waiting(server, given.waiting, given.flights))
                if not given.json:
                    print(flavour, rows[-1], flush=True)
        report[flavour] = rows
    if given.json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
