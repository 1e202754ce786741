"""Events reach the log, each once, and many of a kind do not flood it."""

from __future__ import annotations

import logging

import pytest

from fyke.model import Event
from fyke.pipeline.announce import Announcer
from tests.pipeline.conftest import Servers


async def test_events_are_logged_once(servers: Servers, caplog: pytest.LogCaptureFixture) -> None:
    await servers.ledger.add_events([Event("gap", "a gap in main", source_id="a"), Event("blocked", "b.example", "b")])
    with caplog.at_level(logging.WARNING, logger="fyke.events"):
        assert await Announcer(servers.ledger).run_once() == 2
        assert await Announcer(servers.ledger).run_once() == 0
    assert [record.getMessage() for record in caplog.records] == ["gap: a gap in main", "blocked: b.example"]


async def test_many_of_a_kind_are_told_by_the_first_and_their_number(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    await servers.ledger.add_events([Event("dead", f"item {n}", source_id="a") for n in range(250)])
    with caplog.at_level(logging.WARNING, logger="fyke.events"):
        assert await Announcer(servers.ledger).run_once() == 250
    assert len(caplog.records) == 6
    assert "245 more" in caplog.records[-1].getMessage()
