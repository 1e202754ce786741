"""`fyke submit`: addresses that a person adds; they write sightings of the source's listing `submitted`."""

from __future__ import annotations

from typing import Annotated

import typer

from fyke.app import open_desk, submitted_entries
from fyke.cli.desk import applied_source, offered_later
from fyke.cli.flags import Json
from fyke.cli.output import print_json, say
from fyke.cli.verb import one_verb, verb
from fyke.errors import UsageError
from fyke.settings import Loaded

app = one_verb()


@verb(app, "submit", example="fyke submit ccgp https://www.ccgp.gov.cn/cggg/zygg/gkzb/202506/t20250627_24849291.htm")
async def submit(
    loaded: Loaded,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The id of an applied source.")],
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Addresses of detail pages.")],
    fields: Annotated[
        list[str] | None, typer.Option("--field", metavar="NAME=VALUE", help="A field of the entries, e.g. title=…")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add addresses by hand, as if a list had shown them; they are visited by the next worker."""
    given = _fields(fields or [])
    async with open_desk(loaded.settings) as desk:
        row = await applied_source(desk.ledger, source)
        entries = submitted_entries(row, urls, given)
        written = await desk.ledger.submit(source, entries)
        if written.due:
            await desk.ask(lambda frontier: frontier.offer(written.due))
    if as_json:
        print_json(
            {
                "entries": [{"key": entry.key, "url": entry.url} for entry in entries],
                "new": written.new,
                "known": written.known,
                "due": len(written.due),
                "frontier_away": desk.away,
            }
        )
        return
    for entry in entries:
        say(f"{row.source.scope} {entry.key}  {entry.url}")
    say(f"{written.new} new, {written.known} known, {len(written.due)} due.")
    if written.due and desk.away:
        say(offered_later(desk.away))


def _fields(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"--field {text} has no value", hint="write --field NAME=VALUE")
        found[name.strip()] = value
    return found
