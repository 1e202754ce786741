"""`fyke source`: what is watched: the files, and what of them is in the ledger."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import Struct

from fyke.app import apply_sources, find_source, named_sources, open_ledger, open_stores, pick_sources, with_files
from fyke.cli import source_rekey, source_rules
from fyke.cli.desk import applied_source
from fyke.cli.flags import Json, Reason
from fyke.cli.output import plain, print_json, say, table, when
from fyke.cli.verb import group, verb
from fyke.errors import UsageError
from fyke.model import SourceRow
from fyke.policy.cadence import next_slots, zone
from fyke.ports import Source
from fyke.settings import Loaded, Settings

SLOTS_SHOWN: Final = 5

app = group("Look at sources, check and apply them, pause and resume them.", example="fyke source check")

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of an applied source.")]
Files = Annotated[
    list[str] | None, typer.Argument(metavar="[SOURCE]...", help="Source files or ids; none: the whole folder.")
]


class Line(Struct):
    """One source, as it is listed. `state`: new, applied, changed (the file is not what was applied), no file,
    paused, removed or broken.
    """

    id: str
    title: str
    state: str
    table: str
    scope: str
    file: str
    next_at: int | None
    reason: str


class Checked(Struct):
    """A source file, and its first mistake, or its id and warnings."""

    file: str | None
    id: str | None
    error: str | None
    warnings: list[str]


@verb(app, "list", example="fyke source list")
async def list_sources(loaded: Loaded, as_json: Json = False) -> None:
    """Show the source files and what is applied of them, with the next due moment of each."""
    applied = {row.source.id: row for row in await _rows(loaded.settings)}
    now = int(time.time() * 1000)
    lines = []
    found = named_sources(loaded.settings)
    if not applied and not await asyncio.to_thread(Path(loaded.settings.sources).is_dir):
        raise UsageError(
            f"there is no folder {loaded.settings.sources}, and nothing is applied",
            hint="put a source file there, name the folder with --sources, or begin with `fyke demo`",
        )
    for one in found:
        if isinstance(one, UsageError):
            lines.append(Line("", "", "broken", "", "", one.file or "", None, str(one)))
        else:
            for source in (one.source, one.source.attached):
                if source is not None:
                    lines.append(_line(source, str(one.path), applied.pop(source.resolved.id, None), now))
    lines += [_without_file(row) for row in applied.values()]
    if as_json:
        print_json(lines)
        return
    if not lines:
        say(f"There is no source file in {loaded.settings.sources}.")
        return
    table(
        ("SOURCE", "STATE", "TABLE", "NEXT", "FILE", "TITLE"),
        [(each.id or "?", each.state, each.table, when(each.next_at), each.file, each.title) for each in lines],
    )
    for each in lines:
        if each.reason:
            say(f"{each.id or each.state}: {plain(each.reason)}")


async def _rows(settings: Settings) -> list[SourceRow]:
    """What is applied; nothing where there is no ledger yet."""
    if settings.ledger_path is not None and not settings.ledger_path.exists():
        return []
    async with open_ledger(settings) as stores:
        return await stores.ledger.sources(removed=True)


def _line(source: Source, file: str, row: SourceRow | None, now: int) -> Line:
    resolved, reason = source.resolved, ""
    state = "new" if row is None else "applied" if row.source.hash == resolved.hash else "changed"
    if row is not None and row.paused_at is not None:
        state, reason = "paused", row.paused_reason
    if row is not None and row.removed_at is not None:
        state = "removed"
    slots = next_slots(source.schedule.cron, source.schedule.timezone, now, 1)
    return Line(
        resolved.id, resolved.title, state, resolved.table, resolved.scope, file, slots[0] if slots else None, reason
    )


def _without_file(row: SourceRow) -> Line:
    source = row.source
    state = "removed" if row.removed_at is not None else "paused" if row.paused_at is not None else "no file"
    return Line(source.id, source.title, state, source.table, source.scope, "", None, row.paused_reason)


@verb(app, "show", example="fyke source show ccgp --resolved")
def show(
    loaded: Loaded,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A source file, or an id in the sources folder.")],
    resolved: Annotated[
        bool, typer.Option("--resolved", help="The whole file, with its profiles merged and defaults filled in.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a source reads and when: its lists, fields, table, and its next due moments in its zone and in UTC."""
    one = find_source(loaded.settings, source)
    if resolved:
        print_json(json.loads(one.resolved.text))
        return
    slots = next_slots(one.schedule.cron, one.schedule.timezone, int(time.time() * 1000), SLOTS_SHOWN)
    if as_json:
        print_json(_facts(one) | {"next_at": slots})
        return
    for name, value in _facts(one).items():
        say(f"{name + ':':<11}{value if isinstance(value, str | int) else ', '.join(value)}")
    say(f"{'next:':<11}" + ("" if slots else "by hand only"))
    clock = "%H:%M:%S" if any(slot % 60_000 for slot in slots) else "%H:%M"
    for slot in slots:
        here, utc = (datetime.fromtimestamp(slot / 1000, each) for each in (zone(one.schedule.timezone), UTC))
        say(f"  {here:%a %Y-%m-%d {clock}} {one.schedule.timezone}   {utc:%Y-%m-%d {clock}} UTC")


def _facts(source: Source) -> dict[str, Any]:
    resolved = source.resolved
    return {
        "id": resolved.id,
        "title": resolved.title,
        "scope": resolved.scope,
        "identity": resolved.identity,
        "table": resolved.table,
        "columns": [f"{column.name} {column.type}" + ("!" if column.required else "") for column in resolved.columns],
        "listings": [listing.name for listing in source.listings()],
        "steps": source.steps,
        "hosts": [
            f"{lane.lane} {lane.gap / 1000:g} ± {lane.jitter / 1000:g} s, {lane.concurrency} at once"
            for lane in resolved.lanes
        ],
        "cron": list(source.schedule.cron),
        "hash": resolved.hash,
    }


@verb(app, "check", example="fyke source check sources/ccgp.yaml")
def check(loaded: Loaded, sources: Files = None, as_json: Json = False) -> int:
    """Read source files and tell every mistake, with file, line and the nearest valid name. Applies nothing."""
    found = named_sources(loaded.settings, sources or [])
    lines = [
        Checked(one.file, None, str(one), [])
        if isinstance(one, UsageError)
        else Checked(str(one.path), one.source.resolved.id, None, one.warnings)
        for one in found
    ]
    if as_json:
        print_json(lines)
    for each in [] if as_json else lines:
        say(each.error or f"{each.file}: {each.id} is good")
        for warning in each.warnings:
            say(f"  {warning}")
    if not lines and not as_json:
        say(f"There is no source file in {loaded.settings.sources}.")
    return 2 if any(each.error for each in lines) else 0


@verb(app, "apply", example="fyke source apply")
async def apply(loaded: Loaded, sources: Files = None, as_json: Json = False) -> None:
    """Write sources into the ledger, from where all workers take them; `fyke run` does so by itself at its start."""
    chosen = pick_sources(loaded.settings, sources or [])
    async with open_stores(loaded.settings) as stores:
        answers = await apply_sources(stores, chosen)
    if as_json:
        print_json([{"id": name, "change": change} for name, change in answers])
        return
    for name, change in answers:
        say(f"{name}: {change}")
    if not answers:
        say(f"There is no source file in {loaded.settings.sources}.")


@verb(app, "pause", example='fyke source pause ccgp --reason "the site is being rebuilt"')
async def pause(loaded: Loaded, source: Id, reason: Reason) -> None:
    """Stop runs and visits of a source, also those of its attachments; its items stay open and are shown."""
    async with open_ledger(loaded.settings) as stores:
        row = await applied_source(stores.ledger, source)
        stopped = [await stores.ledger.pause_source(name, reason) for name in await with_files(stores.ledger, source)]
    say(f"{source} is paused{_too(stopped)}." if stopped[0] else f"{source} was paused before: {row.paused_reason}")


@verb(app, "resume", example="fyke source resume ccgp")
async def resume(loaded: Loaded, source: Id) -> None:
    """Let a paused source go on, and its attachments with it."""
    async with open_ledger(loaded.settings) as stores:
        await applied_source(stores.ledger, source)
        going = [await stores.ledger.resume_source(name) for name in await with_files(stores.ledger, source)]
    say(
        f"{source} goes on{', and so do its attachments' * any(going[1:])}."
        if going[0]
        else f"{source} was not paused."
    )


@verb(app, "remove", example="fyke source remove ccgp")
async def remove(loaded: Loaded, source: Id) -> None:
    """Take a source whose file is gone out of work, with its attachments; rows and items stay, and applying it again
    brings it back.
    """
    async with open_ledger(loaded.settings) as stores:
        await applied_source(stores.ledger, source)
        for one in named_sources(loaded.settings):
            if not isinstance(one, UsageError) and one.source.resolved.id == source:
                raise UsageError(
                    f"the file of {source!r} is still there, and `fyke run` would bring it back",
                    file=str(one.path),
                    hint=f"move the file away, or `fyke source pause {source}`",
                )
        gone = [await stores.ledger.remove_source(name) for name in await with_files(stores.ledger, source)]
    say(f"{source} is out of work{_too(gone)}." if gone[0] else f"{source} was removed before.")


def _too(done: list[bool]) -> str:
    return ", and so are its attachments" if any(done[1:]) else ""


source_rules.add(app)
source_rekey.add(app)
