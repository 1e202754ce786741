"""SQL that is written once: what each database is given, and what is refused before it can go wrong on one of them."""

import sqlite3

import pytest

from fyke.db.batches import batch_for_postgres, repeated_row, without
from fyke.db.connection import listed
from fyke.db.dialect import LIST, for_mysql, for_postgres, for_sqlite
from fyke.db.sqlite_connection import SqliteConnection

ITEMS = "SELECT id FROM item WHERE scope = ? AND key IN (SELECT value FROM json_each(?)) ORDER BY id FOR UPDATE"
UPSERT = (
    "INSERT INTO tally(source_id, open) VALUES (?, ?) ON CONFLICT(source_id) DO UPDATE SET open = open + excluded.open"
)


def test_locks_are_dropped_only_where_there_is_one_writer() -> None:
    assert for_sqlite("SELECT 1 FROM task ORDER BY id FOR UPDATE") == "SELECT 1 FROM task ORDER BY id"
    assert for_sqlite("SELECT 1 FROM task LIMIT 5\n  FOR UPDATE SKIP LOCKED\n") == "SELECT 1 FROM task LIMIT 5"
    assert for_postgres("SELECT 1 FROM task FOR UPDATE SKIP LOCKED").sql.endswith(" FOR UPDATE SKIP LOCKED")
    assert for_mysql("SELECT 1 FROM task FOR UPDATE SKIP LOCKED").sql.endswith(" FOR UPDATE SKIP LOCKED")


def test_greatest_and_least_are_what_sqlite_calls_max_and_min() -> None:
    assert for_sqlite("UPDATE t SET a = greatest(a, least(b, ?))") == "UPDATE t SET a = max(a, min(b, ?))"


def test_nothing_is_equal_to_nothing_in_each_way_of_saying_it() -> None:
    text = "SELECT 1 FROM t WHERE a IS NOT DISTINCT FROM ?"
    assert for_sqlite(text) == "SELECT 1 FROM t WHERE a IS ?"
    assert for_postgres(text).sql == "SELECT 1 FROM t WHERE a IS NOT DISTINCT FROM $1"
    assert for_mysql(text).sql == "SELECT 1 FROM t WHERE a <=> ?"


def test_a_list_is_one_array_or_so_many_places() -> None:
    postgres, mysql = for_postgres(ITEMS), for_mysql(ITEMS)
    assert postgres.sql == "SELECT id FROM item WHERE scope = $1 AND key = ANY($2) ORDER BY id FOR UPDATE"
    assert mysql.sql == f"SELECT id FROM item WHERE scope = ? AND `key` IN ({LIST}) ORDER BY id FOR UPDATE"
    assert postgres.lists == mysql.lists == {1}
    negated = "DELETE FROM task_lane WHERE name NOT IN (SELECT value FROM json_each(:names))"
    assert for_postgres(negated).sql == "DELETE FROM task_lane WHERE name <> ALL($1)"
    assert for_mysql(negated).sql == f"DELETE FROM task_lane WHERE name NOT IN ({LIST})"
    assert for_mysql(negated).keys == ("names",)


def test_values_that_are_named_or_numbered_stand_where_they_are_used() -> None:
    text = "UPDATE lane SET hold_reason = :why, hold_until = :until WHERE lane = :lane AND hold_until < :until"
    assert for_postgres(text).keys == ("why", "until", "lane")
    assert for_postgres(text).sql.endswith("hold_until = $2 WHERE lane = $3 AND hold_until < $2")
    assert for_mysql(text).keys == ("why", "until", "lane", "until")
    numbered = "UPDATE source SET applied_at = ?1 WHERE applied_at > ?1 AND id = ?2"
    assert for_postgres(numbered).keys == (0, 1)
    assert for_mysql(numbered).keys == (0, 0, 1)
    assert not for_mysql(numbered).plain


@pytest.mark.parametrize(
    "literal", ["'?'", "':name'", "'it''s ?1'", "'100 %'", "'-- no comment'", "'IN (SELECT value FROM json_each(?))'"]
)
def test_what_stands_in_quotes_is_left_as_it_is(literal: str) -> None:
    text = f"SELECT 1 FROM t WHERE a = {literal} AND b = ?"
    assert for_postgres(text).sql == f"SELECT 1 FROM t WHERE a = {literal} AND b = $1"
    assert for_mysql(text).sql == text


def test_a_conflict_names_the_row_that_is_there_and_the_one_that_comes() -> None:
    assert for_postgres(UPSERT).sql.endswith("DO UPDATE SET open = tally.open + excluded.open")
    assert for_mysql(UPSERT).sql.endswith("ON DUPLICATE KEY UPDATE open = tally.open + VALUES(open)")
    nothing = "INSERT INTO meta(name, value) VALUES (?, ?) ON CONFLICT(name) DO NOTHING"
    assert for_mysql(nothing).sql.endswith("ON DUPLICATE KEY UPDATE name = meta.name")
    quoted = 'INSERT INTO "notices"("_item_id", "order") VALUES (?, ?) ON CONFLICT(_item_id) DO UPDATE'
    quoted += ' SET "order" = excluded."order"'
    assert for_mysql(quoted).sql == (
        "INSERT INTO `notices`(`_item_id`, `order`) VALUES (?, ?) ON DUPLICATE KEY UPDATE `order` = VALUES(`order`)"
    )


def test_hints_are_for_sqlite_alone() -> None:
    text = (
        "SELECT count(*) FROM item i INDEXED BY item_pending CROSS JOIN source s ON s.id = i.source_id"
        " CROSS JOIN meta WHERE i.pending = 1"
    )
    plain = "SELECT count(*) FROM item i JOIN source s ON s.id = i.source_id CROSS JOIN meta WHERE i.pending = 1"
    assert for_postgres(text).sql == for_mysql(text).sql == plain


def test_types_and_words_have_the_names_of_each_database() -> None:
    text = 'SELECT CAST(? AS TEXT), CAST(? AS BIGINT), CAST(a AS INTEGER), length(key), n / 2 FROM "t" WHERE length = 1'
    assert for_postgres(text).sql == (
        'SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT), CAST(a AS BIGINT), length(key), n / 2 FROM "t" WHERE length = 1'
    )
    assert for_mysql(text).sql == (
        "SELECT CAST(? AS CHAR), CAST(? AS SIGNED), CAST(a AS SIGNED), char_length(`key`), n DIV 2 FROM `t`"
        " WHERE length = 1"
    )


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("SELECT iif(a, b, c) FROM t", "iif"),
        ("SELECT ifnull(a, 0) FROM t", "ifnull"),
        ("SELECT a || b FROM t", r"\|\|"),
        ("SELECT max(a, b) FROM t", "greatest"),
        ("SELECT min(a, (SELECT 1)) FROM t", "greatest or least"),
        ("SELECT 1 FROM t WHERE a IS ?", "IS NOT DISTINCT FROM"),
        ("SELECT 1 FROM t WHERE a IS NOT b", "IS NOT DISTINCT FROM"),
        ("SELECT value FROM json_each(?)", "json_each"),
        ("SELECT json_extract(a, '$.b') FROM t", "json_extract"),
        ("UPDATE t SET a = 1 RETURNING id", "RETURNING"),
        ("UPDATE t SET a = u.a FROM u WHERE u.id = t.id", "FROM"),
        ("INSERT OR IGNORE INTO t(a) VALUES (1)", "OR"),
        ("SELECT rowid FROM t", "rowid"),
        ("SELECT seq FROM sqlite_sequence", "sqlite_sequence"),
        ("SELECT a FROM t WHERE a LIKE 'x'", "LIKE"),
        ("SELECT a FROM t WHERE a == 1", "=="),
        ("SELECT a::text FROM t", "::"),
        ("SELECT count(*) FILTER (WHERE a = 1) FROM t", "FILTER"),
        ("SELECT group_concat(a) FROM t", "group_concat"),
    ],
)
def test_what_not_every_database_knows_shows_at_its_first_use(text: str, piece: str) -> None:
    for rewrite in (for_postgres, for_mysql):
        with pytest.raises(ValueError, match=piece):
            rewrite(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT max(a), min(coalesce(a, b)) FROM t",
        "SELECT a FROM t WHERE a IS NULL AND b IS NOT NULL",
        "SELECT greatest(a, b) FROM t ORDER BY changes",
        "SELECT date FROM t WHERE total > 1 OR time = 2",
    ],
)
def test_what_every_database_knows_is_not_refused(text: str) -> None:
    assert for_postgres(text).sql == for_mysql(text).sql == text


def test_mariadb_would_read_what_it_has_just_set() -> None:
    late = "UPDATE item SET generation = generation + 1, seen_at = generation WHERE id = ?"
    with pytest.raises(ValueError, match="seen_at must stand before generation"):
        for_mysql(late)
    for_mysql("UPDATE item SET seen_at = generation, generation = generation + 1 WHERE id = ?")
    for_mysql("UPDATE item SET n = 1, hash = (SELECT v.hash FROM version v WHERE v.n = 2) WHERE id = ?")
    with pytest.raises(ValueError, match="b must stand before a"):
        for_mysql("INSERT INTO t(id, a, b) VALUES (?, ?, ?) ON CONFLICT(id) DO UPDATE SET a = excluded.a, b = t.a")
    for_mysql("INSERT INTO t(id, a, b) VALUES (?, ?, ?) ON CONFLICT(id) DO UPDATE SET a = excluded.a, b = excluded.a")


def test_many_rows_are_columns_for_postgres() -> None:
    insert = batch_for_postgres("INSERT INTO item(id, state, key) VALUES (?, 'open', ?)")
    assert insert.sql == (
        f"INSERT INTO item(id, state, key) SELECT fyke_rows.p0, 'open', fyke_rows.p1"
        f" FROM unnest({LIST}) AS fyke_rows(p0, p1)"
    )
    assert insert.unique == ()
    assert batch_for_postgres(UPSERT).unique == (0,)
    update = batch_for_postgres("UPDATE item SET n = n + ? WHERE id = ? AND generation = ?")
    assert update.sql == (
        f"UPDATE item SET n = n + fyke_rows.p0 FROM unnest({LIST}) AS fyke_rows(p0, p1, p2)"
        " WHERE id = fyke_rows.p1 AND generation = fyke_rows.p2"
    )
    assert update.unique == (1, 2)
    delete = batch_for_postgres("DELETE FROM task WHERE seq = ?")
    assert delete.sql == f"DELETE FROM task USING unnest({LIST}) AS fyke_rows(p0) WHERE seq = fyke_rows.p0"
    copied = batch_for_postgres("INSERT INTO dead(item_id, why) SELECT id, ? FROM item WHERE id = ?")
    assert copied.sql == (
        f"INSERT INTO dead(item_id, why) SELECT id, fyke_rows.p0 FROM unnest({LIST}) AS fyke_rows(p0, p1)"
        " CROSS JOIN item WHERE id = fyke_rows.p1"
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM t WHERE id = ?",
        "UPDATE t SET a = ?",
        "DELETE FROM t WHERE id IN (SELECT value FROM json_each(?))",
        "UPDATE t SET a = :a WHERE id = :id",
        "INSERT INTO t(a) VALUES (?) ON CONFLICT(a) DO UPDATE SET b = ?",
    ],
)
def test_what_cannot_be_done_for_many_rows_at_once_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="many rows"):
        batch_for_postgres(text)


def test_rows_are_written_behind_each_other_where_a_server_takes_no_columns() -> None:
    text = for_mysql(UPSERT).sql
    found = repeated_row(text, 3)
    assert found == (
        "INSERT INTO tally(source_id, open) VALUES (?, ?), (?, ?), (?, ?)"
        " ON DUPLICATE KEY UPDATE open = tally.open + VALUES(open)"
    )
    assert repeated_row("UPDATE t SET a = ? WHERE id = ?", 3) is None


def test_a_column_without_a_value_is_written_as_nothing() -> None:
    assert without("INSERT INTO t(a, b, c) VALUES (?, '?', ?)", [1]) == "INSERT INTO t(a, b, c) VALUES (?, '?', NULL)"


def test_a_number_is_marked_where_a_column_would_round_it() -> None:
    text = "INSERT INTO t(a, b) VALUES (?, number(?))"
    assert for_sqlite(text) == for_mysql(text).sql == "INSERT INTO t(a, b) VALUES (?, ?)"
    assert for_mysql(text).numbers == {1}
    assert for_postgres(text).sql == "INSERT INTO t(a, b) VALUES ($1, $2)"


# --- SQLite takes the texts themselves ---


@pytest.fixture
def connection() -> SqliteConnection:
    return sqlite3.connect(":memory:", isolation_level=None, factory=SqliteConnection)


def test_sqlite_reads_lists_of_any_length(connection: SqliteConnection) -> None:
    connection.execute("CREATE TABLE t(a, b)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, str(n)) for n in range(10)])
    inside = "SELECT count(*) FROM t WHERE {} IN (SELECT value FROM json_each(?))"
    outside = inside.replace("IN", "NOT IN")
    for values, found in (([], 0), ([3], 1), (list(range(5, 5_005)), 5)):
        assert connection.execute(inside.format("a"), (listed(values),)).fetchone() == (found,)
        assert connection.execute(inside.format("b"), (listed(map(str, values)),)).fetchone() == (found,)
        assert connection.execute(outside.format("a"), (listed(values),)).fetchone() == (10 - found,)
    connection.close()


def test_sqlite_gives_no_id_twice_though_its_row_was_removed(connection: SqliteConnection) -> None:
    connection.execute("CREATE TABLE item(id INTEGER PRIMARY KEY AUTOINCREMENT, a)")
    connection.execute("CREATE TABLE visit(id INTEGER PRIMARY KEY, a)")
    assert connection.new_ids("item", 2) == [1, 2]
    assert connection.new_ids("item", 1) == [3]
    connection.execute("INSERT INTO item(id) VALUES (9)")
    connection.execute("DELETE FROM item")
    assert connection.new_ids("item", 1) == [10]
    connection.execute("INSERT INTO visit(id) VALUES (4)")
    assert connection.new_ids("visit", 2) == [5, 6]
    assert connection.insert("INSERT INTO visit(a) VALUES (?)", ("x",)) == 5
    connection.close()


def test_a_savepoint_takes_back_what_was_done_in_it(connection: SqliteConnection) -> None:
    connection.execute("CREATE TABLE t(a PRIMARY KEY)")
    connection.execute("BEGIN")
    with connection.savepoint():
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.IntegrityError), connection.savepoint():
            connection.executemany("INSERT INTO t VALUES (?)", [(2,), (1,)])
    connection.execute("COMMIT")
    assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
    connection.close()
