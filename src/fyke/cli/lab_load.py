"""`fyke lab load`: the same pages with 1, 3, 6, 12 worker processes; the curve, and what limits it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from fyke.app.run import run_loop
from fyke.cli.flags import Json
from fyke.cli.output import print_json, say, table
from fyke.cli.verb import verb
from fyke.errors import UsageError
from fyke.lab.load.figures import Round
from fyke.lab.load.record import Record, keep
from fyke.lab.load.record import table as figures
from fyke.lab.load.rounds import LoadPlan, play
from fyke.lab.load.stage import BACKENDS
from fyke.lab.machine import machine

MOST_WORKERS: Final = 64
SMALL_WORKERS: Final = 3
SMALL_URLS: Final = 60
OWN_SECONDS: Final = 60.0
OWN_URLS: Final = 100


def add(app: typer.Typer) -> None:
    """Hang the verb into the group `lab`."""
    verb(app, "load", example="fyke lab load --workers 1,3,6,12 --urls 200")(load)


def load(
    workers: Annotated[
        str | None, typer.Option("--workers", metavar="N,N,…", help="Worker processes, a round for each.")
    ] = None,
    urls: Annotated[
        int | None, typer.Option("--urls", min=1, max=100_000, help="Pages for each worker of a round.")
    ] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=1, help="A round is cut after so long.")] = None,
    latency_ms: Annotated[
        float, typer.Option("--latency", min=0, help="ms that each answer of the lab site waits.")
    ] = 400,
    slots: Annotated[int, typer.Option("--slots", min=1, max=256, help="Requests at a time in a worker process.")] = 4,
    small: Annotated[
        bool, typer.Option("--small", help="60 pages (or --urls) in all, 3 workers, every request told.")
    ] = False,
    backend: Annotated[
        str | None, typer.Option("--backend", help="redis, postgres or sqlite; the first that this machine has.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="ID", help="A source of yours, with its own politeness.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="With --source: yes, ask that site.")] = False,
    folder: Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="Where the dated record is kept.")] = Path(
        "load"
    ),
    as_json: Json = False,
) -> int:
    """Load test: throughput and backlog curves, start and end of each request, and the part that limits.

    It runs on a lab site and throw-away servers on this machine. With --source and --live it asks a site of yours
    instead, as politely as its source says, for at most --seconds (60) and --urls pages (100) a round, into a ledger
    that is thrown away. The record (JSON, summary, SVG) is kept below --dir.
    """
    plan = _plan(workers, urls, seconds, latency_ms, slots, backend, source, small=small, live=live)
    return run_loop(lambda: _load(plan, folder, small=small, as_json=as_json))


def _plan(
    workers: str | None,
    urls: int | None,
    seconds: float | None,
    latency_ms: float,
    slots: int,
    backend: str | None,
    source: str | None,
    *,
    small: bool,
    live: bool,
) -> LoadPlan:
    if source and not live:
        raise UsageError(
            f"--source {source} asks a real site", field="--source", hint="add --live if that is what you want"
        )
    if live and not source:
        raise UsageError("--live goes with --source", field="--live")
    if backend not in (None, *BACKENDS):
        raise UsageError(f"no back end {backend!r}", field="--backend", hint=f"one of {', '.join(BACKENDS)}")
    chosen = str(SMALL_WORKERS) if small else "1,3" if source else "1,3,6,12"
    return LoadPlan(
        workers=_numbers(workers or chosen),
        urls=urls or (OWN_URLS if source else SMALL_URLS if small else 200),
        together=small,
        seconds=seconds or (OWN_SECONDS if source else 300.0),
        latency_ms=latency_ms,
        slots=slots,
        backend=next((each for each in BACKENDS if each == backend), None),
        source=source or "",
        variables={name: value for name, value in os.environ.items() if name.startswith("FYKE_")},
    )


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{text!r} is no list of numbers", field="--workers", hint="write 1,3,6,12") from error
    if not all(1 <= number <= MOST_WORKERS for number in found):
        raise UsageError(f"each number is from 1 to {MOST_WORKERS}", field="--workers")
    return found


async def _load(plan: LoadPlan, folder: Path, *, small: bool, as_json: bool) -> int:
    here = machine()
    backend, rounds = await play(plan, lambda line: typer.echo(line, err=True))
    record = Record(machine=here, plan=plan, backend=backend, rounds=rounds)
    place = keep(record, folder)
    if as_json:
        print_json({"record": str(place / "record.json"), "rounds": [_short(one, row) for one, row in _rows(rounds)]})
    else:
        head, *rows = figures(rounds)
        table(head, rows)
        if small:
            _requests(rounds[0])
        say(f"\nThe record: {place / 'summary.md'}, the curves: {place / 'load.svg'}")
    return 1 if any(one.failures or not one.finished for one in rounds) and not plan.source else 0


def _rows(rounds: list[Round]) -> list[tuple[Round, tuple[str, ...]]]:
    return list(zip(rounds, figures(rounds)[1:], strict=True))


def _short(one: Round, row: tuple[str, ...]) -> dict[str, object]:
    return {
        "workers": one.workers,
        "pages": len(one.requests),
        "failed": one.failures,
        "seconds": round(one.seconds, 3),
        "pages_per_s": round(one.per_second, 3),
        "linear": row[5],
        "limited_by": row[8],
        "finished": one.finished,
        "requests": [(one.start, one.end, one.what, one.good) for one in one.requests],
    }


def _requests(one: Round) -> None:
    say()
    table(
        ("START", "END", "TOOK", "WHAT", ""),
        [
            (
                f"{each.start:.3f}",
                f"{each.end:.3f}",
                f"{each.end - each.start:.3f}",
                each.what,
                "" if each.good else "failed",
            )
            for each in one.requests
        ],
    )
    sys.stdout.flush()
