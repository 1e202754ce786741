"""Redis is away: what people ask is answered from the ledger at once, and what they decide stands in it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fyke.app import Stores, open_desk
from fyke.app.overview import look
from fyke.app.stores import SystemClock
from fyke.db.sqlite import SqliteDatabase
from fyke.errors import TransientError
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger
from fyke.pipeline.reconciler import Reconciler
from fyke.settings import load_settings
from tests.crash.shop import SOURCE
from tests.e2e.test_cli_desk import SCOPE, Desk, desk, with_stores

__all__ = ["desk"]

AWAY = "redis://:S3cr3t-m4rk@127.0.0.1:1/0"


@pytest.fixture
def alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("FYKE_FRONTIER", AWAY)
    began = time.monotonic()
    yield desk
    assert "S3cr3t" not in desk.out + desk.err
    # Nobody waits for it, as a process that works would for servers.wait (90 s).
    assert time.monotonic() - began < 60


def test_the_audit_counts_the_ledger_and_says_what_it_cannot_know(alone: Desk) -> None:
    shown = alone("audit")
    assert alone.code == 0, alone.err
    assert "The frontier is not reachable (redis://127.0.0.1:1/0" in shown
    assert "unqueued" in shown.splitlines()[-1]
    report = alone.json("audit")
    assert (report["listed"], report["balanced"], report["unqueued"]) == (5, True, None)
    assert "127.0.0.1:1" in report["frontier_away"]


def test_a_repair_mends_the_ledger_and_leaves_the_frontier_for_later(alone: Desk) -> None:
    with sqlite3.connect("fyke.db") as connection:
        connection.execute("DELETE FROM gov_procure WHERE _key = ?", ("1",))
    connection.close()
    shown = alone("audit", "--repair")
    assert alone.code == 1
    assert f"mended: row_missing: {SCOPE} 1" in shown
    assert "Its part of the repair waits" in shown
    assert alone.json("audit")["unaccounted"] == 0
    assert alone.code == 0


def test_status_tells_what_the_ledger_knows(alone: Desk) -> None:
    shown = alone("status")
    assert alone.code == 0, alone.err
    assert "notices" in shown
    assert "! the frontier is not reachable (redis://127.0.0.1:1/0" in shown
    found = alone.json("status")
    assert (found["sources"][0]["open"], found["frontier"]) == (2, None)


def test_explain_tells_the_life_of_an_item_without_its_task(alone: Desk) -> None:
    shown = alone("explain", SCOPE, " 4 ")
    assert alone.code == 0, alone.err
    assert "listed it for the first time" in shown
    assert "whether it has a task there, or is unqueued, is unknown" in shown
    assert alone.json("explain", SCOPE, "4")["task"]["state"] == "unknown"


def test_a_replay_stands_in_the_ledger_and_is_offered_when_the_frontier_is_back(
    alone: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = alone("dead", "replay", "--reason", "not_found")
    assert alone.code == 0, alone.err
    assert "1 item(s) are open again." in shown
    assert "the reconciler offers them when it is back" in shown
    monkeypatch.delenv("FYKE_FRONTIER")

    async def back(stores: Stores) -> tuple[int, int]:
        done = await Reconciler(stores.ledger, stores.frontier, 0).run_once()
        return done.offered, (await stores.frontier.stats()).ready

    assert with_stores(back) == (1, 3)


def test_a_submitted_address_stands_in_the_ledger(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sources").mkdir()
    text = SOURCE.format(url="http://127.0.0.1:1", concurrency=1)
    Path("sources/lab.yaml").write_text(text, encoding="utf-8")
    desk("source", "apply")
    assert desk.code == 0, desk.err
    monkeypatch.setenv("FYKE_FRONTIER", AWAY)
    found = desk.json("submit", "lab", "http://127.0.0.1:1/t20250101_9.html")
    assert (desk.code, found["new"], found["due"]) == (0, 1, 1), desk.err
    assert "the reconciler offers them" in desk("submit", "lab", "http://127.0.0.1:1/t20250101_9.html")


def test_a_frontier_that_goes_away_between_two_questions_is_asked_no_more(desk: Desk) -> None:
    class Leaving:
        calls = 0

        async def stats(self) -> None:
            self.calls += 1
            raise TransientError("the frontier at redis://h:1/0 cannot be reached: gone")

    async def main() -> None:
        settings = load_settings(Path.cwd(), {"FYKE_FRONTIER": AWAY}).settings
        async with open_desk(settings) as opened:
            frontier = Leaving()
            opened.frontier, opened.away = frontier, ""  # type: ignore[assignment]
            for _ in range(3):
                assert (await look(opened)).frontier is None
            assert frontier.calls == 1
            assert opened.away == "redis://h:1/0 cannot be reached: gone"

    asyncio.run(main())


async def test_without_its_database_the_sql_frontier_is_no_excuse(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {"FYKE_LEDGER": f"sqlite:///{tmp_path / 'f.db'}"}).settings
    database = SqliteDatabase(tmp_path / "f.db")
    await SqlLedger(database, SystemClock()).migrate()
    await database.close()
    async with open_desk(settings) as opened:
        assert isinstance(opened.frontier, SqlFrontier)

        async def fails(_: object) -> None:
            raise TransientError("SQLite: the disk is full")

        with pytest.raises(TransientError):
            await opened.ask(fails)
