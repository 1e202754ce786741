"""Older entries by date window, as a person asks for them: which windows there are, and reading them here."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from fyke.app.run import Progress, make_shelf, run_once_here
from fyke.app.sources import configure_lanes
from fyke.app.stores import Stores
from fyke.errors import TransientError, UsageError, nearest, there_are
from fyke.model import Listing, OpenedRun
from fyke.pipeline.filling import close_whole, open_windows, plan_holes, windows_of
from fyke.pipeline.once import OnceReport
from fyke.ports import Ledger, Source


class FillPlan(Struct):
    """The windows that would be read, newest first. `cannot`: holes that dates cannot fill, with the reason.

    `going`: a run that fills already, 0 where there is none; `left`: what of these windows it does not read.
    """

    source_id: str
    listings: list[Listing]
    addresses: list[str]
    cannot: list[tuple[int, str]]
    going: int = 0
    left: int = 0


async def filling_source(stores: Stores, source_id: str) -> Source:
    """The applied source, if windows can be asked of it.

    Raises:
        UsageError: it is paused, removed or not there, or does not say how dates are asked for.
    """
    rows = {row.source.id: row for row in await stores.ledger.sources()}
    if source_id not in rows:
        hint = nearest(source_id, rows) or "`fyke source apply` brings a new one into the ledger"
        raise UsageError(f"there is no source '{source_id}'", hint=hint)
    if rows[source_id].paused_at is not None:
        why = rows[source_id].paused_reason
        raise UsageError(f"source '{source_id}' is paused: {why}", hint=f"`fyke source resume {source_id}`")
    source = await make_shelf(stores).get(source_id, rows[source_id].source.hash)
    if source is None or source.fill is None:
        raise UsageError(
            f"source '{source_id}' does not say how dates are asked for",
            field="listing.fill",
            hint="see `listing.fill` in docs/reference/source-file.md",
        )
    return source


async def plan_fill(
    stores: Stores,
    source: Source,
    window: tuple[int, int] | None,
    names: Sequence[str] = (),
    *,
    closing: bool = True,
) -> FillPlan:
    """The windows of a time, or those that the open holes still need where `window` is None. `closing`: holes that are
    whole are closed.
    """
    ledger, source_id = stores.ledger, source.resolved.id
    mains = await _mains(ledger, source)
    chosen = [_named(name, mains) for name in names] or list(mains.values())
    found, cannot = await ledger.holes(source_id), []
    if window is not None:
        listings = windows_of(source, chosen, window)
    else:
        plan = plan_holes(source, found)
        if closing:
            await close_whole(ledger, source_id, plan)
        wanted = {listing.name for listing in chosen}
        listings = [listing for listing in plan.listings if listing.filled in wanted]
        cannot = [(hole.id, why) for hole, why in plan.cannot if hole.listing.name in wanted]
    addresses = [source.list_request(listing, None).url for listing in listings]
    made = FillPlan(source_id, listings, addresses, cannot, found.going or 0)
    if made.going:
        runs = [run for run in await ledger.running(source_id) if run.id == made.going]
        reads = {row.listing for run in runs for row in run.passes}
        made.left = sum(listing.name not in reads for listing in listings)
    return made


async def _mains(ledger: Ledger, source: Source) -> dict[str, Listing]:
    """The source's listings; those that it discovers are the ones that had a pass."""
    now = source.listings()
    found = {listing.name: listing for listing in now if not listing.discovers}
    if any(listing.discovers for listing in now):
        known = await ledger.listings(source.resolved.id)
        found |= {listing.name: listing for listing in known if listing.values}
    return found


def _named(name: str, mains: dict[str, Listing]) -> Listing:
    if name not in mains:
        hint = nearest(name, mains) or there_are(sorted(mains))
        raise UsageError(f"there is no listing '{name}'", field="--listing", hint=hint)
    return mains[name]


async def open_fill(stores: Stores, source: Source, plan: FillPlan) -> OpenedRun:
    """Open a run of these windows and leave it to the workers."""
    ledger = stores.ledger
    await configure_lanes(stores)

    async def offer(opened: OpenedRun) -> None:
        try:
            await stores.frontier.offer(opened.tasks)
        except TransientError:
            return  # the reconciler offers them

    return await open_windows(ledger, offer, plan.source_id, source, plan.listings)


async def fill_here(
    stores: Stores, source: Source, plan: FillPlan, wait_ms: int, progress: Progress | None = None
) -> OnceReport:
    """Open a run of these windows, or go on with the one that fills already, and work until nothing of it is due."""
    return await run_once_here(stores, [plan.source_id], wait_ms, progress, windows=(source, plan.listings))
