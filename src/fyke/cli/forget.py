"""`fyke forget`: items are removed with all that belongs to them, so that a later listing makes them new."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from fyke.app import open_ledger
from fyke.cli.desk import applied_source, no_such_item, trimmed
from fyke.cli.flags import DryRun, Json, OneSource
from fyke.cli.output import print_json, say, table
from fyke.cli.verb import one_verb, verb
from fyke.errors import UsageError
from fyke.model import ForgetFilter
from fyke.settings import Loaded

app = one_verb()


@verb(app, example="fyke forget --source ccgp --until 2025-01-01 --dry-run")
async def forget(
    loaded: Loaded,
    source: OneSource = None,
    scope: Annotated[str | None, typer.Option("--scope", metavar="SCOPE", help="Only this scope.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only this key (with --scope).")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="DATE", help="First listed then or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="DATE", help="First listed before then.")] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Remove items with their rows, versions, visits and sightings; a later listing makes them new."""
    if source is None and scope is None:
        raise UsageError("say what to forget", hint="--source or --scope, and --key, --since, --until to narrow it")
    if key is not None and scope is None:
        raise UsageError("--key needs --scope", hint="a key is unique in its scope only")
    if key is not None:
        scope, key = trimmed(scope or "", key)
    which = ForgetFilter(source or "", scope or "", key or "", _moment("--since", since), _moment("--until", until))
    async with open_ledger(loaded.settings) as stores:
        if source is not None:
            await applied_source(stores.ledger, source)
        if scope is not None and key is not None and await stores.ledger.explain(scope, key) is None:
            raise await no_such_item(stores.ledger, scope, key)
        removed = await stores.ledger.forget(which, dry_run=dry_run)
    if as_json:
        print_json({"removed": removed, "dry_run": dry_run})
        return
    say("Rows that would be removed:" if dry_run else "Rows removed:")
    table(("TABLE", "ROWS"), removed.items())


def _moment(option: str, text: str | None) -> int | None:
    """A date or time as a person writes it, in the local zone where it names none."""
    if text is None:
        return None
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{text!r} is no date", field=option, hint="write 2025-06-27 or 2025-06-27T08:00") from error
