"""`fyke audit`: listed = stored + dead + ignored + open, each side counted from another table (P2)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Annotated

import msgspec
import typer

from fyke.app import Desk, open_desk
from fyke.app.sources import restore
from fyke.cli.flags import Json
from fyke.cli.output import print_json, say, table
from fyke.cli.progress import Portion
from fyke.cli.verb import one_verb, verb
from fyke.model import AuditReport, Finding
from fyke.pipeline import auditor
from fyke.ports import Frontier
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

    Exits with 1 where anything is unaccounted, or a repair of the frontier has to wait for it.
    """
    async with open_desk(loaded.settings) as desk:
        mended, report = await _count(desk, Portion("rows counted"), repair=repair)
    if as_json:
        more = {"frontier_away": desk.away} | ({} if mended is None else {"repair": msgspec.to_builtins(mended)})
        print_json(msgspec.to_builtins(report) | more)
    else:
        _show(report, mended)
        if desk.away:
            say(f"The frontier is not reachable ({desk.away}): what is unqueued is not known.")
            if repair:
                say("Its part of the repair waits: the reconciler does it when the frontier is back.")
    waits = repair and bool(desk.away)
    return 0 if report.balanced and not report.unaccounted and not waits else 1


async def _count(desk: Desk, shown: Portion, *, repair: bool) -> tuple[list[Finding] | None, AuditReport]:
    """From the ledger, and with what the frontier holds where that answers."""
    settings, ledger = desk.settings, desk.ledger
    if not repair:
        tasks = await desk.ask(auditor.live_keys)
        return None, await ledger.audit(tasks, shown)

    async def with_frontier(frontier: Frontier) -> tuple[list[Finding], AuditReport]:
        return await auditor.repair(ledger, frontier, shown, partial(restore, settings, ledger, frontier))

    return await desk.ask(with_frontier) or await auditor.repair(ledger, None, shown)


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
