"""`fyke source test` and `fyke source diff`: rules on recorded pages, without the site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import Struct, field

from fyke.app import find_source, named_sources, open_ledger, pick_sources
from fyke.cli.desk import applied_source
from fyke.cli.flags import Json
from fyke.cli.output import plain, print_json, say, shortened, table
from fyke.cli.record import pages_folder
from fyke.cli.verb import verb
from fyke.errors import UsageError
from fyke.lab.recorded import INDEX, RecordedPages, differences, keep, kept, read_all
from fyke.lab.rules import RuleDiff, compare
from fyke.model import Outcome
from fyke.ports import Source
from fyke.settings import Loaded
from fyke.sources.compile import compile_text
from fyke.sources.loader import Loaded as LoadedSource

SHOWN: Final = 20
KEYS_ASKED: Final = 500

Pages = Annotated[
    Path | None,
    typer.Option("--pages", metavar="DIR", help="A folder of pages with an index; else ID.pages beside the source."),
]
Files = Annotated[
    Path | None, typer.Option("--files", metavar="ROOT", help="Where the index's files stand, if not beside it.")
]


class Tested(Struct):
    """One source on its recorded pages. `expected`: False where no values were kept yet."""

    id: str
    folder: str
    lists: int
    entries: int
    refused: int
    details: int
    expected: bool
    accepted: bool = False
    differences: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return self.accepted or (self.expected and not self.differences)


def add(app: typer.Typer) -> None:
    """Put both verbs below `fyke source`."""
    verb(app, "test", example="fyke source test notices")(run_test)
    verb(app, "diff", example="fyke source diff sources/notices.yaml new/notices.yaml")(diff)


async def run_test(
    loaded: Loaded,
    sources: Annotated[
        list[str] | None, typer.Argument(metavar="[SOURCE]...", help="Files or ids; none: all that have pages.")
    ] = None,
    pages: Pages = None,
    files: Files = None,
    accept: Annotated[bool, typer.Option("--accept", help="Keep what is read now as the expected values.")] = False,
    as_json: Json = False,
) -> int:
    """Read recorded pages with a source and compare with the values that were kept. Nothing is fetched.

    `fyke record` makes the pages; the first run writes the values with --accept, once you have looked them over. Exits
    with 1 where a value differs, or none was kept yet.
    """
    chosen = _with_pages(loaded, sources or [], pages)
    found = [await _tested(one, pages or pages_folder(one), files, accept=accept) for one in chosen]
    if as_json:
        print_json(found)
    for each in [] if as_json else found:
        _tell(each)
    return 0 if all(each.good for each in found) else 1


def _with_pages(loaded: Loaded, names: list[str], pages: Path | None) -> list[LoadedSource]:
    if names:
        if pages is not None and len(names) > 1:
            raise UsageError("--pages goes with one source", field="--pages")
        chosen = pick_sources(loaded.settings, names)
    else:
        every = [one for one in named_sources(loaded.settings) if not isinstance(one, UsageError)]
        chosen = [one for one in every if (pages_folder(one) / INDEX).is_file()]
        if not chosen:
            raise UsageError(
                f"no source in {loaded.settings.sources} has recorded pages", hint="`fyke record SOURCE` keeps some"
            )
    for one in chosen:
        _index(one, pages)
    return chosen


def _index(one: LoadedSource, pages: Path | None) -> Path:
    folder = pages or pages_folder(one)
    if not ((folder / INDEX) if folder.is_dir() else folder).is_file():
        raise UsageError(f"there are no recorded pages in {folder}", hint=f"fyke record {one.source.resolved.id}")
    return folder


async def _tested(one: LoadedSource, folder: Path, files: Path | None, *, accept: bool) -> Tested:
    source = one.source
    reading = await read_all(source, RecordedPages(folder, files, source.fetch))
    # An index of many sources, as `fyke lab replay` serves it, has values of its own for each.
    place = folder if folder.name == f"{source.resolved.id}.pages" else pages_folder(one)
    values, before = reading.as_json(), kept(place)
    entries = [entry for each in reading.lists for entry in each.read.entries]
    found = Tested(
        source.resolved.id,
        str(folder),
        len(reading.lists),
        len(entries),
        sum(len(each.read.refused) for each in reading.lists),
        len(reading.details),
        before is not None,
    )
    found.outcomes = [
        f"{each.request.url}: {each.read.outcome}: {each.read.reason}"
        for each in reading.lists
        if each.read.outcome is not Outcome.OK
    ] + [
        f"{each.request.url}: {each.outcome}: {each.reason}"
        for each in reading.details
        if each.outcome is not Outcome.OK
    ]
    if before is not None:
        found.differences = list(differences(before, values))
    if accept:
        place.mkdir(parents=True, exist_ok=True)
        keep(place, values)
        found.accepted = True
    return found


def _tell(each: Tested) -> None:
    state = "kept as expected" if each.accepted else "as expected" if each.good else "DIFFERS"
    if not each.expected and not each.accepted:
        state = "no expected values yet"
    say(
        f"{each.id}: {state}: {each.lists} list page(s), {each.entries} entries, {each.refused} refused,"
        f" {each.details} detail(s)"
    )
    for line in each.outcomes[:SHOWN]:
        say(f"  {plain(line)}")
    for line in each.differences[:SHOWN]:
        say(f"  {plain(line)}")
    if len(each.differences) > SHOWN:
        say(f"  … and {len(each.differences) - SHOWN} more")
    if not each.good:
        say("  look it over; --accept keeps what is read now as the expected values")


async def diff(
    loaded: Loaded,
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="A source file or id. Alone: the new one; the old is what is applied.")
    ],
    new: Annotated[str | None, typer.Argument(metavar="[NEW]", help="The changed source file.")] = None,
    pages: Pages = None,
    files: Files = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Ask the ledger which of the changed keys are stored items.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Tell what a changed source would do: which keys change (those items would be there twice), which rows and values.

    It reads recorded pages with both; nothing is fetched or stored. Exits with 1 where anything differs.
    """
    (after,) = pick_sources(loaded.settings, [new or old])
    before: Source = find_source(loaded.settings, old) if new is not None else await _applied(loaded, after)
    folder = _folder_of(loaded, after, old if new is not None else None, pages)
    readings = [await read_all(each, RecordedPages(folder, files, each.fetch)) for each in (before, after.source)]
    found = compare(*readings)
    one, other = before.resolved, after.source.resolved
    found.scope = (one.scope, other.scope) if one.scope != other.scope else None
    found.table = (one.table, other.table) if one.table != other.table else None
    if stored:
        await _ask_ledger(loaded, one.id, found)
    if as_json:
        print_json(found)
    else:
        _show(found, str(folder))
    return 0 if found.same else 1


def _folder_of(loaded: Loaded, after: LoadedSource, old: str | None, pages: Path | None) -> Path:
    """The pages beside the new source, or beside the old one."""
    if pages is None and old is not None and not (pages_folder(after) / INDEX).is_file():
        (before,) = pick_sources(loaded.settings, [old])
        return _index(before, None)
    return _index(after, pages)


async def _applied(loaded: Loaded, after: LoadedSource) -> Source:
    async with open_ledger(loaded.settings) as stores:
        return compile_text((await applied_source(stores.ledger, after.source.resolved.id)).source.text)


async def _ask_ledger(loaded: Loaded, source_id: str, found: RuleDiff) -> None:
    async with open_ledger(loaded.settings) as stores:
        await applied_source(stores.ledger, source_id)
        for each in found.changed_keys[:KEYS_ASKED]:
            each.stored = False
            async for chunk in stores.ledger.rows(source_id, where=[("_key", "=", each.old)]):
                each.stored = each.stored or bool(chunk)


def _show(found: RuleDiff, folder: str) -> None:
    say(f"On the pages in {folder}: {found.entries_old} entries by the old rules, {found.entries_new} by the new ones.")
    for what, change in (("scope", found.scope), ("table", found.table)):
        if change is not None:
            say(f"{what}: {change[0]} → {change[1]}: all items would be made anew")
    if found.changed_keys:
        asked = [each for each in found.changed_keys if each.stored is not None]
        known = f", {sum(bool(each.stored) for each in asked)} of {len(asked)} asked for are stored" if asked else ""
        say(f"{len(found.changed_keys)} key(s) change: such items would be there twice{known}:")
        table(
            ("OLD KEY", "NEW KEY", "TITLE"),
            [(each.old, each.new, shortened(each.title or each.url)) for each in found.changed_keys[:SHOWN]],
        )
        say("A changed key rule is refused until `fyke source rekey ID` has given stored items their new keys.")
    for what, keys in (("not read any more", found.only_old), ("read only by the new rules", found.only_new)):
        if keys:
            say(f"{len(keys)} {what}: {', '.join(map(plain, keys[:SHOWN]))}{' …' if len(keys) > SHOWN else ''}")
    if found.refused_old != found.refused_new:
        say(f"refused rows: {found.refused_old} → {found.refused_new}")
    for line in found.outcomes[:SHOWN]:
        say(plain(line))
    for what, fields in (("of entries", found.fields), ("of records", found.records)):
        if fields:
            say(f"Fields {what} that change:")
            rows: list[tuple[Any, ...]] = [
                (each.name, each.changed, each.key, shortened(each.old), shortened(each.new)) for each in fields
            ]
            table(("FIELD", "ROWS", "E.G. KEY", "OLD", "NEW"), rows)
    if found.same:
        say("Nothing differs.")
