"""The desk's fixtures on a server, and what is to be shown there beside the contract. A test file gives `kind`."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fyke.errors import LedgerClosed
from fyke.ledgers.sql import SqlLedger
from fyke.model import DeadFilter
from fyke.testing.clock import FakeClock
from fyke.testing.desk_setting import Damage, assert_balanced, everything
from fyke.testing.desk_steps import Steps
from tests.ledgers import OpenDatabase

OpenLedger = Callable[[], Awaitable[SqlLedger]]


class DeskOnServer:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def open_ledger(self, open_database: OpenDatabase, clock: FakeClock, kind: str) -> OpenLedger:
        """One more handle on the same ledger, as another process has it."""

        async def open_one() -> SqlLedger:
            return SqlLedger(await open_database(kind), clock)

        return open_one

    @pytest.fixture
    async def ledger(self, open_ledger: OpenLedger) -> SqlLedger:
        return await open_ledger()

    @pytest.fixture
    def damage(self, open_database: OpenDatabase, kind: str) -> Damage:
        async def run(statement: str) -> None:
            database = await open_database(kind)
            await database.write(lambda connection: connection.execute(statement).fetchall())

        return run

    async def test_an_audit_counts_one_snapshot_while_others_write(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        steps, other = Steps(ledger, clock), Steps(await open_ledger(), clock)
        await steps.source("plain", detail=False, scope="plain", table="plain_notices")
        await steps.listed(*(f"{number:05}" for number in range(3_000)), source="plain", detail=False)
        halfway, written = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        async def write() -> None:
            await halfway.wait()
            await other.listed("late", source="plain", detail=False)
            written.set()

        def told(done: int, total: int) -> None:
            loop.call_soon(halfway.set)

        writing = asyncio.create_task(write())
        report = await ledger.audit(None, told)
        await writing
        assert report.balanced
        assert (report.listed, report.stored) == (3_000, 3_000)
        assert (await ledger.audit()).listed == 3_001

    async def test_two_people_who_replay_the_same_letters_open_each_item_once(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        steps = Steps(ledger, clock)
        await steps.source()
        await steps.died(*(f"{number:03}" for number in range(200)))
        answers = await asyncio.gather(*(each.replay(DeadFilter()) for each in [ledger, *[await open_ledger()] * 3]))
        assert sum(number for number, _ in answers) == 200
        assert {task.generation for _, tasks in answers for task in tasks} == {2}
        assert await ledger.dead_letters(DeadFilter()) == []
        await assert_balanced(ledger)

    async def test_a_ledger_that_was_moved_away_answers_nobody(
        self, ledger: SqlLedger, clock: FakeClock, damage: Damage
    ) -> None:
        steps = Steps(ledger, clock)
        await steps.source()
        await everything(steps)
        await damage("INSERT INTO meta(name, value) VALUES ('moved_to', 'mysql://elsewhere')")
        for question in (ledger.audit, ledger.counts, ledger.sources, ledger.identity):
            with pytest.raises(LedgerClosed, match="moved to"):
                await question()
