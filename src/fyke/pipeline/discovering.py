"""The pass that finds a run's listings (`each.discover`): answer → values → ledger (one transaction) → offer (P2, P5).

The ledger ends this pass and opens those of the listings at once, so that no run loses one of them and none is walked
without its discovery. An answer that names nothing, or cannot be had, is a failed pass, never an empty run.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from fyke.errors import FetchFailed, LeaseLost, TransientError
from fyke.model import (
    Delivery,
    FoundListings,
    Listing,
    Outcome,
    PageCommit,
    PassEnd,
    PassLease,
    PassState,
    Request,
    Response,
)
from fyke.pipeline.requests import Sender, TaskRequests, lane_policy
from fyke.policy.politeness import lane_of
from fyke.ports import Ledger, Source

log = logging.getLogger("fyke.lister")


async def discover(ledger: Ledger, sender: Sender, source: Source, lease: PassLease, delivery: Delivery) -> None:
    """Read the values of `each` and give the run one pass for each listing.

    Raises:
        FetchFailed: there was no answer, or it names nothing.
        UsageError: a value makes no address.
        LeaseLost, Deferred, TransientError
    """
    requests = TaskRequests(sender, delivery, source)
    response = await requests.send(source.list_request(lease.listing, None))
    found = source.read_listings(lease.listing, response)
    if found.outcome is not Outcome.OK:
        raise requests.failed(found.outcome, found.reason, {"url": response.url, "status": response.status})
    lanes = [lane_of(source.list_request(listing, None).url) for listing in found.listings]
    if found.refused:
        await _keep_refused(ledger, lease, found, response)
    tasks = await ledger.spread(lease.pass_id, lease.fence, _end(lease, found), found.listings, lanes)
    if tasks is None:
        raise LeaseLost(f"pass {lease.pass_id} has another owner")
    await ledger.lane_ok(requests.lane)
    try:
        await sender.pace.tighten([lane_policy(source, lane) for lane in sorted(set(lanes))])
        await sender.frontier.offer(tasks)
    except TransientError as error:
        log.warning("listings that were found are offered by the reconciler: %s", error)
    await sender.frontier.ack([delivery])
    log.info("source %s: %d listing(s) found", lease.source_id, len(found.listings))


async def _keep_refused(ledger: Ledger, lease: PassLease, found: FoundListings, response: Response) -> None:
    page = PageCommit(1, 0, response.url, response.started_at, [], found.refused, b"")
    if not (await ledger.page(lease.pass_id, lease.fence, page)).accepted:
        raise LeaseLost(f"pass {lease.pass_id} has another owner")


def _end(lease: PassLease, found: FoundListings) -> PassEnd:
    """What was found is walked in any case; a person is told of rows that gave nothing, and where half is missing."""
    number, usual = len(found.listings), lease.coverage.usual_rows
    fresh = [row for row in found.refused if row.fingerprint not in lease.accepted_refusals]
    reason = ""
    if fresh:
        reason = f"{len(fresh)} row(s) of the discovery gave no listing: {fresh[0].reason}"
    elif number * 2 < usual:
        reason = f"the discovery found {number} listing(s); usual are {usual}"
    state = PassState.SUSPICIOUS if reason else PassState.COMPLETE
    return PassEnd(state, reason, f"{number} listing(s) found", first_page_rows=number, connected=True)


async def all_listings(source: Source, fetch: Callable[[Request], Awaitable[Response]]) -> list[Listing]:
    """The listings of a source with those that it discovers, for commands that only look.

    Raises:
        FetchFailed: an answer cannot be had, or names nothing.
    """
    found: list[Listing] = []
    for listing in source.listings():
        if not listing.discovers:
            found.append(listing)
            continue
        read = source.read_listings(listing, await fetch(source.list_request(listing, None)))
        if read.outcome is not Outcome.OK:
            raise FetchFailed(read.outcome, read.reason)
        found += read.listings
    return found
