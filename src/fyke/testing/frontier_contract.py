"""The contract suite of `ports.Frontier`: every back end passes the same tests.

Subclass `FrontierContract` as `TestMine` and give it an async fixture `harness` that yields a FrontierHarness on an
empty store whose frontiers have a lease length (`lease_ms`) of `frontier_harness.LEASE`.
"""

from __future__ import annotations

import pytest_asyncio

from fyke.ports import Frontier
from fyke.testing.frontier_budget import BudgetContract
from fyke.testing.frontier_clock import ClockContract
from fyke.testing.frontier_fences import FencesContract
from fyke.testing.frontier_harness import FrontierHarness
from fyke.testing.frontier_holds import HoldsContract
from fyke.testing.frontier_lanes import LanesContract
from fyke.testing.frontier_tasks import TasksContract


class FrontierContract(TasksContract, FencesContract, LanesContract, HoldsContract, BudgetContract, ClockContract):
    @pytest_asyncio.fixture
    async def frontier(self, harness: FrontierHarness) -> Frontier:
        """The handle that most tests use."""
        return await harness.open()
