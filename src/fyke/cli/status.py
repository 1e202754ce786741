"""`fyke status`: what each source has, what waits, who works, and what each stage took in and gave out."""

from __future__ import annotations

from typing import Final

from fyke.app import open_stores
from fyke.cli.flags import Json
from fyke.cli.output import ago, print_json, say, table, when
from fyke.cli.verb import one_verb, verb
from fyke.model import FrontierStats, SourceCounts, WorkerRow
from fyke.settings import Loaded

ALIVE_MS: Final = 60_000
COUNTED_MS: Final = 86_400_000

app = one_verb()


@verb(app, example="fyke status --json")
async def status(loaded: Loaded, as_json: Json = False) -> None:
    """Show what each source has, what waits, who works, and what each stage took in, gave out and failed."""
    async with open_stores(loaded.settings, create=False) as stores:
        now = await stores.ledger.now()
        sources = await stores.ledger.counts()
        waiting = await stores.frontier.stats()
        workers = await stores.ledger.workers(since=now - COUNTED_MS)
    stages = stage_sums(workers)
    alive = [worker for worker in workers if worker.beat_at >= now - ALIVE_MS]
    if as_json:
        print_json({"now": now, "sources": sources, "frontier": waiting, "workers": alive, "stages": stages})
        return
    _sources(sources, now)
    _frontier(waiting, now)
    if stages:
        say("\nStages of the last day")
        table(("STAGE", "IN", "OUT", "FAILED"), [(name, *counts.values()) for name, counts in stages.items()])
    _workers(alive, now)


def stage_sums(workers: list[WorkerRow]) -> dict[str, dict[str, int]]:
    """What the stages of all workers took in, gave out and failed, together."""
    sums: dict[str, dict[str, int]] = {}
    for worker in workers:
        for name, counts in worker.stage.items():
            total = sums.setdefault(name, {"in": 0, "out": 0, "failed": 0})
            for what in total:
                total[what] += counts.get(what, 0)
    return sums


def _sources(sources: list[SourceCounts], now: int) -> None:
    if not sources:
        say("No source was applied yet. `fyke source apply` does it, and so does `fyke run`.")
        return
    table(
        ("SOURCE", "ENTRIES", "LISTED", "STORED", "DEAD", "IGNORED", "OPEN", "REFUSED", "OLDEST OPEN", "LAST RUN"),
        [
            (
                *(row.source_id, row.entries, row.listed, row.stored, row.dead, row.ignored, row.open, row.refused),
                ago(row.oldest_open_at, now),
                f"{row.last_run.state} {when(row.last_run.slot)}" if row.last_run else "none yet",
            )
            for row in sources
        ],
    )
    for row in sources:
        if row.paused_at is not None:
            say(f"{row.source_id} is paused since {when(row.paused_at)}: {row.paused_reason}")


def _frontier(waiting: FrontierStats, now: int) -> None:
    oldest = f", the oldest for {ago(waiting.oldest_ready_at, now)}" if waiting.oldest_ready_at else ""
    say(f"\nIn hand {waiting.leased}, ready {waiting.ready}{oldest}, delayed {waiting.delayed}")
    lanes = [lane for lane in waiting.lanes if lane.hold_until > now or lane.ready or lane.leased or lane.delayed]
    if lanes:
        table(
            ("HOST", "READY", "DELAYED", "IN HAND", "HELD UNTIL"),
            [
                (
                    lane.lane,
                    lane.ready,
                    lane.delayed,
                    lane.leased,
                    when(lane.hold_until) if lane.hold_until > now else "",
                )
                for lane in lanes[:20]
            ],
        )


def _workers(alive: list[WorkerRow], now: int) -> None:
    if not alive:
        say("\nNo worker runs now.")
        return
    say("")
    table(
        ("WORKER", "HOST", "PID", "UP", "LAST SIGN", "IN HAND", "DONE", "FAILED"),
        [
            (
                *(row.worker, row.host, row.pid, ago(row.started_at, now), ago(row.beat_at, now)),
                *(row.in_hand, row.done, row.failed),
            )
            for row in alive
        ],
    )
