"""Source files → ledger and lanes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fyke.app.stores import Stores
from fyke.errors import UsageError, nearest, there_are
from fyke.model import Entry, LanePolicy, ResolvedSource, SourceRow
from fyke.policy.attaching import attached_source
from fyke.policy.identity import fields_read_otherwise, fingerprint
from fyke.policy.politeness import strictest, with_robots_delay
from fyke.ports import Frontier, Ledger, Source
from fyke.settings import Settings

if TYPE_CHECKING:
    from fyke.sources.loader import Loaded

log = logging.getLogger("fyke.sources")


def read_sources(folder: Path) -> list[Loaded]:
    """Load every source file of a folder, with warnings and errors that name file, line and field."""
    from fyke.sources.loader import load_folder

    return load_folder(folder)


async def apply_sources(stores: Stores, loaded: Sequence[Loaded]) -> list[tuple[str, str]]:
    """Write the resolved sources into the ledger and set the lanes; (id, created | changed | unchanged) of each."""
    answers, ledger = [], stores.ledger
    before = {row.source.id: row.source for row in await ledger.sources()}
    for one in loaded:
        resolved, attached = one.source.resolved, one.source.attached
        _tell_of_keys(before.get(resolved.id), resolved)
        answers.append((resolved.id, await ledger.apply_source(resolved)))
        name = attached_source(resolved.id)
        if attached is not None:
            answers.append((name, await ledger.apply_source(attached.resolved)))
        elif name in before:
            # Its pages' attachments are not asked for any more; what is open of them stays, and is shown.
            await ledger.remove_source(name)
            answers.append((name, "removed"))
        await plan_visits(ledger, one.source)
    await configure_lanes(stores)
    return answers


def _tell_of_keys(before: ResolvedSource | None, after: ResolvedSource) -> None:
    if before is None or before.hash == after.hash or before.identity != after.identity:
        return
    if fields := fields_read_otherwise(before.text, after.text):
        log.warning(
            "source %s: its key is made of %s, which is read in another way now; `fyke source diff` tells before it "
            "is applied whether keys change: each item with another key is collected once more",
            after.id,
            ", ".join(fields),
        )


async def plan_visits(ledger: Ledger, source: Source) -> None:
    """A calendar that a source gains is for what is stored already, too; a death in between is made good next time."""
    resolved = source.resolved
    if source.revisit_at(0, 0) is None:
        return
    now, mark = await ledger.now(), int.from_bytes(fingerprint(resolved.hash.encode())[:6])
    if await ledger.cursor(f"calendar {resolved.id}") == mark:
        return
    after: int | None = 0
    while after is not None:
        after = await ledger.plan_visits(resolved.id, lambda opened_at: source.revisit_at(opened_at, now), after=after)
    await ledger.cursor(f"calendar {resolved.id}", mark)


async def with_files(ledger: Ledger, source_id: str) -> list[str]:
    """The source and, where there is one, that of its pages' attachments: they are paused and removed together."""
    known = {row.source.id for row in await ledger.sources(removed=True)}
    return [source_id, *({attached_source(source_id)} & known)]


async def configure_lanes(stores: Stores) -> None:
    """Set the policies of all lanes."""
    await stores.frontier.configure(await wanted_lanes(stores.settings, stores.ledger))


async def wanted_lanes(settings: Settings, ledger: Ledger) -> list[LanePolicy]:
    """Of every lane the strictest policy of all active sources that name it; settings say otherwise where a person
    did.
    """
    from fyke.fetchers.robots import robots_delay

    rows = [row for row in await ledger.sources() if row.paused_at is None]
    named = strictest(policy for row in rows for policy in row.source.lanes if policy.lane != "*")
    set_here = {
        lane: LanePolicy(
            lane,
            gap=chosen.delay if chosen.delay is not None else LanePolicy(lane).gap,
            jitter=chosen.jitter if chosen.jitter is not None else min(LanePolicy(lane).jitter, chosen.delay or 0),
            concurrency=chosen.concurrency or LanePolicy(lane).concurrency,
        )
        for lane, chosen in settings.lanes.items()
    }
    merged = {policy.lane: policy for policy in named} | set_here
    for row in await ledger.lanes():
        # What robots.txt asked before holds from the first request on, not only when a worker reads it again.
        delay = robots_delay(row.robots_text)
        if delay:
            merged[row.lane] = with_robots_delay(merged.get(row.lane) or LanePolicy(row.lane, gap=0, jitter=0), delay)
    return list(merged.values())


async def restore_lanes(stores: Stores) -> None:
    """For a frontier that lost its content: the policies of all lanes, and the holds that the ledger remembers."""
    await restore(stores.settings, stores.ledger, stores.frontier)


async def restore(settings: Settings, ledger: Ledger, frontier: Frontier) -> None:
    """As `restore_lanes`."""
    await frontier.configure(await wanted_lanes(settings, ledger))
    now = await ledger.now()
    for row in await ledger.lanes():
        if row.hold_until > now:
            await frontier.hold(row.lane, row.hold_until, row.hold_reason)


def pick(rows: Sequence[SourceRow], ids: Sequence[str]) -> list[str]:
    """The ids asked for, or all active sources.

    Raises:
        UsageError: an id that no source has, or a paused one.
    """
    known = {row.source.id: row for row in rows}
    for wanted in ids:
        if wanted not in known:
            raise UsageError(f"there is no source '{wanted}'", hint=nearest(wanted, known) or "see `fyke source list`")
        if known[wanted].paused_at is not None:
            raise UsageError(
                f"source '{wanted}' is paused: {known[wanted].paused_reason}", hint=f"`fyke source resume {wanted}`"
            )
    if not ids:
        return [name for name, row in known.items() if row.paused_at is None]
    attached = [attached_source(name) for name in ids]
    return [*ids, *(name for name in attached if name in known and name not in ids)]


# --- What a person names: files and ids ---


def pick_sources(settings: Settings, names: Sequence[str]) -> list[Loaded]:
    """The sources of these files or ids; of the whole folder where none is named.

    Raises:
        UsageError: the first mistake of a file, or no such source; with the nearest id.
    """
    return list(map(_good, named_sources(settings, names)))


def find_source(settings: Settings, name: str) -> Source:
    """The source of one file or id; raises as `pick_sources`."""
    return _good(named_sources(settings, [name])[0]).source


def named_sources(settings: Settings, names: Sequence[str] = ()) -> list[Loaded | UsageError]:
    """Of each file or id its source, or its first mistake; of each file of the folder where none is named."""
    from fyke.sources.loader import SUFFIXES, check_folder, load_file

    found: list[Loaded | UsageError] = []
    folders: dict[Path, tuple[list[Loaded], list[UsageError]]] = {}
    for name in names or [settings.sources]:
        path = Path(name)
        try:
            if names and path.suffix in SUFFIXES:
                found.append(load_file(path))
                continue
            folder = path.parent if path.suffix == ".py" else Path(settings.sources)
            if folder not in folders:
                folders[folder] = check_folder(folder)
            loaded, faults = folders[folder]
            found += [_in_folder(folder, name, loaded, faults)] if names else [*loaded, *faults]
        except UsageError as error:
            found.append(error)
    return found


def submitted_entries(row: SourceRow, urls: Sequence[str], fields: Mapping[str, str]) -> list[Entry]:
    """The entries of addresses that a person submits to an applied source."""
    from fyke.sources.compile import compile_text
    from fyke.sources.submitted import submitted_entry

    source = compile_text(row.source.text)
    return [submitted_entry(source, position, url, fields) for position, url in enumerate(urls)]


def _good(one: Loaded | UsageError) -> Loaded:
    if isinstance(one, UsageError):
        raise one
    return one


def _in_folder(folder: Path, name: str, loaded: list[Loaded], faults: list[UsageError]) -> Loaded:
    """The source of an id, or of a Python file; a broken file of that name says what is wrong with it."""
    for one in loaded:
        if name in (one.source.resolved.id, str(one.path)):
            return one
    for fault in faults:
        if fault.file and name in (Path(fault.file).stem, fault.file):
            raise fault
    ids = [one.source.resolved.id for one in loaded]
    hint = nearest(name, ids) or (there_are(ids) if ids else "there is none")
    raise UsageError(f"there is no source {name!r} in {folder}", hint=hint)


async def apply_folder(stores: Stores, ids: Sequence[str] = (), *, strict: bool) -> None:
    """Write the folder's sources (or those of `ids`) into the ledger; what was applied before goes on without its file.

    `strict` False: a broken file keeps neither the others from running nor its own last good text.

    Raises:
        UsageError: a broken file (`strict`), or no source at all.
    """
    settings = stores.settings
    known = {row.source.id for row in await stores.ledger.sources()}
    found = named_sources(settings)
    loaded = {one.source.resolved.id: one for one in found if not isinstance(one, UsageError)}
    broken = [one for one in found if isinstance(one, UsageError)]
    # Another source's mistake is no reason to refuse those that were asked for.
    needless = ids and all(name in loaded or name in known for name in ids)
    no_folder = not loaded and known and not await asyncio.to_thread(Path(settings.sources).is_dir)
    if broken and strict and not needless and not no_folder:
        raise broken[0]
    for fault in broken:
        log.error("%s", fault)
    if not loaded and not known:
        raise UsageError(f"there is no source in {settings.sources}", hint="put a source file there, or `fyke demo`")
    chosen = [one for name, one in loaded.items() if not ids or name in ids]
    for one in chosen:
        for warning in one.warnings:
            log.warning("%s", warning)
    for name, change in await apply_sources(stores, chosen):
        if change != "unchanged":
            log.info("source %s: %s", name, change)
