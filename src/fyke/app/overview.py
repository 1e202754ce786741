"""What `fyke status` tells: one look at ledger, frontier and processes, cheap however much waits."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from fyke.app.stores import Stores
from fyke.errors import TransientError
from fyke.model import Event, FrontierStats, SourceCounts, WorkerRow
from fyke.pipeline import backlog, refill
from fyke.pipeline.heart import PROCESS
from fyke.ports import FilterStats
from fyke.settings import masked

ALIVE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
EVENTS_READ: Final = 100
EVENTS_TOLD: Final = 5
# Pools of those that fetch; other processes beat under the name of their role.
POOLS: Final = ("text", "render")


class Overview(Struct, frozen=True):
    """`workers`: the processes that gave a sign of life in the last minute, also those that fetch nothing.

    `idle_pools`: pools in which tasks are ready and that no worker takes from. `notes`: sentences for a person.
    """

    now: int
    ledger: dict[str, Any]
    frontier_at: dict[str, Any]
    sources: list[SourceCounts]
    frontier: FrontierStats
    workers: list[WorkerRow]
    stages: dict[str, dict[str, int]]
    idle_pools: dict[str, int]
    events: list[Event]
    notes: list[str]
    known_filter: FilterStats | None = None


async def look(stores: Stores) -> Overview:
    ledger, settings = stores.ledger, stores.settings
    now = await ledger.now()
    ledger_id, epoch = await ledger.identity()
    sources = await ledger.counts()
    stats = await stores.frontier.stats()
    rows = await ledger.workers(since=now - DAY_MS)
    alive = [row for row in rows if row.beat_at >= now - ALIVE_MS]
    working = {row.pool for row in alive}
    idle = {pool: count for pool, count in sorted(stats.pools.items()) if count and pool not in working}
    marks = [await ledger.cursor(name) for name in (refill.MARK, backlog.MARK)]
    remembered, filter_note = await filter_stats(stores, f"{ledger_id}:{epoch}")
    return Overview(
        now=now,
        ledger={"kind": settings.ledger_kind, "at": masked(settings.ledger), "id": ledger_id, "epoch": epoch},
        frontier_at={"kind": settings.frontier_kind, "at": masked(settings.frontier)},
        sources=sources,
        frontier=stats,
        workers=alive,
        stages=stage_sums(rows),
        idle_pools=idle,
        events=await _events(stores, now),
        notes=[*_notes(stores, stats, idle, alive, filling=bool(marks[0]), full=bool(marks[1])), *filter_note],
        known_filter=remembered,
    )


async def filter_stats(stores: Stores, space: str) -> tuple[FilterStats | None, list[str]]:
    """What the known filter holds, and what a person should know of it. It may be away; nothing waits for it."""
    if stores.known_filter is None:
        return None, []
    try:
        found = await stores.known_filter.stats(space)
    except TransientError as error:
        return None, [f"the known filter does not answer, so the ledger is asked for each entry: {error}"]
    if found.marks <= found.planned:
        return found, []
    text = f"the known filter holds {found.marks} entries and was planned for {found.planned}: known_filter.planned"
    return found, [text]


def stage_sums(workers: list[WorkerRow]) -> dict[str, dict[str, int]]:
    """What the stages of all workers took in, gave out and failed, together."""
    sums: dict[str, dict[str, int]] = {}
    for worker in workers:
        for name, counts in worker.stage.items():
            if name == PROCESS:
                continue
            total = sums.setdefault(name, {"in": 0, "out": 0, "failed": 0})
            for what in total:
                total[what] += counts.get(what, 0)
    return sums


async def _events(stores: Stores, now: int) -> list[Event]:
    """The latest of the last day. Positions of those who tell events are near the end of them."""
    told = max([await stores.ledger.cursor(name) for name in ("log", "alerts")])
    events = await stores.ledger.events(max(0, told - EVENTS_TOLD), EVENTS_READ)
    return [event for event in events if event.at >= now - DAY_MS][-EVENTS_TOLD:]


def _notes(
    stores: Stores,
    stats: FrontierStats,
    idle: dict[str, int],
    alive: list[WorkerRow],
    *,
    filling: bool,
    full: bool,
) -> list[str]:
    notes = [
        f"{count} task(s) wait in pool {pool}, and no worker of it runs: `fyke worker --pool {pool}`"
        for pool, count in idle.items()
    ]
    if filling:
        notes.append("the frontier is new or had lost its content: the next process that runs fills it from the ledger")
    if full:
        limits = stores.settings.backpressure
        notes.append(
            f"walks of lists pause: {stats.ready + stats.delayed} tasks wait, and they go on below {limits.low} "
            "(backpressure.low)"
        )
    if stats.aside:
        notes.append(
            f"{stats.aside} task(s) were written by a release that this one cannot read: kept aside, and offered anew"
        )
    versions = sorted({row.version for row in alive})
    if len(versions) > 1:
        notes.append(f"several releases run beside each other: {', '.join(versions)}")
    return notes
