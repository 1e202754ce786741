"""The SQLite ledger keeps the contract, with two handles on one file."""

import asyncio
import re
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from fyke.db.migrate import upgrade
from fyke.db.sqlite import SqliteDatabase, open_connection
from fyke.errors import TransientError, UsageError
from fyke.ledgers.sql import SqlLedger, commits, coverage, due, entries, pages, runs
from fyke.model import Committed, DeadFilter, ForgetFilter, Outcome, PassState, Task
from fyke.testing.clock import FakeClock
from fyke.testing.effects import install_effect_log, read_effects, written_twice
from fyke.testing.ledger_contract import LedgerContract
from fyke.testing.ledger_steps import Book, failure, make_entry, make_result


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file to copy, for alembic takes its time."""
    path = tmp_path_factory.mktemp("ledger") / "empty.db"
    connection = open_connection(path)
    connection.execute("BEGIN IMMEDIATE")
    upgrade(connection)
    connection.execute("COMMIT")
    connection.close()
    return path


@pytest.fixture
async def ledger(tmp_path: Path, clock: FakeClock, empty_ledger: Path) -> AsyncIterator[SqlLedger]:
    shutil.copy(empty_ledger, tmp_path / "ledger.db")
    found = SqlLedger(SqliteDatabase(tmp_path / "ledger.db"), clock)
    yield found
    await found.close()


@pytest.fixture
async def other(ledger: SqlLedger, tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqlLedger]:
    found = SqlLedger(SqliteDatabase(tmp_path / "ledger.db"), clock)
    yield found
    await found.close()


class TestSqlLedger(LedgerContract):
    pass


async def open_many(path: Path, clock: FakeClock, count: int) -> list[SqlLedger]:
    return [SqlLedger(SqliteDatabase(path), clock) for _ in range(count)]


async def test_eight_writers_of_the_same_keys_write_each_once(
    ledger: SqlLedger, clock: FakeClock, tmp_path: Path
) -> None:
    # SCENARIOS 20
    book, random = await Book(ledger, clock).prepare(), Random(7)
    keys = [f"k{number:04}" for number in range(2_000)]
    leases = await book.begin_all(*(f"list {number}" for number in range(8)))
    writers = await open_many(tmp_path / "ledger.db", clock, 8)
    await ledger._db.write(lambda connection: install_effect_log(connection, "gov_procure"))

    async def list_all(at: int) -> list[Task]:
        mine, tasks = Book(writers[at], clock), dict[int, Task]()
        order = random.sample(keys, len(keys))
        for start in range(0, len(order), 100):
            batch = order[start : start + 100]
            page = [make_entry(key) for key in (*batch, *random.sample(batch, 5))]
            tasks |= {task.ref: task for task in (await mine.show(leases[at], *page)).due}
        return list(tasks.values())

    due = await asyncio.gather(*(list_all(at) for at in range(8)))
    assert {len(tasks) for tasks in due} == {2_000}
    assert (await book.count()).listed == 2_000

    async def commit_all(at: int) -> int:
        mine, order = Book(writers[at], clock), random.sample(due[at], len(due[at]))
        answers = [
            await mine.commit(*(make_result(task) for task in order[start : start + 100]))
            for start in range(0, len(order), 100)
        ]
        return sum(answer is Committed.COMMITTED for part in answers for answer in part)

    assert sum(await asyncio.gather(*(commit_all(at) for at in range(8)))) == 2_000
    await book.balanced()
    effects = await ledger._db.read(read_effects)
    assert sorted(effect.key for effect in effects) == keys
    assert await ledger._db.read(written_twice) == []
    assert await ledger.dead_letters(DeadFilter()) == []
    for writer in writers:
        await writer.close()


async def test_the_effect_log_sees_a_second_writing(ledger: SqlLedger, clock: FakeClock) -> None:
    book = await Book(ledger, clock).prepare()
    await ledger._db.write(lambda connection: install_effect_log(connection, "gov_procure"))
    await book.stored("a", {"title": "v1"})
    same = "UPDATE gov_procure SET title = title"
    await ledger._db.write(lambda connection: connection.execute(same).rowcount)
    assert await ledger._db.read(written_twice) == []
    await ledger._db.write(lambda connection: connection.execute("UPDATE gov_procure SET title = 'v2'").rowcount)
    assert await ledger._db.read(written_twice) == [("notice", "a", 1, 2)]
    assert [effect.kind for effect in await ledger._db.read(read_effects)] == ["insert", "update"]


async def test_a_row_that_a_constraint_refuses_is_found_by_halving(ledger: SqlLedger, clock: FakeClock) -> None:
    # SCENARIOS 17: a batch of 1,000 with one row that breaks a check
    book = await Book(ledger, clock).prepare()
    trigger = (
        "CREATE TRIGGER strict_title BEFORE INSERT ON gov_procure WHEN NEW.title = 'bad'"
        " BEGIN SELECT RAISE(ABORT, 'titles are not bad here'); END"
    )
    await ledger._db.write(lambda connection: connection.execute(trigger).rowcount)
    tasks = await book.listed(*(f"k{number:04}" for number in range(1_000)))
    results = [make_result(task) for task in tasks]
    for at in (0, 617):
        results[at] = make_result(tasks[at], {"title": "bad"})
    answers = await ledger.commit(results)
    assert [at for at, (answer, _) in enumerate(answers) if answer is not Committed.COMMITTED] == [0, 617]
    assert answers[617] == (Committed.REJECTED, "titles are not bad here")
    letters = await ledger.dead_letters(DeadFilter())
    assert {(letter.key, letter.reason) for letter in letters} == {
        ("k0000", "titles are not bad here"),
        ("k0617", "titles are not bad here"),
    }
    assert len(await book.rows()) == 998
    await book.balanced()


async def test_a_full_disk_is_passing_and_leaves_nothing_half(ledger: SqlLedger, clock: FakeClock) -> None:
    # CRASH-WINDOWS 22
    book = await Book(ledger, clock).prepare()
    lease = await book.begin()
    entries = [make_entry(f"k{number}", "long " * 500) for number in range(100)]
    await ledger._db.write(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchone())
    with pytest.raises(TransientError, match="disk is full"):
        await book.show(lease, *entries)
    assert (await book.count()).listed == 0
    await ledger._db.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchone())
    assert (await book.show(lease, *entries)).new == 100
    await book.balanced()


async def test_the_file_itself_refuses_a_second_running_run(ledger: SqlLedger, clock: FakeClock) -> None:
    book = await Book(ledger, clock).prepare()
    await book.open(slot=1_000)
    again = (
        "INSERT INTO run(source_id, slot, started_by, state, started_at, limit_ms, deadline)"
        " SELECT source_id, slot + 1, started_by, state, started_at, limit_ms, deadline FROM run"
    )
    with pytest.raises(sqlite3.IntegrityError):
        await ledger._db.write(lambda connection: connection.execute(again).rowcount)
    assert len(await ledger.running()) == 1


async def test_only_what_may_still_cover_stays_on_record(ledger: SqlLedger, clock: FakeClock) -> None:
    book = await Book(ledger, clock).prepare()

    async def kept() -> list[tuple[int, str]]:
        statement = "SELECT pass_id, key FROM shown_before ORDER BY pass_id, key"
        return await ledger._db.read(lambda connection: connection.execute(statement).fetchall())

    await book.walk("a", state=PassState.FAILED)
    await book.walk("b", "a", state=PassState.SUSPICIOUS)
    assert await kept() == []
    (run,) = await ledger.runs("gov", limit=1)
    await book.walk("c", "b", "a", state=PassState.SUSPICIOUS)
    assert await kept() == [(run.passes[0].id, "a"), (run.passes[0].id, "b")]
    await ledger.accept_run(run.id, "looked at it")
    assert await kept() == []
    await book.walk("c", "b", "a")
    assert [key for _, key in await kept()] == ["c"]
    await ledger.forget(ForgetFilter(source_id="gov"))
    assert await kept() == []


async def test_an_id_is_never_given_twice(ledger: SqlLedger, clock: FakeClock) -> None:
    # A result of a forgotten item may still come, and must not meet the next one.
    book = await Book(ledger, clock).prepare()
    (old,) = await book.listed("a")
    await ledger.forget(ForgetFilter(scope="notice", key="a"))
    (new,) = await book.listed("b")
    assert new.ref > old.ref
    assert await book.commit(make_result(old)) == [Committed.LATE]


async def test_fill_rates_are_counted_by_source_day_and_field(ledger: SqlLedger, clock: FakeClock) -> None:
    # SCENARIOS 6
    book = await Book(ledger, clock).prepare()
    tasks = await book.listed("a", "b", "c")
    await book.commit(
        make_result(tasks[0], filled={"title": True, "budget": True}, ended_at=5),
        make_result(tasks[1], filled={"title": True, "budget": False}, ended_at=6),
        failure(tasks[2], Outcome.MISFIT, None, filled={"title": False, "budget": False}, ended_at=7),
    )
    await book.commit(make_result(tasks[0], filled={"title": False}))
    fill = "SELECT field, filled, total FROM fill WHERE day = 0 ORDER BY field"
    found = await ledger._db.read(lambda connection: connection.execute(fill).fetchall())
    assert found == [("budget", 1, 3), ("title", 2, 3)]
    await book.walk("x", "y", source="feed")
    today = f"SELECT field, filled, total FROM fill WHERE day = {clock.now() // 86_400_000} ORDER BY field"
    found = await ledger._db.read(lambda connection: connection.execute(today).fetchall())
    assert found == [("budget", 0, 2), ("title", 2, 2)]


async def test_a_ledger_that_was_moved_stops_every_process_on_it(ledger: SqlLedger, clock: FakeClock) -> None:
    # CRASH-WINDOWS 41
    book = await Book(ledger, clock).prepare()
    lease = await book.begin()
    moved = "INSERT INTO meta(name, value) VALUES ('moved_to', 'postgresql://db/fyke')"
    await ledger._db.write(lambda connection: connection.execute(moved).rowcount)
    for call in (book.show(lease, make_entry("a")), ledger.commit([]), ledger.open_count(), ledger.migrate()):
        with pytest.raises(UsageError, match="postgresql://db/fyke"):
            await call


BIG = ("item", "sighting", "version", "visit", "page", "refused")
HOT = {
    "page: guard": pages.GUARD,
    "page: known": entries.KNOWN,
    "page: refresh": entries.REFRESH,
    "page: renew": entries.RENEW,
    "page: reopen": entries.REOPEN,
    "page: store": entries.STORE,
    "page: sighting": pages.SIGHTING,
    "page: letter": entries.CLOSE_LETTER,
    "commit: items": commits.ITEMS,
    "commit: stored": commits.STORED,
    "commit: closed": commits.CLOSED,
    "commit: attempted": commits.ATTEMPTED,
    "commit: told before": commits.TOLD_BEFORE,
    "commit: letter": entries.LETTER,
    "still due": due.STILL_DUE,
    "due items": due.DUE_ITEMS,
    "due passes": due.DUE_PASSES,
    "wanted items": due.WANTED_ITEMS,
    "wanted passes": due.WANTED_PASSES,
    "recognise": runs.RECOGNISE,
    "page: shown before": coverage.KEEP_SHOWN,
    "covered": coverage.COVERED,
    "covered before": coverage.COVERED_BEFORE,
    "forget shown": coverage.FORGET_SHOWN,
    "anchors": coverage.ANCHORS,
}
# A walk along an index that holds only what is pending or running, in order: LIMIT ends it.
BY_PARTIAL_INDEX = {"due items": "item_pending", "due passes": "pass_running"}


@pytest.mark.parametrize("name", HOT)
async def test_no_hot_statement_walks_a_big_table(ledger: SqlLedger, name: str) -> None:
    statement = HOT[name]
    marks = {int(number) for number in re.findall(r"\?(\d+)", statement)}
    values = [1] * (max(marks, default=0) or statement.count("?"))

    def plan(connection: sqlite3.Connection) -> list[str]:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]

    steps = await ledger._db.read(plan)
    aliases = dict(re.findall(r"(?:FROM|JOIN) (\w+) (\w+)\b", statement))
    tables = {alias: table for table, alias in aliases.items()}
    scanned = [step for step in steps if step.startswith("SCAN")]
    walked = [step for step in scanned if tables.get(step.split()[1], step.split()[1]) in BIG]
    if name in BY_PARTIAL_INDEX:
        walked = [step for step in walked if BY_PARTIAL_INDEX[name] not in step]
    assert walked == []
    assert not any("TEMP B-TREE" in step for step in steps)
