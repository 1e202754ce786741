"""The ledger keeps its contract on PostgreSQL, the oldest and the newest that we know."""

import pytest

from fyke.ledgers.sql import SqlLedger
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_contract import LedgerContract
from tests.contract.ledger_cases import LedgerCases, OpenLedger
from tests.ledgers import OpenDatabase

KINDS = ["postgres-15", "postgres-18"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=KINDS)
def open_ledger(request: pytest.FixtureRequest, open_database: OpenDatabase, clock: FakeClock) -> OpenLedger:
    async def open_one() -> SqlLedger:
        return SqlLedger(await open_database(request.param), clock)

    return open_one


@pytest.fixture
async def ledger(open_ledger: OpenLedger) -> SqlLedger:
    return await open_ledger()


@pytest.fixture
async def other(open_ledger: OpenLedger) -> SqlLedger:
    return await open_ledger()


class TestContract(LedgerContract):
    pass


class TestCases(LedgerCases):
    pass
