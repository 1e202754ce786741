"""One walk of one listing: page → entries → ledger (one transaction) → offer what is due (P2, P5).

The ledger has each entry before the frontier hears of it; the walk's state is written with each page, so a walk that is
killed resumes at its last page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from fyke.errors import FetchFailed, LeaseLost, TransientError, UsageError
from fyke.model import (
    Delivery,
    ListPage,
    Outcome,
    PageCommit,
    PassEnd,
    PassLease,
    PassState,
    Request,
    Response,
    Retry,
    Standing,
)
from fyke.pipeline.backlog import Backlog, Paused
from fyke.pipeline.blocks import hold_blocked, hold_named
from fyke.pipeline.knowing import Asking, Knowing, Known
from fyke.pipeline.requests import NOT_MODIFIED, Sender, TaskRequests, lane_policy, outcome_of
from fyke.pipeline.rounds import Rounds
from fyke.pipeline.shelf import SourceShelf
from fyke.pipeline.walk_rules import copied, rules_of
from fyke.policy.coverage import (
    NOBODY_KNOWS,
    Move,
    Step,
    Walk,
    advance,
    ended_by_status,
    restarted,
    resumes,
    step_back,
    unchanged,
)
from fyke.policy.outcome import Limits, decide
from fyke.policy.validators import keepable_last_modified
from fyke.ports import KnownFilter, Ledger, Source

log = logging.getLogger("fyke.lister")

RESUME_WITHIN_MS = 600_000
BLANK_PAUSE_S = 3.0
SMALL_TRAIL = 1_000
KEEP_EVERY_S = 2.0


class Checkpoint(Struct):
    """`cursor`: of the last committed page; `next`: of the one after it.

    `starts`: those counted before the lease that read this page first; what is counted since then ended in a death.
    """

    walk: Walk
    cursor: dict[str, Any] | None = None
    next: dict[str, Any] | None = None
    starts: int = 0


class _Ended(Exception):
    """The walk is over (internal)."""

    def __init__(self, end: PassEnd) -> None:
        super().__init__(end.reason)
        self.end = end


class Lister:
    """Walks listings. `counters` gets what each stage took in and gave out."""

    def __init__(
        self,
        ledger: Ledger,
        sender: Sender,
        shelf: SourceShelf,
        random: Random,
        limits: Limits,
        worker: str,
        *,
        blocks_to_pause: int = 5,
        blank_pause_s: float = BLANK_PAUSE_S,
        backlog: Backlog | None = None,
        known_filter: KnownFilter | None = None,
    ) -> None:
        self._ledger, self._sender, self._shelf = ledger, sender, shelf
        self._knowing = Knowing(ledger, sender.clock, random, known_filter)
        self._random, self._limits, self._worker = random, limits, worker
        self._blocks_to_pause, self._blank_pause, self._backlog = blocks_to_pause, blank_pause_s, backlog

    async def walk(self, delivery: Delivery) -> dict[str, int]:
        """Walk the pass of a delivery to its end, or give it back; returns counts of entries, new, known, refused,
        pages.

        Raises:
            LeaseLost: the pass is not ours any more.
            Deferred, Paused: the lane may not go soon, or too much waits; the pass resumes at its checkpoint.
            TransientError: ledger or frontier are away.
        """
        counts = dict.fromkeys(("pages", "entries", "new", "known", "refused"), 0)
        lease = await self._ledger.start_pass(delivery.task.ref, self._worker)
        if lease is None:
            await self._sender.frontier.ack([delivery])
            return counts
        try:
            source = await self._shelf.get(lease.source_id, lease.source_hash)
            if source is None:
                raise _Ended(PassEnd(PassState.FAILED, reason="the source is not in the ledger any more"))
            self._alive(lease, delivery)
            if lease.checkpoint is not None and self._backlog is not None and await self._backlog.full():
                raise Paused(self._backlog.reason)
            remaining = (lease.deadline - self._sender.clock.now()) / 1000
            async with asyncio.timeout(max(remaining, 0)):
                walker = _Walker(
                    self._ledger, self._sender, self._knowing, self._blank_pause, lease, delivery, source, counts
                )
                await walker.run(self._backlog)
        except _Ended as ended:
            await self._end(lease, delivery, ended.end)
        except TimeoutError:
            await self._end(lease, delivery, PassEnd(PassState.TIMED_OUT, reason="the run's time limit was reached"))
        except UsageError as error:
            await self._end(lease, delivery, PassEnd(PassState.FAILED, reason=str(error)))
        except FetchFailed as error:
            await self._failed(lease, delivery, error)
        return counts

    def _alive(self, lease: PassLease, delivery: Delivery) -> None:
        """A list page that kills its worker again and again ends the pass; deaths after progress do not count."""
        made = msgspec.json.decode(lease.checkpoint, type=Checkpoint).starts if lease.checkpoint else 0
        deaths = delivery.starts - made
        if deaths >= self._limits.attempts:
            raise _Ended(PassEnd(PassState.FAILED, reason=f"the worker died {deaths} times on the same page"))

    async def _end(self, lease: PassLease, delivery: Delivery, end: PassEnd) -> None:
        await self._ledger.end_pass(lease.pass_id, lease.fence, end)
        await self._sender.frontier.ack([delivery])

    async def _failed(self, lease: PassLease, delivery: Delivery, error: FetchFailed) -> None:
        """The walk could not go on: try again later, or end it as failed."""
        outcome, lane = outcome_of(error), error.lane or delivery.task.lane
        effect = decide(
            outcome,
            starts=lease.attempts + 1,
            soft_failures=lease.soft_failures,
            soft_ms=0,
            age_ms=0,
            uniform=self._random.random(),
            retry_after=error.retry_after,
            limits=self._limits,
        )
        if effect.final is not None:
            reason = f"{outcome.value}: {error.reason}"
            await self._end(lease, delivery, PassEnd(PassState.FAILED, reason=reason))
            return
        accepted = await self._ledger.pass_failed(
            lease.pass_id,
            lease.fence,
            outcome=outcome.value,
            reason=error.reason,
            costs=effect.costs,
            evidence=error.evidence,
        )
        if not accepted:
            raise LeaseLost(f"pass {lease.pass_id} has another owner")
        frontier, ledger, clock = self._sender.frontier, self._ledger, self._sender.clock
        if effect.blocked:
            await hold_blocked(
                ledger, frontier, clock, self._limits, lane, lease.source_id, error.reason, self._blocks_to_pause
            )
        elif effect.hold_ms:
            await hold_named(ledger, frontier, clock, lane, effect.hold_ms, error.reason)
        await frontier.retry([Retry(delivery, effect.delay_ms, error.reason, counted=False)])


class _Walker:
    """One walk in progress."""

    def __init__(
        self,
        ledger: Ledger,
        sender: Sender,
        knowing: Knowing,
        pause: float,
        lease: PassLease,
        delivery: Delivery,
        source: Source,
        counts: dict[str, int],
    ) -> None:
        self._ledger, self._sender, self._pause = ledger, sender, pause
        self._lease, self._source, self._counts = lease, source, counts
        self._requests = TaskRequests(self._sender, delivery, source)
        self._asking: Asking = knowing.of_walk(lease, source.resolved.scope)
        self._rules = rules_of(source, lease)
        self._starts, self._made = delivery.starts, 0
        self._walk, self._cursor, self._reread = self._resume()
        self._etag, self._modified = "", ""
        self._kept_at = -KEEP_EVERY_S
        self._rounds, self._told_good = Rounds(), False

    def _resume(self) -> tuple[Walk, dict[str, Any] | None, bool]:
        lease = self._lease
        fresh = self._sender.clock.now() - lease.checkpoint_at <= RESUME_WITHIN_MS
        if lease.checkpoint is None:
            return Walk(), None, False
        kept = msgspec.json.decode(lease.checkpoint, type=Checkpoint)
        self._made = kept.starts
        if not fresh:
            return restarted(kept.walk), None, False
        if kept.walk.page == 0:
            return kept.walk, kept.cursor, False
        return step_back(kept.walk), kept.cursor, True

    async def run(self, backlog: Backlog | None) -> None:
        """Read page after page; ends by _Ended, FetchFailed or Paused."""
        while True:
            page, response = await self._read()
            if not self._reread:
                # A page read once more is no progress: else a page that kills its worker would do so for ever.
                self._made = self._starts
            else:
                self._reread = False
                if not resumes(self._walk, page.entries):
                    # Rows were withdrawn meanwhile and the pages have shifted: only page one is sure.
                    self._walk, self._cursor = restarted(self._walk), None
                    continue
            full = backlog is not None and await backlog.full(len(page.entries))
            move = await self._write(page, response, pausing=full)
            if move.step is Step.END:
                assert move.end is not None
                raise _Ended(self._with_validators(move.end))
            if backlog is not None and full:
                raise Paused(backlog.reason)
            if move.step is Step.AGAIN:
                await self._sender.clock.sleep(self._pause)
            elif move.step is Step.FIRST:
                self._cursor = None
            else:
                self._cursor = page.next

    async def _read(self) -> tuple[ListPage, Response]:
        first = self._cursor is None
        request = self._source.list_request(self._lease.listing, self._cursor)
        fresh = first and self._walk.page == 0 and self._walk.look == 0 and not self._walk.again
        # Where the order of a list says nothing, page one says nothing of the others.
        if fresh and not (self._rules.all and self._rules.paged):
            request = self._conditional(request)
        try:
            response = await self._requests.send(request)
        except FetchFailed as error:
            gone = outcome_of(error) in (Outcome.NOT_FOUND, Outcome.GONE)
            if gone and self._reread:
                # So many rows were withdrawn that the page to go on from is gone.
                self._walk, self._cursor, self._reread = restarted(self._walk), None, False
                return await self._read()
            if gone and not first:
                move = ended_by_status(self._walk, self._rules, self._lease.coverage)
                if move.step is Step.END:
                    assert move.end is not None
                    raise _Ended(self._with_validators(move.end)) from error
                self._cursor = None
                return await self._read()
            raise
        if response.status == NOT_MODIFIED:
            end = unchanged(self._walk).end
            assert end is not None
            raise _Ended(end)
        if first and self._walk.look == 0:
            self._etag = response.headers.get("etag", "")
            self._modified = keepable_last_modified(
                response.headers.get("last-modified", ""), response.headers.get("date"), response.started_at
            )
        if self._walk.look and (same := self._rounds.same(self._cursor, response.body)) is not None:
            return same, response
        page = self._source.read_page(self._lease.listing, response, self._cursor)
        if page.outcome is not Outcome.OK:
            raise self._requests.failed(page.outcome, page.reason, {"url": response.url, "status": response.status})
        return page, response

    def _conditional(self, request: Request) -> Request:
        headers = dict(request.headers)
        if self._lease.etag:
            headers["If-None-Match"] = self._lease.etag
        if self._lease.last_modified:
            headers["If-Modified-Since"] = self._lease.last_modified
        return msgspec.structs.replace(request, headers=headers)

    async def _write(self, page: ListPage, response: Response, *, pausing: bool) -> Move:
        lease, look = self._lease, self._walk.look
        known = await self._asking.recognise(page.entries)
        # Kept only where the ledger may say that a filter was wrong.
        before, kept_at = copied(self._walk) if known.doubtful else None, self._kept_at
        move = self._advance(page, known)
        result = await self._ledger.page(
            lease.pass_id, lease.fence, self._commit(move, page, response, known, pausing=pausing)
        )
        if result.misjudged and before is not None:
            await self._asking.written(known, result)
            self._walk, self._kept_at = before, kept_at
            known = await self._asking.recognise(page.entries, ask_filter=False)
            move = self._advance(page, known)
            result = await self._ledger.page(
                lease.pass_id, lease.fence, self._commit(move, page, response, known, pausing=pausing)
            )
        if not result.accepted:
            raise LeaseLost(f"pass {lease.pass_id} has another owner")
        await self._asking.written(known, result)
        if not self._told_good:
            # Blocks in a row of a host that serves lists only end here.
            await self._ledger.lane_ok(self._requests.lane)
            self._told_good = True
        if look == 0:
            self._rounds.remember(self._cursor, response.body, page)
        for name, amount in (
            ("pages", 1),
            ("entries", len(page.entries) + len(page.refused)),
            ("new", result.new),
            ("known", result.known),
            ("refused", result.refused),
        ):
            self._counts[name] += amount
        if result.due:
            try:
                lanes = sorted({task.lane for task in result.due if task.lane})
                await self._sender.pace.tighten([lane_policy(self._source, lane) for lane in lanes])
                await self._sender.frontier.offer(result.due)
            except TransientError as error:
                log.warning("offer failed, the reconciler will make it good: %s", error)
        return move

    def _advance(self, page: ListPage, known: Known) -> Move:
        lease = self._lease
        refused_new = sum(row.fingerprint not in lease.accepted_refusals for row in page.refused)
        now = self._sender.clock.now()
        return advance(self._walk, page, known.standing, self._rules, lease.coverage, now=now, refused_new=refused_new)

    def _commit(self, move: Move, page: ListPage, response: Response, known: Known, *, pausing: bool) -> PageCommit:
        entries = [entry for entry in page.entries if entry.key not in known.skipped] if known.skipped else page.entries
        return PageCommit(
            number=move.number,
            look=move.look,
            url=response.url,
            read_at=response.started_at,
            entries=entries,
            refused=page.refused,
            checkpoint=self._checkpoint(move, page, now=pausing or (move.look > 0 and _any_new(page, known.standing))),
            skipped=len(page.entries) - len(entries),
            fresh=known.fresh,
            known_space=known.space,
            told=known.told,
        )

    def _checkpoint(self, move: Move, page: ListPage, *, now: bool) -> bytes:
        """The state of the walk; of a long walk only every 2 s, for it names every row that was shown.

        `now`: the walk pauses; or a look found a row that nobody knew: once written it is known, and only the state
        still tells of it.
        """
        walk, moment = self._walk, self._sender.clock.monotonic()
        long = len(walk.trail) + len(walk.before) > SMALL_TRAIL
        if long and not now and moment - self._kept_at < KEEP_EVERY_S:
            return b""
        if self._made == self._starts:
            # After a death the first new page is kept at once, so that quick deaths are not taken for one page's fault.
            self._kept_at = moment
        cursor = None if move.step is Step.FIRST else self._cursor
        return msgspec.json.encode(Checkpoint(walk, cursor, page.next, self._made))

    def _with_validators(self, end: PassEnd) -> PassEnd:
        return msgspec.structs.replace(end, etag=self._etag, last_modified=self._modified)


def _any_new(page: ListPage, standing: Mapping[str, Standing]) -> bool:
    return any(not standing.get(entry.key, NOBODY_KNOWS).known for entry in page.entries)
