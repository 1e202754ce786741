"""The record of a load test: everything as JSON, a summary for people, and the curves; dated, never written over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from fyke.lab.load.figures import Round, cpu_shares, in_flight, limiting, linearity, percentile, window
from fyke.lab.load.plot import Line, Panel, drawing
from fyke.lab.load.rounds import LoadPlan
from fyke.lab.machine import Machine, told

BARS_SHOWN: Final = 400


class Record(Struct, frozen=True, kw_only=True):
    """All of a load test."""

    machine: Machine
    plan: LoadPlan
    backend: str
    rounds: list[Round]


def linear(rounds: Sequence[Round]) -> dict[int, float]:
    return linearity({one.workers: one.per_second for one in rounds})


def table(rounds: Sequence[Round]) -> list[tuple[str, ...]]:
    """Head and rows: one round a row."""
    head = ("WORKERS", "PAGES", "FAILED", "SECONDS", "PAGES/S", "OF LINEAR", "P50/P95", "CPU", "LIMITED BY")
    shares = linear(rounds)
    rows: list[tuple[str, ...]] = [head]
    for one in rounds:
        took = [request.end - request.start for request in one.requests]
        cpu = cpu_shares(one.samples, *window(one.requests))
        verdict = limiting(one)
        rows.append(
            (
                str(one.workers),
                f"{len(one.requests):,}",
                str(one.failures),
                f"{one.seconds:.1f}" + ("" if one.finished else " (cut)"),
                f"{one.per_second:.1f}",
                f"{shares[one.workers]:.1f} %",
                f"{percentile(took, 0.5):.2f}/{percentile(took, 0.95):.2f} s",
                ", ".join(f"{part} {used:.2f}" for part, used in cpu.items() if used >= 0.005),
                f"{verdict.part}: {verdict.why}",
            )
        )
    return rows


def summary(record: Record) -> str:
    """What a person reads of it, in Markdown."""
    here, plan = record.machine, record.plan
    what = f"source {plan.source}" if plan.source else f"the lab site, {plan.latency_ms:g} ms a page"
    head, *rows = table(record.rounds)
    lines = [
        f"# Load test of {here.date}",
        "",
        f"{told(here)} {what}; {plan.slots} slots a worker process; back end: {record.backend}.",
        "",
        f"| {' | '.join(name.lower() for name in head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        "Pages a second and CPU (in cores) are of the middle of each round, from a tenth of its pages to nine tenths.",
        "",
        "![curves](load.svg)",
        "",
        f"In flight at the site, on average: "
        f"{', '.join(f'{one.workers} workers {in_flight(one.requests):.1f}' for one in record.rounds)}.",
        "Everything, with start and end of each request, is in `record.json`.",
        "",
    ]
    return "\n".join(lines)


def curves(record: Record) -> str:
    """Throughput, backlog and the requests of the last round, as SVG."""
    rounds = record.rounds
    base = rounds[0]
    measured = [(float(one.workers), one.per_second) for one in rounds]
    ideal = [(float(one.workers), base.per_second * one.workers / base.workers) for one in rounds]
    last = rounds[-1]
    bars = [
        (max(0.0, one.start), one.end, row) for row, one in enumerate(sorted(last.requests)[:BARS_SHOWN]) if one.end > 0
    ]
    panels = [
        Panel(
            "Throughput",
            "workers",
            "pages/s",
            lines=[Line("measured", measured, marks=True), Line("linear", ideal, dashed=True)],
        ),
        Panel(
            "Backlog",
            "seconds",
            "tasks that wait",
            lines=[
                Line(f"{one.workers} workers", [(sample.at, float(sample.waiting)) for sample in one.samples])
                for one in rounds
            ],
        ),
        Panel(f"Requests, {last.workers} workers (first {len(bars)})", "seconds", "start to end", bars=bars),
    ]
    return drawing(f"Load test of {record.machine.date}", panels)


def keep(record: Record, folder: Path, now: float | None = None) -> Path:
    """Write record, summary and curves into a new folder below `folder`; where it is."""
    stamp = time.strftime("%Y-%m-%d-%H%M%S", time.gmtime(now))
    name = f"{stamp}-{'-'.join(str(one.workers) for one in record.rounds)}"
    names = (name if number == 1 else f"{name}_{number}" for number in count(1))
    named = next(folder / each for each in names if not (folder / each).exists())
    named.mkdir(parents=True)
    (named / "record.json").write_bytes(msgspec.json.format(msgspec.json.encode(_shown(record)), indent=1))
    (named / "summary.md").write_text(summary(record), encoding="utf-8")
    (named / "load.svg").write_text(curves(record), encoding="utf-8")
    return named


def _shown(record: Record) -> Record:
    """Without the variables of the user's own environment: they may hold passwords."""
    return msgspec.structs.replace(record, plan=msgspec.structs.replace(record.plan, variables={}))
