"""`fyke lab chaos` as a user types it: real processes are killed, and the answer is right."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fyke.lab.servers import MariaServer, PostgresServer, RedisServer
from tests.servers import Servers

pytestmark = [pytest.mark.serial, pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")]

COMMAND = (sys.executable, "-m", "fyke", "lab", "chaos")
ON_FILES = ("--frontier", "sql", "--ledger", "sqlite")
ENDS_S = 1_500


def chaos(folder: Path, *words: str) -> dict[str, Any]:
    """Run it to its end; what it printed with --json."""
    found = subprocess.run(
        [*COMMAND, "--dir", str(folder), "--seed", "3", *words, "--json"],
        cwd=folder.parent,
        capture_output=True,
        text=True,
        timeout=ENDS_S,
        check=False,
    )
    assert found.returncode == 0, f"{found.stdout}\n{found.stderr[-3_000:]}\n{said(folder)}"
    report: dict[str, Any] = json.loads(found.stdout)
    return report


def said(folder: Path) -> str:
    return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-800:]}" for path in folder.glob("*.log"))


def good(report: dict[str, Any], items: int, faults: Sequence[str]) -> None:
    verdict = report["verdict"]
    assert (verdict["lost"], verdict["doubled"], verdict["wrong"]) == ([], [], [])
    assert verdict["listed"] == verdict["stored"] + verdict["dead"] == items
    assert verdict["open"] == verdict["unaccounted"] == 0
    assert set(report["faults"]) == set(faults)
    assert verdict["extra_fetches"] <= report["in_hand"]
    assert report["ended"] == []


def test_killed_workers_and_schedulers_lose_and_double_nothing(tmp_path: Path) -> None:
    faults = ("kill", "kill-scheduler", "poison")
    folder = tmp_path / "run"
    report = chaos(folder, *ON_FILES, "--items", "300", "--seconds", "8", "--every", "1", "--faults", ",".join(faults))
    good(report, 300, faults)
    assert report["verdict"]["dead"] == 6
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [line["what"] for line in history][0 :: len(history) - 1] == ["start", "result"]
    told = [line["fault"] for line in history if line["what"] == "fault"]
    assert len(told) == sum(report["faults"].values()) - report["faults"]["poison"]
    assert history[-1]["good"] is True


async def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, *ON_FILES, "--dir", "run", "--faults", "kill", "--seconds", "60"),
        cwd=tmp_path,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        # Whoever runs the tests in the background has them ignore Ctrl-C, and their children, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr
    async with asyncio.timeout(60):
        while b"stored" not in await process.stderr.readline():
            pass
        ours = players_of(tmp_path / "run")
        assert len(ours) >= 6
        process.send_signal(signal.SIGINT)
        await process.stderr.read()
        assert await process.wait() == 130
        while players_of(tmp_path / "run"):  # noqa: ASYNC110 - other processes end
            await asyncio.sleep(0.05)


def players_of(folder: Path) -> list[int]:
    """The processes that work in this folder."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink() == folder and int(link.parent.name) != os.getpid():
                found.append(int(link.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture
def on_servers(backend_missing: Callable[[str], NoReturn]) -> Callable[[str], tuple[str, ...]]:
    """The flags of a pair of servers, which must be there."""

    def flags(pair: str) -> tuple[str, ...]:
        frontier, ledger = pair.split("+")
        kinds = [PostgresServer.missing if ledger == "postgres" else MariaServer.missing]
        kinds += [RedisServer.missing] if frontier == "redis" else []
        for missing in kinds:
            if reason := missing():
                backend_missing(reason)
        return ("--frontier", frontier, "--ledger", ledger)

    return flags


def test_servers_killed_and_wiped_lose_and_double_nothing(
    tmp_path: Path, on_servers: Callable[[str], tuple[str, ...]]
) -> None:
    faults = ("kill", "redis-kill", "redis-flush", "database-kill", "cut", "swallow")
    flags = on_servers("redis+postgres")
    report = chaos(
        tmp_path / "run", *flags, "--items", "500", "--seconds", "16", "--every", "2", "--faults", ",".join(faults)
    )
    good(report, 500, faults)


@pytest.mark.crash_long
def test_your_own_servers_are_used_and_nothing_else_on_them_is_touched(
    tmp_path: Path, fresh_database: Callable[[str], str], servers: Servers
) -> None:
    redis, database = servers.redis(), fresh_database("postgres-15")
    redis.ask("SET", "yours", "kept")
    faults = ("kill", "redis-flush", "redis-stream", "redis-freeze", "database-away", "cut")
    words = ("--redis", redis.url, "--database", database, "--outage", "3", "--faults", ",".join(faults))
    report = chaos(tmp_path / "run", *words, "--items", "300", "--seconds", "15", "--every", "1.5")
    good(report, 300, faults)
    assert redis.ask("GET", "yours") == "kept"
    again = subprocess.run(
        [*COMMAND, "--dir", "again", "--database", database, "--frontier", "sql"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=ENDS_S,
        check=False,
    )
    assert again.returncode == 2
    assert "holds a ledger already" in again.stderr


# What must come out of the project: 8,000 items, 3 workers and 2 schedulers, a kill each 3 s; alone, and with each of
# these between the kills.
BETWEEN = {
    "kills alone": (),
    "redis killed and cut back": ("redis-kill", "redis-cut", "redis-restart"),
    "redis wiped": ("redis-flush", "redis-stream"),
    "redis frozen": ("redis-freeze",),
    "database down for 45 s": ("database-away",),
    "responses 503": ("burst",),
    "connections reset": ("cut", "swallow"),
    "poison": ("poison",),
}


PAIRS = ("redis+postgres", "sql+postgres", "sql+mariadb")
LONG = [(what, pair) for pair in PAIRS for what in BETWEEN if pair.startswith("redis") or "redis" not in what]


@pytest.mark.crash_long
@pytest.mark.parametrize(("what", "pair"), LONG)
def test_eight_thousand_items_and_a_kill_each_3_s(
    tmp_path: Path, on_servers: Callable[[str], tuple[str, ...]], what: str, pair: str
) -> None:
    faults = ("kill", *BETWEEN[what])
    flags = on_servers(pair)
    every = 1.5 if len(faults) > 1 and what != "poison" else 3
    report = chaos(
        tmp_path / "run",
        *(*flags, "--items", "8000", "--seconds", "120", "--every", f"{every}", "--settle", "900"),
        *("--outage", "45" if what.startswith("database") else "8", "--faults", ",".join(faults)),
    )
    good(report, 8_000, faults)


def test_a_folder_with_something_in_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    found = subprocess.run([*COMMAND, *ON_FILES, "--dir", str(tmp_path)], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "exists and is not empty" in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
