"""What every ledger in a SQL database must show, beside the contract: many writers, refused rows, ids, fill rates.

A test file gives the fixtures `ledger`, `clock` and `open_ledger`, which opens one more handle on the same database.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeAlias

import pytest

from fyke.db.connection import Connection
from fyke.errors import UsageError
from fyke.ledgers.sql import SqlLedger
from fyke.model import Committed, DeadFilter, ForgetFilter, Outcome, PassState, RunState, Task
from fyke.testing.clock import FakeClock
from fyke.testing.effects import install_effect_log, read_effects, written_twice
from fyke.testing.ledger_steps import Book, failure, make_entry, make_result

OpenLedger: TypeAlias = Callable[[], Awaitable[SqlLedger]]

# A check on titles, in the words of each database; its message ends in REFUSED.
REFUSED = "titles are not bad here"
STRICT_TITLE = {
    "sqlite": [
        "CREATE TRIGGER strict_title BEFORE INSERT ON gov_procure WHEN NEW.title = 'bad'"
        f" BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
    ],
    "postgres": [
        "CREATE OR REPLACE FUNCTION strict_title() RETURNS trigger AS $$ BEGIN IF NEW.title = 'bad' THEN"
        f" RAISE EXCEPTION '{REFUSED}' USING ERRCODE = '23514'; END IF; RETURN NEW; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER strict_title BEFORE INSERT ON gov_procure FOR EACH ROW EXECUTE FUNCTION strict_title()",
    ],
    "mysql": [
        "CREATE TRIGGER strict_title BEFORE INSERT ON gov_procure FOR EACH ROW BEGIN IF NEW.title = 'bad' THEN"
        f" SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 4025, MESSAGE_TEXT = '{REFUSED}'; END IF; END"
    ],
}


async def ask(ledger: SqlLedger, statement: str) -> list[tuple[object, ...]]:
    return await ledger._db.read(lambda connection: [tuple(row) for row in connection.execute(statement)])


async def change(ledger: SqlLedger, *statements: str) -> None:
    def call(connection: Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    await ledger._db.write(call)


class LedgerCases:
    async def test_eight_writers_of_the_same_keys_write_each_once(
        self, ledger: SqlLedger, clock: FakeClock, open_ledger: OpenLedger
    ) -> None:
        # SCENARIOS 20
        book, random = await Book(ledger, clock).prepare(), Random(7)
        keys = [f"k{number:04}" for number in range(2_000)]
        leases = await book.begin_all(*(f"list {number}" for number in range(8)))
        writers = [await open_ledger() for _ in range(8)]
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

    async def test_the_effect_log_sees_a_second_writing(self, ledger: SqlLedger, clock: FakeClock) -> None:
        book = await Book(ledger, clock).prepare()
        await ledger._db.write(lambda connection: install_effect_log(connection, "gov_procure"))
        await book.stored("a", {"title": "v1"})
        await change(ledger, "UPDATE gov_procure SET title = title")
        assert await ledger._db.read(written_twice) == []
        await change(ledger, "UPDATE gov_procure SET title = 'v2'")
        assert await ledger._db.read(written_twice) == [("notice", "a", 1, 2)]
        assert [effect.kind for effect in await ledger._db.read(read_effects)] == ["insert", "update"]

    async def test_a_row_that_a_constraint_refuses_is_found_by_halving(
        self, ledger: SqlLedger, clock: FakeClock
    ) -> None:
        # SCENARIOS 17: a batch of 1,000 with one row that breaks a check
        book = await Book(ledger, clock).prepare()
        await change(ledger, *STRICT_TITLE[ledger._db.dialect])
        tasks = await book.listed(*(f"k{number:04}" for number in range(1_000)))
        results = [make_result(task) for task in tasks]
        for at in (0, 617):
            results[at] = make_result(tasks[at], {"title": "bad"})
        answers = await ledger.commit(results)
        assert [at for at, (answer, _) in enumerate(answers) if answer is not Committed.COMMITTED] == [0, 617]
        message = answers[617][1]
        # One line, with the server's code; DETAIL of PostgreSQL would quote the whole row.
        assert message.partition(" (")[0] == REFUSED
        letters = await ledger.dead_letters(DeadFilter())
        assert {(letter.key, letter.reason) for letter in letters} == {("k0000", message), ("k0617", message)}
        assert len(await book.rows()) == 998
        await book.balanced()

    async def test_slots_skipped_in_a_row_do_not_pile_up_and_none_is_taken_again(
        self, ledger: SqlLedger, clock: FakeClock
    ) -> None:
        book = await Book(ledger, clock).prepare()
        for slot in range(1_000, 51_000, 1_000):
            assert (await book.open(slot=slot, skipped="too late")).created
        last, before = await ledger.runs("gov")
        assert (last.slot, last.reason, last.covers_from) == (50_000, "too late", None)
        assert (before.slot, before.reason, before.covers_from) == (49_000, "too late (49 slots in a row)", 1_000)
        for slot in (1_000, 25_000, 49_000, 50_000):
            found = await book.open(slot=slot)
            assert (found.created, found.state) == (False, RunState.SKIPPED)
        # A run ends the row of slots, and is no part of it.
        run = await book.open(slot=51_000)
        await book.end(await book.start(run.tasks[0]))
        for slot in (52_000, 53_000, 54_000):
            await book.open(slot=slot, skipped="too late")
        runs = await ledger.runs("gov")
        assert [one.slot for one in runs] == [54_000, 53_000, 51_000, 50_000, 49_000]
        assert runs[1].reason == "too late (2 slots in a row)"

    async def test_only_what_may_still_cover_stays_on_record(self, ledger: SqlLedger, clock: FakeClock) -> None:
        book = await Book(ledger, clock).prepare()

        async def kept() -> list[tuple[object, ...]]:
            return await ask(ledger, "SELECT pass_id, key FROM shown_before ORDER BY pass_id, key")

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

    async def test_an_id_is_never_given_twice(self, ledger: SqlLedger, clock: FakeClock) -> None:
        # A result of a forgotten item may still come, and must not meet the next one.
        book = await Book(ledger, clock).prepare()
        (old,) = await book.listed("a")
        await ledger.forget(ForgetFilter(scope="notice", key="a"))
        (new,) = await book.listed("b")
        assert new.ref > old.ref
        assert await book.commit(make_result(old)) == [Committed.LATE]

    async def test_fill_rates_are_counted_by_source_day_and_field(self, ledger: SqlLedger, clock: FakeClock) -> None:
        # SCENARIOS 6
        book = await Book(ledger, clock).prepare()
        tasks = await book.listed("a", "b", "c")
        await book.commit(
            make_result(tasks[0], filled={"title": True, "budget": True}, ended_at=5),
            make_result(tasks[1], filled={"title": True, "budget": False}, ended_at=6),
            failure(tasks[2], Outcome.MISFIT, None, filled={"title": False, "budget": False}, ended_at=7),
        )
        await book.commit(make_result(tasks[0], filled={"title": False}))
        found = await ask(ledger, "SELECT field, filled, total FROM fill WHERE day = 0 ORDER BY field")
        assert found == [("budget", 1, 3), ("title", 2, 3)]
        await book.walk("x", "y", source="feed")
        today = clock.now() // 86_400_000
        found = await ask(ledger, f"SELECT field, filled, total FROM fill WHERE day = {today} ORDER BY field")
        assert found == [("budget", 0, 2), ("title", 2, 2)]

    async def test_a_ledger_that_was_moved_stops_every_process_on_it(self, ledger: SqlLedger, clock: FakeClock) -> None:
        # CRASH-WINDOWS 41
        book = await Book(ledger, clock).prepare()
        (task,) = await book.listed("due")
        lease = await book.begin()
        await change(ledger, "INSERT INTO meta(name, value) VALUES ('moved_to', 'postgresql://db/fyke')")
        commit = ledger.commit([make_result(task)])
        for call in (book.show(lease, make_entry("a")), commit, ledger.open_count(), ledger.migrate()):
            with pytest.raises(UsageError, match="postgresql://db/fyke"):
                await call
