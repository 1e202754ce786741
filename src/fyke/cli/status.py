"""`fyke status`: what each source has, what waits, who works, and what each stage took in and gave out."""

from __future__ import annotations

from typing import Final

from fyke.app import open_desk
from fyke.app.overview import POOLS, Overview, look
from fyke.cli.flags import Json
from fyke.cli.output import ago, plain, print_json, say, table, when
from fyke.cli.verb import one_verb, verb
from fyke.model import FrontierStats, SourceCounts, WorkerRow
from fyke.pipeline.heart import PROCESS
from fyke.policy.units import write_size
from fyke.settings import Loaded

HOSTS_SHOWN: Final = 20

app = one_verb()


@verb(app, example="fyke status --json")
async def status(loaded: Loaded, as_json: Json = False) -> None:
    """Show what each source has, what waits, who works, and what each stage took in, gave out and failed."""
    async with open_desk(loaded.settings) as desk:
        found = await look(desk)
    if as_json:
        print_json(found)
        return
    _sources(found.sources, found.now)
    if found.frontier is not None:
        _frontier(found.frontier, found.now)
    if found.stages:
        say("\nStages of the last day")
        table(("STAGE", "IN", "OUT", "FAILED"), [(name, *counts.values()) for name, counts in found.stages.items()])
    _processes(found)
    for note in found.notes:
        say(f"\n! {note}")
    if found.events:
        say("\nLatest events")
        for event in found.events:
            say(f"{when(event.at)}  {event.kind}: {plain(event.message)}")


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
                for lane in lanes[:HOSTS_SHOWN]
            ],
        )


def _processes(found: Overview) -> None:
    ledger, frontier = found.ledger, found.frontier_at
    say(f"\nLedger {ledger['at']}, epoch {ledger['epoch']}; frontier {frontier['at']}")
    if (known := found.known_filter) is not None:
        say(f"Known filter {known.text}")
    if not any(row.pool in POOLS for row in found.workers):
        say("No worker runs now.")
    if not found.workers:
        return
    table(
        (
            *("HOST", "PID", "VERSION", "POOL", "UP", "LAST SIGN", "IN HAND", "DONE/MIN", "FAILED/MIN"),
            *("DONE", "FAILED", "MEMORY", "RESTARTS"),
        ),
        [_process(row, found.now) for row in found.workers],
    )


def _process(row: WorkerRow, now: int) -> tuple[object, ...]:
    facts = row.stage.get(PROCESS, {})
    works = row.pool in POOLS
    return (
        *(row.host, row.pid, row.version, row.pool, ago(row.started_at, now), ago(row.beat_at, now)),
        *((row.in_hand, facts.get("done", 0), facts.get("failed", 0)) if works else (None, None, None)),
        *((row.done, row.failed) if works else (None, None)),
        *(write_size(row.memory // 1_000_000 * 1_000_000), facts.get("restarts") if works else None),
    )
