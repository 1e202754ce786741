"""`fyke scheduler`: the calendars of a cluster, and what keeps its frontier right; no page is fetched here."""

from __future__ import annotations

from typing import Annotated

import typer

from fyke.app import run_scheduler
from fyke.app.run import run_loop
from fyke.cli.logs import start_logging
from fyke.cli.verb import one_verb, verb
from fyke.settings import Loaded

app = one_verb()


@verb(app, example="fyke scheduler")
def scheduler(
    loaded: Loaded,
    reconciler: Annotated[
        bool, typer.Option("--reconciler/--no-reconciler", help="Compare ledger and frontier here, too.")
    ] = True,
) -> int:
    """Open runs when they are due, put back what dead workers left, tell events; any number on any machines.

    Sources are those of the ledger: `fyke source apply` writes them. Several schedulers open one run for each slot;
    one of them plans at a time, and another goes on when it dies. SIGTERM and Ctrl-C end it in order.
    """
    start_logging(loaded.settings)

    async def run() -> int:
        await run_scheduler(loaded.settings, reconcile=reconciler)
        return 0

    return run_loop(run)
