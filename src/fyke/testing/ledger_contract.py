"""The contract suite of `ports.Ledger`: every back end passes the same tests.

Subclass `LedgerContract` as `TestMine` and give it the fixtures `clock` (a FakeClock), `ledger` (an empty, migrated one
on that clock) and `other` (a second handle of the same store, as another process would have it).
"""

from __future__ import annotations

import pytest_asyncio

from fyke.ports import Ledger
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_calendar import CalendarContract
from fyke.testing.ledger_commits import CommitsContract
from fyke.testing.ledger_coverage import CoverageContract
from fyke.testing.ledger_due import DueContract
from fyke.testing.ledger_known import KnownContract
from fyke.testing.ledger_pages import PagesContract
from fyke.testing.ledger_rows import RowsContract
from fyke.testing.ledger_runs import RunsContract
from fyke.testing.ledger_sources import SourcesContract
from fyke.testing.ledger_spread import SpreadContract
from fyke.testing.ledger_state import StateContract
from fyke.testing.ledger_steps import Book
from fyke.testing.ledger_times import TimesContract
from fyke.testing.ledger_windows import WindowsContract


class LedgerContract(
    SourcesContract,
    RunsContract,
    SpreadContract,
    CoverageContract,
    PagesContract,
    KnownContract,
    TimesContract,
    RowsContract,
    CommitsContract,
    DueContract,
    CalendarContract,
    StateContract,
    WindowsContract,
):
    @pytest_asyncio.fixture
    async def book(self, ledger: Ledger, clock: FakeClock) -> Book:
        """The ledger with two sources in it, and the steps of the tests."""
        return await Book(ledger, clock).prepare()
