"""One player on one lab site with servers of its own: the speed round, and the round with faults."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import psutil
from install import CACHE
from players import SETTINGS, SOURCE, Player, Result

from fyke.app import apply_folder, open_stores
from fyke.lab.servers import MariaServer, PostgresServer, RedisServer
from fyke.lab.servers.process import ServerProcess, start_guarded
from fyke.model import Listing, NewRun
from fyke.policy.politeness import lane_of
from fyke.settings import load_settings

PER_PAGE = 50
DETAIL_BYTES = 15_000
WORKERS = 3
SLOTS = 16
WARM_S = 6.0
KILL_EVERY_S = 3.0
AWAY_AT_S, AWAY_S = 6.0, 5.0
COLUMNS = "url {0}, title {0}, buyer {0}, budget {0}, project_no {0}, body_text {0}"


@contextmanager
def lab_site(items: int, latency_ms: int) -> Iterator[str]:
    """A lab site in a process of its own."""
    command = [sys.executable, "-m", "fyke", "lab", "site", "--items", str(items), "--per-page", str(PER_PAGE)]
    command += ["--latency-ms", str(latency_ms), "--detail-size", str(DETAIL_BYTES), "--robots", "none", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def ask(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=90) as answer:  # loopback only
        return json.load(answer)


class Process:
    """One worker (or scheduler) of a player, started again when it was killed."""

    def __init__(self, command: list[str], folder: Path, variables: Mapping[str, str]) -> None:
        self._start = lambda: start_guarded(command, log_to=self._log.fileno(), folder=folder, variables=variables)
        self._log = (folder / "peer.log").open("ab")
        self._guard, self.pid = self._start()

    def tend(self) -> None:
        if self._guard.poll() is not None:
            self._close()
            self._guard, self.pid = self._start()

    def family(self) -> list[psutil.Process]:
        try:
            own = psutil.Process(self.pid)
            return [own, *own.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def cpu(self) -> float:
        return sum(cpu_of(one) for one in self.family())

    def kill(self) -> None:
        for one in self.family():
            with suppress(psutil.NoSuchProcess):
                one.suspend()
        for one in reversed(self.family()):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self._guard.wait()

    def end(self) -> None:
        self.kill()
        self._close()
        self._log.close()

    def _close(self) -> None:
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()


def cpu_of(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def server_cpu(server: ServerProcess) -> float:
    own = psutil.Process(server.pid)
    return sum(cpu_of(one) for one in [own, *own.children(recursive=True)])


class Arena:
    """Servers, site and processes of one player in one round."""

    def __init__(self, player: Player, items: int, latency_ms: int, stack: ExitStack) -> None:
        self.player, self.items = player, items
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fyke-peer-")))
        self.url = stack.enter_context(lab_site(items, latency_ms))
        self.servers: list[ServerProcess] = []
        self.peer: dict[str, Any] = {"site": self.url, "slots": SLOTS}
        if player.redis:
            options = {"loadmodule": str(self._module(player.module))} if player.module else {}
            flavour: Any = player.redis
            redis = stack.enter_context(RedisServer(self.folder / "redis", flavour, options, fsync=True))
            self.servers.append(redis)
            self.peer["redis"] = redis.url
        self.database: PostgresServer | MariaServer
        if player.database == "mysql":
            self.database = stack.enter_context(MariaServer(self.folder / "mysql"))
            self.database.execute(f"CREATE TABLE pages ({COLUMNS.format('LONGTEXT CHARACTER SET utf8mb4')})", "fyke")
            self.peer |= {"mysql_port": self.database.port, "mysql_database": "fyke"}
        else:
            self.database = stack.enter_context(PostgresServer(self.folder / "postgres", 15))
            self.peer["postgres"] = self.database.url
            if not player.own:
                self.database.execute(f"CREATE TABLE pages ({COLUMNS.format('text')})", "fyke")
        self.servers.append(self.database)
        if player.own:
            self._write_settings()
        self._variables = player.variables(self.folder, json.dumps(self.peer))
        self.helpers = [self._process(player.helper(), stack, f"helper-{n}") for n in range(player.helpers)]
        self.workers = [self._process(player.worker(), stack, f"worker-{n}") for n in range(WORKERS)]

    def _process(self, command: list[str], stack: ExitStack, name: str) -> Process:
        folder = self.folder if self.player.own else self.folder / name
        folder.mkdir(exist_ok=True)
        process = Process(command, folder, self._variables)
        stack.callback(process.end)
        return process

    def _module(self, name: str) -> Path:
        (packages,) = (CACHE / self.player.name / "lib").glob("python*/site-packages")
        found = packages / name
        found.chmod(0o755)
        return found

    def _write_settings(self) -> None:
        frontier = self.peer.get("redis", "sql")
        text = SETTINGS.format(ledger=self.database.url, frontier=frontier, slots=SLOTS)
        (self.folder / "fyke.toml").write_text(text, encoding="utf-8")
        (self.folder / "sources").mkdir()
        (self.folder / "sources" / "peers.yaml").write_text(SOURCE.format(url=self.url), encoding="utf-8")
        asyncio.run(self._with_stores(lambda stores: apply_folder(stores, strict=True)))

    async def _with_stores(self, call: Callable[[Any], Any]) -> Any:
        settings = load_settings(self.folder, {"FYKE_SOURCES": str(self.folder / "sources")}).settings
        async with open_stores(settings) as stores:
            return await call(stores)

    def begin(self) -> None:
        """Say where the list is."""
        if self.player.own:
            asyncio.run(self._with_stores(self._open_run))
            return
        folder = self.folder / "seed"
        folder.mkdir()
        command = self.player.seed()
        with (folder / "seed.log").open("wb") as log:
            subprocess.run(command, cwd=folder, env=self._variables, stdout=log, stderr=log, timeout=60, check=True)

    async def _open_run(self, stores: Any) -> None:
        run = NewRun("peers", await stores.ledger.now(), [Listing("main")], [lane_of(self.url)], trigger="hand")
        await stores.frontier.offer((await stores.ledger.open_run(run)).tasks)

    def rows(self) -> list[str]:
        """The address of each row."""
        column = "_key" if self.player.own else "url"
        text = self.database.execute(f"SELECT {column} FROM pages", "fyke")
        return text.split()

    def details(self) -> list[float]:
        """When each request of a detail came, in seconds."""
        return sorted(at / 1000 for at, path, _ in ask(self.url, "/_hits")["arrivals"] if path.startswith("/detail/"))

    def cpu(self) -> tuple[float, float, float]:
        return (
            sum(one.cpu() for one in self.workers),
            sum(one.cpu() for one in self.helpers),
            sum(server_cpu(one) for one in self.servers),
        )

    def judged(self, result: Result) -> Result:
        found = Counter(row.rpartition("/")[2] for row in self.rows())
        truth = {key: record["url"] for key, record in ask(self.url, "/_truth")["records"].items()}
        wanted = {url.rpartition("/")[2] for url in truth.values()}
        hits = ask(self.url, "/_hits")
        times = [at for at, _, _ in hits["arrivals"]]
        result.stored = len(found)
        result.doubled = sum(found.values()) - len(found)
        result.lost = len(wanted - found.keys())
        result.fetched_again = sum(count - 1 for count in hits["detail"].values())
        result.seconds = (times[-1] - times[0]) / 1000 if times else 0.0
        return result


def speed_round(player: Player, items: int, latency_ms: int, limit: float, quiet: float) -> Result:
    """No faults: pages a second and CPU in the middle (10 to 90 %) of the details."""
    result = Result(player.name, "speed", items)
    with ExitStack() as stack:
        arena = Arena(player, items, latency_ms, stack)
        time.sleep(WARM_S)
        arena.begin()
        marks = []
        for share in (0.1, 0.9):
            reached = ask_until(arena.url, int(items * share), limit)
            marks.append((time.monotonic(), arena.cpu()))
            if not reached:
                result.note = f"did not reach {share:.0%} of the requests within {limit:.0f} s"
                return arena.judged(result)
        (start, before), (end, after) = marks
        settle(arena, quiet, limit)
        inside = [at for at in arena.details() if start <= at <= end]
        result.window_s, result.window_pages = end - start, len(inside)
        result.worker_cpu_s, result.helper_cpu_s, result.server_cpu_s = (
            new - old for new, old in zip(after, before, strict=True)
        )
        return arena.judged(result)


def ask_until(url: str, hits: int, limit: float) -> bool:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if ask(url, f"/_wait?hits={hits}")["hits"] >= hits:
            return True
    return False


def settle(arena: Arena, quiet: float, limit: float, tend: Callable[[], None] | None = None) -> None:
    """Until all rows are there, or nothing was asked for and no row was written for `quiet` seconds."""
    end, last, state = time.monotonic() + limit, time.monotonic(), (0, 0)
    while time.monotonic() < end:
        if tend is not None:
            tend()
        with suppress(ValueError):
            now = (len(set(arena.rows())), ask(arena.url, "/_wait?hits=0")["hits"])
            if now != state:
                last, state = time.monotonic(), now
            if now[0] >= arena.items:
                return
        if time.monotonic() - last > quiet:
            return
        time.sleep(0.25)


def fault_round(player: Player, items: int, latency_ms: int, limit: float, quiet: float, seed: int) -> Result:
    """A worker is killed every 3 s until all is stored (at most 20), the database is away once for 5 s."""
    result = Result(player.name, "faults", items)
    random = Random(seed)
    with ExitStack() as stack:
        arena = Arena(player, items, latency_ms, stack)
        time.sleep(WARM_S)
        arena.begin()
        ask_until(arena.url, 10, limit)
        began = time.monotonic()
        next_kill, away = began + KILL_EVERY_S, 0

        def tend() -> None:
            nonlocal next_kill, away
            now = time.monotonic()
            if away == 0 and now >= began + AWAY_AT_S:
                arena.database.kill()
                away = 1
            if away == 1 and now >= began + AWAY_AT_S + AWAY_S:
                arena.database.start()
                away = 2
            if now >= next_kill and result.kills < 20:
                random.choice(arena.workers).kill()
                result.kills += 1
                next_kill = now + KILL_EVERY_S
            for process in (*arena.workers, *arena.helpers):
                process.tend()

        settle(arena, quiet, limit, tend)
        return arena.judged(result)


def stop_on_signal() -> None:
    def end(number: int, _: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
