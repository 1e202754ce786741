"""`fyke ledger copy` between databases of different kinds: every row arrives as it was."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from fyke.app.moving import copy_ledger
from fyke.app.stores import open_clocked
from fyke.db import copying
from fyke.db.connection import Connection
from fyke.errors import LedgerClosed, UsageError
from fyke.ledgers.sql import SqlLedger
from fyke.settings import Settings
from fyke.testing.clock import FakeClock
from fyke.testing.desk_steps import Steps
from tests.contract.moving import answers, assert_arrived, contents, fill, settings_of, state
from tests.servers import DATABASES

SETTINGS = Settings()
HELD_S = 1.0


async def test_from_a_file_to_postgres_to_mariadb_and_back_no_row_changes(
    tmp_path: Path, fresh_database: Callable[[str], str]
) -> None:
    places = [f"sqlite:///{tmp_path / 'first.db'}", fresh_database("postgres-15"), fresh_database("mariadb")]
    places += [fresh_database("postgres-18"), f"sqlite:///{tmp_path / 'last.db'}"]
    await fill(places[0])
    before, given = await contents(places[0]), await ids(places[0])
    for old, new in pairwise(places):
        moved = await copy_ledger(SETTINGS, old, new)
        assert moved.report.balanced
        await assert_arrived(old, new, before)
        for name, highest in (await ids(new)).items():
            assert highest >= given[name], f"{name}: what was given in {old} could be given again in {new}"
    assert (await state(places[-1])).epoch == (await state(places[0])).epoch + len(places) - 1


async def ids(url: str) -> dict[str, int]:
    async with open_clocked(settings_of(url)) as (database, _):
        return await database.read(copying.given_ids)


@pytest.mark.parametrize("kind", DATABASES)
async def test_the_moved_ledger_goes_on_and_no_id_is_given_again(
    tmp_path: Path, fresh_database: Callable[[str], str], kind: str
) -> None:
    old, new = f"sqlite:///{tmp_path / 'old.db'}", fresh_database(kind)
    await fill(old)
    given = await ids(old)
    await copy_ledger(SETTINGS, old, new)
    clock = FakeClock()
    clock.advance(1_000 * 3_600_000)
    async with open_clocked(settings_of(new)) as (database, _):
        ledger = SqlLedger(database, clock)
        steps = Steps(ledger, clock)
        tasks = await steps.listed("quite new", "x")
        await steps.visit([task for task in tasks if task.ref > given["item"]])
        await steps.died("hopeless")
        report = await ledger.audit()
    assert report.balanced
    assert report.findings == []
    for name, rows in (await contents(new)).items():
        if name in ("item", "run", "pass", "visit", "version", "dead"):
            assert max(row[0] for row in rows) > given[name], name


@pytest.mark.parametrize("kind", DATABASES)
async def test_a_write_that_has_found_the_ledger_open_ends_before_it_is_closed(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    """Else it would be committed after the copy has read its table."""
    url = fresh_database(kind)
    await fill(url)
    order: list[str] = []
    loop, began = asyncio.get_running_loop(), asyncio.Event()
    async with open_clocked(settings_of(url)) as (ours, clock), open_clocked(settings_of(url)) as (theirs, _):
        ledger = SqlLedger(ours, clock)

        def slow(connection: Connection) -> None:
            loop.call_soon(began.set)
            connection.execute(SLEEP[ours.dialect], (HELD_S,)).fetchall()
            connection.execute("UPDATE lane SET blocks = blocks + 1")
            order.append("written")

        async def close() -> None:
            await began.wait()
            await theirs.write(lambda c: copying.close_ledger(c, {"moved_to": "elsewhere"}))
            order.append("closed")

        await asyncio.gather(ledger._write(slow), close())
        assert order == ["written", "closed"]
        with pytest.raises(LedgerClosed):
            await ledger._write(slow)


SLEEP: dict[str, str] = {"postgres": "SELECT pg_sleep(?)", "mysql": "SELECT sleep(?)"}


async def test_a_database_with_other_tables_or_another_ledger_takes_none(
    tmp_path: Path, fresh_database: Callable[[str], str]
) -> None:
    old = f"sqlite:///{tmp_path / 'old.db'}"
    await fill(old)
    for kind in ("postgres-15", "mariadb"):
        used = fresh_database(kind)
        await fill(used)
        with pytest.raises(UsageError, match="not empty"):
            await copy_ledger(SETTINGS, old, used)
        assert await answers(old)
        assert await answers(used)
    assert await answers(old)


@pytest.mark.parametrize("kind", DATABASES)
async def test_what_was_broken_off_is_begun_anew(
    tmp_path: Path, fresh_database: Callable[[str], str], kind: str
) -> None:
    old, new = f"sqlite:///{tmp_path / 'old.db'}", fresh_database(kind)
    await fill(old)
    before = await contents(old)

    class Died(BaseException):
        """The process ends here."""

    def dying(done: int, total: int) -> None:
        if done > total / 2:
            raise Died

    with pytest.raises(Died):
        await copy_ledger(SETTINGS, old, new, progress=dying)
    assert not await answers(old)
    assert not await answers(new)
    with pytest.raises(UsageError, match="--again"):
        await copy_ledger(SETTINGS, old, new)
    await copy_ledger(SETTINGS, old, new, again=True)
    await assert_arrived(old, new, before)
