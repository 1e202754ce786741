"""The rounds of a load test, one for each number of workers, each on an empty ledger."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct

from fyke.errors import TransientError, UsageError
from fyke.lab.crew import Crew, cpu_seconds
from fyke.lab.load.figures import Limits, Round, Sample
from fyke.lab.load.stage import (
    HOST_CONCURRENCY,
    Backend,
    Place,
    Servers,
    Site,
    lab_place,
    open_run,
    own_place,
    pick_backend,
    submit_all,
    visits,
    workers_alive,
)

LOOK_S: Final = 0.4
START_LIMIT_S: Final = 120.0


class LoadPlan(Struct, frozen=True, kw_only=True):
    """`urls`: pages for each worker of a round, or of the whole round where `together`. `source`: one of the user's
    own instead of the lab site.
    """

    workers: tuple[int, ...] = (1, 3, 6, 12)
    urls: int = 200
    together: bool = False
    seconds: float = 300.0
    latency_ms: float = 400.0
    slots: int = 4
    backend: Backend | None = None
    source: str = ""
    variables: dict[str, str] = {}


async def play(plan: LoadPlan, tell: Callable[[str], None]) -> tuple[Backend, list[Round]]:
    """Every round, the smallest first.

    Raises:
        UsageError: no such source, or the workers do not come up.
    """
    backend: Backend = "sqlite" if plan.source else pick_backend(plan.backend)
    rounds = []
    with TemporaryDirectory(prefix="fyke-load-") as name:
        servers = await asyncio.to_thread(Servers, Path(name), backend)
        try:
            for workers in sorted(set(plan.workers)):
                tell(f"{workers} worker process(es) ...")
                folder = Path(name) / f"round-{workers}"
                folder.mkdir()
                one = await (_own(plan, workers, folder) if plan.source else _lab(plan, workers, folder, servers))
                tell(f"  {len(one.requests)} pages in {one.seconds:.1f} s, {one.per_second:.1f} a second")
                rounds.append(one)
        finally:
            await asyncio.to_thread(servers.close)
    return backend, rounds


async def _lab(plan: LoadPlan, workers: int, folder: Path, servers: Servers) -> Round:
    items = plan.urls if plan.together else plan.urls * workers
    site = Site(folder, items, plan.latency_ms)
    try:
        url = await site.start()
        addresses = await asyncio.to_thread(servers.addresses)
        async with lab_place(folder / "user", addresses, url, plan.slots) as place:
            watch = Watch(place, {"site": site.pid, **servers.pids})
            limits = _limits(plan, workers, HOST_CONCURRENCY, 0.0)
            details = await asyncio.to_thread(site.details)
            began, finished = await watch.run(workers, plan, lambda: submit_all(place.stores, details))
            requests = await asyncio.to_thread(site.requests, began)
            return Round(
                workers=workers,
                limits=limits,
                requests=sorted(requests),
                samples=watch.samples,
                failures=sum(not one.good for one in requests),
                finished=finished,
            )
    finally:
        await asyncio.to_thread(site.stop)


async def _own(plan: LoadPlan, workers: int, folder: Path) -> Round:
    async with own_place(folder, plan.variables, plan.source, plan.slots) as place:
        (row,) = [row for row in await place.stores.ledger.sources() if row.source.id == plan.source]
        lanes = [policy for policy in row.source.lanes if policy.lane != "*"]
        watch = Watch(place, {})
        began_ms = await place.stores.ledger.now()
        _, finished = await watch.run(workers, plan, lambda: open_run(place.stores, plan.source))
        requests = await asyncio.to_thread(visits, place, began_ms)
        return Round(
            workers=workers,
            limits=_limits(
                plan,
                workers,
                min((policy.concurrency for policy in lanes), default=HOST_CONCURRENCY),
                max((policy.gap for policy in lanes), default=0) / 1000,
            ),
            requests=sorted(requests),
            samples=watch.samples,
            failures=sum(not one.good for one in requests),
            finished=finished,
        )


def _limits(plan: LoadPlan, workers: int, concurrency: int, delay: float) -> Limits:
    return Limits(
        cores=os.cpu_count() or 1,
        workers=workers,
        slots=workers * plan.slots,
        host_concurrency=concurrency,
        host_delay=delay,
    )


class Watch:
    """Starts the processes, gives them their work once all are there, and samples until it is done."""

    def __init__(self, place: Place, pids: Mapping[str, int]) -> None:
        self._place, self._pids = place, pids
        self.samples: list[Sample] = []

    async def run(
        self, workers: int, plan: LoadPlan, give: Callable[[], Coroutine[Any, Any, None]]
    ) -> tuple[float, bool]:
        """The moment when the work was given (monotonic), and whether all of it was done in time."""
        crew = self._place.crew(workers)
        await asyncio.to_thread(crew.start)
        try:
            await self._until_alive(crew, workers)
            began = time.monotonic()
            giving = asyncio.create_task(give())
            try:
                finished = await self._sample(crew, plan, began, giving)
            finally:
                giving.cancel()
            return began, finished
        finally:
            await asyncio.to_thread(crew.stop)

    async def _until_alive(self, crew: Crew, workers: int) -> None:
        end = time.monotonic() + START_LIMIT_S
        while await workers_alive(self._place.stores) < workers:
            await asyncio.to_thread(crew.tend)
            if time.monotonic() > end:
                raise UsageError(f"the {workers} workers did not come up: {crew.last_lines()}")
            await asyncio.sleep(LOOK_S)

    async def _sample(self, crew: Crew, plan: LoadPlan, began: float, giving: asyncio.Task[None]) -> bool:
        stores = self._place.stores
        while time.monotonic() - began < plan.seconds:
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(crew.tend)
            try:
                stats = await stores.frontier.stats()
            except TransientError:
                continue
            cpu = await asyncio.to_thread(cpu_seconds, {**self._pids, **crew.pids})
            waiting = stats.ready + stats.delayed
            self.samples.append(Sample(round(time.monotonic() - began, 3), waiting, stats.leased, cpu))
            if giving.done():
                giving.result()
                if await self._done(plan):
                    return True
        return False

    async def _done(self, plan: LoadPlan) -> bool:
        ledger = self._place.stores.ledger
        if not plan.source:
            return await ledger.open_count() == 0
        counts = await ledger.counts()
        visited = sum(row.stored + row.dead + row.ignored for row in counts)
        return visited >= plan.urls or await ledger.open_count() == 0
