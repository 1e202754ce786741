"""`fyke dead`: letters of items that died, with the way back for them."""

from __future__ import annotations

from typing import Annotated

import typer

from fyke.app import open_desk, open_ledger
from fyke.cli.desk import offered_later, which_dead
from fyke.cli.flags import DryRun, Json, OneSource
from fyke.cli.output import print_json, say, shortened, table, when
from fyke.cli.verb import group, verb
from fyke.errors import UsageError
from fyke.model import DeadFilter
from fyke.settings import Loaded

app = group("Look at dead letters, replay or drop them.", example="fyke dead list --source ccgp")

Matching = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Only this outcome, or this text in the reason.")
]
OneScope = Annotated[str | None, typer.Option("--scope", metavar="SCOPE", help="Only this scope.")]
OneKey = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only this key (with --scope).")]


@verb(app, "list", example="fyke dead list --reason not_found")
async def list_letters(
    loaded: Loaded,
    reason: Matching = None,
    source: OneSource = None,
    scope: OneScope = None,
    key: OneKey = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 100,
    as_json: Json = False,
) -> None:
    """Show dead letters: what died, of what, and when."""
    async with open_ledger(loaded.settings) as stores:
        which = await which_dead(stores.ledger, source, reason, scope, key)
        letters = await stores.ledger.dead_letters(which, limit)
    if as_json:
        print_json(letters)
        return
    if not letters:
        say("No dead letter.")
        return
    table(
        ("SOURCE", "SCOPE", "KEY", "OUTCOME", "ATTEMPTS", "DIED", "REASON", "URL"),
        [
            (
                *(row.source_id, row.scope, row.key, row.outcome, row.attempts, when(row.died_at)),
                *(shortened(row.reason, 80), row.url),
            )
            for row in letters
        ],
    )
    if len(letters) == limit:
        say(f"… perhaps more: --limit is {limit}.")


@verb(app, "replay", example="fyke dead replay --reason misfit --source ccgp")
async def replay(
    loaded: Loaded,
    reason: Matching = None,
    source: OneSource = None,
    scope: OneScope = None,
    key: OneKey = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Open dead items again with all their attempts; they are visited by the next worker."""
    async with open_desk(loaded.settings) as desk:
        which = await which_dead(desk.ledger, source, reason, scope, key)
        number, tasks = await desk.ledger.replay(which, dry_run=dry_run)
        if tasks and not dry_run:
            await desk.ask(lambda frontier: frontier.offer(tasks))
    if as_json:
        print_json({"replayed": number, "dry_run": dry_run, "frontier_away": desk.away})
        return
    say(f"{number} item(s) {'would be' if dry_run else 'are'} open again.")
    if tasks and desk.away:
        say(offered_later(desk.away))


@verb(app, "drop", example='fyke dead drop --source ccgp --reason gone --because "withdrawn by the site"')
async def drop(
    loaded: Loaded,
    reason: Matching = None,
    source: OneSource = None,
    scope: OneScope = None,
    key: OneKey = None,
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="Why; it is kept with each item.")] = (
        "dropped by hand"
    ),
    everything: Annotated[bool, typer.Option("--all", help="Drop all dead letters there are.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Give dead items up: they become ignored, and their letters are kept as closed. --reason says which ones."""
    async with open_ledger(loaded.settings) as stores:
        which = await which_dead(stores.ledger, source, reason, scope, key)
        if which == DeadFilter() and not everything and not dry_run:
            raise UsageError("this would drop all dead letters", hint="choose with --source or --reason, or say --all")
        number = await stores.ledger.drop_dead(which, because, dry_run=dry_run)
    if as_json:
        print_json({"dropped": number, "dry_run": dry_run})
        return
    say(f"{number} item(s) {'would be' if dry_run else 'are'} ignored from now on.")
    if not number and reason:
        say(f"--reason chooses letters, and none says {reason!r}; why they are dropped is said by --because.")
