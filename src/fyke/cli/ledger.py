"""`fyke ledger`: the ledger moves to another database, and nothing is collected again."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from fyke.app.moving import Moved, copy_ledger, reopen_ledger
from fyke.cli.flags import Json
from fyke.cli.output import print_json, say, table
from fyke.cli.progress import Portion
from fyke.cli.verb import group, verb
from fyke.errors import UsageError
from fyke.settings import Loaded, masked

app = group("Move the ledger to another database.", example="fyke ledger copy sqlite:///fyke.db env:NEW_LEDGER")


@verb(app, "copy", example="fyke ledger copy sqlite:///fyke.db env:NEW_LEDGER")
async def copy(
    loaded: Loaded,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The address of the ledger as it is now.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The address of a new, empty database.")],
    again: Annotated[bool, typer.Option("--again", help="A move was broken off: begin it anew.")] = False,
    as_json: Json = False,
) -> int:
    """Move the ledger, of any kind, to a database of any kind; nothing is collected again.

    The old ledger is closed first: every process on it stops with exit code 2. All rows are copied, read back and
    compared, and both are audited. Then name the new one in the setting `ledger` and start the processes again: the
    frontier is filled from it. An address written as env:NAME is taken from that variable, so that no password shows in
    a list of processes.
    """
    moved = await copy_ledger(
        loaded.settings,
        _address(source, "FROM"),
        _address(target, "TO"),
        again=again,
        progress=Portion("rows moved"),
        audited=Portion("rows counted"),
    )
    if as_json:
        print_json(moved)
    else:
        _show(moved)
    return 0


def _address(text: str, field: str) -> str:
    if not text.startswith("env:"):
        return text
    found = os.environ.get(text.removeprefix("env:"), "")
    if not found:
        raise UsageError(f"there is no variable {text.removeprefix('env:')!r}", field=field)
    return found


def _show(moved: Moved) -> None:
    table(("TABLE", "ROWS"), [(name, number) for name, number in moved.rows.items() if number])
    report = moved.report
    say(
        f"\n{sum(moved.rows.values())} rows are in {moved.target}, each read back and compared; both ledgers' audits"
        f" say the same:\nlisted {report.listed} = stored {report.stored} + dead {report.dead} + ignored"
        f" {report.ignored} + open {report.open}"
    )
    if report.unaccounted:
        say(f"{report.unaccounted} unaccounted, as before: `fyke audit` with the new ledger names them.")
    say(f"\n{moved.source} is closed. Set `ledger` to the new address, and start the processes again.")


@verb(app, "reopen", example="fyke ledger reopen sqlite:///fyke.db")
async def reopen(
    loaded: Loaded,
    ledger: Annotated[str, typer.Argument(metavar="LEDGER", help="The address of the ledger that was closed.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also where the move has ended: what was stored since is lost.")
    ] = False,
) -> None:
    """Give a move up that did not end: the old ledger is used again."""
    url = _address(ledger, "LEDGER")
    name = masked(url)
    if await reopen_ledger(loaded.settings, url, force=force):
        say(f"{name} is open again. The database that it was being moved to cannot be used: throw it away.")
    else:
        say(f"{name} is open; there is nothing to undo.")
