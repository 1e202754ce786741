"""The proof: both sides of `listed = stored + dead + ignored + open`, with what the frontier really holds (P2)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from fyke.model import AuditReport, Finding
from fyke.pipeline.reconciler import Reconciler
from fyke.pipeline.refill import Prepare
from fyke.ports import Frontier, Ledger

BATCH = 1_000


async def live_keys(frontier: Frontier) -> set[str]:
    """The keys of all live tasks."""
    found: set[str] = set()
    after = ""
    while keys := await frontier.keys(after, BATCH):
        found.update(key for key, _, _ in keys)
        after = keys[-1][0]
    return found


async def audit(
    ledger: Ledger, frontier: Frontier | None, progress: Callable[[int, int], None] | None = None
) -> AuditReport:
    """Counts rows, not counters. Reads only. Without a frontier what is unqueued is not known (None)."""
    return await ledger.audit(None if frontier is None else await live_keys(frontier), progress)


async def repair(
    ledger: Ledger,
    frontier: Frontier | None,
    progress: Callable[[int, int], None] | None = None,
    prepare: Prepare | None = None,
) -> tuple[list[Finding], AuditReport]:
    """Mend what can be mended, bring the frontier (if it is there) in line with the ledger, and audit once more.

    `prepare` as in `Refill`, for a frontier that had lost its content.
    """
    findings = await ledger.repair(await audit(ledger, frontier, progress))
    if frontier is not None:
        await Reconciler(ledger, frontier, 0, prepare).run_once()
    report = await audit(ledger, frontier, progress)
    left = {(found.kind, found.source_id, found.scope, found.key) for found in report.findings}
    mended = [
        replace(found, mended=found.mendable and (found.kind, found.source_id, found.scope, found.key) not in left)
        for found in findings
    ]
    return mended, report
