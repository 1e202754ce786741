"""What a back end gives the frontier's contract suite, and what the suite's tests are built from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fyke.model import Delivery, LanePolicy, Task, TaskKind
from fyke.ports import Frontier

LEASE = 3_000
HOUR = 3_600_000


class FrontierHarness(Protocol):
    """One empty store for one test. The fixture that yields it closes what `open` opened."""

    movable: bool
    """Whether `step` works: a server's own clock cannot be set."""

    async def open(self) -> Frontier:
        """One more handle on the store, as another process would have it."""
        ...

    def now(self) -> int:
        """The time by which the frontier decides, ms."""
        ...

    async def pass_time(self, ms: int) -> None:
        """Let time go by: move the clock where it can be moved, else sleep."""
        ...

    def step(self, ms: int) -> None:
        """Set the wall clock forward or back, with no time going by."""
        ...


def item(ref: int, lane: str = "free", *, generation: int = 1, pool: str = "text", priority: int = 1) -> Task:
    return Task(TaskKind.ITEM, ref, generation, lane, pool, priority, source_hash="hash")


def refs(deliveries: Sequence[Delivery]) -> list[int]:
    return [delivery.task.ref for delivery in deliveries]


async def open_free(frontier: Frontier, *lanes: str, concurrency: int = 1_000) -> None:
    """Lanes that pace nothing."""
    await frontier.configure([LanePolicy(lane, 0, 0, concurrency) for lane in lanes or ("free",)])


async def take(frontier: Frontier, limit: int = 1_000, *, worker: str = "w", duration: int = LEASE) -> list[Delivery]:
    return (await frontier.lease(limit, duration, worker=worker)).deliveries


async def take_one(frontier: Frontier, *, worker: str = "w", duration: int = LEASE) -> Delivery:
    (delivery,) = await take(frontier, 1, worker=worker, duration=duration)
    return delivery
