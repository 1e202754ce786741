"""`fyke gaps`: holes in what was covered, which stay in the audit until they are filled or closed by a person (P5)."""

from __future__ import annotations

from typing import Annotated

import typer

from fyke.app import open_ledger
from fyke.cli.flags import Json, Reason
from fyke.cli.output import print_json, say, table, when
from fyke.cli.verb import default_verb, group, verb
from fyke.errors import UsageError
from fyke.settings import Loaded

app = group("Show the holes in what was covered; close one by hand.")


@default_verb(app, example="fyke gaps --all")
async def gaps(
    loaded: Loaded,
    everything: Annotated[bool, typer.Option("--all", help="Closed ones too.")] = False,
    as_json: Json = False,
) -> None:
    """Show the holes in what was covered: between which entries something may be missing, and why."""
    async with open_ledger(loaded.settings) as stores:
        rows = await stores.ledger.gaps(closed=everything)
    if as_json:
        print_json(rows)
        return
    if not rows:
        say("No gap.")
        return
    table(
        ("GAP", "SOURCE", "LISTING", "FOUND", "AFTER", "BEFORE", "REASON", "CLOSED"),
        [
            (
                *(row.id, row.source_id, row.listing, when(row.found_at)),
                f"{row.older_key or 'the start'} {when(row.older_at)}".strip(),
                f"{row.newer_key or 'now'} {when(row.newer_at)}".strip(),
                row.reason,
                f"{when(row.closed_at)} {row.closed_reason}" if row.closed_at is not None else "",
            )
            for row in rows
        ],
    )


@verb(app, "close", example='fyke gaps close 3 --reason "the site was down, nothing was published"')
async def close(
    loaded: Loaded,
    gap: Annotated[int, typer.Argument(metavar="ID", help="Its number in `fyke gaps`.")],
    reason: Reason,
) -> None:
    """Close a hole that cannot be filled, with a reason."""
    async with open_ledger(loaded.settings) as stores:
        closed = await stores.ledger.close_gap(gap, reason)
        ids = {row.id: row for row in await stores.ledger.gaps(closed=True)}
    if closed:
        say(f"Gap {gap} is closed.")
    elif gap in ids:
        say(f"Gap {gap} was closed before: {ids[gap].closed_reason}")
    else:
        still = [str(row.id) for row in ids.values() if row.closed_at is None][:10]
        raise UsageError(f"there is no gap {gap}", hint=f"open are {', '.join(still)}" if still else "none is open")
