"""`fyke audit`: listed = stored + dead + ignored + open, each side counted from another table (P2)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Annotated

import msgspec
import typer

from fyke.app import open_stores
from fyke.app.sources import restore_lanes
from fyke.cli.flags import Json
from fyke.cli.output import print_json, say, table
from fyke.cli.progress import Portion
from fyke.cli.verb import one_verb, verb
from fyke.model import AuditReport, Finding
from fyke.pipeline import auditor
from fyke.settings import Loaded

app = one_verb()

LINES_A_KIND = 20


@verb(app, example="fyke audit --json")
async def audit(
    loaded: Loaded,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended, then count again.")] = False,
    as_json: Json = False,
) -> int:
    """Prove that nothing is lost: count both sides from different tables and name each key on one side only.

    Exits with 1 where anything is unaccounted.
    """
    mended: list[Finding] | None = None
    async with open_stores(loaded.settings, create=False) as stores:
        shown = Portion("rows counted")
        if repair:
            lanes = partial(restore_lanes, stores)
            mended, report = await auditor.repair(stores.ledger, stores.frontier, shown, lanes)
        else:
            report = await auditor.audit(stores.ledger, stores.frontier, shown)
    if as_json:
        print_json(msgspec.to_builtins(report) | ({} if mended is None else {"repair": msgspec.to_builtins(mended)}))
    else:
        _show(report, mended)
    return 0 if report.balanced and not report.unaccounted else 1


def _show(report: AuditReport, mended: list[Finding] | None) -> None:
    for finding in mended or []:
        done = "mended" if finding.mended else "cannot be mended" if not finding.mendable else "not mended"
        say(f"{done}: {_line(finding)}")
    head = ("SOURCE", "ENTRIES", "LISTED", "STORED", "DEAD", "IGNORED", "OPEN", "UNQUEUED", "UNACCOUNTED")
    rows = [
        (name, row.entries, row.listed, row.stored, row.dead, row.ignored, row.open, row.unqueued, row.unaccounted)
        for name, row in report.by_source.items()
    ]
    total = ("all", report.entries, report.listed, report.stored, report.dead, report.ignored, report.open)
    table(head, [*rows, (*total, report.unqueued, report.unaccounted)])
    say(f"\nentries {report.entries} = new {report.new} + known {report.known} + refused {report.refused}")
    say(
        f"listed {report.listed} = stored {report.stored} + dead {report.dead} + ignored {report.ignored} + open "
        f"{report.open}" + ("" if report.balanced else ": DOES NOT BALANCE")
    )
    if report.open_holes:
        say(f"{report.open_holes} gap(s) are open: `fyke gaps`")
    told: Counter[str] = Counter()
    for finding in report.findings:
        told[finding.kind] += 1
        if told[finding.kind] <= LINES_A_KIND:
            say(_line(finding))
    for kind, number in told.items():
        if number > LINES_A_KIND:
            say(f"… and {number - LINES_A_KIND} more {kind} (--json has them)")
    if len(report.findings) < report.unaccounted:
        say(f"… {report.unaccounted - len(report.findings)} more")
    if not report.unaccounted and report.balanced:
        say("Nothing is unaccounted.")
    elif any(finding.mendable for finding in report.findings):
        say("`fyke audit --repair` mends what can be mended.")


def _line(finding: Finding) -> str:
    return f"{finding.kind}: {finding.scope} {finding.key} ({finding.source_id}): {finding.message}"
