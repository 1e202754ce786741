"""Windows of a walk, on lists that move while they are read (CRASH-WINDOWS 1, 28, 31-35)."""

from __future__ import annotations

import pytest

from tests.crash import scenes
from tests.crash.asking import ask, details, passes, states
from tests.crash.places import Place
from tests.crash.scenario import broken_balance, broken_promises
from tests.crash.site import HOST
from tests.crash.world import Fault, World


def listed(world: World, page: int) -> int:
    return world.fetches[f"{HOST}/list/{page}"]


def test_a_killed_walk_goes_on_at_its_last_page(place: Place) -> None:
    """Row 1."""

    async def scene() -> None:
        world = World(place)
        world.site.busy_once = set()
        world.site.titles = {f"k{n:02}": f"title {n}" for n in range(12)}
        await world.live({("ledger.page", 3): Fault.DIE_BEFORE})
        assert [listed(world, page) for page in (1, 2, 3, 4)] == [1, 1, 1, 0]
        await world.recover()
        # Page two is read once more to find the place, and each page in the second look.
        assert [listed(world, page) for page in (1, 2, 3, 4)] == [2, 3, 3, 2]
        assert set(states(world)) == set(world.site.titles)
        assert passes(world) == ["complete"]

    place.run(scene())


@pytest.mark.parametrize("gone", [("e",), ("d", "c")])
def test_a_row_that_moves_to_a_page_already_read_is_not_missed(gone: tuple[str, ...], place: Place) -> None:
    """Row 28: rows are withdrawn while page two is asked for."""

    async def scene() -> None:
        world = World(place)
        world.site.busy_once = set()
        world.site.after_list = lambda page: world.site.withdraw(*gone) if page == 1 else None
        await world.live()
        assert set(states(world)) == {"a", "b", "c", "d", "e"}
        assert passes(world) == ["complete"]

    place.run(scene())


def test_rows_that_come_while_a_list_is_read_are_taken_in_the_same_walk(place: Place) -> None:
    """Row 28: rows are added on top."""

    async def scene() -> None:
        world = World(place)
        world.site.busy_once = set()
        new = iter("xyz")

        def add(page: int) -> None:
            if page == 1 and (key := next(new, "")):
                world.site.titles = {key: f"new {key}", **world.site.titles}

        world.site.after_list = add
        await world.live()
        assert {"x", "y"} <= set(states(world))
        await world.recover()
        assert set(states(world)) == set(world.site.titles) == set("abcdexyz")
        assert set(passes(world)) == {"complete"}

    place.run(scene())


def test_two_listers_on_one_pass_leave_one_walk(place: Place) -> None:
    """Row 31: one is paused at its second page, the other finishes, the first wakes."""

    async def scene() -> None:
        world = World(place)
        await world.live({("ledger.page", 2): Fault.STOP_BEFORE})
        (fence, pages, entries) = ask(world, "SELECT fence, pages, entries FROM pass")[0]
        assert ask(world, "SELECT count(*), sum(entries) FROM page") == [(pages, entries)]
        assert fence >= 2
        assert passes(world) == ["complete"]
        await world.recover()
        world.site.edit()
        await world.recover()
        assert await broken_promises(world) == []

    place.run(scene())


@pytest.mark.parametrize("fault", [Fault.DIE_BEFORE, Fault.NO_EFFECT, Fault.STOP_BEFORE])
def test_a_walk_that_was_cut_before_its_end_ends_once(fault: Fault, place: Place) -> None:
    """Row 32."""

    async def scene() -> None:
        world = World(place)
        await world.live({("ledger.end_pass", 1): fault})
        if fault is Fault.DIE_BEFORE:
            assert passes(world) == ["running"]
            await world.recover()
        assert passes(world) == ["complete"]
        assert ask(world, "SELECT count(*) FROM stretch") == [(1,)]
        assert await broken_balance(world) == []

    place.run(scene())


def test_validators_are_sent_only_after_a_walk_that_kept_its_entries(place: Place) -> None:
    """Row 33."""

    async def scene() -> None:
        world = World(place)
        world.site.etag = '"v1"'
        await world.live({("ledger.end_pass", 1): Fault.DIE_BEFORE})
        assert ask(world, "SELECT etag FROM listing") == [("",)]
        assert len(states(world)) == 5
        world.site.edit()  # with the same validator: asked with it, the site would say that nothing has changed
        await world.recover()
        # The walk went on after page one, so it knows no validator of what it has read.
        assert ask(world, "SELECT etag FROM listing") == [("",)]
        await world.recover()
        assert "f" in states(world)
        assert ask(world, "SELECT etag FROM listing") == [('"v1"',)]
        pages, asked = ask(world, "SELECT count(*) FROM page"), listed(world, 1)
        await world.recover()
        assert (ask(world, "SELECT count(*) FROM page"), listed(world, 1)) == (pages, asked + 1)
        assert passes(world) == ["complete"] * 3

    place.run(scene())


def test_a_blank_page_in_the_middle_is_read_again(place: Place) -> None:
    """Row 34."""

    async def scene() -> None:
        world = World(place)
        world.site.titles = {f"k{n:02}": f"title {n}" for n in range(12)}
        world.site.blank[2] = 1
        await world.live()
        assert passes(world) == ["complete"]
        assert set(states(world)) == set(world.site.titles)

    place.run(scene())


def test_a_blank_page_in_the_middle_that_stays_blank_is_no_complete_walk(place: Place) -> None:
    """Row 34: the hole is kept, and the next good walk brings what was on the page."""

    async def scene() -> None:
        world = World(place)
        world.site.titles = {f"k{n:02}": f"title {n}" for n in range(12)}
        world.site.blank[2] = 2
        await world.live()
        assert passes(world) == ["gap"]
        assert ask(world, "SELECT count(*) FROM hole WHERE closed_at IS NULL") == [(1,)]
        assert details(world)["k06"] == 1

    place.run(scene())


def test_a_walk_resumed_on_a_list_whose_pages_have_shifted_begins_at_page_one(place: Place) -> None:
    """Row 35."""
    assert place.run(scenes.resumed_after_a_shift(place)) == []
