"""Each call of a small scenario × each fault: after recovery every promise holds (CRASH-WINDOWS, all single faults)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.scenario import ALL_POINTS, broken_promises, play
from tests.crash.world import Fault, Point


@pytest.mark.parametrize("fault", list(Fault), ids=str)
@pytest.mark.parametrize("point", ALL_POINTS, ids=lambda point: f"{point[0]}#{point[1]}")
async def test_a_fault_at_a_call_breaks_no_promise(point: Point, fault: Fault, tmp_path: Path) -> None:
    world = await play(tmp_path / "ledger.db", {point: fault})
    assert await broken_promises(world) == []


async def test_without_faults_all_is_fetched_once_and_every_point_is_met(tmp_path: Path) -> None:
    world = await play(tmp_path / "ledger.db", {})
    assert await broken_promises(world) == []
    details = {url.rsplit("/", 1)[1]: count for url, count in world.fetches.items() if "/detail/" in url}
    # c is gone (three attempts), b answered 503 once, d was edited between the walks.
    assert details == {"a": 1, "b": 2, "c": 3, "d": 2, "e": 1, "f": 1}
