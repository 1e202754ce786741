"""One connection for all databases, on real servers: transactions, many rows, texts and numbers, ids, waiting."""

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest

from fyke.db.connection import Connection, listed
from fyke.db.errors import is_row_error
from fyke.db.server import ServerDatabase
from fyke.errors import TransientError
from tests.databases import KINDS, make_table, open_database

INSERT = "INSERT INTO item(key, n) VALUES (?, ?)"
ADD = "INSERT INTO item(key, n) VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET n = n + excluded.n"
ALL = "SELECT key, n FROM item ORDER BY key"


@pytest.fixture(params=KINDS)
async def url(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> str:
    found = fresh_database(request.param)
    database = open_database(found)
    await make_table(database)
    await database.close()
    return found


@pytest.fixture
async def database(url: str) -> AsyncIterator[ServerDatabase]:
    found = open_database(url)
    yield found
    await found.close()


async def rows(database: ServerDatabase) -> list[Any]:
    return await database.read(lambda connection: connection.execute(ALL).fetchall())


async def nothing_beside(database: ServerDatabase) -> None:
    """Wait for what was begun beside to reach the server."""
    await database.read(lambda connection: None)


# --- Transactions ---


async def test_a_call_that_fails_leaves_nothing(database: ServerDatabase) -> None:
    def call(connection: Connection) -> None:
        connection.execute(INSERT, ("a", 1))
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        await database.write(call)
    assert await rows(database) == []


async def test_a_savepoint_takes_back_only_what_was_done_in_it(database: ServerDatabase) -> None:
    def call(connection: Connection) -> list[bool]:
        refused = []
        connection.execute(INSERT, ("a", 1))
        for number in (2, None, 3):
            try:
                with connection.savepoint():
                    connection.execute(INSERT, (f"before {number}", 0))
                    with connection.savepoint():
                        connection.execute(INSERT, (f"in {number}", number))
            except Exception as error:  # noqa: BLE001 - each driver has its own
                refused.append(is_row_error(error))
        return refused

    assert await database.write(call) == [True]
    assert [key for key, _ in await rows(database)] == ["a", "before 2", "before 3", "in 2", "in 3"]


async def test_a_read_sees_one_moment(database: ServerDatabase) -> None:
    await database.write(lambda connection: connection.execute(INSERT, ("a", 1)))
    begun, written = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def write() -> None:
        await begun.wait()
        await database.write(lambda connection: connection.executemany(ADD, [("a", 1), ("b", 1)]))
        written.set()

    def call(connection: Connection) -> tuple[Any, Any]:
        before = connection.execute(ALL).fetchall()
        begun.set()
        _wait(written)
        return before, connection.execute(ALL).fetchall()

    writer = loop.create_task(write())
    before, after = await database.read(call)
    await writer
    assert before == after == [("a", 1)]
    assert await rows(database) == [("a", 2), ("b", 1)]


async def test_statements_that_go_together_are_all_written(database: ServerDatabase) -> None:
    await database.write(lambda connection: connection.executemany(INSERT, [("x", 1), ("y", 2)]))
    change, none = "UPDATE item SET n = ? WHERE key = ?", "DELETE FROM item WHERE key = ?"
    many = [(f"many {number}", number) for number in range(200)]

    def call(connection: Connection) -> None:
        connection.together([(change, [(10, "x")]), (INSERT, [("a", 1), ("b", 2)]), (none, [])])
        connection.together([(ADD, [("c", 1), ("c", 1)]), (change, [(20, "y")]), (INSERT, many)])
        connection.together([])

    await database.write(call)
    found = dict(await rows(database))
    assert len(found) == 205
    assert [found[key] for key in "abcxy"] == [1, 2, 2, 10, 20]


async def test_of_statements_that_go_together_all_are_refused_or_none(database: ServerDatabase) -> None:
    await database.write(lambda connection: connection.execute(INSERT, ("x", 1)))
    parts = [("UPDATE item SET n = ? WHERE key = ?", [(10, "x")]), (INSERT, [("a", 1), ("b", None)])]
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each driver has its own
        await database.write(lambda connection: connection.together(parts))
    assert is_row_error(raised.value)
    assert await rows(database) == [("x", 1)]


async def test_a_look_sees_what_a_read_sees_and_asks_once(database: ServerDatabase) -> None:
    await database.write(lambda connection: connection.execute(INSERT, ("a", 1)))
    assert await database.look(lambda connection: connection.execute(ALL).fetchall()) == [("a", 1)]

    def twice(connection: Connection) -> None:
        for _ in range(2):
            connection.execute(ALL)

    if database.looks:
        with pytest.raises(RuntimeError, match="one statement"):
            await database.look(twice)
    # The connections are as good as before.
    await database.write(lambda connection: connection.execute(INSERT, ("b", 1)))
    assert await database.look(lambda connection: connection.execute(ALL).fetchall()) == [("a", 1), ("b", 1)]


def _wait(event: asyncio.Event) -> None:
    from fyke.db.bridge import ask

    ask(asyncio.wait_for(event.wait(), 20))


async def test_a_deadlock_is_repeated_and_both_are_written(database: ServerDatabase) -> None:
    await database.write(lambda connection: connection.executemany(INSERT, [("a", 0), ("b", 0)]))
    locked = {"a": asyncio.Event(), "b": asyncio.Event()}
    calls: list[str] = []

    def add(first: str, second: str) -> Callable[[Connection], None]:
        def call(connection: Connection) -> None:
            calls.append(first)
            connection.execute("UPDATE item SET n = n + 1 WHERE key = ?", (first,))
            locked[first].set()
            _wait(locked[second])
            connection.execute("UPDATE item SET n = n + 10 WHERE key = ?", (second,))

        return call

    await asyncio.gather(database.write(add("a", "b")), database.write(add("b", "a")))
    assert await rows(database) == [("a", 11), ("b", 11)]
    assert len(calls) == 3


async def test_a_call_that_asks_for_it_is_run_again_but_not_for_ever(database: ServerDatabase) -> None:
    runs = 0

    def call(connection: Connection) -> int:
        nonlocal runs
        runs += 1
        connection.execute(INSERT, (f"run {runs}", runs))
        return runs if runs == 3 else connection.repeat("a race")

    assert await database.write(call) == 3
    assert await rows(database) == [("run 3", 3)]

    with pytest.raises(TransientError, match="always"):
        await database.write(lambda connection: connection.repeat("always"))


async def test_two_that_insert_one_key_of_ours_agree_by_a_repeat(database: ServerDatabase) -> None:
    both = asyncio.Barrier(2)
    looked = 0

    def call(connection: Connection) -> str:
        nonlocal looked
        looked += 1
        found = connection.execute("SELECT id FROM item WHERE key = ?", ("a",)).fetchone()
        if looked <= 2:
            from fyke.db.bridge import ask

            ask(asyncio.wait_for(both.wait(), 20))
        if found is None:
            connection.execute(INSERT, ("a", 1))
        return "known" if found else "new"

    answers = await asyncio.gather(database.write(call), database.write(call))
    assert sorted(answers) == ["known", "new"]
    assert await rows(database) == [("a", 1)]


async def test_eight_writers_of_the_same_keys_lose_nothing(url: str) -> None:
    databases = [open_database(url, connections=2) for _ in range(4)]
    draw = Random(7)

    def add(keys: list[str]) -> Callable[[Connection], None]:
        wanted = sorted(set(keys))

        def call(connection: Connection) -> None:
            held = "SELECT key, id FROM item WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key FOR UPDATE"
            known = dict(connection.execute(held, (listed(wanted),)))
            connection.executemany(INSERT, [(key, 0) for key in wanted if key not in known])
            connection.executemany("UPDATE item SET n = n + ? WHERE key = ?", [(1, key) for key in wanted])

        return call

    async def work(database: ServerDatabase) -> int:
        written = 0
        for _ in range(5):
            # Repeats inside, and in any order.
            keys = [f"key {draw.randrange(300)}" for _ in range(100)]
            await database.write(add(keys))
            written += len(set(keys))
        return written

    written = sum(await asyncio.gather(*(work(database) for database in databases for _ in range(2))))
    assert sum(n for _, n in await rows(databases[0])) == written
    for database in databases:
        await database.close()


async def test_no_more_connections_are_open_than_asked_for(url: str) -> None:
    few = open_database(url, connections=2)
    going = 0
    most = 0

    def call(connection: Connection) -> None:
        nonlocal going, most
        going += 1
        most = max(most, going)
        connection.execute(ALL).fetchall()
        going -= 1

    await asyncio.gather(*(few.read(call) for _ in range(20)))
    assert most == 2
    await few.close()


async def test_each_session_is_set_as_we_need_it(database: ServerDatabase) -> None:
    if database.dialect == "postgres":
        text = "SELECT current_setting('default_transaction_isolation'), current_setting('statement_timeout'),"
        text += " current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')"
        wanted: Any = ("read committed", "25s", "8s", "15s")
    else:
        text = "SELECT @@tx_isolation, @@innodb_lock_wait_timeout, @@idle_transaction_timeout,"
        text += " @@collation_connection"
        wanted = ("READ-COMMITTED", 8, 15, "utf8mb4_nopad_bin")
        (mode,) = await database.write(lambda connection: connection.execute("SELECT @@sql_mode").fetchone())
        assert {"STRICT_ALL_TABLES", "NO_BACKSLASH_ESCAPES"} <= set(mode.split(","))
    assert await database.write(lambda connection: connection.execute(text).fetchone()) == wanted


async def test_who_stands_still_with_locks_loses_them_soon_and_a_reader_has_time(database: ServerDatabase) -> None:
    """A transaction that has only locked rows so far counts as one that writes: its host may be cut off just then."""
    asked = (
        "SELECT current_setting('idle_in_transaction_session_timeout')"
        if database.dialect == "postgres"
        else "SELECT @@idle_transaction_timeout, @@idle_write_transaction_timeout, @@idle_readonly_transaction_timeout"
    )

    def limit(connection: Connection) -> list[str]:
        return [str(value) for value in connection.execute(asked).fetchone()]

    def changed(connection: Connection) -> None:
        connection.execute("INSERT INTO item(key) VALUES ('a')")

    soon, long = (["15s"], ["0"]) if database.dialect == "postgres" else (["15", "0", "0"], ["300", "0", "0"])
    for _ in range(2):
        assert await database.write(limit) == soon
        assert await database.read(limit) == long
    with pytest.raises(Exception, match=r"(?i)read.only"):
        await database.read(changed)
    await database.write(changed)


async def test_a_refused_statement_that_is_passed_over_does_not_become_a_lost_write(database: ServerDatabase) -> None:
    def call(connection: Connection) -> None:
        connection.execute(INSERT, ("a", 1))
        with pytest.raises(Exception, match=r"(?i)null"):
            connection.execute(INSERT, ("b", None))

    if database.dialect == "postgres":
        # PostgreSQL would take back "a" and say nothing.
        with pytest.raises(RuntimeError, match="takes back"):
            await database.write(call)
        assert await rows(database) == []
    else:
        await database.write(call)
        assert await rows(database) == [("a", 1)]


# --- Many rows ---


async def test_many_rows_are_written_and_changed_in_one_go(database: ServerDatabase) -> None:
    def call(connection: Connection) -> None:
        connection.executemany(INSERT, [])
        connection.executemany(INSERT, [("one", 1)])
        connection.executemany(INSERT, [(f"key {n:04}", n) for n in range(1_000)])
        connection.executemany("UPDATE item SET n = n + ? WHERE key = ?", [(2**40, f"key {n:04}") for n in range(500)])
        connection.executemany("DELETE FROM item WHERE key = ?", [(f"key {n:04}",) for n in range(250)])

    await database.write(call)
    found = dict(await rows(database))
    assert len(found) == 751
    assert (found["one"], found["key 0250"], found["key 0499"]) == (1, 250 + 2**40, 499 + 2**40)
    assert found["key 0500"] == 500


async def test_a_key_that_is_twice_in_a_batch_counts_twice(database: ServerDatabase) -> None:
    await database.write(lambda c: c.executemany(ADD, [("a", 1), ("b", 1), ("a", 2), ("a", 4)]))
    assert await rows(database) == [("a", 7), ("b", 1)]
    last = ADD.replace("n + excluded.n", "excluded.n")
    await database.write(lambda c: c.executemany(last, [("a", 1), ("b", 5), ("a", 3)]))
    assert await rows(database) == [("a", 3), ("b", 5)]


async def test_columns_without_any_value_and_of_mixed_kinds_are_written(database: ServerDatabase) -> None:
    text = "INSERT INTO item(key, n, word, mark, amount) VALUES (?, ?, ?, ?, number(?))"
    written = [("a", 1, None, None, 1), ("b", 2, None, b"\x00\xff", "1.25"), ("c", 3, None, None, 0.1)]

    def call(connection: Connection) -> None:
        connection.executemany(text, written)
        connection.executemany(text, [(f"{key}2", n, None, None, None) for key, n, *_ in written])
        connection.executemany("UPDATE item SET word = ? WHERE key = ?", [(None, "a"), (None, "b")])

    await database.write(call)
    found = await database.read(lambda c: c.execute("SELECT * FROM item WHERE n > 0 ORDER BY id").fetchall())
    assert [row[1:] for row in found[:3]] == [
        ("a", 1, None, None, 1),
        ("b", 2, None, b"\x00\xff", 1.25),
        ("c", 3, None, None, 0.1),
    ]
    assert [row[3:] for row in found[3:]] == [(None, None, None)] * 3


async def test_rows_of_different_lengths_are_refused_not_filled_up(database: ServerDatabase) -> None:
    with pytest.raises(ValueError, match=r"(?i)argument|length"):
        await database.write(lambda connection: connection.executemany(INSERT, [("a", 1), ("b",)]))
    assert await rows(database) == []


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_a_server_that_takes_no_rows_at_once_gets_them_behind_each_other(database: ServerDatabase) -> None:
    def call(connection: Connection) -> None:
        # As MySQL 8, which has no such command.
        connection._session.mariadb = False  # type: ignore[attr-defined]
        connection.executemany(ADD, [(f"key {n:03}", n) for n in range(300)])
        connection.executemany("UPDATE item SET n = ? WHERE key = ?", [(-1, f"key {n:03}") for n in range(3)])
        connection.executemany(ADD, [("key 001", 5), ("key 001", 7)])
        connection._session.mariadb = True  # type: ignore[attr-defined]

    await database.write(call)
    found = await rows(database)
    assert (len(found), sum(n for _, n in found)) == (300, sum(range(300)) - 3 - 3 + 12)


async def test_a_row_that_is_refused_tells_that_it_is_the_rows_fault(database: ServerDatabase) -> None:
    for values in ((None, 1), ("a", None), ("a" * 300 if database.dialect == "mysql" else None, 1), ("a", 2**63)):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each driver has its own
            await database.write(lambda connection, row=values: connection.executemany(INSERT, [("b", 1), row]))  # type: ignore[misc]
        assert is_row_error(caught.value), caught.value
    assert await rows(database) == []


async def test_lists_of_no_and_of_many_values(database: ServerDatabase) -> None:
    await database.write(lambda connection: connection.executemany(INSERT, [(f"k{n}", n) for n in range(20)]))
    inside = "SELECT count(*) FROM item WHERE {} IN (SELECT value FROM json_each(?))"

    def call(connection: Connection) -> list[int]:
        found = []
        for values in ([], [3], range(10, 5_010)):
            for text in (inside, inside.replace("IN", "NOT IN")):
                found += [
                    connection.execute(text.format("n"), (listed(values),)).fetchone()[0],
                    connection.execute(text.format("key"), (listed(f"k{n}" for n in values),)).fetchone()[0],
                ]
        return found

    assert await database.read(call) == [0, 0, 20, 20, 1, 1, 19, 19, 10, 10, 10, 10]


# --- Texts and numbers ---

ALIKE = [
    "x",
    "x ",
    "x  ",
    "X",
    "ｘ",
    "e",
    "é",
    "e\u0301",
    "ss",
    "ß",
    "😀",
    "😁",
    "\t",
    "'",
    "''",
    "\\",
    "\\'",
    "%s",
    "?",
    "-- ?",
]


async def test_texts_that_look_alike_are_different_keys_and_come_back_unchanged(database: ServerDatabase) -> None:
    await database.write(lambda connection: connection.executemany(INSERT, [(key, n) for n, key in enumerate(ALIKE)]))
    await database.write(lambda connection: connection.execute(INSERT, ("alone '\\%s?\\", 99)))

    def call(connection: Connection) -> list[Any]:
        text = "SELECT n FROM item WHERE key = ?"
        return [connection.execute(text, (key,)).fetchall() for key in ALIKE]

    assert await database.read(call) == [[(n,)] for n in range(len(ALIKE))]
    found = {key for key, _ in await rows(database)}
    assert found == {*ALIKE, "alone '\\%s?\\"}
    ordered = await database.read(lambda c: [key for (key,) in c.execute("SELECT key FROM item ORDER BY key")])
    assert ordered == sorted(ordered, key=lambda key: key.encode())


async def test_what_no_database_can_hold_is_refused(database: ServerDatabase) -> None:
    for key in ("\ud800", "a\udfffb"):
        with pytest.raises(Exception, match="surrogates not allowed") as caught:
            await database.write(lambda connection, key=key: connection.execute(INSERT, (key, 1)))  # type: ignore[misc]
        assert is_row_error(caught.value)
    if database.dialect == "postgres":
        with pytest.raises(Exception, match="0x00") as caught:
            await database.write(lambda connection: connection.execute(INSERT, ("a\x00b", 1)))
        assert is_row_error(caught.value)
    assert await rows(database) == []


async def test_bytes_and_long_texts_come_back_unchanged(database: ServerDatabase) -> None:
    every, long = bytes(range(256)) * 9, "中文 \\' % ? 😀\n" * 20_000
    text = "INSERT INTO item(key, word, mark) VALUES (?, ?, ?)"
    await database.write(lambda c: c.executemany(text, [("a", long, every), ("b", "", b"")]))
    await database.write(lambda c: c.execute(text, ("c", long, every)))
    found = await database.read(lambda c: c.execute("SELECT word, mark FROM item ORDER BY key").fetchall())
    assert found == [(long, every), ("", b""), (long, every)]


async def test_numbers_are_whole_where_they_are_and_keep_their_digits(database: ServerDatabase) -> None:
    text = "INSERT INTO item(key, n, amount) VALUES (?, ?, number(?))"
    amounts = [5, 0.1, 1280000.5, "12345678901234567890.123456789", -(2**62), "0.30"]

    def call(connection: Connection) -> tuple[list[Any], Any]:
        connection.executemany(text, [(f"k{n}", 2**62, amount) for n, amount in enumerate(amounts)])
        found = [row[0] for row in connection.execute("SELECT amount FROM item ORDER BY key")]
        facts = (
            "SELECT sum(n), count(*), min(n), max(key), sum(CASE WHEN n > ? THEN 1 ELSE 0 END) FROM item WHERE key < ?"
        )
        return found, connection.execute(facts, (0, "k1")).fetchone()

    found, facts = await database.write(call)
    assert found == [5, 0.1, 1280000.5, "12345678901234567890.123456789", -(2**62), 0.3]
    assert facts == (2**62, 1, 2**62, "k0", 1)
    assert [type(fact) for fact in facts] == [int, int, int, str, int]


async def test_a_number_beside_a_literal_may_be_as_large_as_any(database: ServerDatabase) -> None:
    values = {"big": 2**40, "none": None}

    def call(connection: Connection) -> Any:
        connection.execute(INSERT, ("a", 1))
        connection.execute("UPDATE item SET n = CASE WHEN :big = 0 THEN 0 ELSE greatest(n, :big) END", values)
        return connection.execute(
            "SELECT coalesce(?, 0), n FROM item WHERE n > ? - 1 LIMIT ?", (2**41, 2**40, 5)
        ).fetchone()

    assert await database.write(call) == (2**41, 2**40)


# --- Ids ---


async def test_no_id_is_given_twice_whoever_asks_and_whatever_becomes_of_it(url: str) -> None:
    given: list[int] = []

    def take(count: int, *, fail: bool = False) -> Callable[[Connection], None]:
        def call(connection: Connection) -> None:
            found = connection.new_ids("item", count)
            assert found == sorted(found)
            given.extend(found)
            connection.executemany("INSERT INTO item(id, key) VALUES (?, ?)", [(id, f"{id}") for id in found])
            if fail:
                raise KeyError("stop")

        return call

    for _ in range(2):
        databases = [open_database(url) for _ in range(3)]
        for database in databases:
            with pytest.raises(KeyError):
                await database.write(take(3, fail=True))
        await asyncio.gather(*(database.write(take(count)) for database in databases for count in (1, 7, 300)))
        # What was given and removed is not given again, either.
        await databases[0].write(lambda connection: connection.execute("DELETE FROM item WHERE id > ?", (5,)))
        for database in databases:
            await database.close()
    assert len(given) == len(set(given))


async def test_the_database_tells_the_id_that_it_gave(database: ServerDatabase) -> None:
    first = await database.write(lambda connection: connection.insert(INSERT, ("a", 1)))
    second = await database.write(
        lambda connection: connection.insert("INSERT INTO item(key, n) VALUES (:key, :n)", {"key": "b", "n": 2})
    )
    known = await database.read(lambda connection: connection.execute("SELECT id FROM item ORDER BY id").fetchall())
    assert known == [(first,), (second,)]


# --- Waiting, and the clock ---


async def test_a_commit_that_says_so_wakes_who_waits(url: str) -> None:
    here, there = open_database(url), open_database(url)
    await nothing_beside(here)
    # The first wait begins to listen, and that counts as news.
    await here.wait(1, here.version)
    since = here.version
    waiting = asyncio.create_task(here.wait(20, since))
    await asyncio.sleep(0)

    def call(connection: Connection) -> None:
        connection.execute(INSERT, ("a", 1))
        connection.notify()
        connection.notify()

    await there.write(call)
    await asyncio.wait_for(waiting, 5)
    if here.dialect == "postgres":
        assert here.version == since + 1
    await here.close()
    await there.close()


async def test_who_waits_in_the_same_process_is_woken_by_a_commit_only(database: ServerDatabase) -> None:
    def told(connection: Connection) -> None:
        connection.execute(INSERT, ("a", 1))
        connection.notify()

    def failed(connection: Connection) -> None:
        connection.notify()
        raise KeyError("stop")

    since = database.version
    with pytest.raises(KeyError):
        await database.write(failed)
    await database.write(lambda connection: connection.execute(INSERT, ("b", 1)))
    assert database.version == since
    await database.write(told)
    assert database.version == since + 1
    await database.wait(20, since)


async def test_the_clock_is_the_servers(database: ServerDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    await nothing_beside(database)
    text = {
        "postgres": "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
        "mysql": "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS BIGINT)",
    }[database.dialect]
    # A host whose own clock is an hour ahead.
    monkeypatch.setattr("fyke.db.server.time.time_ns", lambda: 0)
    before = database.now()
    (server,) = await database.read(lambda connection: connection.execute(text).fetchone())
    assert before - 1_000 <= server <= database.now() + 1_000
