"""`fyke ledger copy` (CRASH-WINDOWS 41): every row arrives, the old ledger is closed, and never are two open."""

import asyncio
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fyke.app.moving import MoveBroken, copy_ledger, reopen_ledger
from fyke.app.stores import open_clocked
from fyke.db import copying
from fyke.db.sqlite import SqliteDatabase
from fyke.errors import TransientError, UsageError
from fyke.ledgers.sql import SqlLedger
from fyke.settings import Settings
from fyke.testing.clock import FakeClock
from fyke.testing.desk_steps import Steps
from tests.contract.moving import answers, assert_arrived, contents, fill, settings_of, state

SETTINGS = Settings()


class Died(BaseException):
    """The process ends here."""


@pytest.fixture(scope="session")
def full_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("full") / "full.db"
    asyncio.run(fill(f"sqlite:///{path}"))
    return path


@pytest.fixture
def old(full_ledger: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(full_ledger, tmp_path / 'old.db')}"


@pytest.fixture
def new(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'new.db'}"


async def test_every_row_of_every_table_arrives(old: str, new: str) -> None:
    before = await contents(old)
    empty = {name for name, rows in before.items() if not rows}
    assert empty <= {"hole"}, f"this test moves no row of {empty}"
    told: list[tuple[int, int]] = []
    moved = await copy_ledger(SETTINGS, old, new, progress=lambda done, total: told.append((done, total)))
    await assert_arrived(old, new, before)
    assert moved.rows == {name: len(rows) for name, rows in before.items() if name not in ("meta", "typed_table")}
    assert told == sorted(told)
    assert told[-1] == (sum(moved.rows.values()),) * 2
    assert moved.report.balanced


async def test_an_id_whose_row_is_gone_is_not_given_again(old: str, new: str) -> None:
    await copy_ledger(SETTINGS, old, new)
    highest = max(row[0] for row in (await contents(new))["item"])
    async with open_clocked(settings_of(new)) as (database, _):
        clock = FakeClock()
        clock.advance(1_000 * 3_600_000)
        (task,) = await Steps(SqlLedger(database, clock), clock).listed("quite new")
    assert task.ref > highest + 1, "the forgotten item was the last one"


async def test_a_ledger_that_was_moved_is_not_moved_again_and_a_used_one_takes_none(old: str, new: str) -> None:
    await copy_ledger(SETTINGS, old, new)
    for again in (False, True):
        with pytest.raises(UsageError, match="was moved to"):
            await copy_ledger(SETTINGS, old, new, again=again)
    third = f"{new}.third"
    await fill(third)
    before = await contents(third)
    with pytest.raises(UsageError, match="not empty"):
        await copy_ledger(SETTINGS, new, third)
    assert await answers(new)
    assert await answers(third)
    assert await contents(third) == before


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("{old}", "{old}", "one ledger"),
        ("sqlite:///{folder}/none.db", "{new}", "no ledger at"),
        ("{empty}", "{new}", "has no ledger"),
        ("{old}", "sqlite:///{folder}/no/such/folder.db", "does not exist"),
        ("{old}", "oracle://there", "oracle"),
        ("{old}", "{foreign}", "another program"),
    ],
)
async def test_what_cannot_be_moved_is_refused_before_anything_is_closed(
    old: str, new: str, tmp_path: Path, source: str, target: str, words: str
) -> None:
    (tmp_path / "empty.db").touch()
    with sqlite3.connect(tmp_path / "foreign.db") as other:
        other.execute("CREATE TABLE theirs(x)")
    other.close()
    places = {"old": old, "new": new, "folder": str(tmp_path)}
    places |= {"empty": f"sqlite:///{tmp_path}/empty.db", "foreign": f"sqlite:///{tmp_path}/foreign.db"}
    with pytest.raises(UsageError, match=words):
        await copy_ledger(SETTINGS, source.format(**places), target.format(**places))
    assert await answers(old)


# --- What dies half-way ---


class Deaths:
    """Lets a process die at one of its writes, before it or after its commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.at, self.after = 0, 0, False
        write = SqliteDatabase.write

        async def dying(database: SqliteDatabase, call: Callable[[Any], Any], *, durable: bool = True) -> Any:
            self.count += 1
            if self.count == self.at and not self.after:
                raise Died
            answer = await write(database, call, durable=durable)
            if self.count == self.at:
                raise Died
            return answer

        monkeypatch.setattr(SqliteDatabase, "write", dying)

    def next(self, at: int, *, after: bool) -> None:
        self.count, self.at, self.after = 0, at, after


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Deaths:
    return Deaths(monkeypatch)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_wherever_it_dies_never_two_are_open_and_it_can_be_ended(
    full_ledger: Path, tmp_path: Path, deaths: Deaths, after: bool
) -> None:
    before = await contents(f"sqlite:///{full_ledger}")
    await copy_ledger(
        SETTINGS, f"sqlite:///{shutil.copy(full_ledger, tmp_path / 'old.db')}", f"sqlite:///{tmp_path}/new.db"
    )
    writes = deaths.count
    # The writes in the middle are one page after the other.
    points = [at for at in range(1, writes + 1) if at < 9 or at % 7 == 0 or at > writes - 4]
    found = set()
    for at in points:
        old = f"sqlite:///{shutil.copy(full_ledger, tmp_path / f'old{at}.db')}"
        new = f"sqlite:///{tmp_path / f'new{at}.db'}"
        deaths.next(at, after=after)
        with pytest.raises(Died):
            await copy_ledger(SETTINGS, old, new)
        deaths.next(0, after=False)
        opened = (await answers(old), (tmp_path / f"new{at}.db").exists() and await is_filled(new))
        assert opened != (True, True), f"two ledgers after write {at}"
        if not opened[1]:
            await end(old, new)
        await assert_arrived(old, new, before)
        found.add(opened)
    assert found == {(True, False), (False, False)} | ({(False, True)} if after else set())


async def is_filled(url: str) -> bool:
    return await answers(url) and bool((await contents(url))["item"])


async def end(old: str, new: str) -> None:
    """As a person would: once more, and with --again where that is what the message says."""
    try:
        await copy_ledger(SETTINGS, old, new)
    except UsageError as error:
        if "--again" not in str(error):
            raise
        await copy_ledger(SETTINGS, old, new, again=True)


async def test_a_move_that_was_broken_off_can_be_given_up(old: str, new: str, deaths: Deaths) -> None:
    before, was = await contents(old), await state(old)
    deaths.next(20, after=True)
    with pytest.raises(Died):
        await copy_ledger(SETTINGS, old, new)
    deaths.next(0, after=False)
    assert not await answers(old)
    assert await reopen_ledger(SETTINGS, old)
    assert await answers(old)
    assert not await answers(new), "what has arrived is no ledger"
    assert await contents(old) == before
    assert (await state(old)).epoch > was.epoch + 1, "no frontier takes it for the one that it was, or for the new one"
    assert not await reopen_ledger(SETTINGS, old), "there is nothing to undo"
    with pytest.raises(UsageError, match="--again"):
        await copy_ledger(SETTINGS, old, new)
    await copy_ledger(SETTINGS, old, new, again=True)
    await assert_arrived(old, new, before)


async def test_a_move_that_has_ended_is_given_up_by_force_only(old: str, new: str) -> None:
    await copy_ledger(SETTINGS, old, new)
    with pytest.raises(UsageError, match="has ended"):
        await reopen_ledger(SETTINGS, old)
    assert not await answers(old)
    assert await reopen_ledger(SETTINGS, old, force=True)
    assert await answers(old)
    assert (await state(old)).epoch > (await state(new)).epoch


async def test_what_is_being_filled_cannot_be_reopened(old: str, new: str, deaths: Deaths) -> None:
    deaths.next(20, after=True)
    with pytest.raises(Died):
        await copy_ledger(SETTINGS, old, new)
    deaths.next(0, after=False)
    with pytest.raises(UsageError, match="being filled"):
        await reopen_ledger(SETTINGS, new)


async def test_a_server_that_goes_away_half_way_is_told_with_the_way_out(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, count = SqliteDatabase.write, 0

    async def failing(database: SqliteDatabase, call: Callable[[Any], Any], *, durable: bool = True) -> Any:
        nonlocal count
        count += 1
        if count == 20:
            raise TransientError("the server is away")
        return await write(database, call, durable=durable)

    monkeypatch.setattr(SqliteDatabase, "write", failing)
    with pytest.raises(MoveBroken, match=r"server is away.*--again.*ledger reopen"):
        await copy_ledger(SETTINGS, old, new)


async def test_a_move_that_a_person_stops_is_told_with_the_way_out(
    old: str, new: str, caplog: pytest.LogCaptureFixture
) -> None:
    halfway = asyncio.Event()
    moving = asyncio.create_task(copy_ledger(SETTINGS, old, new, progress=lambda done, total: halfway.set()))
    await halfway.wait()
    moving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moving
    assert re.search(r"broken off.*--again.*ledger reopen", caplog.text)
    await end(old, new)


async def test_a_row_that_arrives_otherwise_ends_the_move(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_page = copying.write_page

    def bent(connection: Any, part: copying.Part, rows: list[Any]) -> None:
        if part.name == "visit":
            rows = [(*row[:-1], row[-1] + " ") for row in rows]
        write_page(connection, part, rows)

    monkeypatch.setattr(copying, "write_page", bent)
    with pytest.raises(MoveBroken, match="a row of table 'visit' did not arrive"):
        await copy_ledger(SETTINGS, old, new)
    assert not await answers(new)
