"""One invocation that collects what is due and ends: `fyke run --once`, all in one process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from msgspec import Struct

from fyke.errors import TransientError
from fyke.model import GapRow, ItemState, OpenedRun, RunRow, RunState, SourceCounts
from fyke.pipeline.announce import Announcer
from fyke.pipeline.filling import look
from fyke.pipeline.loops import every
from fyke.pipeline.reaper import Reaper
from fyke.pipeline.reconciler import Reconciler
from fyke.pipeline.refill import Prepare
from fyke.pipeline.scheduler import Scheduler, open_by_hand
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.worker import Worker
from fyke.ports import Clock, Frontier, Ledger

log = logging.getLogger("fyke.run")

LOOK_S = 0.2
GRACE_MS = 3_000
LONG_WAIT_MS = 5_000
RUNS_READ = 200
Opening = Callable[[], Awaitable[list[OpenedRun]]]
GOOD = (RunState.COMPLETE, RunState.SKIPPED)


class OnceReport(Struct, frozen=True):
    """What this invocation came to. `problems`: each a sentence for a person; empty = balanced and complete."""

    sources: list[SourceCounts]
    runs: list[RunRow]
    new_stored: int
    new_dead: int
    still_open: int
    interrupted: bool
    seconds: float
    problems: list[str]


class OnceParts(Struct, frozen=True):
    """What an invocation is made of. Times in ms but `reap_s`; `prepare` as in `Refill`."""

    ledger: Ledger
    frontier: Frontier
    shelf: SourceShelf
    scheduler: Scheduler
    worker: Worker
    clock: Clock
    random: Random
    wait: int
    reap_s: float = 10.0
    prepare: Prepare | None = None


async def run_once(
    parts: OnceParts,
    ids: Sequence[str],
    stop: asyncio.Event,
    progress: Callable[[list[SourceCounts]], None] | None = None,
    *,
    named: bool = False,
    opening: Opening | None = None,
) -> OnceReport:
    """Open (or resume) a run of each source and work until nothing of them is due or delayed, at most `parts.wait`.

    It ends sooner where nothing can become due before that. `named`: a person named the sources; else they are all.
    `opening`: opens other runs than the usual ones. Holes are filled at the end, where sources say how.
    """
    clock, ledger = parts.clock, parts.ledger
    began, began_at = clock.monotonic(), await ledger.now()
    # Of all sources the paused ones are said, too: their open items are waiting for a person.
    paused = [] if named else [row.source.id for row in await ledger.sources() if row.paused_at is not None]
    before = {row.source_id: row for row in await _counts(ledger, [*ids, *paused])}
    resumed = {run.id for source_id in ids for run in await ledger.running(source_id)}
    if opening is not None:
        opened = await opening()
    else:
        opened = await open_by_hand(parts.scheduler, ledger, parts.shelf, ids)
    mine = resumed | {run.run_id for run in opened}

    async def fill() -> bool:
        filling = [await _fill(parts, source_id, closing_only=opening is not None) for source_id in ids]
        mine.update(run for run in filling if run)
        return any(filling)

    ended = asyncio.Event()
    loops = _services(parts, ended)
    working = asyncio.create_task(parts.worker.run())
    try:
        await _until_done(parts, ids, stop, began + parts.wait / 1000, working, progress, fill)
    finally:
        parts.worker.stop()
        ended.set()
        await asyncio.gather(working, *loops, return_exceptions=True)
    if working.done() and not working.cancelled() and (error := working.exception()) is not None:
        raise error
    try:
        await Announcer(ledger).run_once()
    except TransientError as error:
        log.warning("events are told by the next run: %s", error)
    return await _report(ledger, ids, paused, before, mine, began_at, stop.is_set(), clock.monotonic() - began)


async def _fill(parts: OnceParts, source_id: str, *, closing_only: bool) -> int:
    """The id of the run that this has opened for the source's holes, or 0."""
    row = next((row for row in await parts.ledger.sources() if row.source.id == source_id), None)
    source = await parts.shelf.get(source_id, row.source.hash) if row is not None and row.paused_at is None else None
    if source is None:
        return 0
    return await look(parts.ledger, parts.scheduler.offer, source_id, source, closing_only=closing_only)


def _services(parts: OnceParts, ended: asyncio.Event) -> list[asyncio.Task[None]]:
    reaper = Reaper(parts.ledger, parts.frontier)
    reconciler = Reconciler(parts.ledger, parts.frontier, GRACE_MS, parts.prepare)

    async def reap() -> None:
        await reaper.run_once()

    async def reconcile() -> None:
        await reconciler.run_once()

    async def expire() -> None:
        await parts.ledger.expire_runs()

    async def announce() -> None:
        await announcer.run_once()

    announcer = Announcer(parts.ledger)
    rounds = (
        ("events", announce, 1.0),
        ("reaper", reap, parts.reap_s),
        ("reconciler", reconcile, 5.0),
        ("scheduler", expire, 1.0),
    )
    return [
        asyncio.create_task(every(name, call, wait, clock=parts.clock, random=parts.random, stop=ended))
        for name, call, wait in rounds
    ]


async def _until_done(
    parts: OnceParts,
    ids: Sequence[str],
    stop: asyncio.Event,
    deadline: float,
    working: asyncio.Task[None],
    progress: Callable[[list[SourceCounts]], None] | None,
    fill: Callable[[], Awaitable[bool]],
) -> None:
    told = 0
    while not stop.is_set() and not working.done() and parts.clock.monotonic() < deadline:
        try:
            if parts.worker.idle:
                done = await parts.ledger.open_count(ids) == 0
                wait = 0 if done else await _wait_for_next(parts)
                late = wait > (deadline - parts.clock.monotonic()) * 1000
                if (done or late) and await fill():
                    continue
                if done:
                    return
                if late:
                    log.info("nothing can go before the end of --wait; what is open goes on with the next run")
                    return
                due = parts.clock.now() + wait
                if wait > LONG_WAIT_MS and abs(due - told) > LONG_WAIT_MS:
                    told = due
                    log.info("what is open waits; the next of it may go in %d s (--wait ends it sooner)", wait // 1000)
            if progress is not None:
                progress(await _counts(parts.ledger, ids))
        except TransientError:
            # The worker parks and says so; nothing is lost by looking later.
            pass
        try:
            await asyncio.wait_for(stop.wait(), LOOK_S)
        except TimeoutError:
            continue


async def _wait_for_next(parts: OnceParts) -> int:
    """ms until the first waiting task may go; 0 where one may, or where somebody else has tasks in hand."""
    stats = await parts.frontier.stats()
    if stats.leased or stats.next_at is None:
        return 0
    return max(0, stats.next_at - parts.clock.now())


def _is_filled(run: RunRow, gaps: Sequence[GapRow]) -> bool:
    """Whether all holes that the run has found are closed by now."""
    until = run.started_at if run.ended_at is None else run.ended_at
    found = [gap for gap in gaps if gap.source_id == run.source_id and run.started_at <= gap.found_at <= until]
    return run.state is RunState.GAP and bool(found) and all(gap.closed_at is not None for gap in found)


async def _counts(ledger: Ledger, ids: Sequence[str]) -> list[SourceCounts]:
    wanted = set(ids)
    return [row for row in await ledger.counts() if row.source_id in wanted]


async def _report(
    ledger: Ledger,
    ids: Sequence[str],
    paused: Sequence[str],
    before: dict[str, SourceCounts],
    run_ids: set[int],
    began_at: int,
    interrupted: bool,
    seconds: float,
) -> OnceReport:
    after = await _counts(ledger, [*ids, *paused])
    runs = [run for source_id in ids for run in await ledger.runs(source_id, limit=RUNS_READ) if run.id in run_ids]
    old = {source_id: (row.dead, row.stored) for source_id, row in before.items()}
    dead = sum(max(0, row.dead - old.get(row.source_id, (0, 0))[0]) for row in after)
    stored = sum(max(0, row.stored - old.get(row.source_id, (0, 0))[1]) for row in after)
    problems = []
    gaps = await ledger.gaps(closed=True) if any(run.state is RunState.GAP for run in runs) else []
    for run in runs:
        if run.state not in GOOD and not _is_filled(run, gaps):
            reasons = "; ".join(f"{row.listing}: {row.reason}" for row in run.passes if row.reason) or run.reason
            how = "is still going" if run.state is RunState.RUNNING else f"ended as {run.state.value}"
            problems.append(f"run {run.id} of {run.source_id} {how}: {reasons}".rstrip(": "))
    if dead:
        problems.append(f"{dead} item(s) died: `fyke dead list`")
    still_open = sum(row.open for row in after)
    if still_open:
        names = ", ".join(f"{row.source_id} ({row.open})" for row in after if row.open)
        problems.append(f"still {ItemState.OPEN.value}: {names}; `fyke status` says why")
    for row in after:
        if row.listed != row.stored + row.dead + row.ignored + row.open:
            problems.append(f"the counts of {row.source_id} do not add up: `fyke audit`")
        if row.paused_at is not None:
            problems.append(f"source {row.source_id} is paused: {row.paused_reason}")
    return OnceReport(after, runs, stored, dead, still_open, interrupted, round(seconds, 3), problems)
