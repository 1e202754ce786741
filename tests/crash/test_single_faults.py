"""Each call of a small scenario × each fault: after recovery every promise holds (CRASH-WINDOWS, all single faults)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.scenario import AFTER_EDIT, CHANGES, FAULTS_OF_READS, READS, broken_promises, play, points
from tests.crash.virtual import run_virtual, run_virtual_again
from tests.crash.world import NEVER_FAULTY, Fault, Point, World

FIRST = [(point, fault) for point in points(CHANGES) for fault in Fault]
FIRST += [(point, fault) for point in points(READS) for fault in FAULTS_OF_READS]
SECOND = [(point, fault) for point in points(AFTER_EDIT) for fault in Fault]


def name_of(value: object) -> str:
    return f"{value[0]}#{value[1]}" if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize(("point", "fault"), FIRST, ids=name_of)
def test_a_fault_in_the_first_walk_breaks_no_promise(point: Point, fault: Fault, ledger_file: Path) -> None:
    async def main(file: Path) -> None:
        world = await play(file, {point: fault})
        assert world.hit == [(point, fault)]
        assert await broken_promises(world) == []

    run_virtual_again(main, ledger_file)


@pytest.mark.parametrize(("point", "fault"), SECOND, ids=name_of)
def test_a_fault_in_the_walk_after_an_edit_breaks_no_promise(point: Point, fault: Fault, ledger_file: Path) -> None:
    async def main(file: Path) -> None:
        world = await play(file, {}, after_edit={point: fault})
        assert world.hit == [(point, fault)]
        assert await broken_promises(world) == []

    run_virtual_again(main, ledger_file)


def test_without_faults_all_is_fetched_once_and_every_point_is_met(ledger_file: Path) -> None:
    async def main() -> World:
        world = await play(ledger_file, {})
        assert await broken_promises(world) == []
        return world

    world = run_virtual(main())
    details = {url.rsplit("/", 1)[1]: count for url, count in world.fetches.items() if "/detail/" in url}
    # c is gone (three attempts a time, and listed again after the edit), b was busy once, d was edited.
    assert details == {"a": 1, "b": 2, "c": 6, "d": 2, "e": 1, "f": 1}
    counts = world.processes[0].calls.counts
    assert set(counts) - NEVER_FAULTY == set(READS) | set(CHANGES)
    assert [point for point in points(READS | CHANGES) if counts[point[0]] < point[1]] == []
