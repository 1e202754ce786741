"""`fyke demo`: the main job on a site of ours that misbehaves, and the proof at the end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from fyke.app.run import run_loop
from fyke.cli.flags import Json
from fyke.cli.output import print_json, say, table
from fyke.cli.verb import one_verb, verb
from fyke.lab.demo import DemoReport, run_demo

NAMES_SHOWN: Final = 10

app = one_verb()


@verb(app, "demo", example="fyke demo --dir /tmp/fyke-demo")
def demo(
    folder: Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="Where ledger and source are put.")] = Path(
        "fyke-demo"
    ),
    seed: Annotated[int, typer.Option("--seed", help="Another site, the same for the same number.")] = 7,
    as_json: Json = False,
) -> int:
    """Collect some 300 items from a site on this machine, in two runs, with faults on and the process killed once.

    It ends with the site's truth against the ledger: lost 0, doubled 0. Exits with 1 where that is not so.
    """
    return run_loop(lambda: _demo(folder, seed, as_json=as_json))


async def _demo(folder: Path, seed: int, *, as_json: bool) -> int:
    report = await run_demo(folder, (lambda line: typer.echo(line, err=True)) if as_json else say, seed=seed)
    if as_json:
        print_json(report)
    else:
        _told(report)
    return 0 if report.good else 1


def _told(report: DemoReport) -> None:
    say()
    table(
        ("", "THE SITE'S TRUTH", "THE LEDGER"),
        [
            ("listed", report.truth, report.listed),
            ("stored", report.truth - report.dead_expected, report.stored),
            ("dead (the page is gone)", report.dead_expected, report.dead),
            ("rows without a link", "", f"{report.refused} refused, kept with their reasons"),
            ("lost", 0, len(report.lost)),
            ("doubled", 0, len(report.doubled)),
            ("open", 0, report.open),
        ],
    )
    for what, keys in (("lost", report.lost), ("doubled", report.doubled)):
        if keys:
            say(f"{what}: {', '.join(keys[:NAMES_SHOWN])}")
    proof = "Nothing twice, nothing missed" if report.good else "THIS IS WRONG"
    say(f"\n{proof}: {report.kills} kill(s), {report.seconds} s.")
    folder = shlex.quote(report.folder)
    say(f"\nThe rows are in {report.folder}/fyke.db, table gov_procure.")
    say(f"The source is {report.folder}/sources/demo.yaml.")
    say("Type next:")
    for line, why in (
        (f"cd {folder}", ""),
        ("fyke audit", "the proof, counted from other tables"),
        ("fyke export demo --format csv | head -3", "the rows"),
        ("fyke dead list", "what died, and why"),
        ("fyke try demo --page FILE", "what a source reads from a saved page"),
    ):
        say(f"  {line:<42}{why}".rstrip())
