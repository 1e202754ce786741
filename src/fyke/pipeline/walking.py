"""One walk of one listing: page → entries → ledger (one transaction) → offer what is due (P2, P5).

The ledger has each entry before the frontier hears of it; the walk's state is written with each page, so a walk that is
killed resumes at its last page.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from fyke.errors import FetchFailed, LeaseLost, TransientError
from fyke.model import (
    Delivery,
    ListPage,
    Outcome,
    PageCommit,
    PageResult,
    PassEnd,
    PassLease,
    PassState,
    Response,
)
from fyke.pipeline.backlog import Backlog, Paused
from fyke.pipeline.knowing import Asking, Knowing, Known
from fyke.pipeline.offloop import read_aside
from fyke.pipeline.requests import NOT_MODIFIED, Sender, TaskRequests, lane_policy, outcome_of
from fyke.pipeline.rounds import Rounds
from fyke.pipeline.walk_rules import (
    Checkpoint,
    any_new,
    conditional,
    copied,
    is_part,
    mark_of,
    may_go_stale,
    next_part,
    rules_of,
    too_long,
    without_circle,
)
from fyke.policy.coverage import (
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
from fyke.policy.validators import keepable_last_modified
from fyke.ports import Ledger, Source

log = logging.getLogger("fyke.lister")

RESUME_WITHIN_MS: Final = 600_000
SMALL_TRAIL: Final = 1_000
KEEP_EVERY_S: Final = 2.0


class Ended(Exception):
    """The walk is over."""

    def __init__(self, end: PassEnd) -> None:
        super().__init__(end.reason)
        self.end = end


class Walker:
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
        self._window = bool(lease.listing.filled)
        self._starts, self._made = delivery.starts, 0
        self._asked: set[bytes] = set()
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
        self._asked.update(kept.asked)
        if kept.walk.page == 0:
            return kept.walk, kept.cursor, False
        return step_back(kept.walk), kept.cursor, True

    async def run(self, backlog: Backlog | None) -> None:
        """Read page after page; ends by Ended, FetchFailed or Paused."""
        while True:
            page, response = await self._read()
            if not self._reread:
                # A page read once more is no progress: else a page that kills its worker would do so for ever.
                self._made = self._starts
            else:
                self._reread = False
                if not resumes(self._walk, page.entries):
                    # Rows were withdrawn meanwhile and the pages have shifted: only page one is sure.
                    self._walk = restarted(self._walk)
                    self._turn_to(None)
                    continue
            full = backlog is not None and await backlog.full(len(page.entries))
            move = await self._write(page, response, pausing=full)
            if move.step is Step.END:
                assert move.end is not None
                raise Ended(self._with_validators(move.end))
            if self._window and move.number == 1 and (why := too_long(page, self._rules)):
                raise Ended(PassEnd(PassState.GAP, why))
            if backlog is not None and full:
                raise Paused(backlog.reason)
            if move.step is Step.AGAIN:
                await self._sender.clock.sleep(self._pause)
            else:
                self._turn_to(None if move.step is Step.FIRST else page.next)

    def _turn_to(self, cursor: dict[str, Any] | None) -> None:
        """Go on with this page; None: with page one, where a new round begins."""
        self._cursor = cursor
        if cursor is None:
            self._asked.clear()
        elif (mark := mark_of(cursor)) is not None:
            self._asked.add(mark)

    async def _read(self) -> tuple[ListPage, Response]:
        while (found := await self._read_one()) is None:
            pass
        return found

    async def _read_one(self) -> tuple[ListPage, Response] | None:
        """The page at the cursor; None where the walk has turned to another one instead."""
        first = self._cursor is None
        request = self._source.list_request(self._lease.listing, self._cursor)
        fresh = first and self._walk.page == 0 and self._walk.look == 0 and not self._walk.again
        # Where the order of a list says nothing, page one says nothing of the others.
        if fresh and not (self._rules.all and self._rules.paged):
            request = conditional(request, self._lease)
        try:
            response = await self._requests.send(request)
        except FetchFailed as error:
            outcome = outcome_of(error)
            if outcome is Outcome.REFUSED and self._is_stale():
                return None
            if outcome not in (Outcome.NOT_FOUND, Outcome.GONE):
                raise
            self._gone(error)
            return None
        if response.status == NOT_MODIFIED:
            end = unchanged(self._walk).end
            assert end is not None
            raise Ended(end)
        if first and self._walk.look == 0:
            self._etag = response.headers.get("etag", "")
            self._modified = keepable_last_modified(
                response.headers.get("last-modified", ""), response.headers.get("date"), response.started_at
            )
        if first and (mark := mark_of({"url": response.url})) is not None:
            self._asked.add(mark)
        if self._walk.look and (same := self._rounds.same(self._cursor, response.body)) is not None:
            return same, response
        page = await read_aside(response, self._source.read_page, self._lease.listing, response, self._cursor)
        if page.outcome is not Outcome.OK:
            if page.outcome is Outcome.MISFIT and self._is_stale():
                return None
            raise self._requests.failed(page.outcome, page.reason, {"url": response.url, "status": response.status})
        without_circle(page, self._asked)
        if page.index or (page.blank and is_part(page.next)):
            self._pass_through(page)
            return None
        return page, response

    def _is_stale(self) -> bool:
        """The page to go on from was asked for with what the site has forgotten: the walk starts again at page one."""
        if not self._reread or not may_go_stale(self._cursor):
            return False
        self._walk, self._reread = restarted(self._walk), False
        self._turn_to(None)
        return True

    def _gone(self, error: FetchFailed) -> None:
        """A page is not there: what it was decides whether the pages end, the walk starts again, or goes on."""
        if self._cursor is None:
            raise error
        if self._reread:
            # So many rows were withdrawn that the page to go on from is gone.
            self._walk, self._reread = restarted(self._walk), False
            self._turn_to(None)
        elif is_part(self._cursor):
            self._pass_over(f"{self._cursor['url']}: {error.reason}", next_part(self._cursor, self._asked))
        else:
            self._end_by_status()

    def _pass_through(self, page: ListPage) -> None:
        """A page without rows of its own: those that it names have them. It says nothing of their changes."""
        if self._cursor is None:
            self._etag = self._modified = ""
        if page.doubt or page.next is None:
            self._pass_over(page.doubt, page.next)
        else:
            self._turn_to(page.next)

    def _pass_over(self, why: str, part: dict[str, Any] | None) -> None:
        """A part cannot be read: the others are, and the walk is a gap; a failure where none has shown an entry."""
        why = self._walk.damaged = self._walk.damaged or why
        if part is not None:
            self._turn_to(part)
        elif self._walk.signs.entries == 0 and not self._walk.signs.refused:
            raise Ended(PassEnd(PassState.FAILED, f"no part of the index shows an entry{why and ': '}{why}"))
        else:
            self._end_by_status()

    def _end_by_status(self) -> None:
        move = ended_by_status(self._walk, self._rules, self._lease.coverage)
        if move.step is Step.END:
            assert move.end is not None
            raise Ended(self._with_validators(move.end))
        self._turn_to(None)

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
        _tally(self._counts, page, result)
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
            checkpoint=self._checkpoint(move, page, now=pausing or (move.look > 0 and any_new(page, known.standing))),
            skipped=len(page.entries) - len(entries),
            fresh=known.fresh,
            known_space=known.space,
            told=known.told,
            low=self._window,
            aside=self._window and self._source.fill is not None and self._source.fill.aside,
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
        asked = [] if move.step is Step.FIRST else sorted(self._asked)
        return msgspec.json.encode(Checkpoint(walk, cursor, page.next, self._made, asked))

    def _with_validators(self, end: PassEnd) -> PassEnd:
        return msgspec.structs.replace(end, etag=self._etag, last_modified=self._modified)


def _tally(counts: dict[str, int], page: ListPage, result: PageResult) -> None:
    for name, amount in (
        ("pages", 1),
        ("entries", len(page.entries) + len(page.refused)),
        ("new", result.new),
        ("known", result.known),
        ("refused", result.refused),
    ):
        counts[name] += amount
