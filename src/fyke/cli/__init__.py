"""The command `fyke`: one file a verb, loaded when it is asked for, so that help comes at once.

Exit codes: 0 done, 1 something needs attention, 2 the user's mistake, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final, cast

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from fyke import __version__
from fyke.cli.flags import APP, Ledger, Sources, Values, Verbs, remember
from fyke.errors import FykeError, TransientError, UsageError

# Name, module, and the line that `fyke --help` shows without loading it.
VERBS: Final = {
    "demo": ("demo", "Collect from a site on this machine, with faults, and show the proof."),
    "init": ("init", "Make a project: settings, one source that works, a .gitignore."),
    "new": ("new", "Read a list page and propose a source file for it."),
    "try": ("try_", "Read a page with a source and show what comes out; nothing is stored."),
    "source": ("source", "Look at sources, check and apply them, pause and resume them."),
    "record": ("record", "Keep pages of a site beside its source, to test rules offline."),
    "run": ("run", "Collect: for good, or once until nothing is due."),
    "scheduler": ("scheduler", "One role of many machines: open runs when they are due, keep the frontier right."),
    "worker": ("worker", "One role of many machines: collect what is due, in processes of their own."),
    "reconciler": ("reconciler", "One role of many machines: offer what the frontier lost."),
    "status": ("status", "Show what each source has, what waits and who works."),
    "runs": ("runs", "Show the runs and their passes; accept a suspicious one."),
    "gaps": ("gaps", "Show the holes in what was covered; close one by hand."),
    "fill": ("fill", "Read older entries by date window: of a time, or for holes."),
    "audit": ("audit", "Prove that nothing is lost: count both sides, name each difference."),
    "explain": ("explain", "Tell the whole life of one item."),
    "dead": ("dead", "Look at dead letters, replay or drop them."),
    "ignore": ("ignore", "Close one item by hand, with a reason."),
    "forget": ("forget", "Remove items with all that belongs to them."),
    "submit": ("submit", "Add addresses by hand."),
    "query": ("query", "Look at the rows of a source, without SQL."),
    "export": ("export", "Write the rows of a source as CSV, JSON lines, Parquet or XLSX."),
    "ledger": ("ledger", "Move the ledger to another database."),
    "doctor": ("doctor", "Check settings, servers and this machine, and say what to change."),
    "migrate": ("migrate", "Make the ledger's tables, or bring them to this release."),
    "settings": ("settings", "Show what is set, and where it was set."),
    "lab": ("lab", "Servers to test with: a misbehaving site, saved pages."),
}


class AllVerbs(Verbs):
    """The verbs of the table; a module is imported when its verb is asked for."""

    naming = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        # A shell that waits for names needs none of what is behind them.
        self.naming = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.naming = False

    def verb_lines(self) -> list[tuple[str, str]]:
        return [(name, text) for name, (_, text) in VERBS.items()]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        if self.naming:
            return TyperCommand(cmd_name, help=VERBS[cmd_name][1])
        module = import_module(f"fyke.cli.{VERBS[cmd_name][0]}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Suggestions are made from the names of this mapping.
        self.commands = cast(Any, VERBS)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    **APP | {"add_completion": True},
    cls=AllVerbs,
    no_args_is_help=True,
    epilog="Begin with `fyke demo`. Settings: fyke.toml, FYKE_* variables, `fyke settings show`.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fyke {__version__}")
        raise typer.Exit


@app.callback()
def _fyke(
    context: typer.Context,
    ledger: Ledger = None,
    sources: Sources = None,
    values: Values = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Fyke collects what web sites publish, every item once: nothing twice, nothing missed, and it can prove it."""
    remember(context, ledger, sources, values)


def run(arguments: Sequence[str]) -> int:
    """Run one command line in this process and return its exit code; errors are told on stderr."""
    for stream in (sys.stdout, sys.stderr):
        # A title in any script must not end a command on a terminal that cannot show it.
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return int(typer.main.get_command(app).main(list(arguments), prog_name="fyke", standalone_mode=False) or 0)
    except TyperException as error:
        _show_usage(error)
        return 2
    except UsageError as error:
        return _told(str(error), 2)
    except TransientError as error:
        return _told(f"{error}; nothing is lost, try again", 1)
    except FykeError as error:
        return _told(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        # The reader went away (`| head`): Python must not complain about it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the last line of defence: people get one line, not a traceback
        if os.environ.get("FYKE_DEBUG"):
            traceback.print_exc()
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return _told(f"unexpected error: {text} (FYKE_DEBUG=1 shows where)", 1)


def _show_usage(error: TyperException) -> None:
    show = getattr(error, "show", None)
    if show is not None:
        show()
    else:
        typer.echo(f"fyke: {error}", err=True)


def _told(text: str, code: int) -> int:
    typer.echo(f"fyke: {text}", err=True)
    return code


def main() -> None:
    sys.exit(run(sys.argv[1:]))
