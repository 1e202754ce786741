"""Sources in the ledger: what may change, what is refused and with which way out (P1)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from fyke.errors import UsageError
from fyke.model import Column, ColumnType, PassState
from fyke.ports import Ledger
from fyke.testing.ledger_steps import COLUMNS, HOUR, MINUTE, Book, make_entry, make_result, make_source


class SourcesContract:
    async def test_a_source_applied_again_is_unchanged(self, book: Book) -> None:
        assert await book.ledger.apply_source(make_source("new")) == "created"
        assert await book.ledger.apply_source(make_source("new")) == "unchanged"

    async def test_two_processes_that_apply_one_source_at_once_make_one(self, book: Book, other: Ledger) -> None:
        source = make_source("new", scope="new", table="new_rows")
        answers = await asyncio.gather(*(ledger.apply_source(source) for ledger in (book.ledger, other) * 3))
        assert sorted(answers) == ["created"] + ["unchanged"] * 5

    async def test_workers_get_the_text_that_was_applied_last(self, book: Book) -> None:
        changed = make_source(text='{"id":"gov","v":2}', hash="text-2", title="New title")
        assert await book.ledger.apply_source(changed) == "changed"
        (row,) = [row for row in await book.ledger.sources() if row.source.id == "gov"]
        assert row.source == changed
        (task,) = await book.listed("a")
        assert task.source_hash == "text-2"

    @pytest.mark.parametrize(
        ("field", "value"), [("identity", "field url"), ("scope", "elsewhere"), ("table", "other_rows")]
    )
    async def test_a_rule_that_would_make_known_items_new_is_refused(self, book: Book, field: str, value: str) -> None:
        await book.stored("a")
        with pytest.raises(UsageError, match="gov") as caught:
            await book.ledger.apply_source(make_source(**{field: value}))
        assert value in str(caught.value)
        assert caught.value.hint
        (row,) = [row for row in await book.ledger.sources() if row.source.id == "gov"]
        assert row.source == make_source()
        assert list(await book.rows()) == ["a"]

    @pytest.mark.parametrize(("field", "value"), [("identity", "field url"), ("table", "other_rows")])
    async def test_sources_of_one_scope_share_table_and_key_rule(self, book: Book, field: str, value: str) -> None:
        with pytest.raises(UsageError, match=r"'gov'.*'notice'"):
            await book.ledger.apply_source(make_source("second", **{field: value}))
        assert await book.ledger.apply_source(make_source("second")) == "created"

    async def test_a_new_field_widens_the_table_and_old_rows_stay(self, book: Book) -> None:
        await book.stored("a", {"title": "old"})
        wider = (*COLUMNS, Column("buyer"))
        assert await book.ledger.apply_source(make_source(columns=wider)) == "changed"
        await book.stored("b", {"title": "new", "buyer": "某局"})
        rows = await book.rows()
        assert [(rows[key]["title"], rows[key]["buyer"]) for key in "ab"] == [("old", None), ("new", "某局")]
        await book.balanced()

    async def test_a_field_that_a_source_drops_stays_in_the_table(self, book: Book) -> None:
        await book.stored("a", {"title": "t", "budget": "1.50"})
        await book.ledger.apply_source(make_source(columns=COLUMNS[:1]))
        await book.ledger.apply_source(make_source())
        assert (await book.rows())["a"]["budget"] == pytest.approx(1.5)

    async def test_a_changed_type_names_table_column_and_the_way_out(self, book: Book) -> None:
        columns = (Column("title", ColumnType.INTEGER), *COLUMNS[1:])
        with pytest.raises(UsageError, match=r"gov_procure.*title.*text.*integer") as caught:
            await book.ledger.apply_source(make_source(columns=columns))
        assert "store.table" in str(caught.value.hint)

    @pytest.mark.parametrize(
        "changes",
        [
            {"table": "Notices"},
            {"table": 'x"; DROP TABLE item; --'},
            {"table": "n" * 64},
            {"table": ""},
            {"columns": (Column("_key"),)},
            {"columns": (Column("a b"),)},
            {"columns": (Column("c" * 64),)},
            {"columns": (Column("title"), Column("title"))},
            {"table": "item"},
            {"table": "version"},
        ],
        ids=str,
    )
    async def test_a_name_that_is_no_name_or_ours_is_refused_and_leaves_nothing(
        self, book: Book, changes: dict[str, Any]
    ) -> None:
        with pytest.raises(UsageError) as caught:
            await book.ledger.apply_source(make_source("new", **({"scope": "new", "table": "new_rows"} | changes)))
        assert caught.value.field
        assert {row.source.id for row in await book.ledger.sources()} == {"gov", "feed"}

    async def test_the_words_of_sql_are_names_like_others(self, book: Book) -> None:
        columns = (Column("select"), Column("order"), Column("group", ColumnType.NUMBER))
        source = make_source("words", scope="words", table="table", columns=columns, has_detail=False)
        await book.ledger.apply_source(source)
        entry = make_entry("a", direct=True, fields={"select": "1", "order": "2", "group": "3.5"})
        lease = await book.begin("words")
        await book.show(lease, entry)
        assert (await book.rows("words"))["a"]["order"] == "2"

    async def test_pauses_happen_once_and_add_up(self, book: Book) -> None:
        assert await book.ledger.pause_source("gov", "by hand")
        assert not await book.ledger.pause_source("gov", "again")
        (row,) = [row for row in await book.ledger.sources() if row.source.id == "gov"]
        assert (row.paused_at, row.paused_reason) == (book.clock.now(), "by hand")
        book.clock.advance(MINUTE)
        assert await book.ledger.resume_source("gov")
        assert not await book.ledger.resume_source("gov")
        await book.ledger.pause_source("gov", "")
        book.clock.advance(HOUR)
        await book.ledger.resume_source("gov")
        (row,) = [row for row in await book.ledger.sources() if row.source.id == "gov"]
        assert (row.paused_at, row.paused_total) == (None, MINUTE + HOUR)

    async def test_a_removed_source_keeps_its_items_open_and_comes_back_with_apply(self, book: Book) -> None:
        await book.listed("a")
        assert await book.ledger.remove_source("gov")
        assert not await book.ledger.remove_source("gov")
        assert [row.source.id for row in await book.ledger.sources()] == ["feed"]
        assert [row.source.id for row in await book.ledger.sources(removed=True)] == ["gov", "feed"]
        assert await book.due() == []
        assert await book.state("a") == ("open", 1, True)
        assert await book.ledger.apply_source(make_source()) == "changed"
        assert len(await book.due()) == 1

    async def test_an_unknown_source_is_named_with_the_nearest(self, book: Book) -> None:
        with pytest.raises(UsageError, match=r"'gof'.*'gov'"):
            await book.ledger.pause_source("gof", "")
        with pytest.raises(UsageError, match="'gof'"):
            await book.open("gof")

    async def test_a_changed_source_reads_a_page_that_did_not_change(self, book: Book) -> None:
        await book.walk("a", etag='"1"')
        await book.ledger.apply_source(make_source(hash="text-2"))
        assert (await book.begin()).etag == ""

    async def test_the_pool_of_a_source_is_that_of_its_waiting_items(self, book: Book) -> None:
        waiting, stored = await book.listed("a", "b")
        await book.commit(make_result(stored))
        await book.ledger.apply_source(make_source(pool="render", priority=0))
        await book.listed(make_entry("b", "changed"))
        found = await book.due()
        assert {task.ref for task in found} == {waiting.ref, stored.ref}
        assert {(task.pool, task.priority) for task in found} == {("render", 0)}

    async def test_blocks_in_a_row_pause_a_source_and_a_good_answer_begins_anew(self, book: Book) -> None:
        tasks = await book.listed("a", "b")
        assert [await book.ledger.source_blocked("gov", 3) for _ in range(2)] == [False, False]
        await book.commit(make_result(tasks[0]))
        assert [await book.ledger.source_blocked("gov", 3) for _ in range(3)] == [False, False, True]
        assert not await book.ledger.source_blocked("gov", 3)
        (row,) = [row for row in await book.ledger.sources() if row.source.id == "gov"]
        assert row.paused_at == book.clock.now()
        (event,) = await book.told("blocked")
        assert event.source_id == "gov"
        await book.ledger.resume_source("gov")
        assert not await book.ledger.source_blocked("gov", 3)

    async def test_a_list_alone_is_a_good_answer_of_a_source_without_details(self, book: Book) -> None:
        for source in ("gov", "feed"):
            await book.ledger.source_blocked(source, 2)
            await book.walk("a", source=source, state=PassState.COMPLETE)
        assert [await book.ledger.source_blocked(source, 2) for source in ("gov", "feed")] == [True, False]

    async def test_what_is_applied_is_what_is_read_back(self, book: Book) -> None:
        source = msgspec.structs.replace(make_source("new"), pool="render", priority=2, title="标题")
        await book.ledger.apply_source(source)
        assert (await book.ledger.sources())[-1].source == source
