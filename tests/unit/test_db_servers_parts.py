"""The parts that both servers share, without a server: bridge, pool, addresses, errors by their codes, numbers."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
from asyncmy import errors as mysql
from hypothesis import given
from hypothesis import strategies as st

from fyke.db.address import parse_address
from fyke.db.arrays import in_waves
from fyke.db.batches import together
from fyke.db.bridge import ask, bridged
from fyke.db.connection import RepeatTransaction, listed
from fyke.db.dialect import for_mysql
from fyke.db.errors import is_busy, is_lost, is_row_error, row_message
from fyke.db.mysql_session import bindable, bound, in_powers
from fyke.db.numbers import for_mariadb, plain_number
from fyke.db.pool import Pool
from fyke.db.server_errors import translate_server
from fyke.errors import TransientError, UsageError

# --- Drivers that are not there ---

MISSING = """
import sys
sys.modules[sys.argv[2]] = None
from fyke.errors import UsageError
try:
    __import__(sys.argv[1])
except UsageError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "driver", "extra"),
    [
        ("fyke.db.postgres", "asyncpg", "fyke[postgres]"),
        ("fyke.db.postgres", "greenlet", "fyke[postgres]"),
        ("fyke.db.mysql", "asyncmy", "fyke[mysql]"),
        ("fyke.db.mysql", "greenlet", "fyke[mysql]"),
    ],
)
def test_a_missing_driver_says_what_to_install(module: str, driver: str, extra: str) -> None:
    command = [sys.executable, "-c", MISSING, module, driver]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert f"pip install '{extra}'" in found.stdout
    assert driver in found.stdout


# --- The bridge ---


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def fail(error: Exception) -> int:
    await asyncio.sleep(0)
    raise error


async def test_a_plain_function_awaits_what_it_asks() -> None:
    def call(start: int) -> int:
        return sum((ask(answer(start + n)) for n in range(3)), 0)

    assert await bridged(call, 10) == 33
    assert await asyncio.gather(*(bridged(call, n) for n in range(20))) == [3 * n + 3 for n in range(20)]


async def test_an_error_reaches_the_function_where_it_asked() -> None:
    def call() -> str:
        try:
            ask(fail(KeyError("lost")))
        except KeyError as error:
            return f"caught {error}, then {ask(answer(7))}"
        return "never"

    assert await bridged(call) == "caught 'lost', then 7"
    with pytest.raises(KeyError, match="lost"):
        await bridged(lambda: ask(fail(KeyError("lost"))))


async def test_who_gives_up_waiting_ends_the_function() -> None:
    seen: list[str] = []

    def call() -> None:
        try:
            ask(asyncio.Event().wait())
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.create_task(bridged(call))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_a_connection_that_was_kept_is_of_no_use_later() -> None:
    question = answer(1)
    with pytest.raises(RuntimeError, match="inside the call"):
        ask(question)
    question.close()


# --- The pool ---


class Plug:
    """A connection."""

    def __init__(self, number: int) -> None:
        self.number, self.open = number, True

    def close(self) -> None:
        self.open = False


def plugs() -> tuple[Callable[[], Awaitable[Any]], list[Plug]]:
    made: list[Plug] = []

    async def connect() -> Plug:
        made.append(Plug(len(made)))
        return made[-1]

    return connect, made


def pool_of(limit: int) -> tuple[Pool, list[Plug]]:
    connect, made = plugs()
    return Pool(connect, Plug.close, lambda plug: plug.open, limit), made


async def test_no_more_connections_are_open_than_the_limit() -> None:
    pool, made = pool_of(2)
    first, second = await pool.take(), await pool.take()
    third = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    assert not third.done()
    pool.drop(first)
    assert (await third).number == 2
    assert [plug.open for plug in made] == [False, True, True]
    pool.give(second)


async def test_a_connection_that_broke_while_it_waited_is_replaced() -> None:
    pool, made = pool_of(2)
    plug = await pool.take()
    pool.give(plug)
    plug.open = False
    assert (await pool.take()).number == 1
    assert len(made) == 2


async def test_when_one_is_lost_none_that_waits_is_trusted() -> None:
    pool, made = pool_of(3)
    taken = [await pool.take() for _ in range(3)]
    pool.give(taken[0])
    pool.give(taken[1])
    pool.forget_idle()
    pool.drop(taken[2])
    assert not any(plug.open for plug in made)
    assert [(await pool.take()).number for _ in range(3)] == [3, 4, 5]


async def test_a_failed_connection_takes_no_place() -> None:
    failing = [OSError("away"), OSError("away")]

    async def connect() -> Plug:
        if failing:
            raise failing.pop()
        return Plug(0)

    pool = Pool(connect, Plug.close, lambda plug: plug.open, 1)
    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            await pool.take()
    assert (await pool.take()).number == 0


async def test_what_is_given_back_after_the_end_is_closed() -> None:
    pool, made = pool_of(2)
    plug = await pool.take()
    pool.close()
    pool.give(plug)
    assert not made[0].open
    with pytest.raises(RuntimeError, match="closed"):
        await pool.take()


# --- Addresses ---


def test_an_address_is_shown_without_its_password() -> None:
    address = parse_address("postgresql://fyke:p%40ss%2Fword@db.example:6543/led%20ger?sslmode=require")
    assert (address.user, address.password, address.database) == ("fyke", "p@ss/word", "led ger")
    assert (address.host, address.port, address.options) == ("db.example", 6543, {"sslmode": "require"})
    assert "p@ss" not in f"{address} {address!r}"
    assert address.hide("user fyke with p@ss/word") == "user fyke with ***"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://fyke:hidden@host",
        "mysql://fyke:hidden@/name",
        "oracle://fyke:hidden@host/name",
        "mysql://fyke:hidden@host:port/name",
        "mysql://fyke:hidden@host/a/b",
    ],
)
def test_an_address_that_is_none_does_not_show_its_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(url)
    assert "hidden" not in str(caught.value)


# --- Errors ---

ADDRESS = parse_address("postgresql://fyke:hidden@127.0.0.1/ledger")


def unique(table: str) -> asyncpg.PostgresError:
    error = asyncpg.UniqueViolationError("duplicate key value")
    error.table_name = table
    return error


AGAIN = [
    asyncpg.DeadlockDetectedError("deadlock"),
    asyncpg.SerializationError("serialise"),
    asyncpg.LockNotAvailableError("lock timeout"),
    unique("item"),
    mysql.OperationalError(1213, "Deadlock found"),
    mysql.OperationalError(1205, "Lock wait timeout exceeded"),
    mysql.IntegrityError(1062, "Duplicate entry 'a-b' for key 'item_scope_key'"),
    mysql.IntegrityError(1062, "Duplicate entry 'it's 1' for key 'run.run_one'"),
    RepeatTransaction("raced"),
]
LOST = [
    ConnectionResetError(104, "reset"),
    TimeoutError(),
    asyncpg.ConnectionDoesNotExistError("closed in the middle"),
    asyncpg.AdminShutdownError("terminating"),
    asyncpg.IdleInTransactionSessionTimeoutError("idle"),
    asyncpg.InterfaceError("connection is closed"),
    mysql.OperationalError(2013, "Lost connection"),
    mysql.InterfaceError(0, "Not connected"),
]
ROWS = [
    asyncpg.CheckViolationError("check"),
    asyncpg.CharacterNotInRepertoireError("NUL"),
    asyncpg.DataError("value out of int64 range"),
    unique("gov_procure"),
    mysql.DataError(1264, "Out of range"),
    mysql.OperationalError(1292, "Incorrect value"),
    mysql.OperationalError(4025, "CONSTRAINT failed"),
    mysql.DataError(1406, "Data too long"),
    mysql.IntegrityError(1062, "Duplicate entry 'x' for key 'by_title'"),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"),
    ValueError("no number"),
]


def name(error: BaseException) -> str:
    return f"{type(error).__name__}-{error.args[0] if error.args else ''}"


@pytest.mark.parametrize("error", AGAIN, ids=name)
def test_what_a_race_has_ended_is_done_once_more(error: BaseException) -> None:
    assert is_busy(error)
    assert not is_lost(error)
    assert not is_row_error(error)


@pytest.mark.parametrize("error", LOST, ids=name)
def test_what_a_broken_connection_has_ended_needs_another_one(error: BaseException) -> None:
    assert is_lost(error)
    assert not is_busy(error)
    assert not is_row_error(error)
    assert isinstance(translate_server(error, ADDRESS), TransientError)


@pytest.mark.parametrize("error", ROWS, ids=name)
def test_what_a_row_has_caused_is_the_rows(error: BaseException) -> None:
    assert is_row_error(error)
    assert not is_busy(error)
    assert not is_lost(error)
    assert translate_server(error, ADDRESS) is error


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (asyncpg.InvalidPasswordError("password authentication failed for hidden"), "right password for user 'fyke'"),
        (asyncpg.InvalidCatalogNameError("no such"), "CREATE DATABASE ledger"),
        (asyncpg.InsufficientPrivilegeError("permission denied for schema public"), "give user 'fyke' all rights"),
        (mysql.OperationalError(1045, "Access denied for user (using password: YES)"), "right password"),
        (mysql.OperationalError(1044, "Access denied to database"), "all rights on database 'ledger'"),
        (mysql.OperationalError(1049, "Unknown database"), "CREATE DATABASE ledger"),
    ],
    ids=lambda found: name(found) if isinstance(found, BaseException) else "",
)
def test_what_a_person_must_change_says_how(error: BaseException, advice: str) -> None:
    found = translate_server(error, ADDRESS)
    assert isinstance(found, UsageError)
    assert advice in str(found)
    assert "hidden" not in str(found)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (asyncpg.DiskFullError("could not extend"), "its disk is full"),
        (asyncpg.TooManyConnectionsError("too many"), "no connection left"),
        (asyncpg.CannotConnectNowError("starting up"), "starting up"),
        (asyncpg.ReadOnlySQLTransactionError("read-only"), "takes no writes now"),
        (mysql.OperationalError(1040, "Too many connections"), "no connection left"),
        (mysql.OperationalError(1021, "Disk full"), "its disk is full"),
        (mysql.OperationalError(1290, "--read-only"), "takes no writes now"),
    ],
    ids=lambda found: name(found) if isinstance(found, BaseException) else "",
)
def test_what_passes_is_waited_for(error: BaseException, why: str) -> None:
    found = translate_server(error, ADDRESS)
    assert isinstance(found, TransientError)
    assert why in str(found)


def test_a_mistake_of_ours_is_no_outage() -> None:
    for error in (asyncpg.UndefinedTableError("no table"), mysql.ProgrammingError(1146, "no table")):
        assert translate_server(error, ADDRESS) is error
        assert (is_busy(error), is_lost(error), is_row_error(error)) == (False, False, False)


# --- Rows and values ---


def test_a_key_that_is_twice_in_a_batch_is_written_twice_in_its_order() -> None:
    rows = [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("c", 1)]
    assert in_waves(rows, (0,)) == [[("a", 1), ("b", 1), ("c", 1)], [("a", 2)], [("a", 3)]]
    assert in_waves(rows, ()) == [rows]
    assert in_waves(rows, (0, 1)) == [rows]


def test_values_of_statements_that_are_one_stand_one_after_the_other() -> None:
    first = ("INSERT INTO a SELECT p0 FROM unnest($1::int8[], $2::text[]) AS r(p0, p1)", 2)
    second = ("UPDATE b SET x = '$1' FROM unnest($1::int8[]) AS r(p0) WHERE b.id = p0", 1)
    assert together([first]) == first[0]
    assert together([first, second]) == (
        "WITH part1 AS (UPDATE b SET x = '$1' FROM unnest($3::int8[]) AS r(p0) WHERE b.id = p0) " + first[0]
    )


@given(st.integers(0, 300), st.integers(1, 64))
def test_any_number_of_rows_needs_few_statements(count: int, most: int) -> None:
    rows = [[n] for n in range(count)]
    parts = list(in_powers(rows, most))
    assert [row for part, _ in parts for row in part] == rows
    assert all(len(part) == size <= most and size & (size - 1) == 0 for part, size in parts)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1_000, 1_025, 5_000])
def test_a_list_has_one_of_few_lengths_and_nothing_else_in_it(count: int) -> None:
    text = for_mysql("SELECT 1 FROM t WHERE a = ? AND b IN (SELECT value FROM json_each(?)) AND c = ?")
    sql, values = bound(text, ("first", listed(range(count)), "last"))
    assert sql.count("?") == len(values)
    assert (values[0], values[-1]) == ("first", "last")
    assert set(values[1:-1]) == set(range(count))
    assert count or "IN (SELECT 1 FROM DUAL WHERE 1 = 0)" in sql


def test_a_float_keeps_its_digits_on_the_way() -> None:
    assert bindable(0.1) == "0.1"
    assert bindable(True) == 1
    assert type(bindable(True)) is int
    assert bindable(-(2**63)) == -(2**63)
    with pytest.raises(ValueError, match="64 bits"):
        bindable(2**63)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=20))
def test_a_number_comes_back_with_the_digits_that_it_had(exact: Decimal) -> None:
    kept = plain_number(exact)
    assert kept is not None
    sent = for_mariadb(kept)
    assert Decimal(sent) == exact
    # As a column of 30 decimals gives it back.
    assert plain_number(Decimal(f"{Decimal(sent):.30f}")) == kept


@pytest.mark.parametrize("value", ["1" * 36, "-" + "1" * 36, "0." + "0" * 30 + "1", 1e-40, 10**35])
def test_a_number_that_mariadb_would_round_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="more digits"):
        for_mariadb(value)


def test_a_number_as_wide_as_the_column_is_taken() -> None:
    assert for_mariadb("-" + "9" * 35 + "." + "9" * 30) == "-" + "9" * 35 + "." + "9" * 30
    assert for_mariadb(None) is None


# --- What is said of a refused row ---


def of_postgres(kind: type[Exception], message: str, **facts: str) -> Exception:
    error = kind(message)
    for name, value in facts.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            of_postgres(
                asyncpg.NotNullViolationError,
                'null value in column "title" of relation "t" violates not-null constraint',
                detail="Failing row contains (1, SECRET,\nSECRET).",
            ),
            'null value in column "title" of relation "t" violates not-null constraint (SQLSTATE 23502)',
        ),
        (
            of_postgres(
                asyncpg.UniqueViolationError, "duplicate key", constraint_name="u", detail="Key (a)=(SECRET) exists."
            ),
            "duplicate key, constraint u (SQLSTATE 23505)",
        ),
        (
            of_postgres(asyncpg.InvalidTextRepresentationError, 'invalid input syntax for type numeric: "SEC\nRET"'),
            "invalid input syntax for type numeric (SQLSTATE 22P02)",
        ),
        (
            of_postgres(asyncpg.DataError, "invalid input for query argument $3: 'SECRET' (an integer is required)"),
            "invalid input for query argument $3 (SQLSTATE 22000)",
        ),
        (
            of_postgres(asyncpg.NumericValueOutOfRangeError, 'value "SECRET" is out of range for type integer'),
            "the value is out of range for type integer (SQLSTATE 22003)",
        ),
        (mysql.DataError(1406, "Data too long for column 'title' at row 1"), "Data too long for column 'title'"),
        (
            mysql.DataError(1366, "Incorrect integer value: 'SEC'R\nET' for column `d`.`t`.`lots` at row 1"),
            "Incorrect integer value for column `d`.`t`.`lots` (error 1366)",
        ),
        (
            mysql.IntegrityError(1062, "Duplicate entry 'SECRET' for key 'u'"),
            "Duplicate entry for key 'u' (error 1062)",
        ),
        (mysql.DataError(1292, "Truncated incorrect DOUBLE value: 'SECRET'"), "Truncated incorrect DOUBLE value"),
        (ValueError("column 'lots':\n 99 is\ntoo large"), "column 'lots': 99 is too large"),
    ],
)
def test_a_refused_row_is_told_in_one_line_with_its_code_and_without_its_contents(error: Exception, says: str) -> None:
    message = row_message(error)
    assert message.startswith(says)
    assert "SECRET" not in message
    assert "\n" not in message
    assert len(message) < 400


def test_an_outage_is_told_in_one_line_too() -> None:
    error = of_postgres(asyncpg.DeadlockDetectedError, "deadlock detected", detail="Process 1 waits\nfor SECRET")
    found = translate_server(error, parse_address("postgresql://u:p@h:1/d"))
    assert str(found).endswith("deadlock detected")
