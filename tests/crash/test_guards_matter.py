"""Each guard, taken away, lets a promise break: so none of them is idle, and a test would miss it."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import msgspec
import pytest

from fyke.db.connection import Connection
from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers import clock_steps, sql_places
from fyke.frontiers import sql_statements as sql
from fyke.frontiers.sql import SqlFrontier
from fyke.ledgers.sql import SqlLedger, commits, due, entries, pages, runs, walks
from fyke.model import Delivery, NewRun, OpenedRun
from fyke.pipeline import walking
from fyke.pipeline.committer import Committer
from fyke.pipeline.reconciler import Reconciler
from fyke.ports import SourceSchedule
from fyke.testing.clock import FakeClock
from fyke.testing.frontier_fences import FencesContract
from fyke.testing.ledger_runs import RunsContract
from fyke.testing.ledger_steps import Book
from fyke.testing.ledger_times import TimesContract
from tests.crash import scenes
from tests.crash.asking import ask
from tests.crash.places import FilePlace, Place
from tests.crash.site import PlayedSource
from tests.crash.virtual import VirtualClock
from tests.crash.world import Fault, World, until_death

Patch: TypeAlias = pytest.MonkeyPatch
Scene: TypeAlias = Callable[[Place], Coroutine[Any, Any, list[str]]]
LEASE = 3_000


def without(patch: Patch, module: Any, clause: str, instead: str, *names: str) -> None:
    """Replace a clause of SQL statements; it must be there."""
    for name in names:
        text: str = getattr(module, name)
        assert clause in text, f"{name} has no {clause!r}"
        patch.setattr(module, name, text.replace(clause, instead))


def no_generation(patch: Patch) -> None:
    without(
        patch, commits, "generation = ?", "(generation = ? OR 1 = 1)", "STORED", "CLOSED", "UNREVISITED", "ATTEMPTED"
    )
    patch.setattr(commits, "is_live", lambda target, result: bool(target.pending))


def no_pending(patch: Patch) -> None:
    without(patch, commits, "pending = ?", "(pending = ? OR 1 = 1)", "STORED", "CLOSED", "UNREVISITED", "ATTEMPTED")
    patch.setattr(commits, "is_live", lambda target, result: target.generation == result.generation)


def no_page_fence(patch: Patch) -> None:
    without(patch, pages, "fence = ?", "(fence = ? OR 1 = 1)", "GUARD")


def no_end_fence(patch: Patch) -> None:
    without(patch, walks, "fence = ?", "(fence = ? OR 1 = 1)", "FENCED")


def no_failure_fence(patch: Patch) -> None:
    without(patch, runs, "fence = ?", "(fence = ? OR 1 = 1)", "FENCED")


def no_token(patch: Patch) -> None:
    def any_holder(connection: Connection, deliveries: Iterable[Delivery]) -> Any:
        asked = list(deliveries)
        live = {key: task for (key, _), task in owned(connection, map(live_token(connection), asked)).items()}
        return {(one.task.key, one.token): live[one.task.key] for one in asked if one.task.key in live}

    def live_token(connection: Connection) -> Callable[[Delivery], Delivery]:
        def change(delivery: Delivery) -> Delivery:
            row = connection.execute("SELECT token FROM task WHERE key = ?", (delivery.task.key,)).fetchone()
            return msgspec.structs.replace(delivery, token=row[0] if row else 0)

        return change

    owned = sql_places.owned
    patch.setattr(sql_places, "owned", any_holder)


def offers_replace(patch: Patch) -> None:
    without(patch, sql, "key, generation, seq", "key, generation - 1, seq", "LIVE")


def no_shared_key(patch: Patch) -> None:
    patch.setattr(walking, "resumes", lambda walk, entries: True)


def no_reaping_pause(patch: Patch) -> None:
    patch.setattr(clock_steps.StepWatch, "pause", lambda self: None)


def no_count_at_begin(patch: Patch) -> None:
    without(patch, sql, "starts = ?", "starts = starts + 0 * ?", "BEGIN")


def no_reading_time(patch: Patch) -> None:
    without(patch, entries, "entry_at, reopened,", "0, reopened,", "HELD", "HELD_ALONE")


def no_unique_slot(patch: Patch) -> None:
    taken = itertools.count()

    def open_anyway(connection: Connection, run: NewRun, now: int) -> OpenedRun:
        return opened(connection, msgspec.structs.replace(run, slot=run.slot + next(taken)), now)

    opened = runs._open
    patch.setattr(runs, "_open", open_anyway)


def acknowledge_first(patch: Patch) -> None:
    async def commit(self: Any, batch: list[Any]) -> None:
        await self._frontier.ack([visited.delivery for visited, _ in batch])
        await committed(self, batch)

    committed = Committer._commit
    patch.setattr(Committer, "_commit", commit)


def no_reconciler(patch: Patch) -> None:
    async def nothing(self: Any, grace: int) -> int:
        return 0

    patch.setattr(Reconciler, "_offer_missing", nothing)


def no_look_before_the_fetch(patch: Patch) -> None:
    without(patch, due, "AND i.pending = 1", "", "STILL_DUE")


def no_memory_of_failures_told(patch: Patch) -> None:
    without(patch, commits, "final IS NULL", "1 = 0", "TOLD_BEFORE")


def path_of(place: Place) -> Path:
    assert isinstance(place, FilePlace)
    return place.path


def failed(error: AssertionError) -> list[str]:
    return [str(error) or "the case failed"]


def ledger_case(case: Callable[[Book], Awaitable[None]]) -> Scene:
    """A case of the ledger's contract as a scene."""

    async def scene(place: Place) -> list[str]:
        clock = FakeClock()
        stores = await place.open(VirtualClock(), Random(1), LEASE)
        try:
            await case(await Book(SqlLedger(stores.database, clock), clock).prepare())
        except AssertionError as error:
            return failed(error)
        finally:
            await stores.close()
        return []

    return scene


class Harness:
    """The least that the frontier's contract asks for."""

    movable = True

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    async def open(self) -> SqlFrontier:
        raise NotImplementedError("these cases have one handle")

    def now(self) -> int:
        return self._clock.now()

    async def pass_time(self, ms: int) -> None:
        self._clock.advance(ms)

    def step(self, ms: int) -> None:
        self._clock.set(self._clock.now() + ms)


async def stale_delivery(place: Place) -> list[str]:
    """A case of the frontier's contract as a scene."""
    database = SqliteDatabase(path_of(place))
    try:
        clock = FakeClock()
        frontier = SqlFrontier(database, clock, Random(1), lease_ms=LEASE)
        await FencesContract().test_a_stale_delivery_changes_nothing_after_its_task_was_leased_again(
            frontier, Harness(clock)
        )
    except AssertionError as error:
        return failed(error)
    finally:
        await database.close()
    return []


async def locked(place: Place) -> list[str]:
    return await scenes.file_locked(place, 10.0)


async def lost_reply(place: Place) -> list[str]:
    # The third commit tells that b is busy, or that c is gone.
    return await scenes.lost_reply_of_a_commit(place, 3)


async def paused_scheduler(place: Place) -> list[str]:
    world = World(place, PlayedSource(schedule=SourceSchedule(cron=("0 * * * *",))))
    world.clock.jump(3_600_000)

    async def meanwhile() -> None:
        async with world.process() as other:
            await other.scheduler.run_once()
            for run in await other.ledger.running():
                # A run that is going is a guard of its own.
                await other.ledger.cancel_run(run.id, "it was short")

    world.meanwhile = meanwhile
    async with world.process({("ledger.open_run", 1): Fault.STOP_BEFORE}) as process:
        await until_death(process.calls, process.scheduler.run_once())
    return scenes.differing("runs of one slot", ask(world, "SELECT count(*) FROM run"), [(1,)])


PAUSED_WALKER = ledger_case(RunsContract().test_a_walker_that_was_paused_changes_nothing_once_another_has_begun)
READ_BEFORE = ledger_case(TimesContract().test_an_open_item_is_not_set_back_by_a_page_that_was_read_before)
# Of the ledger and the pipeline: anywhere.
GUARDS: list[tuple[Callable[[Patch], None], Scene]] = [
    (no_generation, scenes.older_end_after_a_replay),
    (no_pending, scenes.older_reading_of_one_generation),
    (no_page_fence, PAUSED_WALKER),
    (no_end_fence, PAUSED_WALKER),
    (no_failure_fence, PAUSED_WALKER),
    (no_shared_key, scenes.resumed_after_a_shift),
    (no_reading_time, READ_BEFORE),
    (no_unique_slot, paused_scheduler),
    (acknowledge_first, scenes.death_beside_a_commit),
    (no_reconciler, scenes.offers_that_failed),
    (no_look_before_the_fetch, scenes.offered_again_after_its_end),
    (no_memory_of_failures_told, lost_reply),
]
# Of the sql frontier; `test_guards_on_servers` has those of the other one.
GUARDS_OF_THE_FILE: list[tuple[Callable[[Patch], None], Scene]] = [
    (no_token, stale_delivery),
    (offers_replace, scenes.quiet_life),
    (no_reaping_pause, locked),
    (no_count_at_begin, scenes.page_that_kills_each_worker),
]


def named(guards: list[tuple[Callable[[Patch], None], Scene]]) -> list[Any]:
    return [pytest.param(remove, scene, id=remove.__name__) for remove, scene in guards]


@pytest.mark.parametrize(("remove", "scene"), named(GUARDS))
def test_without_its_guard_a_promise_breaks_and_with_it_none(
    remove: Callable[[Patch], None], scene: Scene, fresh_place: Callable[[], Place], monkeypatch: Patch
) -> None:
    assert play(scene, fresh_place()) == []
    remove(monkeypatch)
    assert play(scene, fresh_place()) != []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("remove", "scene"), named(GUARDS_OF_THE_FILE))
def test_without_a_guard_of_its_frontier_a_promise_breaks_and_with_it_none(
    remove: Callable[[Patch], None], scene: Scene, fresh_file: Callable[[], FilePlace], monkeypatch: Patch
) -> None:
    assert play(scene, fresh_file()) == []
    remove(monkeypatch)
    assert play(scene, fresh_file()) != []


def play(scene: Scene, place: Place) -> list[str]:
    return place.run(scene(place))


def test_the_file_itself_refuses_a_slot_that_is_taken(file_place: FilePlace) -> None:
    """The last guard of P1, whatever a scheduler of another version does."""
    row = "INSERT INTO run(source_id, slot, started_by, state, started_at, limit_ms, deadline)"
    with sqlite3.connect(file_place.path) as connection:
        connection.execute(f"{row} VALUES (1, 5, 'cron', 'running', 0, 1, 1)")
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            connection.execute(f"{row} VALUES (1, 5, 'hand', 'running', 0, 1, 1)")


def test_the_file_itself_refuses_a_second_item_of_a_key_and_a_second_task(file_place: FilePlace) -> None:
    """P1: one item."""
    with sqlite3.connect(file_place.path) as connection:
        unique = {
            table: [
                [column for _, _, column in connection.execute(f"PRAGMA index_info({name})")]
                for _, name, is_unique, *_ in connection.execute(f"PRAGMA index_list({table})")
                if is_unique
            ]
            for table in ("item", "task")
        }
    assert ["scope", "key"] in unique["item"]
    assert ["key"] in unique["task"]
