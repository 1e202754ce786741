"""Holds: a lane that blocked us or named a time waits, for all workers, in the ledger and in the frontier."""

from __future__ import annotations

from fyke.model import Event
from fyke.policy.outcome import Limits, block_hold
from fyke.ports import Clock, Frontier, Ledger


async def hold_named(ledger: Ledger, frontier: Frontier, clock: Clock, lane: str, hold_ms: int, reason: str) -> None:
    """The site named a time (Retry-After)."""
    began = clock.monotonic()
    await ledger.hold_lane(lane, clock.now() + hold_ms, reason)
    await frontier.hold(lane, _until(clock, began, hold_ms), reason)


def _until(clock: Clock, began: float, hold_ms: int) -> int:
    """The end of a hold that began at this monotonic time, by the wall clock of now: it may have been set meanwhile."""
    return clock.now() + max(0, hold_ms - round((clock.monotonic() - began) * 1000))


async def hold_blocked(
    ledger: Ledger,
    frontier: Frontier,
    clock: Clock,
    limits: Limits,
    lane: str,
    source_id: str,
    reason: str,
    blocks_to_pause: int,
) -> None:
    """A block: the lane waits 10 min, doubling; a person is told; N in a row pause the source."""
    row = await ledger.lane(lane)
    now, began = clock.now(), clock.monotonic()
    if row is not None and row.hold_until > now and row.blocks:
        # The requests that were in flight when the lane was held tell nothing new.
        await frontier.hold(lane, row.hold_until, row.hold_reason)
        return
    hold = block_hold((row.blocks if row else 0) + 1, limits)
    blocks = await ledger.hold_lane(lane, now + hold, reason, blocked=True)
    await frontier.hold(lane, _until(clock, began, hold), reason)
    paused = await ledger.source_blocked(source_id, blocks_to_pause)
    text = f"{lane} blocked us ({reason}); nothing is asked there for {hold // 60_000} min"
    if paused:
        text += (
            f"; source {source_id} is paused after {blocks_to_pause} blocks in a row: `fyke source resume {source_id}`"
        )
    await ledger.add_events(
        [Event("blocked", text, source_id=source_id, group=lane, at=now, data={"lane": lane, "blocks": blocks})]
    )
