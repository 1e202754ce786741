"""`make peers`: Fyke and four peers on the same lab site in one run: speed, CPU, and what faults leave behind.

Each is used as its docs recommend (the programs are beside this file). `--json FILE` keeps the figures, `--write` puts
the table into docs/explanation/comparison.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from arena import SLOTS, fault_round, lab_site, speed_round, stop_on_signal  # noqa: E402
from bare import bare_loop  # noqa: E402
from install import install, version  # noqa: E402
from players import Player, Result, chosen  # noqa: E402
from tables import tables, write_page  # noqa: E402

from fyke import __version__  # noqa: E402
from fyke.errors import UsageError  # noqa: E402


def machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("players", nargs="*", help="only these")
    parser.add_argument("--items", type=int, default=4_000)
    parser.add_argument("--latency", type=int, default=20, help="ms of the speed round")
    parser.add_argument("--fault-latency", type=int, default=200, help="ms of the round with faults")
    parser.add_argument("--round", choices=("speed", "faults"), help="only this one")
    parser.add_argument(
        "--quiet",
        type=float,
        default=90.0,
        help="seconds without a request or a row that end a round, over a player's own time",
    )
    parser.add_argument("--limit", type=float, default=1_800.0, help="seconds that a round may take at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/explanation/comparison.md")
    options = parser.parse_args()
    stop_on_signal()
    found: dict[str, Any] = {"machine": machine(), "options": vars(options) | {"json": None}, "versions": {}}
    results: list[Result] = []
    missing: dict[str, str] = {}
    for player in chosen(options.players):
        reason = "" if player.own else install(player.name)
        if reason:
            missing[player.name] = reason
            continue
        found["versions"][player.name] = __version__ if player.own else version(player.name)
        for kind in ("speed", "faults"):
            if options.round in (None, kind):
                print(f"{player.name}: {kind} ...", file=sys.stderr, flush=True)
                try:
                    results.append(play(player, kind, options))
                except UsageError as error:
                    missing[player.name] = str(error).splitlines()[0]
    if options.round in (None, "speed"):
        print("the bare loop ...", file=sys.stderr, flush=True)
        with lab_site(options.items, options.latency) as url:
            found["bare"] = bare_loop(url, options.items, SLOTS)
    found |= {"results": [asdict(one) for one in results], "missing": missing}
    if options.json:
        options.json.write_text(json.dumps(found, indent=2), encoding="utf-8")
    print(tables(found))
    if options.write:
        write_page(found)
    return 0


def play(player: Player, kind: str, options: argparse.Namespace) -> Result:
    if kind == "speed":
        return speed_round(player, options.items, options.latency, options.limit, min(options.quiet, 20.0))
    quiet = options.quiet + player.returns_after
    return fault_round(player, options.items, options.fault_latency, options.limit, quiet, options.seed)


if __name__ == "__main__":
    raise SystemExit(main())
