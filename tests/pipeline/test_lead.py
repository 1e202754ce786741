"""Several schedulers: one run a slot whatever happens to the lead, and with no lock at all (SCENARIOS 3, S094)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fyke.errors import TransientError
from fyke.frontiers.sql_lock import SqlLock
from fyke.model import NewRun
from fyke.pipeline.lead import Lead
from fyke.pipeline.scheduler import Scheduler
from fyke.pipeline.services import Services, led, planning
from fyke.pipeline.stages import Stages
from fyke.ports import Lock, SourceSchedule
from fyke.testing.clock import FakeClock
from tests.crash.virtual import VirtualClock, run_virtual
from tests.pipeline.network import DETAIL, SITE, HostSource, Office, PlayedNetwork, list_page, office

LEASE_MS, SLOTS, PERIOD_S, SCHEDULERS = 5_000, 30, 60, 4
PAUSED_AT, KILLED_AT = 10, 20


class EachMinute(HostSource):
    """A run is over when the next slot is due."""

    def __init__(self) -> None:
        super().__init__(SITE, name="played")
        self.schedule = SourceSchedule(cron=("* * * * *",), overlap="cancel")


class Gated:
    """What a process calls, until it is paused: then its calls stand still, before they are sent and after."""

    def __init__(self, inner: Any, go: asyncio.Event, on: Callable[[str, Any], None]) -> None:
        self._inner, self._go, self._on = inner, go, on

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        async def call(*values: Any, **named: Any) -> Any:
            self._on(name, values)
            await self._go.wait()
            answer = await method(*values, **named)
            await self._go.wait()
            return answer

        return call


class Replica:
    """One scheduler, as a process has it."""

    def __init__(self, process: Office, number: int, on: Callable[[Replica, int], None], *, lock: bool) -> None:
        self.clock, self.go = process.clock, asyncio.Event()
        self.go.set()
        self._on = on
        ledger: Any = Gated(process.ledger, self.go, self._called)
        shared: Any = Gated(SqlLock(process.ledger._db, process.clock), self.go, self._called)
        self.lead = make_lead(shared, process.clock, f"p{number}") if lock else None
        scheduler = Scheduler(ledger, process.frontier, process.parts.shelf, Stages(), self.lead)
        services = Services(planning(scheduler, self.lead), process.clock, Random(number))
        self.running = asyncio.create_task(services.run())

    def _called(self, name: str, values: Any) -> None:
        if name == "open_run":
            run: NewRun = values[0]
            self._on(self, run.slot)

    async def pause(self, seconds: float) -> None:
        self.go.clear()
        await self.clock.sleep(seconds)
        self.go.set()

    async def kill(self) -> None:
        self.go.clear()
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


def make_lead(lock: Lock, clock: Any, owner: str) -> Lead:
    return Lead(lock, clock, name="scheduler", owner=owner, length_ms=LEASE_MS)


@pytest.mark.parametrize("lock", [True, False], ids=["with the lock", "without it"])
def test_four_schedulers_one_paused_and_one_killed_open_each_slot_once_and_in_time(tmp_path: Path, lock: bool) -> None:
    """The leader is paused between its look at the lock and its write, and wakes long after another took over."""

    async def scene() -> None:
        clock, source, slots = VirtualClock(), EachMinute(), list[int]()
        calls, faults = Counter[int](), list[asyncio.Task[None]]()

        def opening(replica: Replica, slot: int) -> None:
            calls[slot] += 1
            if slot in slots:
                return
            slots.append(slot)
            if len(slots) == PAUSED_AT:
                faults.append(asyncio.create_task(replica.pause(3 * LEASE_MS / 1000)))
            elif len(slots) == KILLED_AT:
                faults.append(asyncio.create_task(replica.kill()))

        async with AsyncExitStack() as stack:
            replicas = []
            for number in range(SCHEDULERS):
                network = PlayedNetwork(clock, lambda _: list_page())
                process = await stack.enter_async_context(
                    office(tmp_path / "ledger.db", clock, network, source, number=number)
                )
                await process.apply(source)
                replicas.append(Replica(process, number, opening, lock=lock))
            # Half a minute before the first slot after these.
            await clock.sleep((SLOTS + 0.5) * PERIOD_S - clock.now() / 1000 % PERIOD_S)
            await asyncio.gather(*faults)
            for replica in replicas:
                await replica.kill()
            runs = await process.ledger.runs(limit=1_000)
        assert len(faults) == 2
        assert sorted(run.slot for run in runs) == slots[:SLOTS]
        assert {later - earlier for earlier, later in pairwise(slots)} == {PERIOD_S * 1000}
        assert max(run.started_at - run.slot for run in runs) <= LEASE_MS + 1_000
        # What the lock is for: nearly nobody tries what another has done.
        assert sum(calls.values()) <= SLOTS + 2 if lock else sum(calls.values()) > 2 * SLOTS

    run_virtual(scene())


def test_two_replicas_that_dispatch_the_same_batch_collect_it_once(tmp_path: Path) -> None:
    """S094, the article's own accident, with nothing but the ledger between them."""
    keys = [f"k{number}" for number in range(20)]

    async def scene() -> None:
        clock, source = VirtualClock(), EachMinute()
        network = PlayedNetwork(clock, lambda url: DETAIL if "/detail/" in url else list_page(*keys))
        async with (
            office(tmp_path / "ledger.db", clock, network, source, number=1) as one,
            office(tmp_path / "ledger.db", clock, network, source, number=2) as two,
        ):
            await one.apply(source)
            await clock.sleep(PERIOD_S)
            await asyncio.gather(one.scheduler.run_once(), two.scheduler.run_once())
            assert len(await one.ledger.runs()) == 1
            assert (await one.frontier.stats()).ready == 1
            await asyncio.gather(one.collect(), two.collect())
            (counts,) = await one.ledger.counts()
        assert (counts.listed, counts.stored) == (len(keys), len(keys))
        pages = Counter(url for _, url in network.log)
        assert max(pages[f"http://{SITE}/detail/{key}"] for key in keys) == 1

    run_virtual(scene())


class PlayedLock:
    """`ports.Lock` in this process. `away`: it cannot be asked."""

    def __init__(self) -> None:
        self.held: tuple[str, int] | None = None
        self.tokens, self.away = 0, False

    async def acquire(self, name: str, owner: str, ms: int) -> int | None:
        self._ask()
        if self.held is not None:
            return None
        self.tokens += 1
        self.held = (owner, self.tokens)
        return self.tokens

    async def renew(self, name: str, owner: str, token: int, ms: int) -> bool:
        self._ask()
        return self.held == (owner, token)

    async def release(self, name: str, owner: str, token: int) -> bool:
        self._ask()
        if self.held != (owner, token):
            return False
        self.held = None
        return True

    def _ask(self) -> None:
        if self.away:
            raise TransientError("away")


async def test_a_leader_that_was_paused_finds_out_before_it_acts() -> None:
    lock, clock = PlayedLock(), FakeClock()
    one, two = make_lead(lock, clock, "one"), make_lead(lock, clock, "two")
    await one.look()
    await two.look()
    assert [await one.mine(), await two.mine()] == [True, False]
    clock.advance(LEASE_MS + 1)
    lock.held = None
    await two.look()
    assert [await one.mine(), await one.confirmed(), await two.confirmed()] == [False, False, True]
    assert two.token is not None


def test_a_leader_that_wakes_in_the_middle_of_its_round_opens_no_run(tmp_path: Path) -> None:
    """Its own clock has not told it yet; the look right before a slot is taken does."""

    async def scene() -> None:
        clock, source, lock = VirtualClock(), EachMinute(), PlayedLock()
        async with office(
            tmp_path / "ledger.db", clock, PlayedNetwork(clock, lambda _: list_page()), source
        ) as process:
            await process.apply(source)
            lead = make_lead(lock, clock, "one")
            await clock.sleep(PERIOD_S)
            await lead.look()
            lock.held = ("two", 9)
            assert await lead.mine()
            scheduler = Scheduler(process.ledger, process.frontier, process.parts.shelf, Stages(), lead)
            await scheduler.run_once()
            assert await process.ledger.runs() == []
            lock.held = None
            await scheduler.run_once()
            await lead.look()
            await scheduler.run_once()
            assert len(await process.ledger.runs()) == 1

    run_virtual(scene())


async def test_a_lead_that_is_given_up_is_free_at_once() -> None:
    lock, clock = PlayedLock(), FakeClock()
    one, two = make_lead(lock, clock, "one"), make_lead(lock, clock, "two")
    await one.look()
    await one.give_up()
    await two.look()
    assert [await one.mine(), await two.mine()] == [False, True]


async def test_while_the_lock_cannot_be_asked_everybody_may_plan_and_afterwards_one() -> None:
    lock, clock = PlayedLock(), FakeClock()
    one, two = make_lead(lock, clock, "one"), make_lead(lock, clock, "two")
    await one.look()
    lock.away = True
    for lead in (one, two):
        with pytest.raises(TransientError):
            await lead.look()
    assert [await lead.confirmed() for lead in (one, two)] == [True, True]
    lock.away = False
    assert [await lead.confirmed() for lead in (one, two)] == [True, False]


async def test_what_the_lead_does_is_left_to_it() -> None:
    lock, clock, done = PlayedLock(), FakeClock(), list[str]()
    leads = [make_lead(lock, clock, name) for name in ("one", "two")]
    for lead in leads:
        await lead.look()

    async def sweep() -> None:
        done.append("swept")

    for lead in leads:
        ((_, call, _),) = led(lead, [("sweep", sweep, 1.0)])
        await call()
    assert done == ["swept"]
