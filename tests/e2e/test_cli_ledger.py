"""`fyke ledger copy` at the command line: every process on the old ledger ends, and nothing is collected again."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fyke.app import apply_folder, open_stores, run_once_here
from fyke.cli import run
from fyke.lab.site import RunningSite, SiteConfig, serve_site
from fyke.model import Entry
from fyke.policy.politeness import lane_of
from fyke.settings import load_settings
from tests.scenarios.collecting import Collecting

ENDS_WITHIN_S = 60
ROLES = (("run",), ("scheduler",), ("worker",), ("reconciler",))

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `fyke …` in the working folder; what is left of it is killed at the end."""
    with ExitStack() as stack:

        def one(*arguments: str, **variables: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-m", "fyke", *arguments],
                cwd=tmp_path,
                env={**{k: v for k, v in os.environ.items() if not k.startswith("FYKE_")}, **variables},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.wait, 10)
            stack.callback(process.kill)
            assert process.stderr is not None
            stack.callback(process.stderr.close)
            return process

        yield one


async def _workers(here: Collecting, count: int) -> None:
    """Until so many processes are at work on the ledger."""
    for _ in range(ENDS_WITHIN_S * 10):
        found = await here.look("SELECT worker FROM worker")
        if len(found) >= count:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"at work are only {found}")


@pytest.fixture
async def site() -> Any:
    async with await serve_site(SiteConfig(items=20)) as found:
        yield found


@pytest.mark.parametrize("on_servers", [False, True], ids=["sqlite", "redis and postgres"])
async def test_every_process_on_the_old_ledger_ends_with_exit_code_2(
    tmp_path: Path,
    site: RunningSite,
    start: Start,
    capfd: pytest.CaptureFixture[str],
    fresh_database: Callable[[str], str],
    fresh_redis: Callable[..., str],
    on_servers: bool,
) -> None:
    places = {"ledger": fresh_database("postgres-15"), "frontier": fresh_redis()} if on_servers else {}
    here = Collecting(tmp_path, site, **places)
    await here.once()
    started = [start(*role, **here.variables()) for role in ROLES]
    # `run` has a scheduler and a worker, the others one each.
    await _workers(here, 5)
    new = f"sqlite:///{tmp_path / 'new.db'}"
    assert await asyncio.to_thread(run, ["ledger", "copy", here.ledger, new]) == 0
    for role, process in zip(ROLES, started, strict=True):
        _, told = await asyncio.to_thread(process.communicate, timeout=ENDS_WITHIN_S)
        assert process.returncode == 2, f"{role}: {told}"
        assert f"moved to {new}" in told
        assert "Traceback" not in told, told
    for verb in ("status", "audit", "runs", "run --once", "source list", "export lab --format csv", "dead list"):
        found = await asyncio.to_thread(run, ["--ledger", here.ledger, *verb.split()])
        assert found == 2, verb
        assert "moved to" in capfd.readouterr().err


async def test_nothing_is_fetched_or_stored_again_after_a_move(tmp_path: Path, site: RunningSite) -> None:
    here = Collecting(tmp_path, site)
    assert (await here.once()).problems == []
    rows = here.rows("_item_id, _key, title, _version")
    new = tmp_path / "new.db"
    assert await asyncio.to_thread(run, ["ledger", "copy", f"sqlite:///{here.path}", f"sqlite:///{new}"]) == 0
    site.reset_hits()
    settings = load_settings(tmp_path, here.variables(FYKE_LEDGER=f"sqlite:///{new}")).settings
    async with open_stores(settings) as stores:
        await apply_folder(stores, strict=True)
        report = await run_once_here(stores, [], 60_000)
    assert report.problems == []
    assert (report.new_stored, sum(site.hits()["detail"].values())) == (0, 0)
    assert sum(site.hits()["list"].values()) >= 1
    here.folder = tmp_path
    (tmp_path / "fyke.db").rename(tmp_path / "old.db")
    new.rename(tmp_path / "fyke.db")
    assert here.rows("_item_id, _key, title, _version") == rows


async def test_work_that_was_open_goes_on_in_the_new_ledger(tmp_path: Path, site: RunningSite) -> None:
    """The frontier is filled from the ledger; what was leased in the old one is nobody's."""
    here = Collecting(tmp_path, site)
    async with open_stores(here.settings()) as stores:
        await apply_folder(stores, strict=True)
        submitted = [
            Entry(0, key, {"url": url}, key.encode(), url=url, lane=lane_of(url)) for key, url in _notices(site)
        ]
        result = await stores.ledger.submit("lab", submitted)
        await stores.frontier.offer(result.due)
        leased = await stores.frontier.lease(3, 60_000, worker="gone")
        assert leased.deliveries
    new = f"sqlite:///{tmp_path / 'new.db'}"
    assert await asyncio.to_thread(run, ["ledger", "copy", f"sqlite:///{here.path}", new]) == 0
    settings = load_settings(tmp_path, here.variables(FYKE_LEDGER=new)).settings
    async with open_stores(settings) as stores:
        report = await run_once_here(stores, [], 60_000)
        counts = (await stores.ledger.counts())[0]
    assert report.problems == []
    assert (counts.stored, counts.open) == (20, 0)


def _notices(site: RunningSite) -> list[tuple[str, str]]:
    return [(key, record["url"]) for key, record in sorted(site.truth()["records"].items())[:10]]


def test_it_says_what_it_did_for_people_and_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["migrate"]) == 0
    monkeypatch.setenv("NEW", "sqlite:///new.db")
    capsys.readouterr()
    assert run(["ledger", "copy", "sqlite:///fyke.db", "env:NEW", "--json"]) == 0
    moved = json.loads(capsys.readouterr().out)
    assert (moved["source"], moved["target"]) == ("sqlite:///fyke.db", "sqlite:///new.db")
    assert moved["report"]["balanced"] is True
    assert run(["ledger", "reopen", "sqlite:///fyke.db"]) == 2
    assert "has ended" in capsys.readouterr().err
    assert run(["ledger", "reopen", "sqlite:///fyke.db", "--force"]) == 0
    assert run(["ledger", "reopen", "sqlite:///new.db"]) == 0
    assert "nothing to undo" in capsys.readouterr().out
    assert run(["ledger", "copy", "env:NONE", "sqlite:///new.db"]) == 2
    assert "NONE" in capsys.readouterr().err


def test_no_password_of_an_address_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["migrate"]) == 0
    for target in (
        "postgresql://me:secret@127.0.0.1:1/fyke",
        "mysql://me:secret@127.0.0.1:1/fyke",
        "pg://me:secret@x/y",
    ):
        assert run(["ledger", "copy", "sqlite:///fyke.db", target]) in (1, 2)
        told = capsys.readouterr()
        assert "secret" not in told.out + told.err
    assert run(["audit"]) == 0, "the old ledger is open"
