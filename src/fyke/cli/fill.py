"""`fyke fill`: older entries by date window: for holes in what was covered, or for a time that a person names (P5)."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from fyke.app import apply_folder, open_stores
from fyke.app.filling import FillPlan, fill_here, filling_source, open_fill, plan_fill
from fyke.app.run import run_loop
from fyke.cli.flags import DryRun, Json
from fyke.cli.logs import start_logging
from fyke.cli.moments import day_or_moment
from fyke.cli.output import print_json, say, table
from fyke.cli.progress import board
from fyke.cli.run import told, wait_of
from fyke.cli.verb import one_verb, verb
from fyke.errors import UsageError
from fyke.policy.cadence import zone
from fyke.settings import Loaded

app = one_verb()
SHOWN = 5


@verb(app, example="fyke fill ccgp --from 2025-01-01 --to 2025-03-31")
def fill(
    loaded: Loaded,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A source with `listing.fill`.")],
    since: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="The first day, or a moment; or 30d: so long ago.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="DATE", help="The last day, or the moment at the end. Default now.")
    ] = None,
    holes: Annotated[bool, typer.Option("--holes", help="What the holes in `fyke gaps` still need.")] = False,
    listing: Annotated[
        list[str] | None, typer.Option("--listing", metavar="NAME", help="Only this listing of the source.")
    ] = None,
    open_only: Annotated[
        bool, typer.Option("--open-only", help="Open the run and leave it to `fyke run` or the workers.")
    ] = False,
    wait: Annotated[str, typer.Option("--wait", metavar="TIME", help="Work here at most so long.")] = "10m",
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Read older entries by date window: of a time that you name, or --holes.

    Windows that are too long for the site are halved. What is known already is not stored again. A hole is closed once
    its windows were read whole and meet what is covered. What --wait cuts short goes on with the same command.
    """
    if holes == (since is not None):
        raise UsageError("say what to read", hint="--from DATE [--to DATE], or --holes")
    if holes and until is not None:
        raise UsageError("--to goes with --from", hint="--holes reads what the holes need")
    asked = (since, until) if since is not None else None
    wait_ms = wait_of(wait)
    return run_loop(
        lambda: _fill(
            loaded, source, asked, listing or [], wait_ms, open_only=open_only, dry_run=dry_run, as_json=as_json
        )
    )


async def _fill(
    loaded: Loaded,
    name: str,
    asked: tuple[str, str | None] | None,
    listings: list[str],
    wait_ms: int,
    *,
    open_only: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    with board() as shown:
        start_logging(loaded.settings, shown.log)
        async with open_stores(loaded.settings, wait=True) as stores:
            if not dry_run:
                await apply_folder(stores, [name], strict=True)
            source = await filling_source(stores, name)
            window = _window(*asked, source.schedule.timezone) if asked is not None else None
            plan = await plan_fill(stores, source, window, listings, closing=not dry_run)
            if dry_run or not (plan.listings or plan.going):
                return _shown(plan, as_json=as_json)
            if open_only:
                opened = await open_fill(stores, source, plan)
                if as_json:
                    print_json({"run": opened.run_id, "created": opened.created, "windows": len(plan.listings)})
                else:
                    say(f"Run {opened.run_id} {'is open' if opened.created else 'was open before'}; see `fyke runs`.")
                return 0
            report = await fill_here(stores, source, plan, wait_ms, shown.show)
    if as_json:
        print_json(report)
    else:
        told(report)
        if plan.left:
            say(f"- run {plan.going} was filling before and went on; give the command again for {plan.left} window(s)")
    return 1 if (report.problems or plan.left) and not report.interrupted else 0


def _window(since: str, until: str | None, zone_name: str) -> tuple[int, int]:
    now, here = int(time.time() * 1000), zone(zone_name)
    begin = day_or_moment(since, now, here, "--from")[0]
    end = day_or_moment(until, now, here, "--to")[1] if until is not None else now
    if begin >= end:
        raise UsageError("--from is not before --to", field="--from")
    return begin, end


def _shown(plan: FillPlan, *, as_json: bool) -> int:
    if as_json:
        print_json(plan)
    else:
        for hole, why in plan.cannot:
            say(f"Gap {hole} cannot be filled by dates: {why}")
        say(f"{len(plan.listings)} window(s) to read." if plan.listings else "No window to read.")
        found = list(zip(plan.listings, plan.addresses, strict=True))
        few = found if len(found) <= 2 * SHOWN else [*found[:SHOWN], *found[-SHOWN:]]
        rows = [(one.values["from"], one.values["to"], one.filled, address) for one, address in few]
        if rows:
            table(("FROM", "TO", "LISTING", "ADDRESS"), rows)
    return 1 if plan.cannot else 0
