"""SCENARIOS 14, 17, 18 and 20 as they are on every pair of ledger and frontier: what fails once is not lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

from fyke.app import Stores, apply_folder, open_database, open_stores
from fyke.lab.site import RunningSite
from fyke.model import (
    Committed,
    DeadFilter,
    Delivery,
    Entry,
    LanePolicy,
    Listing,
    NewRun,
    PageCommit,
    PassEnd,
    PassState,
)
from fyke.pipeline.auditor import audit, repair
from fyke.testing.effects import install_effect_log, written_twice
from fyke.testing.ledger_steps import make_entry, make_result, make_source
from tests.scenarios.collecting import Collecting

REFUSAL = "budget out of range"
# A check on the row of one key, in the words of each database.
STRICT = {
    "sqlite": [
        "CREATE TRIGGER strict BEFORE INSERT ON notices WHEN NEW._key = '{key}'"
        f" BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    ],
    "postgres": [
        "CREATE FUNCTION strict() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW._key = ''{key}'' THEN"
        f" RAISE EXCEPTION ''{REFUSAL}'' USING ERRCODE = ''23514''; END IF; RETURN NEW; END'",
        "CREATE TRIGGER strict BEFORE INSERT ON notices FOR EACH ROW EXECUTE FUNCTION strict()",
    ],
    "mysql": [
        "CREATE TRIGGER strict BEFORE INSERT ON notices FOR EACH ROW BEGIN IF NEW._key = '{key}' THEN"
        f" SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 4025, MESSAGE_TEXT = '{REFUSAL}'; END IF; END"
    ],
}


def path_of(truth: dict[str, Any], key: str) -> str:
    return "/" + str(truth["records"][key]["url"]).split("/", 3)[3]


async def gone_three_times(site: RunningSite, here: Collecting) -> None:
    """SCENARIOS 14: 19 rows and a dead letter; after replay 20 rows."""
    truth = site.truth()
    site.control(script={path_of(truth, truth["ids"][6]): ["404", "404", "404"]})
    report = await here.once()
    assert (len(await here.look("SELECT _key FROM notices")), report.new_dead) == (19, 1)
    async with open_stores(here.settings()) as stores:
        (letter,) = await stores.ledger.dead_letters(DeadFilter())
        assert (letter.outcome, letter.attempts) == ("not_found", 3)
        count, tasks = await stores.ledger.replay(DeadFilter(reason="not_found"))
        assert count == 1
        await stores.frontier.offer(tasks)
    await here.once()
    assert await here.look("SELECT state, count(*) FROM item GROUP BY state") == [("stored", 20)]
    await balanced(here, rows=20)


async def orphan(here: Collecting) -> None:
    """SCENARIOS 14: what is known without a row, a task or a letter is named; repair makes it a row."""
    await here.once()
    ((rows,),) = await here.look("SELECT count(*) FROM notices")
    ((item,),) = await here.look("SELECT min(id) FROM item")
    await here.do(f"DELETE FROM notices WHERE _item_id = {item}", f"DELETE FROM version WHERE item_id = {item}")
    async with open_stores(here.settings()) as stores:
        assert (await audit(stores.ledger, stores.frontier)).unaccounted == 1
        findings, after = await repair(stores.ledger, stores.frontier)
        assert any(finding.mended for finding in findings)
        assert after.unaccounted == 0
    await here.once()
    await balanced(here, rows=rows)


async def refused_row(site: RunningSite, here: Collecting, items: int) -> None:
    """SCENARIOS 17: the bad row is a dead letter with the database's message; all others are stored."""
    bad = site.truth()["ids"][3]
    async with open_stores(here.settings()) as stores:
        await apply_folder(stores, strict=True)
    async with open_database(here.settings()) as database:
        statements = [text.format(key=bad) for text in STRICT[database.dialect]]
    await here.do(*statements)
    await here.once()
    ((key, outcome, reason),) = await here.look("SELECT key, outcome, reason FROM dead")
    assert (key, outcome) == (bad, "row_refused")
    assert REFUSAL in reason
    states = dict(await here.look("SELECT state, count(*) FROM item GROUP BY state"))
    assert states == {"stored": items - 1, "dead": 1}
    await balanced(here, rows=items - 1)


async def second_run(site: RunningSite, here: Collecting) -> None:
    """SCENARIOS 18: 20 details, then 3 new and 1 changed; 23 rows, one of them in version 2."""
    await here.once()
    assert sum(site.hits()["detail"].values()) == 20
    site.control(add=3, edit=[site.truth()["shown"][5]])
    site.reset_hits()
    report = await here.once()
    assert report.problems == []
    assert sum(site.hits()["detail"].values()) == 4
    assert sum(site.hits()["list"].values()) >= 1
    versions = Counter(await here.look("SELECT _version FROM notices"))
    assert versions == {(1,): 22, (2,): 1}
    await balanced(here, rows=23)


async def balanced(here: Collecting, *, rows: int) -> None:
    """P2 and P3 at the end: as many rows as that, the audit balances, the frontier is empty, no key twice."""
    async with open_stores(here.settings()) as stores:
        report = await audit(stores.ledger, stores.frontier)
        assert report.findings == []
        assert (report.balanced, report.stored) == (True, rows)
        stats = await stores.frontier.stats()
        assert (stats.ready, stats.delayed, stats.leased) == (0, 0, 0)
    assert await here.look("SELECT count(*), count(DISTINCT _key) FROM notices") == [(rows, rows)]


# --- SCENARIOS 20 ---

WRITERS, KEYS, BATCHES, BATCH = 8, 2_000, 10, 100
LANES = [LanePolicy(f"host{number}.example", gap=0, jitter=0, concurrency=200) for number in range(WRITERS)]


async def eight_writers(here: Collecting) -> None:
    """SCENARIOS 20: 8 writers list and collect 2,000 shared keys, in batches in random order with repeats inside."""
    async with open_stores(here.settings()) as stores:
        await stores.ledger.apply_source(make_source())
        await stores.frontier.configure(LANES)
        run = await stores.ledger.open_run(
            NewRun(
                "gov",
                await stores.ledger.now(),
                [Listing(f"list{number}") for number in range(WRITERS)],
                [lane.lane for lane in LANES],
            )
        )
        passes = [task.ref for task in run.tasks]
    async with open_database(here.settings()) as database:
        await database.write(lambda connection: install_effect_log(connection, "gov_procure"))
    answers = await asyncio.gather(*(_writer(here, number, pass_id) for number, pass_id in enumerate(passes)))
    assert sum(new for new, _ in answers) == KEYS
    async with open_stores(here.settings()) as stores:
        await _collect_the_rest(stores)
        report = await audit(stores.ledger, stores.frontier)
        assert report.findings == []
        assert (report.listed, report.stored, report.dead, report.open) == (KEYS, KEYS, 0, 0)
        assert (await stores.frontier.stats()).ready == 0
    async with open_database(here.settings()) as database:
        assert await database.read(written_twice) == []


async def _writer(here: Collecting, number: int, pass_id: int) -> tuple[int, int]:
    """One process: it lists pages of random keys, and collects between them what the frontier gives it."""
    random, new, stored = Random(number), 0, 0
    async with open_stores(here.settings()) as stores:
        lease = await stores.ledger.start_pass(pass_id, f"w{number}")
        assert lease is not None
        for batch in range(BATCHES):
            # The last pages show what no other has shown: each key is on some page.
            mine = range(number * KEYS // WRITERS, (number + 1) * KEYS // WRITERS)
            chosen = [random.randrange(KEYS) for _ in range(BATCH)]
            if batch >= BATCHES - 3:
                start = (batch - (BATCHES - 3)) * BATCH
                chosen = [*mine][start : start + BATCH] or chosen
            entries = [_entry(key) for key in chosen]
            result = await stores.ledger.page(pass_id, lease.fence, _page(batch, entries, await stores.ledger.now()))
            new += result.new
            await stores.frontier.offer(result.due)
            stored += await _collect(stores, f"w{number}", random)
        await stores.ledger.end_pass(pass_id, lease.fence, PassEnd(PassState.COMPLETE, newest_key="k", oldest_key="k"))
    return new, stored


def _entry(number: int) -> Entry:
    lane = LANES[number % WRITERS].lane
    return make_entry(f"k{number:04}", url=f"https://{lane}/{number}", lane=lane)


async def _collect(stores: Stores, worker: str, random: Random) -> int:
    leased = await stores.frontier.lease(64, 30_000, worker=worker)
    deliveries: list[Delivery] = list(leased.deliveries)
    if not deliveries:
        return 0
    await stores.frontier.begin(deliveries)
    due = await stores.ledger.still_due([(each.task.ref, each.task.generation) for each in deliveries])
    # What a page has offered after another worker has collected it is acknowledged, no more (CRASH-WINDOWS 5).
    results = [make_result(each.task) for each, found in zip(deliveries, due, strict=True) if found is not None]
    random.shuffle(results)
    answers = await stores.ledger.commit(results)
    await stores.frontier.ack(deliveries)
    return sum(answer is Committed.COMMITTED for answer, _ in answers)


async def _collect_the_rest(stores: Stores) -> None:
    for _ in range(400):
        await _collect(stores, "last", Random(0))
        stats = await stores.frontier.stats()
        if not stats.ready + stats.delayed + stats.leased:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the frontier does not become empty")


def _page(number: int, entries: list[Entry], now: int) -> PageCommit:
    return PageCommit(number + 1, 0, f"https://{LANES[0].lane}/list/{number}", now, entries, [], b"")
