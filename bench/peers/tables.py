"""The tables of a run, for the terminal and for docs/explanation/comparison.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from players import PLAYERS, Result

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "comparison.md"
BEGIN, END = "<!-- figures: written by bench/peers/run.py -->", "<!-- end of figures -->"


def results_of(found: Mapping[str, Any]) -> dict[str, dict[str, Result]]:
    """Round → player → result."""
    rounds: dict[str, dict[str, Result]] = {}
    for row in found["results"]:
        rounds.setdefault(row["round"], {})[row["name"]] = Result(**row)
    return rounds


def tables(found: Mapping[str, Any]) -> str:
    """Both tables in Markdown, with the machine, the date, the versions and what could not be run."""
    here, options, rounds = found["machine"], found["options"], results_of(found)
    lines = [
        f"{here['date']}, {here['processor']}, {here['cores']} cores, {here['system']}, Python {here['python']}; "
        f"load of the machine before: {here['load']:.1f}; "
        f"{options['items']:,} details of 15 KB, 3 worker processes with 16 requests at a time each.",
        "",
    ]
    if "speed" in rounds:
        lines += [
            f"Without faults, {options['latency']} ms latency, in the middle of the work (10 to 90 % of the pages):",
            "",
            "| | version | pages/s | CPU seconds of the workers for 1,000 pages | and of Redis and database | "
            "stored | doubled | fetched again |",
            "|---|---|---|---|---|---|---|---|",
        ]
        lines += [speed_line(found, one) for one in rounds["speed"].values()]
        lines += ["", *ratio(rounds["speed"])]
        if "bare" in found:
            bare = 1000 / found["bare"]["pages_per_cpu_s"]
            lines.append(
                f"The bare loop (fetch, read, one row into SQLite; no list, no ledger, no promise) took {bare:.2f} CPU "
                "seconds for 1,000 pages in the same run."
            )
        lines.append("")
    if "faults" in rounds:
        lines += [
            f"A worker killed every 3 s, the database away once for 5 s, {options['fault_latency']} ms latency:",
            "",
            "| | kills | stored | lost | rows doubled | fetched again | seconds to the last request |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| `{one.name}` | {one.kills} | {one.stored:,} | {one.lost:,} | {one.doubled:,} | {one.fetched_again:,} "
            f"| {one.seconds:.0f} |"
            for one in rounds["faults"].values()
        ]
        lines.append("")
    lines += [f"- `{player.name}`: {player.note}" for player in PLAYERS if player.name in found["versions"]]
    lines += [f"- `{name}` could not be run here: {reason}" for name, reason in found["missing"].items()]
    return "\n".join(lines) + "\n"


def speed_line(found: Mapping[str, Any], one: Result) -> str:
    cpu = one.per_thousand(one.worker_cpu_s)
    if one.helper_cpu_s:
        cpu_text = f"{cpu:.2f} (and {one.per_thousand(one.helper_cpu_s):.2f} of the scheduler)"
    else:
        cpu_text = f"{cpu:.2f}"
    figures = f"{one.pages_per_s:.0f} | {cpu_text} | {one.per_thousand(one.server_cpu_s):.2f}"
    if one.note:
        figures = f"{one.note} | – | –"
    version = found["versions"][one.name]
    return f"| `{one.name}` | {version} | {figures} | {one.stored:,} | {one.doubled:,} | {one.fetched_again:,} |"


def ratio(speed: Mapping[str, Result]) -> list[str]:
    own = [one for one in speed.values() if one.name.startswith("fyke") and one.window_s]
    peers = [one for one in speed.values() if not one.name.startswith("fyke") and one.window_s]
    if not own or not peers:
        return []
    best = max(peers, key=lambda one: one.pages_per_s)
    return [
        f"`{one.name}`: {one.pages_per_s / best.pages_per_s:.2f} times the pages/s of the best peer (`{best.name}`)."
        for one in own
    ]


def write_page(found: Mapping[str, Any]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _: f"{BEGIN}\n\n{tables(found)}\n{END}", text), encoding="utf-8")
