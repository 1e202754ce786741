"""What a person is told of a cluster: fyke status and fyke doctor, on every pair of servers, without a secret."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fyke.app import open_desk, open_stores
from fyke.app.doctor import machine_checks
from fyke.app.overview import look
from fyke.app.stores import Stores
from fyke.model import Event, LanePolicy, Task, TaskKind, WorkerRow
from fyke.pipeline import backlog
from fyke.settings import Settings, load_settings
from tests.e2e.town import PASSWORD

PAIRS = ["sqlite", "postgres-15 and Redis", "mariadb"]


@pytest.fixture(params=PAIRS)
def settings(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    fresh_database: Callable[[str], str],
    fresh_redis: Callable[[str], str],
) -> Settings:
    ledger, _, redis = request.param.partition(" and ")
    environ = {"FYKE_LEDGER": f"sqlite:///{tmp_path / 'fyke.db'}"}
    if ledger != "sqlite":
        environ["FYKE_LEDGER"] = fresh_database(ledger)
    if redis:
        environ["FYKE_FRONTIER"] = fresh_redis("valkey-9")
    return load_settings(tmp_path, environ).settings


def fyke(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {"FYKE_LEDGER": settings.ledger, "FYKE_FRONTIER": settings.frontier, "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, "-m", "fyke", *arguments], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def worker(now: int, **facts: Any) -> WorkerRow:
    process = {"process": {"done": 7, "failed": 2, "restarts": 1, **facts}}
    return WorkerRow("far:7:ab", "far", 7, "0.0.9", "text", now - 60_000, now, 3, 40, 5, 125_900_000, process)


async def with_cluster(stores: Stores) -> None:
    """A worker of another release, tasks of both pools, walks that pause, an event."""
    now = await stores.ledger.now()
    await stores.ledger.beat(worker(now, clock_off=3_600_000))
    await stores.frontier.configure([LanePolicy("a.example", 1_000, 0, 2), LanePolicy("b.example", 1_000, 0, 2)])
    await stores.frontier.offer([Task(TaskKind.ITEM, n, 1, "a.example") for n in (1, 2, 3)])
    await stores.frontier.offer([Task(TaskKind.ITEM, n, 1, "b.example", pool="render") for n in (4, 5)])
    await stores.ledger.cursor(backlog.MARK, 1)
    await stores.ledger.add_events([Event("lost", "the frontier had lost its content", group="frontier")])


async def test_status_tells_who_works_what_waits_for_nobody_and_what_was_lost(settings: Settings) -> None:
    async with open_stores(settings) as stores:
        await with_cluster(stores)
    async with open_desk(settings) as desk:
        found = await look(desk)
    assert found.frontier is not None
    assert (found.frontier.ready, found.frontier.pools) == (5, {"text": 3, "render": 2})
    assert found.idle_pools == {"render": 2}
    assert {lane.lane: lane.ready for lane in found.frontier.lanes} == {"a.example": 3, "b.example": 2}
    assert [event.kind for event in found.events] == ["lost"]
    assert [(row.host, row.stage["process"]["done"]) for row in found.workers] == [("far", 7)]
    assert any("`fyke worker --pool render`" in note for note in found.notes)
    assert any("walks of lists pause: 5 tasks wait" in note for note in found.notes)
    shown = fyke(settings, "status")
    assert shown.returncode == 0, shown.stderr
    for part in ("far", "0.0.9", "125MB", "no worker of it runs", "lost: the frontier had lost its content"):
        assert part in shown.stdout
    as_json = json.loads(fyke(settings, "status", "--json").stdout)
    assert as_json["ledger"]["kind"] == settings.ledger_kind
    assert as_json["frontier_at"]["kind"] == settings.frontier_kind


async def test_doctor_tells_each_fault_with_what_to_change_and_ends_with_1(settings: Settings) -> None:
    async with open_stores(settings):
        pass
    healthy = fyke(settings, "doctor", "--json")
    checks = json.loads(healthy.stdout)
    # The servers of tests write as fast as they can, and doctor says so.
    failed = {check["name"] for check in checks if check["level"] == "fail"}
    assert failed <= {"fsync", "full_page_writes", "innodb_flush_log_at_trx_commit", "innodb_doublewrite"}
    assert healthy.returncode == bool(failed)
    assert {"settings", "user agent", "open files", "disk", "time zone", "ledger", "schema"} <= names(checks)
    if settings.frontier_kind == "redis":
        assert {"eviction", "persistence", "commands", "probe"} <= names(checks), names(checks)
    async with open_stores(settings) as stores:
        await with_cluster(stores)
    sick = fyke(settings, "doctor", "--json")
    assert sick.returncode == 1
    faults = {check["text"]: check["hint"] for check in json.loads(sick.stdout) if check["level"] != "ok"}
    assert faults["2 task(s) wait in pool render, and no worker of it runs"] == (
        "`fyke worker --pool render` on a machine that can"
    )
    assert any("far (pid 7) is 3600.0 s ahead" in text for text in faults)


def names(checks: list[dict[str, str]]) -> set[str]:
    return {check["name"] for check in checks}


def test_doctor_names_what_cannot_be_reached_and_hides_no_other_fault_behind_it(tmp_path: Path) -> None:
    settings = load_settings(
        tmp_path,
        {
            "FYKE_LEDGER": f"postgresql://me:{PASSWORD}@127.0.0.1:1/x",
            "FYKE_FRONTIER": f"redis://:{PASSWORD}@127.0.0.1:1/0",
        },
    ).settings
    shown = fyke(settings, "doctor")
    assert shown.returncode == 1
    assert "fail  ledger" in shown.stdout
    assert "fail  frontier" in shown.stdout
    assert PASSWORD not in shown.stdout + shown.stderr


def test_the_limit_of_open_files_is_compared_with_the_visits_at_once(tmp_path: Path) -> None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    settings = load_settings(tmp_path, {}).settings
    many = replace(settings, worker=replace(settings.worker, concurrency=1_000))
    by_name = {check.name: check for check in machine_checks(many)}
    expected = "fail" if soft < 4_128 else "warn" if soft < 65_535 else "ok"
    assert by_name["open files"].level == expected
    assert "ulimit -n 65535" in by_name["open files"].hint
