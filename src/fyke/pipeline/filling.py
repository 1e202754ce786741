"""Older entries by date window: for holes that coverage has found, and for whoever asks for a time (P5).

A window is a listing of its own in a run of its own. A hole is closed once windows that were read whole hold all of it,
which is looked at anew each time: whatever dies between, the next look goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo

from msgspec import Struct
from msgspec import field as of

from fyke.errors import LeaseLost, TransientError, UsageError
from fyke.model import (
    Delivery,
    Hole,
    Holes,
    Listing,
    NewRun,
    OpenedRun,
    PassEnd,
    PassLease,
    PassState,
)
from fyke.pipeline.requests import Sender, lane_policy
from fyke.policy.cadence import zone
from fyke.policy.politeness import lane_of
from fyke.policy.windows import (
    DAY_MS,
    MOST_WINDOWS,
    TooMany,
    Window,
    halves,
    hole_window,
    is_due,
    main_listing,
    merged,
    missing,
    split,
    whole_days,
    window_listing,
    window_of,
    within,
)
from fyke.ports import Ledger, Source

log = logging.getLogger("fyke.filling")

LIMIT_MS = DAY_MS
SECOND_MS = 1_000

Offer = Callable[[OpenedRun], Awaitable[None]]


class HolePlan(Struct):
    """What is to be done about holes. `whole`: windows that were read hold all of these, by name of their listing."""

    listings: list[Listing] = of(default_factory=list)
    whole: list[tuple[Hole, list[str]]] = of(default_factory=list)
    cannot: list[tuple[Hole, str]] = of(default_factory=list)


def windows_of(source: Source, mains: Sequence[Listing], window: Window) -> list[Listing]:
    """The date windows of these listings, newest first.

    Raises:
        UsageError: the source has no `fill`, or there are too many.
    """
    here = _zone(source)
    parts = [(listing, part) for part in _parts(source, window)[::-1] for listing in mains]
    if len(parts) > MOST_WINDOWS:
        raise UsageError(
            f"{len(parts):,} windows are more than a run may have", hint="name a shorter time, or a longer fill.window"
        )
    return [window_listing(listing, part, here) for listing, part in parts]


def plan_holes(source: Source, found: Holes) -> HolePlan:
    """Which holes are whole, and the windows that the others still need."""
    plan, here, wanted = HolePlan(), _zone(source), {}
    for hole in found.holes:
        window = hole_window(hole, _start(source, hole))
        if isinstance(window, str):
            plan.cannot.append((hole, window))
            continue
        window = whole_days(window, here)
        walked = [one for one in found.walked if one[0].filled == hole.listing.name and one[3] >= hole.found_at]
        spans = [(since, until) for _, since, until, _ in walked]
        if within(window, merged(spans)):
            names = [one[0].name for one in walked if one[1] < window[1] and window[0] < one[2]]
            plan.whole.append((hole, names))
            continue
        try:
            parts = missing(_parts(source, window), merged(spans))
        except UsageError as error:
            plan.cannot.append((hole, error.message))
            continue
        for part in parts[::-1]:
            listing = window_listing(hole.listing, part, here)
            wanted[listing.name] = listing
    plan.listings = list(wanted.values())[:MOST_WINDOWS]
    return plan


async def close_whole(ledger: Ledger, source_id: str, plan: HolePlan) -> None:
    """Close the holes that are whole; one that does not meet what is covered stays, with the reason."""
    for hole, windows in plan.whole:
        why = await ledger.fill_hole(hole.id, windows, f"filled by {len(windows)} date window(s)")
        if why:
            plan.cannot.append((hole, why))
            log.info("gap %d of %s stays open: %s", hole.id, source_id, why)
        else:
            log.info("gap %d of %s is filled", hole.id, source_id)


async def look(ledger: Ledger, offer: Offer, source_id: str, source: Source, *, closing_only: bool = False) -> int:
    """Close the source's holes that are whole, and open a run for the others where one is due; its id, or 0."""
    if source.fill is None:
        return 0
    found = await ledger.holes(source_id)
    if not found.holes or found.going is not None:
        return 0
    plan = plan_holes(source, found)
    await close_whole(ledger, source_id, plan)
    if closing_only or not plan.listings or not is_due(found.holes, found.tried_at, await ledger.now()):
        return 0
    opened = await open_windows(ledger, offer, source_id, source, plan.listings)
    return opened.run_id if opened.created else 0


async def open_windows(
    ledger: Ledger, offer: Offer, source_id: str, source: Source, listings: list[Listing]
) -> OpenedRun:
    """Open a run that reads these windows, or return the one that goes already."""
    now = await ledger.now()
    lanes = [lane_of(source.list_request(listing, None).url) for listing in listings]
    opened = await ledger.open_run(
        NewRun(
            source_id=source_id,
            # Slots of calendars are whole seconds: this one takes none of theirs.
            slot=now if now % SECOND_MS else now + 1,
            listings=listings,
            lanes=lanes,
            trigger="fill",
            limit_ms=max(source.schedule.limit, LIMIT_MS),
        )
    )
    await offer(opened)
    if opened.created:
        log.info("run %d of %s reads %d date window(s)", opened.run_id, source_id, len(listings))
    return opened


async def halve(
    ledger: Ledger, sender: Sender, source: Source | None, lease: PassLease, delivery: Delivery, end: PassEnd
) -> bool:
    """End the pass of a window that could not be read to its end by two passes of half of it.

    False: it is no such pass, or its halves would be asked for as the whole is.

    Raises:
        LeaseLost: the pass is not ours any more.
    """
    if source is None or source.fill is None or not lease.listing.filled or end.state is not PassState.GAP:
        return False
    here, whole = _zone(source), source.list_request(lease.listing, None)
    parts = halves(window_of(lease.listing), here)
    if parts is None:
        return False
    listings = [window_listing(main_listing(lease.listing), part, here) for part in parts]
    requests = [source.list_request(listing, None) for listing in listings]
    if whole in requests:
        return False
    said = PassEnd(PassState.COMPLETE, note=f"read as two halves: {end.reason}")
    lanes = [lane_of(request.url) for request in requests]
    tasks = await ledger.spread(lease.pass_id, lease.fence, said, listings, lanes)
    if tasks is None:
        raise LeaseLost(f"pass {lease.pass_id} has another owner")
    try:
        await sender.pace.tighten([lane_policy(source, lane) for lane in sorted(set(lanes))])
        await sender.frontier.offer(tasks)
    except TransientError as error:
        log.warning("the halves of a window are offered by the reconciler: %s", error)
    await sender.frontier.ack([delivery])
    return True


def _zone(source: Source) -> tzinfo:
    return zone(source.schedule.timezone)


def _parts(source: Source, window: Window) -> list[Window]:
    if source.fill is None:
        name = source.resolved.id
        raise UsageError(f"source '{name}' does not say how dates are asked for", hint="see listing.fill")
    try:
        return split(window, source.fill.window, _zone(source))
    except TooMany as error:
        raise UsageError(str(error), hint="name a shorter time, or a longer fill.window") from error


def _start(source: Source, hole: Hole) -> int | None:
    """How far back a first walk was to go; a little more, for the walk began before it found the hole."""
    connect = source.connect
    if connect.start == "since":
        return connect.start_value
    if connect.start == "length":
        return hole.found_at - connect.start_value - source.schedule.limit
    return None
