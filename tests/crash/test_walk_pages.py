"""How a walk's pages are written, and a walk resumed where its page is gone (CRASH-WINDOWS 34 and 35)."""

from __future__ import annotations

from fyke.model import Request
from tests.crash.asking import ask, passes
from tests.crash.places import Place
from tests.crash.site import HOST, PlayedSite
from tests.crash.world import Fault, World


class EndingSite(PlayedSite):
    """List pages past the end are 404."""

    def answer(self, request: Request) -> tuple[int, dict[str, str], str]:
        status, headers, text = super().answer(request)
        gone = request.url.startswith(f"{HOST}/list/") and '"rows": []' in text
        return (404, {}, "") if gone else (status, headers, text)


def test_each_page_is_written_under_its_own_number_and_look(place: Place) -> None:
    async def scene() -> None:
        world = World(place)
        world.site.titles = {f"k{n}": f"title {n}" for n in range(7)}
        world.site.blank[2], world.site.busy_once = 1, set()
        await world.live()
        assert passes(world) == ["complete"]
        numbers = ask(world, "SELECT number, look FROM page ORDER BY seq")
        assert numbers == [(1, 0), (2, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1)]

    place.run(scene())


def test_a_walk_resumed_where_its_page_is_gone_begins_at_page_one(place: Place) -> None:
    """So many rows were withdrawn meanwhile that there is no such page: that is not the end of what we were to read."""

    async def scene() -> None:
        world = World(place)
        world.site = EndingSite()
        world.site.busy_once, world.site.gone = set(), set()
        world.site.titles = {key: key for key in ("a1", "a2", "a3")}
        await world.live()
        new = [f"n{number}" for number in range(1, 9)]
        world.site.titles = {key: key for key in (*new, "a1", "a2", "a3")}
        await world.live({("ledger.page", 3): Fault.DIE_BEFORE})
        assert passes(world) == ["complete", "running"]
        world.site.withdraw(*new)
        await world.recover()
        assert passes(world) == ["complete", "complete"]

    place.run(scene())
