"""`fyke init`: a folder to begin in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fyke.app.project import make_project
from fyke.cli.flags import Json
from fyke.cli.output import print_json, say
from fyke.cli.verb import one_verb, verb

app = one_verb()


@verb(app, "init", example="fyke init tenders")
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where; it may exist. Default: this folder.")
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Make a project: settings with comments, one source that works, and a .gitignore. Nothing is overwritten.

    The source reads the lab's own site, so that all can be tried with no network.
    """
    paths = make_project(folder)
    if as_json:
        print_json({"files": [str(path) for path in paths]})
        return
    for path in paths:
        say(f"made {path}")
    say("\nType next:")
    steps = [
        ("fyke lab site --port 8080 --items 30", "in a second terminal: a site to practise on"),
        ("fyke try notices", "what its list gives; nothing is stored"),
        ("fyke run --once", "collect until nothing is due"),
        ("fyke query notices", "the rows"),
        ("fyke new URL -o sources/NAME.yaml", "a source for a site of your own"),
    ]
    if folder != Path():
        steps.insert(1, (f"cd {shlex.quote(str(folder))}", ""))
    for line, why in steps:
        say(f"  {line:<40}{why}".rstrip())
