"""SCENARIOS 5, 6, 9, 12 and 24 as they are on every pair of ledger and frontier: time, budgets, and what is told."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from typing import Final

from fyke.app import Stores, open_stores
from fyke.lab.site import RunningSite
from fyke.model import Listing, NewRun, PageCommit
from fyke.testing.ledger_steps import LANE, make_entry, make_source
from tests.scenarios.collecting import Collecting
from tests.scenarios.storing import balanced, path_of

LATE_BY_MS: Final = 4_000  # a busy machine's own delays


async def slow_page(site: RunningSite, here: Collecting) -> None:
    """SCENARIOS 5: the lease is renewed while the page is slow; one request, one row."""
    report = await here.once()
    assert report.problems == []
    assert list(site.hits()["detail"].values()) == [1]
    assert await here.look("SELECT count(*) FROM event WHERE kind = 'worker_died'") == [(0,)]
    await balanced(here, rows=1)


async def empty_list(site: RunningSite, here: Collecting) -> None:
    """SCENARIOS 6: the source, 0 and the usual number are named, and the run is no success."""
    assert (await here.once()).problems == []
    site.control(remove=20)
    report = await here.once()
    assert any("suspicious" in problem for problem in report.problems)
    ((message,),) = await here.look("SELECT message FROM event WHERE kind = 'suspicious'")
    assert "lab" in message
    assert "20" in message
    assert "0" in message or "no entries" in message
    await balanced(here, rows=20)


async def renamed_title(site: RunningSite, here: Collecting) -> None:
    """SCENARIOS 6: pages whose title element is renamed become misfits; the fall of the fill rate is an event."""
    assert (await here.once()).problems == []
    site.control(detail_layout=2, add=12)
    report = await here.once()
    assert report.new_dead == 12
    assert await here.look("SELECT count(*), count(title) FROM notices") == [(20, 20)]
    assert {outcome for (outcome,) in await here.look("SELECT outcome FROM dead")} == {"misfit"}
    ((fall,),) = await here.look("SELECT message FROM event WHERE kind = 'coverage'")
    assert "title" in fall
    assert "100" in fall
    assert "0" in fall


async def shared_budget(site: RunningSite, here: Collecting, gap_ms: int) -> None:
    """SCENARIOS 12: four at once, each with handles of its own; the site sees no two arrivals nearer than the gap."""
    await asyncio.gather(*(here.once() for _ in range(4)))
    times = [ms for ms, _, _ in site.hits()["arrivals"]]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    # The site's clock sees the start a little later than the grant: a few ms either way.
    assert min(gaps) >= gap_ms - 30
    await balanced(here, rows=site.site.config.items)


async def waited_for(site: RunningSite, here: Collecting, seconds: int) -> None:
    """SCENARIOS 5 and 24: a task that must wait much longer than a lease is started once, when its time has come."""
    truth = site.truth()
    path = path_of(truth, truth["ids"][0])
    site.control(script={path: ["429"]})
    report = await here.once()
    assert report.problems == []
    arrivals = site.hits()["arrivals"]
    first, second = [ms for ms, found, _ in arrivals if found == path]
    assert seconds * 1_000 - 100 <= second - first <= seconds * 1_000 + LATE_BY_MS
    # No request at all reached the site for the time that it named.
    assert min(ms - first for ms, _, _ in arrivals if ms > first) >= seconds * 1_000 - 100
    await balanced(here, rows=site.site.config.items)


async def producers(here: Collecting, number: int, ids: int, batch: int) -> None:
    """SCENARIOS 9: each offers the same ids in random order; each id is new once, and a task once."""
    async with open_stores(here.settings()) as stores:
        await stores.ledger.apply_source(make_source())
        run = await stores.ledger.open_run(
            NewRun("gov", await stores.ledger.now(), [Listing(f"list{one}") for one in range(number)], [LANE] * number)
        )
        found = await asyncio.gather(
            *(_produce(stores, task.ref, seed, ids, batch) for seed, task in enumerate(run.tasks))
        )
        assert sum(new for new, _ in found) == ids
        assert sum(known for _, known in found) == (number - 1) * ids
        stats = await stores.frontier.stats()
        assert (stats.ready, stats.delayed, stats.leased) == (ids, 0, 0)
    assert await here.look("SELECT count(*), count(DISTINCT key) FROM item") == [(ids, ids)]


async def _produce(stores: Stores, pass_id: int, seed: int, ids: int, batch: int) -> tuple[int, int]:
    """New and known, as the gate says."""
    order, new, known = list(range(ids)), 0, 0
    Random(seed).shuffle(order)
    lease = await stores.ledger.start_pass(pass_id, f"w{seed}")
    assert lease is not None
    for start in range(0, ids, batch):
        entries = [make_entry(f"k{one:04}") for one in order[start : start + batch]]
        now = await stores.ledger.now()
        page = PageCommit(start // batch + 1, 0, f"https://{LANE}/list/{start}", now, entries, [], b"")
        result = await stores.ledger.page(pass_id, lease.fence, page)
        new, known = new + result.new, known + result.known
        await stores.frontier.offer(result.due)
        # Whoever was told nothing offers again (P2): it makes no second task.
        await stores.frontier.offer(result.due)
    return new, known
