"""Time that passes only while nothing happens: an event loop whose clock jumps to the next timer.

The threads of the SQLite file, and servers, work in real time; while one of them owes an answer the clock stands
still. So a scenario of minutes takes what its database takes, and a busy machine changes nothing.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fyke.db.sqlite import SqliteDatabase
from fyke.db.sqlite_connection import SqliteConnection

T = TypeVar("T")

PATIENCE_S = 30.0
BEGAN_MS = 1_790_000_000_000


class Stuck(RuntimeError):
    """No thread has answered and no timer is set."""


def _tell_tasks() -> None:
    """What each task waits for, for whoever reads the failure."""
    for task in asyncio.all_tasks(asyncio.get_running_loop()):
        task.print_stack(limit=8)


class _Selector(selectors.DefaultSelector):
    """Waits for threads in real time, for timers in none."""

    def __init__(self) -> None:
        super().__init__()
        self.moment, self.working = 0.0, 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if self.working or timeout is None:
            events = super().select(PATIENCE_S)
            if not events:
                _tell_tasks()
                raise Stuck(f"nothing has happened for {PATIENCE_S:.0f} s of real time")
            return events
        self.moment += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time` is virtual, and with it every sleep and timeout."""

    def __init__(self) -> None:
        self.pace = _Selector()
        super().__init__(self.pace)

    def time(self) -> float:
        return self.pace.moment


class VirtualClock:
    """`ports.Clock` of a virtual loop. `jump` lets time pass at once; `step` moves the wall clock alone."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._pace, self._moved = loop.pace, 0

    def monotonic(self) -> float:
        return self._pace.moment

    def now(self) -> int:
        return BEGAN_MS + int(self._pace.moment * 1000) + self._moved

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))

    def jump(self, milliseconds: int) -> None:
        self._pace.moment += milliseconds / 1000

    def step(self, milliseconds: int) -> None:
        """The wall clock is set forward or back, as a person or NTP does."""
        self._moved += milliseconds


@contextmanager
def owed() -> Iterator[None]:
    """Somebody outside the loop owes an answer: until then no time passes."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.pace.working += 1
    try:
        yield
    finally:
        loop.pace.working -= 1


class TimedDatabase(SqliteDatabase):
    """A file whose answers the virtual clock waits for."""

    async def write(self, call: Callable[[SqliteConnection], T], *, durable: bool = True) -> T:
        with owed():
            return await super().write(call, durable=durable)

    async def read(self, call: Callable[[SqliteConnection], T]) -> T:
        with owed():
            return await super().read(call)


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
