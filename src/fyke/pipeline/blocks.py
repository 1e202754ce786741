"""Holds: a lane that blocked us or named a time waits, for all workers, in the ledger and in the frontier."""

from __future__ import annotations

from fyke.model import Event
from fyke.policy.outcome import Limits, block_hold
from fyke.ports import Clock, Frontier, Ledger


async def hold_named(ledger: Ledger, frontier: Frontier, clock: Clock, lane: str, hold_ms: int, reason: str) -> None:
    """The site named a time (Retry-After)."""
    until = clock.now() + hold_ms
    await ledger.hold_lane(lane, until, reason)
    await frontier.hold(lane, until, reason)


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
    now = clock.now()
    if row is not None and row.hold_until > now and row.blocks:
        # The requests that were in flight when the lane was held tell nothing new.
        await frontier.hold(lane, row.hold_until, row.hold_reason)
        return
    hold = block_hold((row.blocks if row else 0) + 1, limits)
    blocks = await ledger.hold_lane(lane, now + hold, reason, blocked=True)
    await frontier.hold(lane, now + hold, reason)
    paused = await ledger.source_blocked(source_id, blocks_to_pause)
    text = f"{lane} blocked us ({reason}); nothing is asked there for {hold // 60_000} min"
    if paused:
        text += (
            f"; source {source_id} is paused after {blocks_to_pause} blocks in a row: `fyke source resume {source_id}`"
        )
    await ledger.add_events(
        [Event("blocked", text, source_id=source_id, group=lane, at=now, data={"lane": lane, "blocks": blocks})]
    )
