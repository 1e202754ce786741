"""Every call of the pipeline to ledger, frontier and fetcher: counted by name, recorded, and where a fault is put."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from fyke.errors import FetchFailed, TransientError
from fyke.model import Task


class Fault(StrEnum):
    DIE_BEFORE = "die before"
    DIE_AFTER = "die after"
    NO_EFFECT = "error, no effect"
    LOST_REPLY = "effect, but error"
    TWICE = "done twice"
    STOP_BEFORE = "stopped past the lease before it"
    STOP_AFTER = "stopped past the lease after it"
    # What others do to the frontier's server just before the call.
    WIPED = "wiped before it"
    STREAM_DELETED = "stream deleted before it"
    STREAM_TRIMMED = "stream trimmed before it"
    GONE_BACK = "last writes lost before it"
    LEASE_STOLEN = "leases taken over before it"


DAMAGES = (Fault.WIPED, Fault.STREAM_DELETED, Fault.STREAM_TRIMMED, Fault.GONE_BACK, Fault.LEASE_STOLEN)
OF_CALLS = tuple(fault for fault in Fault if fault not in DAMAGES)


class Died(BaseException):
    """The process is gone."""


T = TypeVar("T")
Point: TypeAlias = tuple[str, int]
"""A call: its name, and the how-manieth of that name it is in a life."""

NEVER_FAULTY = frozenset({"frontier.wait", "ledger.close", "frontier.close", "fetcher.close"})
"""They ask nobody and change nothing."""


class Step(Struct):
    """One call in the order that calls were made in. `how`: "" while it is not answered, then done, failed or died."""

    at: float  # s
    process: int
    name: str
    n: int
    what: str  # an address that was fetched, the kinds of the tasks
    fault: Fault | None = None
    how: str = ""


class Events:
    """What a life's calls are bound to: what others do while it is stopped, damage, the record of all lives."""

    def __init__(
        self,
        meanwhile: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
        damage: Callable[[Fault], Awaitable[None]] | None = None,
        changed: Callable[[], None] = lambda: None,
        trace: list[Step] | None = None,
    ) -> None:
        self.meanwhile, self.damage, self.changed = meanwhile, damage, changed
        self.trace: list[Step] = [] if trace is None else trace


class Calls:
    """The counting, shared by all proxies of a life.

    `then`: what happens just before a call. `away`: ledger and frontier are.
    """

    def __init__(self, plan: Mapping[Point, Fault], events: Events | None = None, number: int = 1) -> None:
        self.plan, self._events, self._number = dict(plan), events or Events(), number
        self.counts: Counter[str] = Counter()
        self.dead, self._awake = asyncio.Event(), asyncio.Event()
        self._awake.set()
        self.hit: list[tuple[Point, Fault]] = []
        self.then: dict[Point, Callable[[], None]] = {}
        self.away, self.failed = False, 0

    async def make(self, name: str, call: Callable[[], Any], what: str = "") -> Any:
        await self._run_on()
        self.counts[name] += 1
        point = (name, self.counts[name])
        fault = self.plan.pop(point, None)
        step = Step(asyncio.get_running_loop().time(), self._number, *point, what, fault)
        self._events.trace.append(step)
        if fault is not None:
            self.hit.append((point, fault))
        try:
            answer = await self._make(point, fault, call)
        except Died:
            step.how = "died"
            raise
        except BaseException:
            step.how = "failed"
            raise
        step.how = "done"
        return answer

    async def _make(self, point: Point, fault: Fault | None, call: Callable[[], Any]) -> Any:
        name, _ = point
        self.then.pop(point, lambda: None)()
        if self.away and not name.startswith("fetcher."):
            raise self._error(name, "is away")
        if fault is Fault.DIE_BEFORE:
            self.die()
        if fault is Fault.NO_EFFECT:
            raise self._error(name, "was refused")
        if fault is Fault.STOP_BEFORE:
            await self._stop()
        if fault in DAMAGES:
            assert self._events.damage is not None
            await self._events.damage(fault)
        try:
            answer = await call()
        except TransientError:
            self.failed += 1
            raise
        finally:
            self._events.changed()
        if fault is Fault.TWICE:
            answer = await call()
        if fault is Fault.DIE_AFTER:
            self.die()
        if fault is Fault.LOST_REPLY:
            raise self._error(name, "lost its reply")
        if fault is Fault.STOP_AFTER:
            await self._stop()
        await self._run_on()
        return answer

    def die(self) -> None:
        self.dead.set()
        raise Died

    async def _run_on(self) -> None:
        await self._awake.wait()
        if self.dead.is_set():
            raise Died

    async def _stop(self) -> None:
        """As SIGSTOP: no call of this life goes out or comes back until others are done."""
        self._awake.clear()
        try:
            await self._events.meanwhile()
        finally:
            # Whoever asked may have been cancelled by a time limit, which a stopped process meets when it wakes.
            self._awake.set()

    @staticmethod
    def _error(name: str, what: str) -> Exception:
        if name.startswith("fetcher."):
            return FetchFailed("network", f"played: {name} {what}")
        return TransientError(f"played: {name} {what}")


class Proxy:
    """Passes every call on, through the counting. A call that comes after a death is not made."""

    def __init__(self, name: str, target: Any, calls: Calls) -> None:
        self._name, self._target, self._calls = name, target, calls

    def __getattr__(self, attribute: str) -> Any:
        found, name = getattr(self._target, attribute), f"{self._name}.{attribute}"
        if not asyncio.iscoroutinefunction(found) or name in NEVER_FAULTY:
            return found

        async def through(*args: Any, **kwargs: Any) -> Any:
            return await self._calls.make(name, lambda: found(*args, **kwargs), _said(args))

        return through


def _said(args: tuple[Any, ...]) -> str:
    """What a call is about, in a word or two: its address, or the kinds of its tasks (i items, p passes)."""
    first: Any = args[0] if args else ""
    if isinstance(first, list | tuple):
        tasks: list[Any] = [getattr(getattr(one, "delivery", one), "task", one) for one in first]
        return "".join(sorted(task.kind.value for task in tasks if isinstance(task, Task)))
    return str(getattr(first, "url", ""))
