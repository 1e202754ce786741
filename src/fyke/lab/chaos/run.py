"""One chaos run: start everything, let the nemesis work, heal, wait until nothing is open, compare.

Keeps no promise itself; it tries those of Fyke, from outside, with the commands that a user types.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct

from fyke.app import Stores, apply_folder, open_database, open_stores
from fyke.errors import TransientError, UsageError
from fyke.lab.chaos.arena import ATTEMPTS, SOURCE_ID, TABLE, Arena, first_items, open_arena
from fyke.lab.chaos.checker import Evidence, Row, Verdict, check
from fyke.lab.chaos.faults import Faults
from fyke.lab.chaos.history import History
from fyke.lab.chaos.nemesis import Nemesis
from fyke.lab.chaos.plan import ChaosConfig, chosen_faults, in_hand_at
from fyke.lab.chaos.players import Player, Players
from fyke.model import Listing, NewRun, SourceCounts
from fyke.pipeline.auditor import audit
from fyke.policy.politeness import lane_of
from fyke.settings import Settings, load_settings

Tell = Callable[[str], None]

ADD_TIMES: Final = 10
STOP_S: Final = 20.0
LOOK_S: Final = 1.0
DEATH: Final = re.compile(r"worker \d+ ended \((exit code \d+)\)")


class EffectLog(Struct, frozen=True):
    """How what reaches the user's table is counted: `install(connection, table)`, `twice(connection)`."""

    install: Callable[[Any, str], None]
    twice: Callable[[Any], list[tuple[str, str, int, int]]]


class ChaosReport(Struct, frozen=True):
    """`in_hand`: at most so many tasks were in hand at the faults. `ended`: processes that ended by themselves."""

    seed: int
    frontier: str
    ledger: str
    items: int
    workers: int
    schedulers: int
    faults: dict[str, int]
    verdict: Verdict
    in_hand: int
    ended: list[str]
    seconds: float
    settle_seconds: float
    settled: bool
    history: str

    @property
    def good(self) -> bool:
        return self.verdict.good and self.settled


async def run_chaos(config: ChaosConfig, effects: EffectLog, tell: Tell) -> ChaosReport:
    """Everything that is started ends with this call, however it ends.

    Raises:
        UsageError: a fault or a server that cannot be had; your database holds a ledger already.
    """
    names = chosen_faults(config)
    make_folder(config.folder)
    history = History(config.folder)
    async with AsyncExitStack() as stack:
        stack.callback(history.close)
        arena = await stack.enter_async_context(open_arena(config, names))
        settings = load_settings(config.folder, arena.variables(relayed=False)).settings
        await prepare(settings, effects)
        history.write("start", seed=config.seed, faults=names, items=config.items, site=arena.site.url)
        tell(_opening(config, arena, names))
        players = make_players(arena, history, tell)
        stack.callback(players.kill)
        players.start()
        keeping = await stack.enter_async_context(_beside(players.keep()))
        random = Random(config.seed)
        nemesis = Nemesis(random, Faults(arena, players, random).acts(names), config.every, _recorder(history, tell))
        watch = Watch(settings, history, tell)
        async with _beside(watch.run()), _beside(_publish(config, arena)):
            await watch.open_run(arena.site.url)
            await nemesis.run(config.seconds)
            healed = history.seconds
            history.write("healed")
            tell(f"{healed:6.1f} s  everything is healed; waiting until nothing is open")
            settled = await watch.settle(arena.site.url, config.items, config.settle)
            settle_seconds = history.seconds - healed
        keeping.cancel()
        for name in await players.stop(STOP_S):
            history.left(name, -1)
        verdict = await judge(settings, arena, effects, history)
        report = _report(config, names, history, verdict, settle_seconds, settled=settled)
        history.write("result", report=report, good=report.good)
        return report


def make_folder(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} exists and is not empty", field="--dir", hint="name another one")
    folder.mkdir(parents=True, exist_ok=True)


async def prepare(settings: Settings, effects: EffectLog) -> None:
    async with open_stores(settings, wait=True) as stores:
        if await stores.ledger.sources(removed=True):
            raise UsageError(
                "this database holds a ledger already", field="--database", hint="name an empty database for the run"
            )
        await apply_folder(stores, strict=True)
    async with open_database(settings) as database:
        await database.write(lambda connection: effects.install(connection, TABLE))


def make_players(arena: Arena, history: History, tell: Tell) -> Players:
    config, variables = arena.config, arena.variables(relayed=True)
    roles = [("scheduler", n) for n in range(config.schedulers)] + [("worker", n) for n in range(config.workers)]

    def left(name: str, code: int) -> None:
        history.left(name, code)
        tell(f"{history.seconds:6.1f} s  {name} ended by itself with {code}; it is started again")

    return Players([Player(role, number + 1, arena.folder, variables) for role, number in roles], left)


def _recorder(history: History, tell: Tell) -> Callable[[str, str], None]:
    def record(name: str, detail: str) -> None:
        history.fault(name, detail)
        tell(f"{history.seconds:6.1f} s  {name}: {detail}")

    return record


async def _publish(config: ChaosConfig, arena: Arena) -> None:
    """The site publishes the rest of its items while the faults go on."""
    left = config.items - first_items(config)
    for number in range(ADD_TIMES):
        await asyncio.sleep(config.seconds / (ADD_TIMES + 1))
        share = left * (number + 1) // ADD_TIMES - left * number // ADD_TIMES
        await arena.site.control(add=share)


@contextlib.asynccontextmanager
async def _beside(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run it beside; an error of it comes out at the end."""
    task: asyncio.Task[None] = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Watch:
    """Looks at the ledger from outside once a second, and opens runs by hand where none is going."""

    def __init__(self, settings: Settings, history: History, tell: Tell) -> None:
        self._settings, self._history, self._tell = settings, history, tell
        self._shown = ""

    async def run(self) -> None:
        while True:
            try:
                async with open_stores(self._settings) as stores:
                    while True:
                        self._show(await _counts(stores))
                        await asyncio.sleep(LOOK_S)
            except TransientError:
                await asyncio.sleep(LOOK_S)

    async def open_run(self, url: str) -> None:
        async with open_stores(self._settings, wait=True) as stores:
            await _open_run(stores, url)

    async def settle(self, url: str, items: int, seconds: float) -> bool:
        """Wait until so many items are listed and nothing is open; False where that does not come in time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            try:
                async with open_stores(self._settings) as stores:
                    counts, going = await _counts(stores), await stores.ledger.running(SOURCE_ID)
                    idle = counts is not None and not counts.open and not going
                    if idle and counts is not None and counts.listed >= items:
                        return True
                    if idle:
                        await _open_run(stores, url)
            except TransientError as error:
                self._history.write("away", why=str(error))
            await asyncio.sleep(0.5)
        return False

    def _show(self, counts: SourceCounts | None) -> None:
        if counts is None:
            return
        found = {"listed": counts.listed, "stored": counts.stored, "open": counts.open, "dead": counts.dead}
        line = "  ".join(f"{name} {value}" for name, value in found.items())
        if line != self._shown:
            self._shown = line
            self._history.write("counts", **found)
            self._tell(f"{self._history.seconds:6.1f} s  {line}")


async def _counts(stores: Stores) -> SourceCounts | None:
    return next((row for row in await stores.ledger.counts() if row.source_id == SOURCE_ID), None)


async def _open_run(stores: Stores, url: str) -> None:
    """As `fyke run --once` opens one; what cannot be offered now is offered by the reconciler."""
    now = await stores.ledger.now()
    opened = await stores.ledger.open_run(NewRun(SOURCE_ID, now, [Listing("main")], [lane_of(url)], trigger="hand"))
    with contextlib.suppress(TransientError):
        await stores.frontier.offer(opened.tasks)


def deaths(folder: Path) -> list[str]:
    """Children of workers that ended though no signal was sent: their supervisors say so in their logs."""
    found = []
    for log in sorted(folder.glob("worker-*.log")):
        text = log.read_text(encoding="utf-8", errors="replace")
        found += [f"a child of {log.stem}: {ending}" for ending in DEATH.findall(text)]
    return found


async def judge(settings: Settings, arena: Arena, effects: EffectLog, history: History) -> Verdict:
    async with open_stores(settings, wait=True) as stores:
        report = await audit(stores.ledger, stores.frontier)
        rows = [
            Row(str(row["_key"]), int(row["_version"]), str(row["title"]))
            async for chunk in stores.ledger.rows(SOURCE_ID)
            for row in chunk
        ]
    async with open_database(settings) as database:
        twice = await database.read(effects.twice)
    for text in deaths(arena.folder):
        history.left(text, 1)
    truth, hits = await arena.site.truth(), await arena.site.hits()
    return check(Evidence(truth, hits, rows, twice, report, ATTEMPTS))


def _report(
    config: ChaosConfig, names: tuple[str, ...], history: History, verdict: Verdict, settle: float, *, settled: bool
) -> ChaosReport:
    done = dict(history.faults) | ({"poison": verdict.dead_expected} if "poison" in names else {})
    return ChaosReport(
        seed=config.seed,
        frontier=config.frontier,
        ledger=config.ledger,
        items=config.items,
        workers=config.workers,
        schedulers=config.schedulers,
        faults=done,
        verdict=verdict,
        in_hand=in_hand_at(history.faults, config),
        ended=history.ended,
        seconds=history.seconds,
        settle_seconds=round(settle, 1),
        settled=settled,
        history=str(history.path),
    )


def _opening(config: ChaosConfig, arena: Arena, names: tuple[str, ...]) -> str:
    redis = "sql" if config.frontier == "sql" else arena.redis.name if arena.redis else "your Redis"
    ledger = "SQLite" if config.ledger == "sqlite" else arena.database.name if arena.database else "your database"
    return (
        f"{config.workers} workers and {config.schedulers} schedulers on {ledger}, frontier {redis};"
        f" {config.items} items at {arena.site.url}; seed {config.seed}.\nFaults: {', '.join(names)}."
    )
