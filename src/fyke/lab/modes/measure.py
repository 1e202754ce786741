"""Play one way of "once" on a lab site of its own, with kills or without, and judge it by the site's own log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from msgspec import Struct

from fyke.errors import UsageError
from fyke.lab.crew import Crew, Member, drivers_missing, run_to_end
from fyke.lab.modes import own
from fyke.lab.modes.catalogue import MODES, PRODUCERS, Mode
from fyke.lab.modes.report import Outcome, judge
from fyke.lab.modes.stage import Place
from fyke.lab.servers import PostgresServer, RedisServer
from fyke.lab.servers.redis import FLAVOURS
from fyke.lab.site import RunningSite, SiteConfig, serve_site

LOOK_S: Final = 0.1
MOST_KILLS: Final = 12  # a way that begins anew after each death would never end
DATABASE: Final = "mode_"


class Plan(Struct, frozen=True, kw_only=True):
    """What is compared: items of the site, worker processes, seconds between kills (0: none)."""

    items: int = 400
    workers: int = 3
    kills: float = 2.0
    latency_ms: float = 50.0
    seed: int = 1
    quiet: float = 8.0  # without a request for so long, the article's way has nothing more to do
    limit: float = 180.0
    modes: tuple[str, ...] = ()


class Servers:
    """The throw-away servers of one comparison; each mode has an empty database and an empty Redis."""

    def __init__(self, folder: Path, *, wanted: bool) -> None:
        self._stack = ExitStack()
        self.redis: RedisServer | None = None
        self.postgres: PostgresServer | None = None
        self.missing = {"redis": RedisServer.missing(), "postgres": PostgresServer.missing()}
        if wanted and not self.missing["redis"]:
            flavour = next(each for each in FLAVOURS if not RedisServer.missing(each))
            self.redis = self._stack.enter_context(RedisServer(folder / "redis", flavour, fsync=True))
        if wanted and not self.missing["postgres"]:
            version = next(each for each in (15, 18) if not PostgresServer.missing(each))
            self.postgres = self._stack.enter_context(PostgresServer(folder / "postgres", version, fsync=True))

    def reason(self, mode: Mode) -> str:
        """Why a mode cannot be run here; "" where it can."""
        wanted = [name for name in ("redis", "postgres") if getattr(mode, name)]
        return drivers_missing(*wanted) or "; ".join(self.missing[name] for name in wanted if self.missing[name])

    def place(self, mode: Mode, site: str, folder: Path, number: int) -> Place:
        database = ""
        if mode.postgres and self.postgres is not None:
            database = self.postgres.create_database(f"{DATABASE}{number}")
        redis = self.redis.url if mode.redis and self.redis is not None else ""
        if redis and self.redis is not None:
            self.redis.ask("FLUSHALL")
        return Place(site, str(folder), redis, database)

    def close(self) -> None:
        self._stack.close()


def pick(names: Sequence[str]) -> list[Mode]:
    """The modes of these names; all where none is named.

    Raises:
        UsageError: there is none of that name.
    """
    known = {mode.name: mode for mode in MODES}
    for name in names:
        if name not in known:
            raise UsageError(f"no mode {name!r}", field="--mode", hint=f"one of {', '.join(known)}")
    return [known[name] for name in names] or list(MODES)


async def compare(plan: Plan, tell: Callable[[str], None]) -> list[Outcome]:
    """Every mode without kills, then with them.

    Raises:
        UsageError: a driver is not installed, or a mode's processes fail again and again.
    """
    modes = pick(plan.modes)
    outcomes = []
    with TemporaryDirectory(prefix="fyke-modes-") as name:
        folder = Path(name)
        wanted = any(mode.redis or mode.postgres for mode in modes)
        servers = await asyncio.to_thread(Servers, folder, wanted=wanted)
        try:
            for number, mode in enumerate(modes):
                for kills in (0.0, plan.kills) if plan.kills else (0.0,):
                    tell(f"{mode.title}{f', a kill every {kills:g} s' if kills else ''} ...")
                    reason = servers.reason(mode)
                    run = folder / f"{mode.name}-{kills:g}"
                    run.mkdir()
                    outcomes.append(
                        Outcome(mode.name, mode.title, 0, plan.items, 0, 0, 0, 0, 0, 0.0, missing=reason)
                        if reason
                        else await _play(mode, plan, kills, run, servers, number * 2 + bool(kills))
                    )
        finally:
            await asyncio.to_thread(servers.close)
    return outcomes


async def _play(mode: Mode, plan: Plan, kills: float, folder: Path, servers: Servers, number: int) -> Outcome:
    config = SiteConfig(seed=plan.seed, items=plan.items, latency_ms=plan.latency_ms)
    async with await serve_site(config) as site:
        place = await asyncio.to_thread(servers.place, mode, site.url, folder, number)
        if mode.module:
            crew, count = await asyncio.to_thread(_articles_crew, mode, place, plan)
            rows, finished, killed = await _watched(crew, site, plan, kills, count)
        else:
            rows, finished, killed = await _own(place, site, plan, kills)
        moments = [moment for moment, _, _ in site.hits()["arrivals"]]
        return judge(
            mode.name,
            mode.title,
            truth=site.truth()["ids"],
            rows=rows,
            hits={path: count for path, count in site.hits()["detail"].items() if path.startswith("/detail/")},
            seconds=(moments[-1] - moments[0]) / 1000 if moments else 0.0,
            kills=killed,
            finished=finished,
        )


def _articles_crew(mode: Mode, place: Place, plan: Plan) -> tuple[Crew, Callable[[], list[str]]]:
    folder = Path(place.folder)
    file = folder / "place.json"
    file.write_bytes(msgspec.json.encode(place))
    run_to_end([mode.module, str(file), "prepare", "0"], folder)
    members = [
        *(
            Member(f"node-{n}", [mode.module, str(file), mode.node, str(n)], leaves=True)
            for n in range(plan.workers if mode.node else 0)
        ),
        *(
            Member(f"producer-{n}", [mode.module, str(file), mode.producer, str(n)], leaves=True)
            for n in range(PRODUCERS if mode.producer else 0)
        ),
        *(
            Member(f"worker-{n}", [mode.module, str(file), mode.worker, str(n)])
            for n in range(plan.workers if mode.worker else 0)
        ),
    ]

    def count() -> list[str]:
        found: list[str] = json.loads(run_to_end([mode.module, str(file), "count", "0"], folder))
        return found

    return Crew(folder, members), count


async def _watched(
    crew: Crew, site: RunningSite, plan: Plan, kills: float, count: Callable[[], list[str]]
) -> tuple[list[str], bool, int]:
    """Until those that leave have left and no request comes any more."""
    last, total = asyncio.get_running_loop().time(), 0

    async def done() -> bool:
        nonlocal last, total
        now = asyncio.get_running_loop().time()
        if site.site.arrivals.total != total:
            last, total = now, site.site.arrivals.total
        return crew.finished() and (now - last > plan.quiet or all(member.leaves for member in crew.members))

    finished = await _tended(crew, plan, kills, done)
    return await asyncio.to_thread(count), finished, crew.kills


async def _own(place: Place, site: RunningSite, plan: Plan, kills: float) -> tuple[list[str], bool, int]:
    """Fyke's own commands; the ledger says when nothing is open."""
    async with own.prepared(place) as stores:
        crew = own.crew(place, plan.workers)
        await own.open_run(stores, site.url)
        finished = await _tended(crew, plan, kills, lambda: own.ended(stores, plan.items))
        return await own.rows(stores, site.truth()), finished, crew.kills


async def _tended(crew: Crew, plan: Plan, kills: float, done: Callable[[], Any]) -> bool:
    """Start, kill and start again until `done`; False where the limit came first."""
    loop, random = asyncio.get_running_loop(), Random(plan.seed)
    await asyncio.to_thread(crew.start)
    began = loop.time()
    next_kill = began + kills
    try:
        while loop.time() - began < plan.limit:
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(crew.tend)
            if kills and loop.time() >= next_kill and crew.kills < MOST_KILLS:
                crew.kill_one(random)
                next_kill += kills
            if await done():
                return True
        return False
    finally:
        await asyncio.to_thread(crew.stop)
