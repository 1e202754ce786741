"""Contract of reading items and forgetting them: rows, explanations, near keys, and nothing left of the forgotten."""

from __future__ import annotations

import pytest

from fyke.errors import UsageError
from fyke.model import DeadFilter, ForgetFilter, ItemState, Outcome
from fyke.ports import Ledger
from fyke.testing.clock import FakeClock
from fyke.testing.desk_setting import DeskSetting, assert_balanced, count_of, id_of, rows_of, state_of
from fyke.testing.desk_steps import Steps, record_of, url_of


class ItemDeskContract(DeskSetting):
    async def test_rows_have_the_declared_columns_in_order_and_values_as_they_were(
        self, ledger: Ledger, steps: Steps, clock: FakeClock
    ) -> None:
        await steps.stored("b", "a")
        rows = await rows_of(ledger)
        assert list(rows[0]) == [
            *("title", "budget", "published", "open_bid", "lots"),
            *("_item_id", "_scope", "_key", "_url", "_version", "_first_at", "_updated_at"),
        ]
        assert [row["_key"] for row in rows] == ["a", "b"]
        assert rows[0]["open_bid"] is True
        assert rows[0]["lots"] == [{"n": 1}, {"n": 2}]
        assert rows[0]["budget"] == 569800.5
        assert rows[0]["published"] == "2025-06-27T17:52:00+08:00"
        assert (rows[0]["_url"], rows[0]["_version"], rows[0]["_updated_at"]) == (url_of("a"), 1, clock.now())

    async def test_many_rows_come_in_chunks_each_once(self, ledger: Ledger, steps: Steps) -> None:
        keys = [f"{number:05}" for number in range(2_001)]
        await steps.source("plain", detail=False, scope="plain", table="plain_notices")
        await steps.listed(*keys, source="plain", detail=False)
        chunks = [chunk async for chunk in ledger.rows("plain")]
        assert [row["_key"] for chunk in chunks for row in chunk] == keys
        assert max(len(chunk) for chunk in chunks) <= 1_000

    async def test_rows_are_those_of_one_source_and_can_be_chosen(self, ledger: Ledger, steps: Steps) -> None:
        await steps.source("other")
        await steps.stored("a", "b")
        await steps.visit(await steps.listed("c", "a", source="other"))
        assert [row["_key"] for row in await rows_of(ledger)] == ["a", "b"]
        assert [row["_key"] for row in await rows_of(ledger, "other")] == ["c"]
        assert [row["_key"] for row in await rows_of(ledger, where=[("_key", ">", "a")])] == ["b"]
        assert len(await rows_of(ledger, where=[("budget", ">=", "569800.50")])) == 2
        assert await rows_of(ledger, where=[("budget", "<", 10)]) == []
        with pytest.raises(UsageError, match=r"budgte.*budget"):
            await rows_of(ledger, where=[("budgte", "=", 1)])
        with pytest.raises(UsageError, match="comparison"):
            await rows_of(ledger, where=[("title", "; DROP TABLE item", 1)])
        with pytest.raises(UsageError, match="no source 'gzy'"):
            await rows_of(ledger, "gzy")

    async def test_a_forgotten_key_leaves_nothing_and_is_new_again(self, ledger: Ledger, steps: Steps) -> None:
        await steps.stored("a", "b")
        counts = await ledger.forget(ForgetFilter(scope="notice", key="a"), dry_run=True)
        parts = {"sighting": 1, "visit": 1, "version": 1, "dead": 0, "revisit": 0, "relation": 0}
        assert counts == {**parts, "notices": 1, "item": 1}
        assert await state_of(ledger, "a") == "stored", "a dry run changes nothing"
        assert await ledger.forget(ForgetFilter(scope="notice", key="a")) == counts
        assert await ledger.explain("notice", "a") is None
        assert [row["_key"] for row in await rows_of(ledger)] == ["b"]
        await assert_balanced(ledger)
        assert (await count_of(ledger)).listed == 1
        await steps.stored("a")
        assert [row["_key"] for row in await rows_of(ledger)] == ["b", "a"]
        await assert_balanced(ledger)

    async def test_a_source_or_a_time_is_forgotten_and_nothing_else(
        self, ledger: Ledger, steps: Steps, clock: FakeClock
    ) -> None:
        await steps.source("other", scope="other")
        await steps.visit(await steps.listed("a", source="other"))
        await steps.stored("a")
        since = clock.now()
        await steps.died("b")
        until = clock.now()
        await steps.listed("c")
        counts = await ledger.forget(ForgetFilter(source_id="ggzy", since=since, until=until))
        assert (counts["item"], counts["dead"], counts["visit"]) == (1, 1, 1)
        assert [await state_of(ledger, key) for key in ("a", "c")] == ["stored", "open"]
        assert (await ledger.forget(ForgetFilter(source_id="ggzy")))["item"] == 2
        assert await state_of(ledger, "a", "other") == "stored"
        await assert_balanced(ledger)

    async def test_many_items_are_forgotten_at_once(self, ledger: Ledger, steps: Steps) -> None:
        await steps.source("plain", detail=False, scope="plain", table="plain_notices")
        await steps.listed(*(f"{number:05}" for number in range(1_500)), source="plain", detail=False)
        await steps.stored("a")
        counts = await ledger.forget(ForgetFilter(scope="plain"))
        assert (counts["item"], counts["sighting"], counts["plain_notices"]) == (1_500, 1_500, 1_500)
        await assert_balanced(ledger)

    async def test_an_empty_filter_does_not_forget_everything(self, ledger: Ledger, steps: Steps) -> None:
        await steps.stored("a")
        with pytest.raises(UsageError, match="what to forget"):
            await ledger.forget(ForgetFilter())
        assert (await ledger.forget(ForgetFilter(key="unknown"))) == {"item": 0}
        assert await state_of(ledger, "a") == "stored"

    async def test_a_late_result_of_a_forgotten_item_changes_nothing(self, ledger: Ledger, steps: Steps) -> None:
        (task,) = await steps.listed("a")
        await ledger.forget(ForgetFilter(key="a"))
        (new,) = await steps.listed("a")
        assert new.ref != task.ref
        assert await ledger.still_due([(task.ref, task.generation)]) == [None]

    async def test_the_whole_life_of_an_item_is_told_in_order(self, ledger: Ledger, steps: Steps) -> None:
        tasks = await steps.listed("z", "a")
        tasks = [task for task in tasks if task.ref == await id_of(ledger, "a")]
        await steps.visit(tasks, Outcome.NOT_FOUND, None, reason="HTTP 404", delay_ms=30_000)
        await steps.visit(tasks, Outcome.NOT_FOUND, ItemState.DEAD, reason="HTTP 404")
        await steps.visit((await ledger.replay(DeadFilter(key="a")))[1])
        await steps.listed("a")
        second, first = (row.id for row in await ledger.runs())
        found = await ledger.explain("notice", "a")
        assert found is not None
        assert [at for at, _ in found.lines] == sorted(at for at, _ in found.lines)
        told = iter(text for _, text in found.lines)
        for words in (
            ("listing 'main' of source 'ggzy' listed it for the first time", f"run {first} of"),
            ("visit of generation 1 by w1", "not_found", "HTTP 404", "status 404", "again after 30 s"),
            ("visit of generation 1 by w1", "not_found", "→ dead"),
            ("dead letter", "not_found", "HTTP 404"),
            ("was closed: replayed",),
            ("visit of generation 2 by w1", "ok after 230 ms", "→ stored"),
            ("version 1 was written by the visit", "5 of 5 fields"),
            ("listed it for the last time so far", f"run {second} of", "page 1, row 0", url_of("a")),
            ("now stored, generation 2; nothing is due",),
        ):
            assert any(all(word in line for word in words) for line in told), f"no line, or out of order: {words}"
        assert (found.source_id, found.table, found.url) == ("ggzy", "notices", url_of("a"))
        assert [version["content"] for version in found.versions] == [record_of("a")]
        assert [visit["outcome"] for visit in found.visits] == ["not_found", "not_found", "ok"]
        assert len(found.sightings) == len(found.dead) == 1

    async def test_it_says_why_an_item_waits(self, ledger: Ledger, steps: Steps, clock: FakeClock) -> None:
        async def last_line(key: str) -> str:
            found = await ledger.explain("notice", key)
            assert found is not None
            assert found.lines[-1][0] == clock.now()
            return found.lines[-1][1]

        tasks = await steps.listed("a")
        assert "waits for its turn at notices.example" in await last_line("a")
        await steps.visit(tasks, Outcome.NOT_FOUND, None, reason="HTTP 404", delay_ms=30_000)
        assert "tried again after" in await last_line("a")
        clock.advance(60_000)
        await ledger.hold_lane("notices.example", clock.now() + 60_000, "Retry-After")
        assert "held until" in await last_line("a")
        await ledger.pause_source("ggzy", "maintenance")
        assert "paused since" in await last_line("a")
        assert "maintenance" in await last_line("a")
        await ledger.resume_source("ggzy")
        await ledger.hold_lane("notices.example", 0, "")
        await steps.visit(tasks)
        assert "nothing is due" in await last_line("a")

    async def test_a_misspelt_key_or_scope_finds_its_neighbours(self, ledger: Ledger, steps: Steps) -> None:
        await steps.listed("2025-0627-001", "2025-0627-002", "zzz", "prefix/2025-0627-0O1")
        assert await ledger.explain("notice", "2025-0627-0O1") is None
        scopes, keys = await ledger.near_keys("notice", "2025-0627-0O1")
        assert scopes == ["notice"]
        assert set(keys) == {"2025-0627-001", "2025-0627-002", "prefix/2025-0627-0O1"}
        assert await ledger.near_keys("notise", "a") == (["notice"], [])
