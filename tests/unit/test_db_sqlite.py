"""The SQLite database behind the interface of all three: what is asked of it alike is answered alike."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fyke.db.connection import Connection, Database
from fyke.db.sqlite import SqliteDatabase
from fyke.errors import TransientError


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    found: Database = SqliteDatabase(tmp_path / "fyke.db")
    # Without `meta` it would be another program's.
    for table in ("meta(name TEXT, value TEXT)", "t(a INTEGER PRIMARY KEY, b TEXT)"):
        await found.write(lambda connection, text=table: connection.execute(f"CREATE TABLE {text} STRICT"))  # type: ignore[misc]
    yield found
    await found.close()


async def test_a_call_that_asks_for_it_is_run_again_but_not_for_ever(database: Database) -> None:
    runs = 0

    def call(connection: Connection) -> int:
        nonlocal runs
        runs += 1
        connection.execute("INSERT INTO t(a) VALUES (?)", (runs,))
        return runs if runs == 3 else connection.repeat("a race")

    assert await database.write(call) == 3
    kept = await database.read(lambda connection: connection.execute("SELECT a FROM t").fetchall())
    assert kept == [(3,)]
    with pytest.raises(TransientError, match="always"):
        await database.write(lambda connection: connection.repeat("always"))


async def test_the_shared_texts_are_taken_as_they_are(database: Database) -> None:
    def call(connection: Connection) -> list[tuple[int, str]]:
        connection.executemany("INSERT INTO t(a, b) VALUES (?, number(?))", [(1, "x"), (2, "y")])
        connection.execute("UPDATE t SET a = greatest(a, ?) WHERE b IS NOT DISTINCT FROM ?", (9, "y"))
        connection.notify()
        return connection.execute("SELECT a, b FROM t ORDER BY a FOR UPDATE SKIP LOCKED").fetchall()

    since = database.version
    assert await database.write(call) == [(1, "x"), (9, "y")]
    await database.wait(20, since)
    assert database.version > since
    assert database.dialect == "sqlite"
    assert await database.write(lambda connection: connection.dialect) == "sqlite"
