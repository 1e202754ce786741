"""`fyke reconciler`: ledger and frontier compared, both ways, in a process of its own."""

from __future__ import annotations

from fyke.app import run_reconciler
from fyke.app.run import run_loop
from fyke.cli.logs import start_logging
from fyke.cli.verb import one_verb, verb
from fyke.settings import Loaded

app = one_verb()


@verb(app, example="fyke reconciler")
def reconciler(loaded: Loaded) -> int:
    """Offer what is due and not in the frontier, drop what is not wanted, put back what dead workers left.

    `fyke scheduler` does it too, unless started with --no-reconciler; any number of both may run.
    """
    start_logging(loaded.settings)

    async def run() -> int:
        await run_reconciler(loaded.settings)
        return 0

    return run_loop(run)
