"""What all parts of the desk's contract share: a ledger with one source, driven through its own methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fyke.model import Fields, Finding, SourceCounts
from fyke.ports import Ledger
from fyke.testing.clock import FakeClock
from fyke.testing.desk_steps import Steps

Damage = Callable[[str], Awaitable[None]]


class DeskSetting:
    """Subclasses give the fixtures `ledger` (migrated and empty) and `clock` (the ledger's own)."""

    @pytest.fixture
    async def steps(self, ledger: Ledger, clock: FakeClock) -> Steps:
        """A ledger with one source whose items have detail pages."""
        found = Steps(ledger, clock)
        await found.source()
        return found


async def state_of(ledger: Ledger, key: str, scope: str = "notice") -> str:
    found = await ledger.explain(scope, key)
    assert found is not None
    return found.state.value


async def id_of(ledger: Ledger, key: str, scope: str = "notice") -> int:
    found = await ledger.explain(scope, key)
    assert found is not None
    return found.item_id


async def pass_of(ledger: Ledger, run_id: int) -> int:
    """The only pass of a run."""
    (found,) = (row.passes for row in await ledger.runs() if row.id == run_id)
    (only,) = found
    return only.id


async def count_of(ledger: Ledger, source: str = "ggzy") -> SourceCounts:
    return next(row for row in await ledger.counts() if row.source_id == source)


async def rows_of(ledger: Ledger, source: str = "ggzy", **settings: Any) -> list[Fields]:
    return [row async for chunk in ledger.rows(source, **settings) for row in chunk]


async def assert_balanced(ledger: Ledger) -> None:
    report = await ledger.audit()
    assert report.findings == []
    assert report.balanced
    assert report.listed == report.stored + report.dead + report.ignored + report.open


async def mend(ledger: Ledger) -> list[Finding]:
    """Audit and repair; the findings with what became of them."""
    return await ledger.repair(await ledger.audit())


async def everything(steps: Steps) -> None:
    """Items in each state, two sources, refused rows, a revisit that is due."""
    await steps.source("plain", detail=False, scope="plain", table="plain_notices")
    await steps.listed("p", "q", source="plain", detail=False)
    await steps.stored("a", "b")
    await steps.died("dead")
    await steps.listed("open", "a", refused=["banner"])
    await steps.listed("gone")
    await steps.ledger.ignore("notice", "gone", "of no use")
    await steps.listed("b", title="corrected")
