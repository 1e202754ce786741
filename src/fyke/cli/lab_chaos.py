"""`fyke lab chaos`: kill, freeze, cut and wipe while it collects, and count what was lost or doubled."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import msgspec
import typer

from fyke.app.run import run_loop
from fyke.cli.flags import Json
from fyke.cli.output import print_json, say, table
from fyke.cli.verb import verb
from fyke.errors import UsageError, nearest
from fyke.lab.chaos import FAULTS, ChaosConfig, ChaosReport, EffectLog, run_chaos
from fyke.lab.chaos.plan import FrontierName, LedgerName, ledger_of
from fyke.testing.effects import install_effect_log, written_twice

NAMES_SHOWN: Final = 10
FOLDER: Final = "fyke-chaos"

Option = typer.Option

Faults = Annotated[
    str, Option("--faults", metavar="NAME,…", help=f"Only these: {', '.join(FAULTS)}. Default: all that fit.")
]
Seconds = Annotated[float, Option("--seconds", min=1, max=86_400, help="How long faults are done.")]
Every = Annotated[float, Option("--every", min=0.1, max=3_600, help="Seconds between two faults.")]
Outage = Annotated[float, Option("--outage", min=0.1, max=3_600, help="Seconds that a server is frozen or away.")]
Seed = Annotated[int | None, Option("--seed", help="The same faults in the same order; else drawn.")]
Items = Annotated[int, Option("--items", min=10, max=1_000_000, help="Items that the site publishes.")]
Workers = Annotated[int, Option("--workers", min=1, max=64, help="`fyke worker` processes.")]
Schedulers = Annotated[int, Option("--schedulers", min=1, max=16, help="`fyke scheduler` processes.")]
Concurrency = Annotated[int, Option("--concurrency", min=1, max=1_000, help="Visits at once in a worker.")]
Latency = Annotated[float, Option("--latency-ms", min=0, help="Each answer of the site waits so long.")]
FrontierKind = Annotated[str, Option("--frontier", metavar="redis|sql", help="What hands out work.")]
LedgerKind = Annotated[
    str, Option("--ledger", metavar="sqlite|postgres|mariadb", help="The database that holds the truth.")
]
Redis = Annotated[str, Option("--redis", metavar="URL", help="Your own Redis instead of one started here.")]
Database = Annotated[
    str, Option("--database", metavar="URL", help="Your own, empty database instead of one started here.")
]
Settle = Annotated[
    float, Option("--settle", min=1, max=86_400, help="Seconds to wait at the end until nothing is open.")
]
Folder = Annotated[Path | None, Option("--dir", metavar="FOLDER", help=f"Where all is put; default {FOLDER}/<time>.")]


def add(app: typer.Typer) -> None:
    """Hang the verb into the group `lab`."""
    verb(app, "chaos", example="fyke lab chaos --seconds 60 --seed 7")(chaos)


def chaos(
    faults: Faults = "",
    seconds: Seconds = 60,
    every: Every = 3,
    outage: Outage = 8,
    seed: Seed = None,
    items: Items = 2_000,
    workers: Workers = 3,
    schedulers: Schedulers = 2,
    concurrency: Concurrency = 8,
    latency_ms: Latency = 20,
    frontier: FrontierKind = "redis",
    ledger: LedgerKind = "postgres",
    redis: Redis = "",
    database: Database = "",
    settle: Settle = 180,
    folder: Folder = None,
    as_json: Json = False,
) -> int:
    """Collect from a site on this machine while processes and servers are killed, frozen, cut off and wiped.

    Real processes on throw-away servers (or on yours); the site's own log is the oracle. Exits with 1 on anything
    lost, doubled, or not settled in time. The history of the run is kept, one JSON object a line.
    """
    config = ChaosConfig(
        folder=(folder or Path(FOLDER) / time.strftime("%Y%m%d-%H%M%S")).absolute(),
        seed=time.time_ns() % 1_000_000 if seed is None else seed,
        items=items,
        workers=workers,
        schedulers=schedulers,
        concurrency=concurrency,
        seconds=seconds,
        every=every,
        outage=outage,
        settle=settle,
        latency_ms=latency_ms,
        frontier="redis" if redis else _one_of("--frontier", frontier, FrontierName),
        ledger=ledger_of(database) if database else _one_of("--ledger", ledger, LedgerName),
        redis_url=redis,
        database_url=database,
        faults=tuple(name for name in faults.split(",") if name),
    )
    effects = EffectLog(install_effect_log, written_twice)

    async def run() -> int:
        report = await run_chaos(config, effects, lambda line: typer.echo(line, err=True))
        if as_json:
            print_json(msgspec.to_builtins(report) | {"good": report.good})
        else:
            _told(report)
        return 0 if report.good else 1

    return run_loop(run)


def _one_of(flag: str, value: str, names: Any) -> Any:
    if value not in get_args(names):
        hint = nearest(value, get_args(names)) or ", ".join(get_args(names))
        raise UsageError(f"there is no '{value}'", field=flag, hint=hint)
    return value


def _told(report: ChaosReport) -> None:
    verdict = report.verdict
    say()
    table(("FAULT", "TIMES"), sorted(report.faults.items()))
    say()
    table(
        ("", "THE SITE'S TRUTH", "THE LEDGER"),
        [
            ("listed", report.items, verdict.listed),
            ("stored", report.items - verdict.dead_expected, verdict.stored),
            ("dead (the page cannot be read)", verdict.dead_expected, verdict.dead),
            ("open", 0, verdict.open),
            ("lost", 0, len(verdict.lost)),
            ("doubled", 0, len(verdict.doubled)),
            ("wrong rows", 0, len(verdict.wrong)),
            ("unaccounted by the audit", 0, verdict.unaccounted),
            ("fetched once more", f"at most {report.in_hand}", verdict.extra_fetches),
        ],
    )
    for what, keys in (("lost", verdict.lost), ("doubled", verdict.doubled), ("wrong", verdict.wrong)):
        if keys:
            say(f"{what}: {', '.join(keys[:NAMES_SHOWN])}" + (" …" if len(keys) > NAMES_SHOWN else ""))
    if report.ended:
        say(f"ended by themselves: {', '.join(report.ended)}")
    settled = f"settled in {report.settle_seconds} s" if report.settled else "NOT SETTLED: something is still open"
    proof = "Nothing twice, nothing missed" if report.good else "THIS IS WRONG"
    say(f"\n{proof}: {sum(report.faults.values())} faults, {settled}, {report.seconds} s in all, seed {report.seed}.")
    say(f"History: {report.history}")
