"""Windows of Redis that no fault at one call can show: scripts that break half-way, holds that are lost
(CRASH-WINDOWS 6, 14, 38).
"""

from __future__ import annotations

import pytest

from tests.crash import scenes
from tests.crash.asking import details
from tests.crash.pair import Pair, altered
from tests.crash.scenario import broken_balance
from tests.crash.site import HOST
from tests.crash.world import Fault, World

# A script that breaks keeps what it has written, as one does that meets a bug or a key of another kind.
BREAKS = "if call('INCR', P .. 'broken') <= $N then error('half-way') end\n"
HOLD_S = 60


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize(
    "before",
    [
        "local seq, sets, size",  # a write is counted
        "if size > 0 then call('HSET', P .. 't', unpack(sets)) end",  # a number is taken
        "show_entered()\nreturn answer({new, healed})",  # there, in no place
        "return answer({new, healed})",  # all is done
    ],
)
def test_an_offer_that_fails_half_way_is_made_good(before: str, times: int, pair: Pair) -> None:
    """Row 6."""
    assert pair.run(broken_half_way(pair, "offer", before, times)) == []


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize(
    "before",
    [
        "local ours, scores",  # its entry is acknowledged and its lease gone, it is in no place
        "if #scores > 0 then",  # and its attempts are written
        "return answer({ours, foreign})",  # all is done
    ],
)
def test_a_retry_that_fails_half_way_is_made_good(before: str, times: int, pair: Pair) -> None:
    """Row 14."""
    assert pair.run(broken_half_way(pair, "retry", before, times)) == []


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize(
    "before", ["if #ended > 0 then", "unpark_freed()\nlocal ours", "return answer({ours, foreign})"]
)
def test_an_acknowledgement_that_fails_half_way_is_made_good(before: str, times: int, pair: Pair) -> None:
    """As row 14: the lease is gone, the task in no place; or the task is gone, too."""
    assert pair.run(broken_half_way(pair, "finish", before, times)) == []


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize(
    "before", ["if #ends > 0 then", "local missing, rounds", "local wait = "], ids=["streamed", "leased", "delivered"]
)
def test_a_lease_that_fails_half_way_is_made_good(before: str, times: int, pair: Pair) -> None:
    """As row 7."""
    assert pair.run(broken_half_way(pair, "lease", before, times)) == []


async def broken_half_way(pair: Pair, name: str, before: str, times: int) -> list[str]:
    broken = BREAKS.replace("$N", str(times)) + before
    pair.scripts = altered(pair.scripts, {before: broken}, name)
    world = World(pair)
    await world.live()
    assert int(pair.server.get(pair.key("broken"))) > 0
    return await broken_balance(world) + scenes.differing("fetches", details(world), scenes.QUIET)


def test_a_hold_outlives_a_frontier_that_was_wiped(pair: Pair) -> None:
    """Row 38: the ledger remembers it, and it is set before anything can be leased."""
    assert pair.run(held_and_wiped(pair)) == []


async def held_and_wiped(pair: Pair) -> list[str]:
    world = World(pair)
    world.site.busy_once, world.site.busy_s = {f"{HOST}/list/1"}, HOLD_S
    await world.live({("frontier.lease", 6): Fault.WIPED})
    first, second, *_ = [step.at for step in world.trace if step.name == "fetcher.fetch"]
    found = scenes.differing("hit", bool(world.hit), True) + await broken_balance(world)
    found += scenes.differing("fetches", details(world), {"a": 1, "b": 1, "c": 3, "d": 1, "e": 1})
    return found + scenes.differing("held", second - first >= HOLD_S, True)
