"""The flags that verbs share. Light, so that `fyke --help` needs nothing but this."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from fyke.errors import UsageError

FLAGS: Final = "fyke.flags"

Ledger = Annotated[str | None, typer.Option("--ledger", metavar="DSN", help="The ledger, e.g. sqlite:///fyke.db.")]
Sources = Annotated[str | None, typer.Option("--sources", metavar="FOLDER", help="The folder of source files.")]
Values = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting, e.g. worker.concurrency=4.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
OneSource = Annotated[str | None, typer.Option("--source", metavar="ID", help="Only this source.")]


# What every app of ours is made with.
APP: Final[dict[str, Any]] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 110},
}


def remember(context: typer.Context, ledger: str | None, sources: str | None, values: list[str] | None) -> None:
    """Keep flags for the verb below; those given nearer to the verb win."""
    flags: dict[str, str] = context.meta.setdefault(FLAGS, {})
    for text in values or []:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"--set {text} has no value", hint="write --set NAME=VALUE")
        flags[name.strip()] = value
    if ledger is not None:
        flags["ledger"] = ledger
    if sources is not None:
        flags["sources"] = sources


class Verbs(TyperGroup):
    """A group whose help shows the whole first sentence of each verb."""

    def verb_lines(self) -> list[tuple[str, str]]:
        return [(name, (command.help or "").partition("\n")[0]) for name, command in self.commands.items()]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.verb_lines())
