"""What `fyke status` tells: one look at ledger, frontier and processes, cheap however much waits."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from fyke.app.one_frontier import apart
from fyke.app.stores import Desk
from fyke.errors import TransientError
from fyke.model import Event, FrontierStats, SourceCounts, WorkerRow
from fyke.pipeline import backlog, refill
from fyke.pipeline.heart import ENDED, PROCESS
from fyke.pipeline.watch import FULL, FULL_HINT
from fyke.ports import FilterStats, Ledger
from fyke.settings import masked

ALIVE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
EVENTS_READ: Final = 100
EVENTS_TOLD: Final = 5
# Pools of those that fetch; other processes beat under the name of their role.
POOLS: Final = ("text", "render")
# Roles that fill a frontier which is not filled.
KEEPERS: Final = ("scheduler", "reconciler")


class Overview(Struct, frozen=True):
    """`workers`: the processes that gave a sign of life in the last minute, also those that fetch nothing.

    `frontier`: None where it is not reachable. `idle_pools`: pools in which tasks are ready and that no worker takes
    from. `notes`: sentences for a person.
    """

    now: int
    ledger: dict[str, Any]
    frontier_at: dict[str, Any]
    sources: list[SourceCounts]
    frontier: FrontierStats | None
    workers: list[WorkerRow]
    stages: dict[str, dict[str, int]]
    idle_pools: dict[str, int]
    events: list[Event]
    notes: list[str]
    known_filter: FilterStats | None = None


async def look(desk: Desk) -> Overview:
    ledger, settings = desk.ledger, desk.settings
    now = await ledger.now()
    ledger_id, epoch = await ledger.identity()
    sources = await ledger.counts()
    stats = await desk.ask(lambda frontier: frontier.stats())
    rows = await ledger.workers(since=now - DAY_MS)
    alive = [row for row in rows if row.beat_at >= now - ALIVE_MS and not row.stage.get(PROCESS, {}).get(ENDED)]
    working = {row.pool for row in alive}
    pools = {} if stats is None else stats.pools
    idle = {pool: count for pool, count in sorted(pools.items()) if count and pool not in working}
    marks = [await ledger.cursor(name) for name in (refill.MARK, backlog.MARK)]
    remembered, filter_note = await filter_stats(desk, f"{ledger_id}:{epoch}")
    return Overview(
        now=now,
        ledger={"kind": settings.ledger_kind, "at": masked(settings.ledger), "id": ledger_id, "epoch": epoch},
        frontier_at={"kind": settings.frontier_kind, "at": masked(settings.frontier)},
        sources=sources,
        frontier=stats,
        workers=alive,
        stages=stage_sums(rows),
        idle_pools=idle,
        events=await _events(ledger, now),
        notes=[*_notes(desk, stats, idle, alive, now, filling=bool(marks[0]), full=bool(marks[1])), *filter_note],
        known_filter=remembered,
    )


async def filter_stats(desk: Desk, space: str) -> tuple[FilterStats | None, list[str]]:
    """What the known filter holds, and what a person should know of it. It may be away; nothing waits for it."""
    if desk.known_filter is None or desk.away:
        return None, []
    try:
        found = await desk.known_filter.stats(space)
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


async def _events(ledger: Ledger, now: int) -> list[Event]:
    """The latest of the last day. Positions of those who tell events are near the end of them."""
    told = max([await ledger.cursor(name) for name in ("log", "alerts")])
    events = await ledger.events(max(0, told - EVENTS_TOLD), EVENTS_READ)
    return [event for event in events if event.at >= now - DAY_MS][-EVENTS_TOLD:]


def _notes(
    desk: Desk,
    stats: FrontierStats | None,
    idle: dict[str, int],
    alive: list[WorkerRow],
    now: int,
    *,
    filling: bool,
    full: bool,
) -> list[str]:
    notes = [
        f"{count} task(s) wait in pool {pool}, and no worker of it runs: `fyke worker --pool {pool}`"
        for pool, count in idle.items()
    ]
    if stats is None:
        notes.append(
            f"the frontier is not reachable ({desk.away}): what waits, what is in hand and what is unqueued is unknown;"
            " what is due is offered again when it is back"
        )
    keeping = any(row.pool in KEEPERS for row in alive)
    if filling and stats is not None:
        notes.append(
            "the frontier is new or had lost its content, so what is due is not in it yet: `fyke run`, `fyke scheduler`"
            " or `fyke reconciler` offers it from the ledger within seconds"
            + ("" if keeping else " of its start, and none of them runs now")
        )
    if full:
        limits = desk.settings.backpressure
        waiting = "too many" if stats is None else f"{stats.ready + stats.delayed}"
        notes.append(
            f"walks of lists pause: {waiting} tasks wait, and they go on below {limits.low} (backpressure.low)"
        )
    if stats is not None and stats.memory >= 1:
        notes.append(f"{FULL}: nothing new is offered until it has room; {FULL_HINT}")
    if stats is not None and stats.aside:
        notes.append(
            f"{stats.aside} task(s) were written by a release that this one cannot read: kept aside, and offered anew"
        )
    two = apart(alive, now)
    if two:
        notes.append(two)
    versions = sorted({row.version for row in alive})
    if len(versions) > 1:
        notes.append(f"several releases run beside each other: {', '.join(versions)}")
    return notes
