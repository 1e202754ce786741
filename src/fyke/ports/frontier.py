"""The frontier hands out work. Everything in it can be rebuilt from the ledger.

A state is a place: ready, delayed or leased. Politeness is decided here, by the frontier's clock, for all workers (P4):
a lane is what shares one budget. In flight = live leases and permits. All batches: at most 1,000 tasks; lanes
are configured in one call, however many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fyke.model import (
    Delivery,
    FrontierStats,
    LanePolicy,
    Leased,
    Reaped,
    Retry,
    Started,
    Task,
    TaskKind,
    TaskView,
)


class Frontier(Protocol):
    async def configure(self, lanes: Sequence[LanePolicy], *, tighten: bool = False) -> None:
        """Set the policies of all lanes that sources name; other lanes keep theirs until somebody tightens them anew.

        A lane that was never configured has LanePolicy's defaults. With `tighten` only the given lanes are touched, and
        a configured one can only become stricter: for hosts that are found on the way, and robots.txt. Safe to repeat.
        """
        ...

    async def offer(self, tasks: Sequence[Task]) -> int:
        """Make tasks live; returns how many were not live before. Atomic, safe to repeat.

        A live task is never queued twice: the same key at the same or a lower generation changes nothing, whatever its
        state. A higher generation replaces the live task (ready at once) and voids its tokens. A new task takes
        `task.starts` as its costing starts. A lease that is voided keeps its places, for its request is in flight,
        until its deadline or until its holder acks, retries, releases or buries it (which answers False).
        """
        ...

    async def lease(self, limit: int, duration_ms: int, *, worker: str, pool: str = "text") -> Leased:
        """Take at most `limit` ready tasks, best first (priority, then age), only from lanes whose budget allows it
        now.

        Delayed tasks that are due become ready first. A lane may hand out tasks that start within the next second
        (`Delivery.start_at`). A slow, full or held lane is passed over at no cost. Each lease has a new token.
        """
        ...

    async def begin(self, deliveries: Sequence[Delivery]) -> list[Started]:
        """Just before the first request: counts a costing start and reserves the lane's next start (P4).

        `wait_ms` is what the caller must wait before the request goes out. A task whose lane is held is answered
        with `reserved` False and the time until the hold ends; its start is then not reserved and not counted: give it
        back.
        """
        ...

    async def permit(self, delivery: Delivery, lane: str, limit_ms: int = 5_000) -> int:
        """Before each further request of a task: reserve a start in `lane` and return the wait in ms.

        Where the wait would be longer than `limit_ms` (gap or concurrency), nothing is reserved and the wait is
        returned all the same: the caller raises Deferred. A held lane never reserves: what is returned is then longer
        than `limit_ms`, however short the hold, and no shorter than the hold. A permit in another lane than the task's
        own holds one of that lane's places until the task is acked, retried, released, buried or reaped, or its lease
        ends.

        Raises:
            LeaseLost
        """
        ...

    async def extend(self, deliveries: Sequence[Delivery], duration_ms: int) -> list[bool]:
        """Renew leases (and their permits) from now; False where the delivery is not the live one."""
        ...

    async def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        """Finish deliveries for good, after the ledger has committed. False, and nothing changed, where not the live
        one.
        """
        ...

    async def retry(self, retries: Sequence[Retry]) -> list[bool]:
        """Give tasks back to be ready after a delay. Where not `counted`, the start counted by `begin` is taken
        back.
        """
        ...

    async def release(self, deliveries: Sequence[Delivery]) -> list[bool]:
        """Give tasks back at once and at no cost, to their old place in the lane."""
        ...

    async def bury(self, deliveries: Sequence[Delivery]) -> list[bool]:
        """Finish deliveries whose item died; as `ack`, counted apart."""
        ...

    async def reap(self, limit: int = 100) -> list[Reaped]:
        """Put back tasks whose lease ran out, to their old place; a start that was counted stays counted.

        Leases that end later than now + twice their length (a clock was ahead) are clamped to now + their length.
        """
        ...

    async def pause_reaping(self) -> None:
        """This process reaps nothing for one lease: the database or the frontier was away, and leases look expired
        whose holders are alive.

        A step of the clock over 5 s does the same by itself.
        """
        ...

    async def hold(self, lane: str, until: int, reason: str) -> None:
        """Nothing of the lane is leased or begun before `until` (ms); a later hold wins, `until` 0 lifts it."""
        ...

    async def held(self, lane: str) -> int:
        """Milliseconds until the lane's hold ends, 0 where it is not held. A cheap read.

        For a caller that has waited in hand for its start: a hold that came meanwhile takes the start away.
        """
        ...

    async def keys(self, after: str = "", limit: int = 1000) -> list[tuple[str, int, TaskKind]]:
        """Live tasks in order of key: (key, generation, kind). For the reconciler's sweep of what is not due any
        more.
        """
        ...

    async def drop(self, keys: Sequence[tuple[str, int]]) -> int:
        """Remove live tasks (key, generation) that the ledger does not want any more, whatever their state; tokens
        are void, and what is in flight keeps its places as with `offer`.

        A task whose generation is another one meanwhile stays.
        """
        ...

    async def known(self, keys: Sequence[str]) -> list[int | None]:
        """For each key the generation that is live, None where no task is live."""
        ...

    async def view(self, key: str) -> TaskView | None:
        """Where a task is and why it waits; None where it is not live."""
        ...

    async def stats(self) -> FrontierStats: ...

    async def rebuild(self, ledger_id: str, epoch: int) -> bool:
        """Empty the frontier if it belongs to another ledger or epoch; True if it was emptied (the caller offers
        all).
        """
        ...

    @property
    def made(self) -> int:
        """Names the making of this frontier: the same for all processes that use it, another one in another server or
        namespace, or when it was made again; 0 while that is not known.
        """
        ...

    async def damaged(self) -> str:
        """What this process found lost since it asked last, for people; "" where nothing. Some seconds of writes may be
        gone: the caller compares all with the ledger, and leaves no grace.
        """
        ...

    async def wait(self, timeout_ms: int) -> None:
        """Return when work may have come, at the latest after `timeout_ms` (capped at 1,000)."""
        ...

    async def close(self) -> None: ...
