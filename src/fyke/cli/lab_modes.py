"""`fyke lab modes`: the ways of "once" that the articles compare, measured beside Fyke's own."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from fyke.cli.flags import Json
from fyke.cli.output import print_json, say, table
from fyke.cli.verb import verb
from fyke.lab.machine import machine, told
from fyke.lab.modes.measure import Plan, compare
from fyke.lab.modes.report import HEAD, cells, markdown


def add(app: typer.Typer) -> None:
    """Hang the verb into the group `lab`."""
    verb(app, "modes", example="fyke lab modes --items 400 --kills 2")(modes)


def modes(
    items: Annotated[int, typer.Option("--items", min=1, max=100_000, help="Notices that the site shows.")] = 400,
    workers: Annotated[int, typer.Option("--workers", min=1, max=32, help="Worker processes of each mode.")] = 3,
    kills: Annotated[
        float, typer.Option("--kills", min=0, max=3600, help="Seconds between two kills; 0: without kills only.")
    ] = 2.0,
    latency_ms: Annotated[
        float, typer.Option("--latency-ms", min=0, help="Each answer of the site waits so long.")
    ] = 50,
    seed: Annotated[int, typer.Option("--seed", help="Which processes are killed, and what the site shows.")] = 1,
    mode: Annotated[list[str] | None, typer.Option("--mode", help="Only this one; may be given again.")] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The table as the docs keep it.")] = False,
    as_json: Json = False,
) -> None:
    """Measure what the articles compare: rows doubled, items lost, pages fetched again, pages a second.

    Each mode is a program of its own on the same site with the same number of processes, once without kills and once
    with one of its processes killed (SIGKILL) every so many seconds and started again. Redis and PostgreSQL are
    throw-away servers on this machine.
    """
    plan = Plan(items=items, workers=workers, kills=kills, latency_ms=latency_ms, seed=seed, modes=tuple(mode or ()))
    here = machine()
    outcomes = asyncio.run(compare(plan, lambda line: typer.echo(line, err=True)))
    if as_json:
        print_json({"machine": here, "plan": plan, "outcomes": outcomes})
    elif as_markdown:
        say(f"{told(here)} {items} items, {workers} workers, {latency_ms:g} ms a page.\n\n{markdown(outcomes)}")
    else:
        table(HEAD, [cells(one) for one in outcomes])
