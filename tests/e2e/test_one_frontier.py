"""Two frontiers of one ledger ask each host twice as fast (P4): refused at the start, and told where it happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fyke.app import open_desk, open_stores, run_once_here
from fyke.app.one_frontier import apart, named, refuse_another
from fyke.app.overview import look
from fyke.app.serving import Begun
from fyke.errors import UsageError
from fyke.model import WorkerRow
from fyke.pipeline.heart import ENDED, PROCESS
from fyke.settings import Settings, load_settings


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'fyke.db'}"


def settings_of(tmp_path: Path, ledger: str, **variables: str) -> Settings:
    environ = {"FYKE_LEDGER": ledger, "FYKE_SERVERS_WAIT": "0s", **variables}
    return load_settings(tmp_path, environ).settings


def row(name: str, now: int, beat_at: int, **process: int) -> WorkerRow:
    return WorkerRow(name, "far", 7, "0.1.0", "text", now, beat_at, stage={PROCESS: process})


async def test_a_process_that_names_another_frontier_is_refused_while_one_works_and_not_after_it(
    tmp_path: Path, ledger: str
) -> None:
    settings = settings_of(tmp_path, ledger)
    other = named(settings_of(tmp_path, ledger, FYKE_FRONTIER="redis://10.0.0.1/0"))
    async with open_stores(settings) as stores:
        now = await stores.ledger.now()
        await stores.ledger.beat(row("own", now, now, frontier=named(settings), made=1))
        await stores.ledger.beat(row("old release", now, now, clock_off=0))
        await stores.ledger.beat(row("dead", now, now - 31_000, frontier=other, made=5))
        await refuse_another(stores)
        await stores.ledger.beat(row("foreign", now, now, frontier=other, made=5))
        with pytest.raises(UsageError, match="is in use by text far:7: two") as refused:
            await refuse_another(stores)
        assert "redis.namespace" in (refused.value.hint or "")
        with pytest.raises(UsageError, match="another frontier"):
            await run_once_here(stores, [], 0)
        await stores.ledger.beat(row("foreign", now, now, frontier=other, made=5, **{ENDED: 1}))
        await refuse_another(stores)


def test_it_is_the_namespace_that_counts_and_not_the_address_that_leads_there(tmp_path: Path, ledger: str) -> None:
    def one(frontier: str, namespace: str = "fyke") -> int:
        return named(settings_of(tmp_path, ledger, FYKE_FRONTIER=frontier, FYKE_REDIS_NAMESPACE=namespace))

    assert one("redis://:secret@cache.example/0") == one("rediss://10.0.0.1:6380/0")
    assert len({one("sql"), one("redis://cache.example/0"), one("redis://cache.example/0", "other")}) == 3


def test_frontiers_are_apart_when_processes_that_live_now_meet_different_ones() -> None:
    now = 1_000_000
    together = [row("a", now, now, frontier=9, made=5), row("b", now, now - 5_000, frontier=9, made=5)]
    # Killed before the frontier was made again; cut off from it; of a release that does not say.
    beside = [
        row("c", now, now - 20_000, frontier=9, made=4),
        row("d", now, now, frontier=9, made=0),
        row("e", now, now, clock_off=0),
    ]
    assert apart([*together, *beside], now) == ""
    found = apart([*together, row("f", now, now, frontier=9, made=6)], now)
    assert "2 different frontiers" in found
    assert "redis.namespace" in found


async def test_the_same_settings_that_lead_to_two_servers_show_in_the_status(
    tmp_path: Path, ledger: str, fresh_redis: Callable[[str], str]
) -> None:
    """As `redis://127.0.0.1` does on two machines that both have one."""
    servers = [fresh_redis("valkey-9"), fresh_redis("redis-6.2")]
    notes: list[Any] = []
    for server in servers:
        settings = settings_of(tmp_path, ledger, FYKE_FRONTIER=server)
        async with open_stores(settings) as stores:
            await refuse_another(stores)
            begun = Begun(stores)
            begun.beating(f"worker on {len(notes)}")
            await begun.beat()
            assert stores.frontier.made
        async with open_desk(settings) as desk:
            notes.append([note for note in (await look(desk)).notes if "different frontiers" in note])
    assert notes[0] == []
    assert len(notes[1]) == 1
