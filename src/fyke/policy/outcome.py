"""Outcome → effect: what a failed visit or list request costs, and when it is tried again. The table of DESIGN 3.

Pure: the caller brings the counts, the times and the random number.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from fyke.model import ItemState, Outcome

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


class Limits(Struct, frozen=True):
    """How much is tried. Times in ms. `attempt_delays[n]` is waited after the n-th costing attempt."""

    attempts: int = 3
    attempt_delays: tuple[int, ...] = (30 * SECOND, 10 * MINUTE)
    backoff_base: int = 2 * SECOND
    backoff_cap: int = HOUR
    retry_after_cap: int = DAY
    give_up_after: int = DAY
    give_up_blocked_after: int = 7 * DAY
    hold_first: int = 10 * MINUTE
    hold_cap: int = 6 * HOUR


class Cost(StrEnum):
    NOTHING = "nothing"
    ATTEMPT = "attempt"
    FINAL = "final"


_COSTS: dict[Outcome, Cost] = {
    Outcome.OK: Cost.NOTHING,
    Outcome.UNCHANGED: Cost.NOTHING,
    Outcome.NETWORK: Cost.NOTHING,
    Outcome.TIMEOUT: Cost.NOTHING,
    Outcome.PROXY: Cost.NOTHING,
    Outcome.UNAVAILABLE: Cost.NOTHING,
    Outcome.DATABASE: Cost.NOTHING,
    Outcome.BLOCKED: Cost.NOTHING,
    Outcome.LOGIN: Cost.NOTHING,
    Outcome.NOT_FOUND: Cost.ATTEMPT,
    Outcome.EMPTY: Cost.ATTEMPT,
    Outcome.MISFIT: Cost.ATTEMPT,
    Outcome.ERROR: Cost.ATTEMPT,
    Outcome.TOO_LARGE: Cost.ATTEMPT,
    Outcome.WORKER_DIED: Cost.ATTEMPT,
    Outcome.ROW_REFUSED: Cost.FINAL,
    Outcome.GONE: Cost.FINAL,
    Outcome.REFUSED: Cost.FINAL,
    Outcome.ROBOTS: Cost.FINAL,
    Outcome.POLICY: Cost.FINAL,
    Outcome.GAVE_UP: Cost.FINAL,
}


class Effect(Struct, frozen=True):
    """`final` None: try again after `delay_ms`. `hold_ms`: hold the lane for that part of it. `blocked`: it counts as a
    block.
    """

    final: ItemState | None
    costs: bool = False
    delay_ms: int = 0
    hold_ms: int = 0
    blocked: bool = False
    gave_up: bool = False


def backoff(failures: int, uniform: float, limits: Limits) -> int:
    """2·2ⁿ s, ± 50 % by `uniform` in [0, 1), at most the cap; `failures` counts those before this one."""
    width = min(limits.backoff_base * 2 ** min(failures, 30), limits.backoff_cap)
    return min(int(width * (0.5 + uniform)), limits.backoff_cap)


def block_hold(blocks: int, limits: Limits) -> int:
    """10 min, doubling with each block in a row, up to 6 h; `blocks` counts this one."""
    return int(min(limits.hold_first * 2 ** min(max(blocks - 1, 0), 20), limits.hold_cap))


def decide(
    outcome: Outcome,
    *,
    starts: int,
    soft_failures: int,
    soft_ms: int,
    age_ms: int,
    uniform: float,
    retry_after: int | None = None,
    limits: Limits,
) -> Effect:
    """What follows from one failed attempt.

    Args:
        starts: costing starts of this generation, this one included.
        soft_failures, soft_ms: failures that cost nothing before this one, and the time they took with their backoff;
            holds and pauses are not in it.
        age_ms: since the first start, pauses not counted.
        retry_after: ms, where the site named a time.
    """
    cost = _COSTS[outcome]
    if outcome in (Outcome.OK, Outcome.UNCHANGED):
        return Effect(ItemState.STORED)
    if cost is Cost.FINAL:
        ignored = outcome in (Outcome.ROBOTS, Outcome.POLICY)
        return Effect(ItemState.IGNORED if ignored else ItemState.DEAD)
    if cost is Cost.ATTEMPT:
        if starts >= limits.attempts:
            return Effect(ItemState.DEAD, costs=True)
        delays = limits.attempt_delays or (0,)
        return Effect(None, costs=True, delay_ms=delays[min(max(starts, 1), len(delays)) - 1])
    if outcome in (Outcome.BLOCKED, Outcome.LOGIN):
        if age_ms >= limits.give_up_blocked_after:
            return Effect(ItemState.DEAD, gave_up=True, blocked=True)
        return Effect(None, blocked=True)
    if soft_ms >= limits.give_up_after:
        return Effect(ItemState.DEAD, gave_up=True)
    delay = backoff(soft_failures, uniform, limits)
    if retry_after is not None and retry_after > 0:
        hold = min(retry_after, limits.retry_after_cap)
        # Never sooner than without the header: a site that says "1 s" for a day is to be given up, too.
        return Effect(None, delay_ms=max(hold, delay), hold_ms=hold)
    return Effect(None, delay_ms=delay)
