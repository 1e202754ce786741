"""`fyke runs`: the runs with their passes, and a person's word that a suspicious one is right."""

from __future__ import annotations

from typing import Annotated

import typer

from fyke.app import open_ledger
from fyke.cli.desk import applied_source
from fyke.cli.flags import Json, OneSource, Reason
from fyke.cli.output import print_json, say, table, when
from fyke.cli.verb import default_verb, group, verb
from fyke.model import RunRow, RunState
from fyke.settings import Loaded

app = group("Show the runs and their passes; accept a suspicious one.")

Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many, the latest first.")]


@default_verb(app, example="fyke runs --source ccgp")
async def runs(loaded: Loaded, source: OneSource = None, limit: Limit = 20, as_json: Json = False) -> None:
    """Show the latest runs and their passes."""
    async with open_ledger(loaded.settings) as stores:
        if source is not None:
            await applied_source(stores.ledger, source)
        rows = await stores.ledger.runs(source, limit)
    if as_json:
        print_json(rows)
        return
    if not rows:
        say("No run yet. `fyke run --once` makes one.")
        return
    table(
        ("RUN", "SOURCE", "SLOT", "BY", "STATE", "PAGES", "ENTRIES", "NEW", "KNOWN", "REFUSED", "REASON"),
        [
            (
                *(row.id, row.source_id, when(row.slot), row.trigger, _state(row)),
                *(sum(each.pages for each in row.passes), row.entries, row.new, row.known, row.refused),
                _reason(row),
            )
            for row in rows
        ],
    )


def _state(row: RunRow) -> str:
    return f"{row.state} (accepted)" if row.accepted_at else str(row.state)


def _reason(row: RunRow) -> str:
    told = [row.reason] if row.reason else []
    on = "" if row.state == RunState.SKIPPED else " on"
    if row.covers_from is not None:
        told.append(f"{'since' if row.state == RunState.SKIPPED else 'covers'} {when(row.covers_from)}{on}")
    for each in row.passes:
        text = "; ".join(part for part in (each.reason, each.note) if part)
        if text and text != row.reason:
            told.append(f"{each.listing}: {text}" if len(row.passes) > 1 else text)
    return " | ".join(told)


@verb(app, "accept", example='fyke runs accept 17 --reason "the site really shows one row less"')
async def accept(
    loaded: Loaded,
    run: Annotated[int, typer.Argument(metavar="RUN", help="Its number in `fyke runs`.")],
    reason: Reason,
) -> int:
    """Say that a suspicious run is right: its passes cover, and rows that it refused trouble no later pass."""
    async with open_ledger(loaded.settings) as stores:
        accepted = await stores.ledger.accept_run(run, reason)
        rows = {row.id: row for row in await stores.ledger.runs(None, 1000)}
    if accepted:
        say(f"Run {run}: {accepted} pass(es) accepted.")
        return 0
    if run in rows and rows[run].accepted_at is not None:
        say(f"Run {run} was accepted before.")
        return 0
    say(f"Run {run} has nothing suspicious to accept.")
    return 1
