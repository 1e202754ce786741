"""`fyke worker`: worker processes on this machine, for the frontier of a cluster; nothing is planned here."""

from __future__ import annotations

from typing import Annotated

import typer

from fyke.app import run_worker, run_workers
from fyke.app.run import run_loop
from fyke.cli.children import child_command
from fyke.cli.logs import start_logging
from fyke.cli.verb import one_verb, verb, with_flags
from fyke.settings import Loaded

app = one_verb()

Processes = Annotated[int | None, typer.Option("--processes", min=1, max=256, help="Instead of worker.processes.")]
Pool = Annotated[str | None, typer.Option("--pool", metavar="POOL", help="text or render, instead of worker.pool.")]


@verb(app, example="fyke worker --processes 4")
def worker(
    loaded: Loaded,
    processes: Processes = None,
    pool: Pool = None,
    as_child: Annotated[bool, typer.Option("--as-child", hidden=True)] = False,
    restarts: Annotated[int, typer.Option("--restarts", hidden=True)] = 0,
) -> int:
    """Collect what the schedulers of the cluster plan; any number of these on any number of machines.

    Waits servers.wait for its servers at the start; later outages are waited for, however long. SIGTERM and Ctrl-C:
    work in hand is finished within worker.grace, the rest is given back at no cost; a second one ends at once.
    """
    flags = {"worker.processes": None if processes is None else str(processes), "worker.pool": pool}
    loaded = with_flags(loaded, flags, {"worker.processes": "--processes", "worker.pool": "--pool"})
    start_logging(loaded.settings)
    if as_child:
        return run_loop(lambda: _child(loaded, restarts))
    return run_loop(lambda: _workers(loaded))


async def _child(loaded: Loaded, restarts: int) -> int:
    await run_worker(loaded.settings, restarts=restarts)
    return 0


async def _workers(loaded: Loaded) -> int:
    await run_workers(loaded.settings, child_command(loaded))
    return 0
