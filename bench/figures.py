"""Measure again what the pages quote, on a quiet machine: `python bench/figures.py modes` or `load`.

`modes` puts the table of `fyke lab modes` into docs/explanation/modes.md; `load` keeps a record below bench/load. The
peers have their own: `make peers ARGS=--write`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "modes.md"
BEGIN, END = "<!-- figures: written by bench/figures.py -->", "<!-- end of figures -->"


def fyke(*words: str) -> str:
    command = [sys.executable, "-m", "fyke", "lab", *words]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def modes(words: list[str]) -> None:
    found = fyke("modes", "--markdown", *words).strip()
    text = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _: f"{BEGIN}\n\n{found}\n\n{END}", text), encoding="utf-8")
    print(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("modes", "load"))
    options, words = parser.parse_known_args()
    if options.what == "modes":
        modes(words)
    else:
        print(fyke("load", "--dir", str(ROOT / "bench" / "load"), *words))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
