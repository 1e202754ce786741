"""A host that is cut off from servers for longer than the lease, and comes back (S038, issue 3.4)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import pytest

from fyke.lab.site import SiteConfig
from tests.hosts.country import Country, Make
from tests.hosts.network import DATABASE, REDIS, Host

pytestmark = [pytest.mark.crash_long, pytest.mark.serial]

SLOTS: Final = 4
LEASE_S: Final = 2
CUT_S: Final = 3 * LEASE_S
BACK_S: Final = 15
CUTS: Final = {
    "redis": (REDIS,),
    "the database": (DATABASE,),
    "both": (REDIS, DATABASE),
    "all": (),
}
ITEMS: Final = 900


@pytest.mark.parametrize(
    ("pair", "lost"),
    [
        *(("redis and postgres", lost) for lost in CUTS),
        ("sql on postgres", "the database"),
        ("sql on mariadb", "the database"),
    ],
)
async def test_a_worker_that_is_cut_off_loses_nothing_and_works_again(country: Make, pair: str, lost: str) -> None:
    """Silence, no refusal: connections stay half open. The other host's worker goes on; the pid stays."""
    here = await country(pair, SiteConfig(items=ITEMS, latency_ms=250), concurrency=SLOTS)
    first, second = here.network.add("first"), here.network.add("second")
    cut = await here.start(first, "worker")
    await here.start(second, "worker")
    await here.start(second, "reconciler")
    await here.open_run()
    began = 0
    await here.until(partial(both_work, here, (first, second), began), 60)

    first.lose(*CUTS[lost])
    lost_at = await here.now()
    await asyncio.sleep(CUT_S)
    # After its lease nobody waits for what it held, and it has begun nothing that counts.
    other = await here.visits(second, lost_at + LEASE_S * 1_000)
    await here.until(partial(more_visits, here, second, lost_at, other + SLOTS), 20)
    assert await here.visits(first, lost_at + 2 * LEASE_S * 1_000) == 0
    first.find(*CUTS[lost])
    found_at = await here.now()
    assert cut.alive, here.town.told()
    await here.until(partial(more_visits, here, first, found_at, 1), BACK_S)
    await here.town.stored(ITEMS, 120)
    assert all(role.alive for role in here.town.roles), here.town.told()
    await here.stop()
    await here.check(ITEMS)
    hits = here.town.detail_hits()
    assert len(hits) == ITEMS
    # What it held is fetched once more by others, and what it sent on its way.
    assert sum(hits.values()) - ITEMS <= 2 * SLOTS


async def both_work(here: Country, hosts: tuple[Host, ...], since: int) -> bool:
    return all([await here.visits(host, since) >= 2 * SLOTS for host in hosts])


async def more_visits(here: Country, host: Host, since: int, number: int) -> bool:
    return await here.visits(host, since) >= number
