"""Contract of new keys: an item keeps all that is its own under another key, once, whatever is repeated or swapped."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fyke.errors import TransientError, UsageError
from fyke.model import ItemState, KeyMove, Listing, NewRun, ResolvedSource
from fyke.ports import Ledger
from fyke.testing.clock import FakeClock
from fyke.testing.desk_setting import DeskSetting, assert_balanced, count_of, id_of, rows_of, state_of
from fyke.testing.desk_steps import Steps, entry


class KeyContract(DeskSetting):
    async def test_a_changed_rule_is_refused_and_the_way_out_is_named(self, ledger: Ledger, steps: Steps) -> None:
        source = await steps.source()
        for changed in (replace(source, identity="other"), replace(source, scope="elsewhere")):
            with pytest.raises(UsageError, match="fyke source rekey ggzy"):
                await ledger.apply_source(changed)

    async def test_an_item_keeps_all_that_is_its_own_under_its_new_key(self, ledger: Ledger, steps: Steps) -> None:
        new = await _new_rule(steps)
        await steps.stored("a", "b")
        await steps.died("gone")
        await steps.listed("open")
        before = await _ids(ledger, "a", "b", "gone", "open")
        await ledger.begin_rekey([new])
        assert await ledger.move_keys(new, [await _move(ledger, key, f"{key}-1") for key in before]) == 4
        await ledger.end_rekey([new])
        assert await _ids(ledger, "a-1", "b-1", "gone-1", "open-1") == {f"{key}-1": id for key, id in before.items()}
        assert [row["_key"] for row in await rows_of(ledger)] == ["a-1", "b-1"]
        assert await state_of(ledger, "gone-1") == "dead"
        await assert_balanced(ledger)
        # What is listed by the new rule is known.
        _, (page,) = await steps.walk(["a-1", "b-1", "c-1"])
        assert (page.new, page.known) == (1, 2)
        assert (await count_of(ledger)).listed == 5

    async def test_who_asks_for_the_old_key_finds_the_item(self, ledger: Ledger, steps: Steps) -> None:
        new = await _new_rule(steps)
        await steps.stored("a")
        await ledger.begin_rekey([new])
        await ledger.move_keys(new, [await _move(ledger, "a", "a-1")])
        await ledger.end_rekey([new])
        old, now = await ledger.explain("notice", "a"), await ledger.explain("notice", "a-1")
        assert old is not None
        assert now is not None
        assert (old.item_id, old.key) == (now.item_id, "a-1")
        assert any("it was a in scope notice" in text for _, text in now.lines)
        assert await ledger.explain("notice", "b") is None

    async def test_items_may_take_each_others_keys(self, ledger: Ledger, steps: Steps) -> None:
        new = await _new_rule(steps)
        await steps.stored("a", "b", "c")
        ids = await _ids(ledger, "a", "b", "c")
        await ledger.begin_rekey([new])
        moves = [await _move(ledger, old, key) for old, key in (("a", "b"), ("b", "c"), ("c", "a"))]
        await ledger.move_keys(new, moves)
        # Repeated it changes nothing.
        assert await ledger.move_keys(new, [replace(move, key="x") for move in moves]) == 0
        await ledger.end_rekey([new])
        assert await _ids(ledger, "a", "b", "c") == {"b": ids["a"], "c": ids["b"], "a": ids["c"]}
        await assert_balanced(ledger)

    async def test_a_key_that_is_taken_is_refused_and_nothing_moves(self, ledger: Ledger, steps: Steps) -> None:
        new = await _new_rule(steps)
        await steps.stored("a", "b", "c")
        ids = await _ids(ledger, "a", "b", "c")
        await ledger.begin_rekey([new])
        with pytest.raises(UsageError, match=r"'b'.*has an item already"):
            await ledger.move_keys(new, [await _move(ledger, "c", "c-1"), await _move(ledger, "a", "b")])
        assert await _ids(ledger, "a", "b", "c") == ids

    async def test_items_that_are_the_same_become_one(self, ledger: Ledger, steps: Steps) -> None:
        new = await _new_rule(steps)
        await steps.stored("a", "b")
        await steps.walk(["b", "a"], listing="second")
        await steps.died("c")
        ids = await _ids(ledger, "a", "b", "c")
        await ledger.begin_rekey([new])
        moves = [
            await _move(ledger, "a", "one"),
            replace(await _move(ledger, "b", "one"), into=ids["a"]),
            replace(await _move(ledger, "c", "one"), into=ids["a"]),
        ]
        await ledger.move_keys(new, moves)
        await ledger.end_rekey([new])
        await assert_balanced(ledger)
        assert [row["_key"] for row in await rows_of(ledger)] == ["one"]
        assert (await count_of(ledger)).listed == 1
        for key in ("a", "b", "c", "one"):
            assert await id_of(ledger, key) == ids["a"]
        found = await ledger.explain("notice", "one")
        assert found is not None
        assert sorted(row["listing"] for row in found.sightings) == ["main", "second"]

    async def test_items_move_into_another_scope(self, ledger: Ledger, steps: Steps) -> None:
        source = await steps.source()
        new = replace(source, scope="elsewhere", hash="hash-2")
        await steps.stored("a", "b")
        ids = await _ids(ledger, "a", "b")
        await ledger.begin_rekey([new])
        moves = [replace(await _move(ledger, key, key), new_scope="elsewhere") for key in ids]
        await ledger.move_keys(new, moves)
        await ledger.end_rekey([new])
        assert {row["_scope"] for row in await rows_of(ledger)} == {"elsewhere"}
        assert await id_of(ledger, "a", "elsewhere") == ids["a"] == await id_of(ledger, "a")
        await assert_balanced(ledger)
        assert await steps.listed("a", "b") == []

    async def test_a_source_whose_keys_are_changed_takes_nothing_new_until_it_has_ended(
        self, ledger: Ledger, steps: Steps
    ) -> None:
        new = await _new_rule(steps)
        await steps.stored("a")
        await ledger.begin_rekey([new])
        assert await ledger.rekeying("ggzy")
        with pytest.raises(TransientError, match="rekey"):
            await ledger.submit("ggzy", [entry("b", 0)])
        for call in (ledger.resume_source("ggzy"), ledger.apply_source(await _old(ledger))):
            with pytest.raises(UsageError, match="fyke source rekey ggzy"):
                await call
        await ledger.end_rekey([new])
        assert not await ledger.rekeying("ggzy")
        (row,) = await ledger.sources()
        assert (row.source.identity, row.paused_at) == ("id-2", None)

    async def test_what_a_person_had_paused_stays_paused(self, ledger: Ledger, steps: Steps) -> None:
        new = await _new_rule(steps)
        await ledger.pause_source("ggzy", "of mine")
        for _ in range(2):  # begun, killed, begun again
            await ledger.begin_rekey([new])
        await ledger.end_rekey([new])
        (row,) = await ledger.sources()
        assert row.paused_reason == "of mine"
        await ledger.resume_source("ggzy")
        for _ in range(2):
            await ledger.begin_rekey([new])
        await ledger.end_rekey([new])
        (row,) = await ledger.sources()
        assert row.paused_at is None

    async def test_a_run_that_goes_keeps_keys_from_being_changed(
        self, ledger: Ledger, steps: Steps, clock: FakeClock
    ) -> None:
        new = await _new_rule(steps)
        run = await ledger.open_run(NewRun("ggzy", clock.now(), [Listing("main")], ["notices.example"]))
        with pytest.raises(UsageError, match=f"run {run.run_id} of source 'ggzy' is going"):
            await ledger.begin_rekey([new])
        assert not await ledger.rekeying("ggzy")

    async def test_another_commands_moves_are_refused(self, ledger: Ledger, steps: Steps) -> None:
        new = await _new_rule(steps)
        await steps.stored("a")
        await ledger.begin_rekey([new])
        other = replace(new, identity="id-3", hash="hash-3")
        with pytest.raises(UsageError, match="another command"):
            await ledger.move_keys(other, [await _move(ledger, "a", "a-3")])
        with pytest.raises(UsageError, match="another command"):
            await ledger.end_rekey([other])

    async def test_items_come_in_order_with_what_their_key_is_made_of(self, ledger: Ledger, steps: Steps) -> None:
        await steps.stored("b", "a")
        await steps.listed("c")
        found = await ledger.key_items("ggzy", 0, 2)
        found += await ledger.key_items("ggzy", found[-1].item_id, 2)
        assert [item.item_id for item in found] == sorted(item.item_id for item in found)
        shown = {item.key: (item.state, item.entry["title"], item.record.get("budget")) for item in found}
        assert shown["a"] == (ItemState.STORED, "公告 a", "569800.5")
        assert shown["c"] == (ItemState.OPEN, "公告 c", None)
        assert [item.key for item in await ledger.items_of_keys("notice", ["c", "x", "a"])] == ["a", "c"]
        assert [item.key for item in await ledger.items_under("notice", "b", "d")] == ["b", "c"]


async def _new_rule(steps: Steps) -> ResolvedSource:
    return replace(await steps.source(), identity="id-2", hash="hash-2")


async def _old(ledger: Ledger) -> ResolvedSource:
    (row,) = await ledger.sources()
    return replace(row.source, title="another")


async def _ids(ledger: Ledger, *keys: str) -> dict[str, int]:
    return {item.key: item.item_id for item in await ledger.items_of_keys("notice", keys)}


async def _move(ledger: Ledger, key: str, new_key: str) -> KeyMove:
    (item,) = await ledger.items_of_keys("notice", [key])
    return KeyMove(item.item_id, "notice", key, "notice", new_key, "notices")
