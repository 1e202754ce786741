"""`fyke run`: collect for good, with worker processes and a scheduler, or once until nothing is due."""

from __future__ import annotations

from typing import Annotated

import typer

from fyke.app import Stores, apply_folder, named_sources, open_stores, run_for_ever, run_once_here
from fyke.app.run import run_loop
from fyke.cli.children import child_command
from fyke.cli.flags import Json
from fyke.cli.logs import start_logging
from fyke.cli.output import print_json, say, table
from fyke.cli.progress import board
from fyke.cli.verb import one_verb, verb
from fyke.errors import UsageError
from fyke.pipeline.once import OnceReport
from fyke.policy.units import parse_duration
from fyke.settings import Loaded, Settings

app = one_verb()


@verb(app, example="fyke run --once ccgp --wait 5m")
def run(
    loaded: Loaded,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="With --once: only these sources.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Until nothing is due or delayed; then end.")] = False,
    wait: Annotated[str, typer.Option("--wait", metavar="TIME", help="With --once: at most so long.")] = "10m",
    as_json: Json = False,
) -> int:
    """Collect: for good on the sources' calendars, or --once until nothing is due.

    With --once it exits with 0 when all was complete and balanced, and with 1 after a gap, a dead item, a suspicious
    list, or where something is still open. SIGTERM and Ctrl-C: work in hand is finished within worker.grace, the rest
    is given back at no cost; a second one ends at once.
    """
    if once:
        wait_ms = wait_of(wait)
        _some_source(loaded.settings, ids or [], strict=True)
        return run_loop(lambda: _once(loaded, ids or [], wait_ms, as_json=as_json))
    if ids:
        raise UsageError("sources are named with --once only", hint="`fyke source pause` keeps one from running")
    _some_source(loaded.settings, [], strict=False)
    return run_loop(lambda: _for_ever(loaded))


def _some_source(settings: Settings, ids: list[str], *, strict: bool) -> None:
    """Refuse to make a ledger for nothing: a run in the wrong folder leaves no file there."""
    if settings.ledger_path is None or settings.ledger_path.exists():
        return
    found = named_sources(settings, ids)
    faults = [one for one in found if isinstance(one, UsageError)]
    if faults and (strict or len(faults) == len(found)):
        raise faults[0]
    if not found:
        raise UsageError(f"there is no source in {settings.sources}", hint="put a source file there, or `fyke demo`")


def wait_of(text: str) -> int:
    """What --wait says, in ms."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(str(error), field="--wait") from error


async def _once(loaded: Loaded, ids: list[str], wait_ms: int, *, as_json: bool) -> int:
    with board() as shown:
        start_logging(loaded.settings, shown.log)
        async with open_stores(loaded.settings, wait=True) as stores:
            await apply_folder(stores, ids, strict=True)
            report = await run_once_here(stores, ids, wait_ms, shown.show)
    if as_json:
        print_json(report)
    else:
        told(report)
    return 1 if report.problems and not report.interrupted else 0


async def _for_ever(loaded: Loaded) -> int:
    with board() as shown:
        start_logging(loaded.settings, shown.log)
        async with open_stores(loaded.settings, wait=True) as stores:
            await apply_folder(stores, strict=False)

        async def show(stores: Stores) -> None:
            shown.show(await stores.ledger.counts())

        await run_for_ever(loaded.settings, child_command(loaded), show)
    return 0


def told(report: OnceReport) -> None:
    """What an invocation came to, for a person."""
    table(
        ("SOURCE", "LISTED", "STORED", "DEAD", "IGNORED", "OPEN", "REFUSED"),
        [
            (row.source_id, row.listed, row.stored, row.dead, row.ignored, row.open, row.refused)
            for row in report.sources
        ],
    )
    say(f"\n{report.new_stored} stored and {report.new_dead} dead by this run, in {report.seconds:.1f} s.")
    if report.interrupted:
        say("It was stopped; what was in hand is given back, and the next run goes on with it.")
    for problem in report.problems:
        say(f"- {problem}")
    if not report.problems:
        say("Complete: nothing is open, no gap.")
