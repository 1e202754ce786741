"""The list of crash windows is whole: each row is hit by a case of the enumeration, or by tests of its own."""

from __future__ import annotations

import pytest

from tests.crash.pair import Pair
from tests.crash.playing import play_case
from tests.crash.scenario import ALL, broken_promises, play
from tests.crash.test_failure_table import ROWS, names_of_tests
from tests.crash.windows import WINDOWS, Enumerated, Own
from tests.crash.world import World

ENUMERATED = {row: window for row, window in WINDOWS.items() if isinstance(window, Enumerated)}


def test_each_row_stands_there_with_what_hits_it() -> None:
    assert list(WINDOWS) == list(ROWS)


def test_each_test_that_the_list_names_exists() -> None:
    named = {name for window in WINDOWS.values() if isinstance(window, Own) for name in window.tests}
    assert named - names_of_tests() == set()


@pytest.mark.parametrize("row", ENUMERATED)
def test_a_case_of_the_enumeration_meets_the_window(row: int, the_pair: Pair) -> None:
    window = ENUMERATED[row]
    assert window.example in ALL
    assert window.mark(play_case(window.example, the_pair.emptied).trace)


def test_a_life_without_faults_meets_none_of_them(pair: Pair) -> None:
    """Else a mark would say nothing."""

    async def scene() -> World:
        world = await play(pair, {})
        assert await broken_promises(world) == []
        return world

    trace = pair.run(scene()).trace
    assert [row for row, window in ENUMERATED.items() if window.mark(trace)] == []
