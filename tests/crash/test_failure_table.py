"""The failure table of the docs is whole: each row names tests that exist, or says that it comes later."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.crash.scenario import ALL, CHANGES, FIRST, READS, SAMPLED, SECOND
from tests.crash.windows import WINDOWS, NoTest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "failures.md"
ROWS = range(1, 45)
ONE_MACHINE = {*range(1, 17), 22, *range(25, 38), 39, 41, 43, 44}
MANY_MACHINES = {6, 14, *range(17, 22), 38}
LIMITS, LATER = {23, 24}, {40, 42}


@cache
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def table(title: str) -> dict[int, str]:
    """The rows of a section's table, by each number in their first cell."""
    section = text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = {}
    for line in section.splitlines():
        cells = line.split("|")
        for number in re.findall(r"\d+", cells[1]) if len(cells) > 2 else ():
            assert int(number) not in rows, f"row {number} stands there twice"
            rows[int(number)] = line
    return rows


def names_of_tests() -> set[str]:
    """The names of all tests, also of those that the contract suites bring."""
    folders = (ROOT / "tests", ROOT / "src" / "fyke" / "testing")
    files = (path for folder in folders for path in folder.rglob("*.py"))
    return {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize(("title", "numbers"), [("On one machine", ONE_MACHINE), ("On many machines", MANY_MACHINES)])
def test_each_row_names_what_proves_it(title: str, numbers: set[int]) -> None:
    rows = table(title)
    assert set(rows) == numbers
    proofs = {number: set(re.findall(r"`([^`]+)`", line.split("|")[-2])) for number, line in rows.items()}
    assert [number for number, found in proofs.items() if not found] == []
    known = names_of_tests() | set(map(str, ALL))
    assert {number: found - known for number, found in proofs.items() if found - known} == {}


def test_each_other_row_is_a_limit_or_says_that_it_comes_later() -> None:
    assert set(table("Limits")) == LIMITS
    assert set(table("Later")) == LATER
    assert set(ROWS) == ONE_MACHINE | MANY_MACHINES | LIMITS | LATER
    assert {row for row, window in WINDOWS.items() if isinstance(window, NoTest)} == LIMITS | LATER


def test_each_test_that_the_page_names_exists() -> None:
    assert set(re.findall(r"`(test_\w+)`", text())) - names_of_tests() == set()


def test_the_points_that_the_page_counts_are_those_that_are_played() -> None:
    assert set(READS) & set(CHANGES) == set()
    assert f"about {round(len(FIRST + SECOND), -1)}," in text()
    assert f"about {round(len(ALL) / 50) * 50}," in text()
    assert f"a sample of {SAMPLED} " in text()
    named = set(re.findall(r"`(tests/[^`]+)`", text()))
    assert {"tests/crash/test_guards_matter.py", "tests/crash/test_guards_on_servers.py"} <= named
    assert [path for path in named if not (ROOT / path).is_file()] == []
