"""A scheduler that leads and is cut off, and comes back: each slot one run, whoever leads (SCENARIOS 3)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import pytest

from fyke.lab.site import SiteConfig
from tests.e2e.town import Role
from tests.hosts.country import Country, Make
from tests.hosts.network import DATABASE, REDIS

pytestmark = [pytest.mark.crash_long, pytest.mark.serial]

LEASE_S: Final = 2
PERIOD_MS: Final = 2_000
EACH_TWO_SECONDS: Final = "*/2 * * * * *"
BACK_S: Final = 15
# The lead is kept in Redis where there is one: without the database, too, a leader goes on leading, and does nothing.
CUTS: Final = {"redis": (REDIS,), "the database": (DATABASE,), "all": ()}


@pytest.mark.parametrize(
    ("pair", "lost"),
    [*(("redis and postgres", lost) for lost in CUTS), ("sql on mariadb", "all")],
)
async def test_a_leader_that_is_cut_off_doubles_no_slot_and_misses_none(country: Make, pair: str, lost: str) -> None:
    here = await country(pair, SiteConfig(items=5), cron=EACH_TWO_SECONDS)
    first, second = here.network.add("first"), here.network.add("second")
    leader = await here.start(first, "scheduler")
    await here.until(partial(runs_since, here, 0, 2), 60)
    other = await here.start(second, "scheduler")
    await here.start(second, "worker")
    await here.until(partial(stands_by, here, "second"), 60)

    first.lose(*CUTS[lost])
    lost_at = await here.now()
    await asyncio.sleep(3 * LEASE_S)
    if lost != "the database":
        # The lead was the lost one's: it is free after its lease, and the next slots are the other's.
        await here.until(partial(runs_since, here, lost_at + 3 * LEASE_S * 1_000, 2), 20)
    first.find(*CUTS[lost])
    found_at = await here.now()
    await here.until(partial(runs_since, here, found_at, 3), BACK_S)
    await alone(here, other, leader)
    await here.stop()

    runs = await here.ask("SELECT slot, covers_from FROM run WHERE started_by = 'cron'")
    slots = sorted(slot for slot, _ in runs)
    assert slots == sorted(set(slots))
    covered = sorted(slot for last, first_ in runs for slot in range(first_ or last, last + 1, PERIOD_MS))
    assert covered == list(range(covered[0], covered[-1] + 1, PERIOD_MS))


async def alone(here: Country, other: Role, leader: Role) -> None:
    """The one that was cut off plans on with the same pid, once the other is gone."""
    other.tell(15)
    assert await other.ended(20) == 0, here.town.told()
    assert leader.alive, here.town.told()
    since = await here.now()
    await here.until(partial(runs_since, here, since, 2), BACK_S)


async def runs_since(here: Country, moment: int, number: int) -> bool:
    ((found,),) = await here.ask(f"SELECT count(*) FROM run WHERE slot > {int(moment)}")
    return int(found) >= number


async def stands_by(here: Country, host: str) -> bool:
    """Its scheduler has said that it lives."""
    return (host,) in await here.ask("SELECT host FROM worker WHERE pool = 'scheduler'")
