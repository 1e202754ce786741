"""`fyke record`: keep pages of a site beside its source, so that rules can be tested without it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fyke.app import pick_sources
from fyke.app.trial import open_trial
from fyke.cli.flags import Json
from fyke.cli.output import plain, print_json, say
from fyke.cli.verb import one_verb, verb
from fyke.errors import FetchFailed, UsageError, nearest, there_are
from fyke.lab.recording import record as record_pages
from fyke.settings import Loaded
from fyke.sources.loader import Loaded as LoadedSource

app = one_verb()


@verb(app, "record", example="fyke record notices --pages 2 --details 3")
async def record(
    loaded: Loaded,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A source file, or an id in the sources folder.")],
    pages: Annotated[int, typer.Option("--pages", min=1, max=100, help="List pages of each list.")] = 2,
    details: Annotated[int, typer.Option("--details", min=0, max=1000, help="Entries whose details are kept.")] = 3,
    lists: Annotated[int, typer.Option("--lists", min=1, max=1000, help="Lists, where the source has many.")] = 3,
    listing: Annotated[str | None, typer.Option("--listing", metavar="NAME", help="Only this list.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="FOLDER", help="Where; else ID.pages beside the source.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Record anew what is recorded there.")] = False,
    as_json: Json = False,
) -> int:
    """Fetch a few pages of a source, as slowly as a run would, and keep them as they came. Nothing is stored.

    `fyke source test` reads them offline; `fyke lab replay` serves them. Exits with 1 where a page could not be had.
    """
    (one,) = pick_sources(loaded.settings, [source])
    names = [each.name for each in one.source.listings()]
    # Lists that the site names are known once it was asked.
    discovers = any(each.discovers for each in one.source.listings())
    if listing is not None and listing not in names and not discovers:
        hint = nearest(listing, names) or there_are(names)
        raise UsageError(f"there is no listing {listing!r}", hint=hint)
    place = folder or pages_folder(one)
    async with open_trial(loaded.settings, one.source) as trial:
        try:
            found = await record_pages(
                one.source,
                trial.fetch,
                place,
                pages=pages,
                details=details,
                lists=lists,
                listing=listing,
                replace=replace,
            )
        except FetchFailed as error:
            say(f"nothing could be recorded: {plain(error.reason)}")
            return 1
    if as_json:
        print_json(found)
    else:
        say(f"{found.lists} list page(s) with {found.entries} entries, {found.details} detail(s), in {found.folder}")
        for line in found.failed:
            say(f"failed: {plain(line)}")
        say(f"Type next: fyke source test {source} --accept")
    return 1 if found.failed else 0


def pages_folder(one: LoadedSource) -> Path:
    """Where the pages of a source are kept."""
    return one.path.parent / f"{one.source.resolved.id}.pages"
