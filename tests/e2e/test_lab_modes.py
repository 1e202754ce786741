"""`fyke lab modes` on a small site: what local ways double, and that Fyke stores each item once, killed or not."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest

from fyke.cli import run
from fyke.errors import UsageError
from fyke.lab.crew import MOST_CRASHES, Crew, Member, drivers_missing
from fyke.lab.modes.measure import Plan, compare
from fyke.lab.modes.report import Outcome
from fyke.lab.servers import PostgresServer, RedisServer

SMALL = Plan(items=12, workers=2, kills=0.0, latency_ms=10, quiet=3.0, limit=90.0)


@pytest.fixture
def with_servers(backend_missing: Callable[[str], NoReturn]) -> None:
    reason = PostgresServer.missing() or RedisServer.missing() or drivers_missing("redis", "postgres")
    if reason:
        backend_missing(reason)


async def played(*modes: str, **changes: object) -> list[Outcome]:
    values = {name: getattr(SMALL, name) for name in SMALL.__struct_fields__} | {"modes": modes} | changes
    return await compare(Plan(**values), lambda _: None)


async def test_a_file_of_known_ids_on_each_machine_doubles_every_row() -> None:
    (found,) = await played("file")
    assert (found.rows, found.doubled, found.lost, found.extra_fetches) == (24, 12, 0, 12)


async def test_look_then_insert_loses_nothing_and_counts_what_it_doubles() -> None:
    (found,) = await played("sqlite")
    assert (found.lost, found.rows - found.doubled, found.finished) == (0, 12, True)


@pytest.mark.usefixtures("with_servers")
async def test_without_kills_each_of_the_shared_ways_stores_each_item_once() -> None:
    found = await played("unique-key", "redis-set", "redis-lua", "redis-stream", "fyke-sql", "fyke-redis")
    assert [(one.mode, one.rows, one.doubled, one.lost) for one in found] == [(one.mode, 12, 0, 0) for one in found]
    # The key in the database keeps nobody from asking the site again.
    assert [one.extra_fetches for one in found] == [12, 0, 0, 0, 0, 0]
    assert all(one.finished and one.per_second > 0 for one in found)


@pytest.mark.crash_long
@pytest.mark.usefixtures("with_servers")
async def test_kills_cost_fyke_no_row_and_no_item() -> None:
    plain, killed = await played("fyke-redis", items=40, kills=1.0, latency_ms=80)
    assert (plain.kills, plain.doubled, plain.lost) == (0, 0, 0)
    assert killed.kills > 0
    assert (killed.rows, killed.doubled, killed.lost, killed.finished) == (40, 0, 0, True)


def test_the_command_prints_what_it_measured_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "modes", "--mode", "file", "--items", "5", "--kills", "0", "--latency-ms", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (outcome,) = found["outcomes"]
    assert (outcome["mode"], outcome["items"], outcome["rows"]) == ("file", 5, 15)


def test_an_unknown_mode_is_the_users_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "modes", "--mode", "kafka"]) == 2
    assert "redis-stream" in capsys.readouterr().err


def test_a_member_that_is_killed_is_started_again(tmp_path: Path) -> None:
    crew = Crew(tmp_path, [Member("stays", ["http.server", "0", "--bind", "127.0.0.1"])])
    crew.start()
    try:
        before = crew.pids
        assert crew.kill_one(Random(1))
        until_ended(crew)
        assert crew.pids == {}
        crew.tend()
        assert crew.pids.keys() == before.keys()
        assert crew.pids != before
        assert (crew.kills, crew.crashes) == (1, 0)
    finally:
        crew.stop()
    assert crew.pids == {}


def test_a_member_that_has_left_is_not_started_again(tmp_path: Path) -> None:
    crew = Crew(tmp_path, [Member("leaves", ["this"], leaves=True)])
    crew.start()
    until_ended(crew)
    crew.tend()
    assert (crew.finished(), crew.pids, crew.crashes) == (True, {}, 0)


def test_a_member_that_always_fails_is_told_and_not_started_for_ever(tmp_path: Path) -> None:
    crew = Crew(tmp_path, [Member("fails", ["no_such_module_of_ours"])])
    crew.start()
    with pytest.raises(UsageError, match="no_such_module_of_ours"):
        fail_for_ever(crew)
    assert crew.crashes == MOST_CRASHES + 1


def until_ended(crew: Crew) -> None:
    guard = crew.members[0].guard
    assert guard is not None
    guard.wait(30)


def fail_for_ever(crew: Crew) -> None:
    for _ in range(MOST_CRASHES + 2):
        until_ended(crew)
        crew.tend()
