"""Typed tables: names that are safe, numbers that keep their digits, columns that only grow."""

import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.db.sqlite_connection import SqliteConnection
from fyke.db.typed import OWN_COLUMNS, bind, check_names, ensure_table, quoted, read_table
from fyke.errors import UsageError
from fyke.model import Column, ColumnType

NOW = 1_760_000_000_000
COLUMNS = (Column("title"), Column("budget", ColumnType.NUMBER))


@pytest.fixture
def connection() -> Iterator[SqliteConnection]:
    found = sqlite3.connect(":memory:", isolation_level=None, factory=SqliteConnection)
    found.execute(
        "CREATE TABLE typed_table(name TEXT PRIMARY KEY, columns TEXT, made_at INTEGER, changed_at INTEGER) STRICT"
    )
    found.execute("CREATE TABLE item(id INTEGER PRIMARY KEY) STRICT")
    yield found
    found.close()


def columns_of(connection: SqliteConnection, table: str) -> list[tuple[str, str]]:
    return [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info({quoted(table)})")]


def write(connection: SqliteConnection, table: str, record: dict[str, Any]) -> None:
    found = read_table(connection, table)
    assert found is not None
    connection.execute(found.upsert, [1, "s", "k", "u", 1, NOW, NOW, *found.bind(record)])


def test_a_table_has_our_columns_and_the_declared_ones(connection: SqliteConnection) -> None:
    assert ensure_table(connection, "notices", COLUMNS, NOW)
    names = [name for name, _ in columns_of(connection, "notices")]
    assert names == [*OWN_COLUMNS, "title", "budget"]
    assert not ensure_table(connection, "notices", COLUMNS, NOW)


def test_a_table_grows_by_what_it_lacks_and_never_shrinks(connection: SqliteConnection) -> None:
    ensure_table(connection, "notices", COLUMNS, NOW)
    write(connection, "notices", {"title": "t"})
    assert ensure_table(connection, "notices", (Column("buyer"), Column("title")), NOW + 1)
    names = [name for name, _ in columns_of(connection, "notices")]
    assert names == [*OWN_COLUMNS, "title", "budget", "buyer"]
    registry = connection.execute("SELECT made_at, changed_at FROM typed_table").fetchall()
    assert registry == [(NOW, NOW + 1)]
    write(connection, "notices", {"title": "t", "buyer": "b"})
    assert connection.execute("SELECT title, budget, buyer, _first_at FROM notices").fetchall() == [
        ("t", None, "b", NOW)
    ]


def test_a_changed_type_is_refused_and_changes_nothing(connection: SqliteConnection) -> None:
    ensure_table(connection, "notices", COLUMNS, NOW)
    before = columns_of(connection, "notices")
    with pytest.raises(UsageError, match="'notices' has column 'budget' as number, and the source wants text"):
        ensure_table(connection, "notices", (Column("extra"), Column("budget")), NOW)
    assert columns_of(connection, "notices") == before


def test_a_table_of_ours_is_refused(connection: SqliteConnection) -> None:
    with pytest.raises(UsageError, match="'item'"):
        ensure_table(connection, "item", COLUMNS, NOW)


@pytest.mark.parametrize("name", ["", "A", "a b", "1a", 'a"', "a\n", "é", "sqlite_x", "x" * 64])
def test_names_that_would_need_care_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_names(name, COLUMNS)


@pytest.mark.parametrize("name", ["_key", "", "Title", "a-b", "a\n", "x" * 64])
def test_fields_that_would_need_care_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_names("notices", [Column(name)])


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("569800.00", 569800),
        ("0.1", 0.1),
        (0.1, 0.1),
        ("-1.50", -1.5),
        ("123456789012.345", 123456789012.345),
        ("1234567890123.4567", "1234567890123.4567"),
        ("9007199254740993", 9007199254740993),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", "9223372036854775808"),
        ("0.30000000000000004", "0.30000000000000004"),
        (7, 7),
    ],
)
def test_a_number_is_a_number_where_that_is_exact(value: Any, kept: Any) -> None:
    found = bind("budget", ColumnType.NUMBER, value)
    assert (found, type(found)) == (kept, type(kept))


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_number_loses_a_digit(value: Decimal) -> None:
    found = bind("budget", ColumnType.NUMBER, str(value))
    assert Decimal(repr(found) if isinstance(found, float) else found) == value


@given(st.integers(-(2**70), 2**70))
def test_whole_numbers_are_exact_or_refused(value: int) -> None:
    if -(2**63) <= value < 2**63:
        assert bind("lots", ColumnType.INTEGER, str(value)) == value
    else:
        with pytest.raises(ValueError, match="lots"):
            bind("lots", ColumnType.INTEGER, value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ColumnType.TEXT, ["a"]),
        (ColumnType.INTEGER, "1.0"),
        (ColumnType.INTEGER, float("inf")),
        (ColumnType.NUMBER, True),
        (ColumnType.NUMBER, "Infinity"),
        (ColumnType.NUMBER, float("nan")),
        (ColumnType.BOOLEAN, "true"),
        (ColumnType.BOOLEAN, 2),
        (ColumnType.DATETIME, 1),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_column(kind: ColumnType, value: Any) -> None:
    with pytest.raises(ValueError, match="'field'"):
        bind("field", kind, value)


@pytest.mark.parametrize("kind", list(ColumnType))
def test_nothing_is_nothing_in_every_type(kind: ColumnType) -> None:
    assert bind("field", kind, None) is None


def test_numbers_in_a_column_sort_as_numbers(connection: SqliteConnection) -> None:
    ensure_table(connection, "notices", COLUMNS, NOW)
    found = read_table(connection, "notices")
    assert found is not None
    for number, value in enumerate(["10.5", "9", "-3", "100.25"]):
        connection.execute(found.upsert, [number, "s", str(number), "u", 1, NOW, NOW, *found.bind({"budget": value})])
    ordered = connection.execute("SELECT budget FROM notices ORDER BY budget").fetchall()
    assert [value for (value,) in ordered] == [-3, 9, 10.5, 100.25]
