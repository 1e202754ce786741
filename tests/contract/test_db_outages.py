"""Databases that vanish: before COMMIT the call is run again, at COMMIT its caller asks, and afterwards all goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from fyke.db.bridge import ask
from fyke.db.connection import Connection
from fyke.db.server import ServerDatabase
from fyke.errors import TransientError, UsageError
from fyke.lab.relay import Relay, open_relay
from fyke.lab.servers import MariaServer, PostgresServer
from tests.databases import KINDS, make_table, open_database

INSERT = "INSERT INTO item(key, n) VALUES (?, ?)"
ALL = "SELECT key, n FROM item ORDER BY key"
Own = PostgresServer | MariaServer


async def rows(database: ServerDatabase) -> list[Any]:
    return await database.read(lambda connection: connection.execute(ALL).fetchall())


@pytest.fixture(params=KINDS)
async def url(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> str:
    found = fresh_database(request.param)
    database = open_database(found)
    await make_table(database)
    await database.close()
    return found


@pytest.fixture
async def relay(url: str) -> AsyncIterator[Relay]:
    async with await open_relay(int(url.rpartition(":")[2].partition("/")[0])) as found:
        yield found


@pytest.fixture
async def database(url: str, relay: Relay) -> AsyncIterator[ServerDatabase]:
    found = open_database(relay.through(url), connections=4)
    yield found
    await found.close()


async def test_a_connection_cut_before_commit_runs_the_call_again(database: ServerDatabase, relay: Relay) -> None:
    runs = 0

    def call(connection: Connection) -> int:
        nonlocal runs
        runs += 1
        connection.execute(INSERT, ("a", runs))
        if runs == 1:
            relay.cut()
        connection.execute(INSERT, ("b", runs))
        return runs

    assert await database.write(call) == 2
    assert await rows(database) == [("a", 2), ("b", 2)]


async def test_a_connection_cut_again_and_again_is_told(database: ServerDatabase, relay: Relay) -> None:
    def call(connection: Connection) -> None:
        connection.execute(INSERT, ("a", 1))
        relay.cut()
        connection.execute(INSERT, ("b", 1))

    with pytest.raises(TransientError, match="cannot be reached"):
        await database.write(call)
    assert await rows(database) == []


async def test_a_reply_to_commit_that_is_lost_leaves_it_to_the_caller_to_ask(
    database: ServerDatabase, relay: Relay
) -> None:
    await database.open()
    runs = 0

    def call(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        connection.execute(INSERT, ("a", 1))

    relay.swallow(lambda request, _: b"COMMIT" in request.upper(), cut=True)
    with pytest.raises(TransientError, match="not known what was written"):
        await database.write(call)
    # It was written, and not by running it twice.
    assert runs == 1
    assert await rows(database) == [("a", 1)]


async def test_all_idle_connections_that_were_cut_are_replaced(database: ServerDatabase, relay: Relay) -> None:
    gate = asyncio.Barrier(4)
    await asyncio.gather(*(database.read(lambda _: ask(asyncio.wait_for(gate.wait(), 20))) for _ in range(4)))
    assert relay.connections == 4
    for number in range(6):
        relay.cut()
        await database.write(lambda connection, n=number: connection.execute(INSERT, (f"key {n}", n)))  # type: ignore[misc]
    assert len(await rows(database)) == 6


async def test_a_listener_that_was_cut_listens_again(database: ServerDatabase, relay: Relay, url: str) -> None:
    there = open_database(url)
    await database.wait(1, database.version)
    for number in range(2):
        relay.cut()
        # The cut itself ends a wait, as whoever listens anew has missed what came before.
        since = database.version
        waiting = asyncio.create_task(database.wait(20, since))

        def call(connection: Connection, n: int = number) -> None:
            connection.execute(INSERT, (f"key {n}", n))
            connection.notify()

        await there.write(call)
        await asyncio.wait_for(waiting, 10)
    await there.close()


async def test_who_gives_up_waiting_leaves_no_half_of_a_transaction(database: ServerDatabase) -> None:
    inside = asyncio.Event()

    def call(connection: Connection) -> None:
        connection.execute(INSERT, ("a", 1))
        inside.set()
        ask(asyncio.Event().wait())

    task = asyncio.create_task(database.write(call))
    await asyncio.wait_for(inside.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # No lock is left, either.
    await database.write(lambda connection: connection.execute(INSERT, ("a", 2)))
    assert await rows(database) == [("a", 2)]


# --- Servers that end, stand still, or were never there ---


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[Own]:
    make = request.getfixturevalue("own_postgres" if request.param == "postgres" else "own_maria")
    found: Own = make()
    yield found.start()
    found.stop()


async def test_a_server_that_was_killed_is_used_again_when_it_is_back(server: Own) -> None:
    database = open_database(server.url)
    await make_table(database)
    await database.write(lambda connection: connection.execute(INSERT, ("before", 1)))
    server.kill()
    for _ in range(2):
        with pytest.raises(TransientError, match="cannot be reached"):
            await database.write(lambda connection: connection.execute(INSERT, ("during", 1)))
        with pytest.raises(TransientError, match="cannot be reached"):
            await rows(database)
    server.start()
    await database.write(lambda connection: connection.execute(INSERT, ("after", 1)))
    assert [key for key, _ in await rows(database)] == ["after", "before"]
    await database.close()


async def test_a_server_that_stands_still_is_given_up_and_used_again(
    server: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("postgres", "mysql"):
        monkeypatch.setattr(f"fyke.db.{module}.COMMAND_S", 0.5)
        monkeypatch.setattr(f"fyke.db.{module}.CONNECT_S", 0.5)
    database = open_database(server.url)
    await make_table(database)
    server.freeze()
    with pytest.raises(TransientError, match="cannot be reached"):
        await database.write(lambda connection: connection.execute(INSERT, ("during", 1)))
    server.thaw()
    await database.write(lambda connection: connection.execute(INSERT, ("after", 1)))
    assert [key for key, _ in await rows(database)] == ["after"]
    await database.close()


async def test_a_database_that_is_not_there_is_a_persons_mistake(server: Own) -> None:
    database = open_database(server.url.rpartition("/")[0] + "/nowhere")
    with pytest.raises(UsageError, match="CREATE DATABASE nowhere"):
        await database.open()
    await database.close()


async def test_a_wrong_password_is_told_and_not_shown(server: Own) -> None:
    if isinstance(server, PostgresServer):
        server.execute("CREATE ROLE guest LOGIN; REVOKE CONNECT ON DATABASE fyke FROM public")
        wrong = server.url.replace("//fyke@", "//guest:not-this-one@")
    else:
        wrong = server.url.replace("//fyke@", "//fyke:not-this-one@")
    assert "not-this-one" in wrong
    database = open_database(wrong)
    with pytest.raises(UsageError) as caught:
        await database.open()
    assert "not-this-one" not in str(caught.value)
    await database.close()


async def test_a_row_larger_than_the_server_takes_is_the_rows_fault(
    own_maria: Callable[..., MariaServer],
) -> None:
    server = own_maria(options={"max-allowed-packet": "1M"}).start()
    database = open_database(server.url)
    await make_table(database)
    text = "INSERT INTO item(key, word) VALUES (?, ?)"
    half = "x" * 300_000
    await database.write(lambda connection: connection.executemany(text, [(f"k{n}", half) for n in range(8)]))
    for many in (False, True):
        with pytest.raises(ValueError, match="max_allowed_packet"):
            await database.write(
                lambda c, many=many: (
                    c.executemany(text, [("a", "x"), ("b", half * 4)])  # type: ignore[misc]
                    if many
                    else c.execute(text, ("b", half * 4))
                )
            )
    assert [key for key, _ in await rows(database)] == [f"k{n}" for n in range(8)]
    await database.close()


async def test_a_database_that_cannot_hold_most_texts_is_refused(own_postgres: Callable[..., PostgresServer]) -> None:
    server = own_postgres().start()
    server.execute("CREATE DATABASE narrow ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    database = open_database(server.url_of("narrow"))
    with pytest.raises(UsageError, match="ENCODING 'UTF8'"):
        await database.open()
    await database.close()
