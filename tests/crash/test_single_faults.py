"""Each call of a small scenario × each fault: after recovery every promise holds (CRASH-WINDOWS, all single faults)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.calls import NEVER_FAULTY
from tests.crash.places import FilePlace, Place
from tests.crash.playing import play_case
from tests.crash.scenario import CHANGES, FIRST, READS, SECOND, Case, broken_promises, play, points
from tests.crash.world import World


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_a_fault_in_the_first_walk_breaks_no_promise(case: Case, fresh_file: Callable[[], FilePlace]) -> None:
    play_case(case, fresh_file)


@pytest.mark.parametrize("case", SECOND, ids=str)
def test_a_fault_in_the_walk_after_an_edit_breaks_no_promise(case: Case, fresh_file: Callable[[], FilePlace]) -> None:
    play_case(case, fresh_file)


def test_without_faults_all_is_fetched_once_and_every_point_is_met(place: Place) -> None:
    async def main() -> World:
        world = await play(place, {})
        assert await broken_promises(world) == []
        return world

    world = place.run(main())
    details = {url.rsplit("/", 1)[1]: count for url, count in world.fetches.items() if "/detail/" in url}
    # c is gone (three attempts a time, and listed again after the edit), b was busy once, d was edited.
    assert details == {"a": 1, "b": 2, "c": 6, "d": 2, "e": 1, "f": 1}
    counts = world.processes[0].calls.counts
    assert set(counts) - NEVER_FAULTY == set(READS) | set(CHANGES)
    assert [point for point in points(READS | CHANGES) if counts[point[0]] < point[1]] == []
