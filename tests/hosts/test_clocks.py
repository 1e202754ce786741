"""Hosts whose wall clocks are an hour apart: the servers' clock decides what is due (CRASH-WINDOWS 44)."""

from __future__ import annotations

import json
from functools import partial
from typing import Final

import pytest

from fyke.lab.site import SiteConfig
from tests.hosts.country import Country, Make
from tests.hosts.test_cut_off_schedulers import EACH_TWO_SECONDS, PERIOD_MS, runs_since, stands_by

pytestmark = [pytest.mark.crash_long, pytest.mark.serial]

HOUR_MS: Final = 3_600_000
ITEMS: Final = 40
PAIRS: Final = ("redis and postgres", "sql on postgres", "sql on mariadb")


@pytest.mark.parametrize("pair", PAIRS)
async def test_hosts_an_hour_ahead_and_an_hour_behind_take_no_slot_early_and_keep_their_leases(
    country: Make, pair: str
) -> None:
    """A lease is 2 s, a page 3 s: a clock that decided would have each fetched again, or kept for an hour."""
    config = SiteConfig(items=ITEMS, latency_ms=3_000)
    here = await country(pair, config, cron=EACH_TWO_SECONDS, concurrency=ITEMS // 2)
    ahead = here.network.add("ahead", clock_off=HOUR_MS)
    behind = here.network.add("behind", clock_off=-HOUR_MS)
    for host in (ahead, behind):
        await here.start(host, "scheduler")
        await here.until(partial(stands_by, here, host.name), 60)
        await here.start(host, "worker")
    await here.town.stored(ITEMS, 120)
    await here.until(partial(runs_since, here, await here.now(), 2), 30)
    await here.until(partial(both_said_their_clock, here), 30)
    doctor = await here.start(ahead, "doctor", "--json")
    await doctor.ended(60)
    here.town.roles.remove(doctor)
    await here.stop()

    assert set(here.town.detail_hits().values()) == {1}
    # A run has a slot, and was opened at or after it, by the ledger's clock, which is this host's.
    runs = await here.ask("SELECT slot, started_at FROM run")
    assert len(runs) >= 3
    assert all(started - slot >= 0 for slot, started in runs), runs
    assert all(started - slot < HOUR_MS // 2 for slot, started in runs), runs
    slots = [slot for slot, _ in runs]
    assert len(slots) == len(set(slots))
    assert all(slot % PERIOD_MS == 0 for slot in slots)
    assert {worker.partition(":")[0] for (worker,) in await here.ask("SELECT worker FROM visit")} == {"ahead", "behind"}
    checks = [(check["name"], check["level"], check["text"]) for check in json.loads(doctor.said)]
    told = [(level, text) for name, level, text in checks if name == "clock"]
    assert any(level == "fail" and "the ledger's server is 3" in text for level, text in told), checks
    for name in ("ahead", "behind"):
        assert sum(name in text.partition(" ")[0] for _, text in told) >= 2, told
    await here.check(ITEMS)


async def both_said_their_clock(here: Country) -> bool:
    hosts = {host for (host,) in await here.ask("SELECT host FROM worker WHERE pool = 'text'")}
    return hosts == {"ahead", "behind"}
