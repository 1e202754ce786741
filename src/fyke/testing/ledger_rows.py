"""Records in their tables: every digit kept, one version per content, one bad row costs one item (P2, P3)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from fyke.model import Column, ColumnType, Committed, DeadFilter, ItemState
from fyke.testing.ledger_steps import Book, make_entry, make_result, make_source

TOO_BIG = 2**70  # no database has whole numbers of this size


class RowsContract:
    async def test_an_entry_of_a_source_without_details_is_stored_with_its_page(self, book: Book) -> None:
        result = await book.walk("a", "b", source="feed")
        assert (result.new, result.due) == (2, [])
        assert await book.state("a", "feed") == ("stored", 1, False)
        row = (await book.rows("feed"))["a"]
        assert (row["title"], row["_version"]) == ("公告 a", 1)
        found = await book.look("a", "feed")
        assert [version["content"]["title"] for version in found.versions] == ["公告 a"]
        await book.balanced()

    async def test_a_changed_entry_of_a_source_without_details_is_a_version_at_once(self, book: Book) -> None:
        await book.walk(make_entry("a", "v1", direct=True), source="feed")
        for title, version in (("v1", 1), ("v2", 2), ("v2", 2), ("v1", 3)):
            await book.walk(make_entry("a", title, direct=True), source="feed")
            row = (await book.rows("feed"))["a"]
            assert (row["title"], row["_version"]) == (title, version)
        assert len((await book.look("a", "feed")).versions) == 3
        await book.balanced()

    async def test_a_field_that_is_not_compared_makes_no_version(self, book: Book) -> None:
        entry = make_entry("a", direct=True)
        await book.walk(entry, source="feed")
        await book.walk(msgspec.structs.replace(entry, fields={"title": "clicks: 7"}), source="feed")
        assert (await book.rows("feed"))["a"]["title"] == "公告 a"
        await book.balanced()

    async def test_a_row_that_the_database_refuses_is_one_dead_item_and_the_page_goes_on(self, book: Book) -> None:
        # SCENARIOS 17
        entries = [make_entry(f"k{number}", direct=True) for number in range(9)]
        entries[4] = make_entry("k4", direct=True, fields={"title": "bad", "lots": TOO_BIG})
        result = await book.walk(*entries, source="feed")
        assert result.new == 9
        assert len(await book.rows("feed")) == 8
        (letter,) = await book.ledger.dead_letters(DeadFilter())
        assert (letter.key, letter.outcome) == ("k4", "row_refused")
        assert letter.reason
        assert letter.entry["title"] == "bad"
        assert await book.state("k4", "feed") == ("dead", 1, False)
        assert len(await book.told("dead")) == 1
        await book.balanced()

    async def test_a_refused_row_that_is_listed_corrected_is_stored(self, book: Book) -> None:
        bad = make_entry("a", direct=True, fields={"title": "bad", "lots": TOO_BIG}, hash=b"bad")
        await book.walk(bad, source="feed")
        await book.walk(bad, source="feed")
        assert await book.state("a", "feed") == ("dead", 1, False)
        await book.walk(make_entry("a", "good", direct=True), source="feed")
        assert (await book.rows("feed"))["a"]["title"] == "good"
        assert await book.ledger.dead_letters(DeadFilter()) == []
        await book.balanced()

    async def test_a_refused_new_version_leaves_the_old_one(self, book: Book) -> None:
        await book.walk(make_entry("a", "good", direct=True), source="feed")
        bad = make_entry("a", direct=True, fields={"title": "bad", "lots": TOO_BIG}, hash=b"bad")
        await book.walk(bad, source="feed")
        row = (await book.rows("feed"))["a"]
        assert (row["title"], row["_version"]) == ("good", 1)
        assert (await book.state("a", "feed"))[0] == "stored"
        assert len(await book.told("dead")) == 1
        await book.balanced()

    async def test_one_bad_row_in_a_batch_is_alone_in_being_refused(self, book: Book) -> None:
        # SCENARIOS 17
        tasks = await book.listed(*(f"k{number:03}" for number in range(100)))
        results = [make_result(task) for task in tasks]
        results[37] = make_result(tasks[37], {"title": "bad", "lots": TOO_BIG})
        answers = await book.ledger.commit(results)
        assert [answer for answer, _ in answers] == [
            *[Committed.COMMITTED] * 37,
            Committed.REJECTED,
            *[Committed.COMMITTED] * 62,
        ]
        assert "lots" in answers[37][1]
        (letter,) = await book.ledger.dead_letters(DeadFilter())
        assert (letter.key, letter.outcome, letter.reason) == ("k037", "row_refused", answers[37][1])
        assert (await book.look("k037")).state is ItemState.DEAD
        assert len(await book.rows()) == 99
        assert [task for task in await book.due() if task.kind.value == "i"] == []
        await book.balanced()

    async def test_a_revisit_whose_row_is_refused_leaves_the_item_as_it_was(self, book: Book) -> None:
        await book.stored("a", {"title": "good"})
        (task,) = await book.listed(make_entry("a", "changed"))
        assert await book.commit(make_result(task, {"title": "bad", "lots": TOO_BIG})) == [Committed.REJECTED]
        assert await book.state("a") == ("stored", 2, False)
        row = (await book.rows())["a"]
        assert (row["title"], row["_version"]) == ("good", 1)
        found = await book.look("a")
        assert (found.visits[-1]["outcome"], len(found.dead)) == ("row_refused", 0)
        assert len(await book.told("dead")) == 1
        await book.balanced()
        (task,) = await book.listed(make_entry("a", "changed twice"))
        await book.commit(make_result(task, {"title": "good again"}))
        assert (await book.rows())["a"]["_version"] == 2

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (ColumnType.INTEGER, "seven"),
            (ColumnType.INTEGER, 1.5),
            (ColumnType.NUMBER, "1,5"),
            (ColumnType.NUMBER, "NaN"),
            (ColumnType.NUMBER, [1]),
            (ColumnType.BOOLEAN, "yes"),
            (ColumnType.DATETIME, 17),
            (ColumnType.TEXT, {"a": 1}),
        ],
    )
    async def test_a_value_of_another_type_is_refused_by_column_and_value(
        self, book: Book, kind: ColumnType, value: Any
    ) -> None:
        source = make_source("typed", scope="typed", table="typed_rows", columns=(Column("field", kind),))
        await book.ledger.apply_source(source)
        (task,) = await book.listed("a", source="typed")
        ((answer, message),) = await book.ledger.commit([make_result(task, {"field": value})])
        assert answer is Committed.REJECTED
        assert "field" in message
        assert str(value).strip("{}[]") in message or repr(value) in message

    @pytest.mark.parametrize(
        "digits",
        [
            "0", "1", "-7", "569800.00", "0.1", "-0.000001", "123456789012345", "9007199254740993",
            "12345678901234567890.12", "0.12345678901234567890", "9223372036854775807", "9223372036854775808", "1e3",
        ],
    )  # fmt: skip
    async def test_numbers_keep_every_digit(self, book: Book, digits: str) -> None:
        await book.stored("a", {"title": "t", "budget": digits})
        stored = (await book.rows())["a"]["budget"]
        assert Decimal(repr(stored) if isinstance(stored, float) else stored) == Decimal(digits)
        await book.balanced()

    async def test_numbers_compare_as_numbers(self, book: Book) -> None:
        for key, budget in (("a", "9"), ("b", "10.50"), ("c", "100"), ("d", "-1"), ("e", None)):
            await book.stored(key, {"title": "t", "budget": budget})
        found = [row["_key"] async for chunk in book.ledger.rows("gov", where=[("budget", ">", 9)]) for row in chunk]
        assert found == ["b", "c"]

    async def test_values_come_back_as_they_were_given(self, book: Book) -> None:
        columns = tuple(Column(kind.value, kind) for kind in ColumnType)
        await book.ledger.apply_source(make_source("typed", scope="typed", table="typed_rows", columns=columns))
        record = {
            "text": "公告 \U00020bb7 'quoted' \"twice\"",
            "integer": 2**62,
            "number": "0.5",
            "datetime": "2025-06-27T17:52:00+08:00",
            "boolean": True,
            "json": {"a": [1, None, "好"]},
        }
        (task,) = await book.listed("a", source="typed")
        await book.commit(make_result(task, record))
        row = (await book.rows("typed"))["a"]
        assert {name: row[name] for name in record} == record | {"number": 0.5}
        assert (await book.look("a", "typed")).versions[0]["content"] == record
        await book.balanced()

    async def test_nul_and_lone_surrogates_cost_nobody_a_record_and_are_counted(self, book: Book) -> None:
        (task,) = await book.listed("a")
        dirty = {"title": "a\x00b\ud800c", "parts": ["\udfff\x00"]}
        result = make_result(task, dirty, record_hash=b"hash", reason="\x00", evidence={"url": "\ud800"})
        assert await book.commit(result) == [Committed.COMMITTED]
        row = (await book.rows())["a"]
        assert (row["title"], row["parts"]) == ("abc", [""])
        assert (await book.look("a")).visits[0]["evidence"]["cleaned"] == 4
        await book.balanced()
