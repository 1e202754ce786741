"""Worker processes of a supervisor: restarted with backoff when they die, ended with it.

Each child reads its standard input: when the supervisor is gone, however it went, the pipe closes and the child
gives its leases back and ends by itself (CRASH-WINDOWS 36).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence

from fyke.ports import Clock

log = logging.getLogger("fyke.supervisor")

FIRST_BACKOFF_S = 0.5
BACKOFF_CAP_S = 30.0
STEADY_S = 60.0


class Child:
    """One place for a worker process. `on_death` hears of each unexpected end: (index, exit code).

    `environ` goes over this process' own variables; `count_flag` is given the number of restarts, for `fyke status`.
    """

    def __init__(
        self,
        index: int,
        command: Sequence[str],
        clock: Clock,
        on_death: Callable[[int, int], Awaitable[None]],
        *,
        environ: Mapping[str, str] | None = None,
        count_flag: str = "",
    ) -> None:
        self.index, self._command, self._clock, self._on_death = index, command, clock, on_death
        self._process: asyncio.subprocess.Process | None = None
        self._stopping, self._grace_s = asyncio.Event(), 0.0
        self._environ, self._count_flag = dict(environ or {}), count_flag
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Keep a process running until `stop`."""
        failures = 0
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            # A session of its own: Ctrl-C reaches the supervisor alone, which then stops its children in order.
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                *([self._count_flag, str(self.restarts)] if self._count_flag else []),
                stdin=asyncio.subprocess.PIPE,
                start_new_session=True,
                env=os.environ | self._environ,
            )
            if self._stopping.is_set():
                # `stop` came while the process was being made and found none: it is ended here.
                await self._end(self._process)
            code = await self._process.wait()
            if self._stopping.is_set():
                return
            failures = 0 if self._clock.monotonic() - began > STEADY_S else failures + 1
            self.restarts += 1
            delay = min(FIRST_BACKOFF_S * 2 ** min(failures - 1, 10), BACKOFF_CAP_S) if failures else FIRST_BACKOFF_S
            log.error("worker %d ended (%s); restarted in %.1f s", self.index, ending(code), delay)
            await self._on_death(self.index, code)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)

    async def stop(self, grace_s: float) -> None:
        """Close its pipe and wait; after the grace time it is killed."""
        self._grace_s = grace_s
        self._stopping.set()
        if self._process is not None and self._process.returncode is None:
            await self._end(self._process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """The child takes a closed pipe for the end of its supervisor: it finishes, gives back the rest and ends."""
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), self._grace_s)
        except TimeoutError:
            log.warning("worker %d did not end within its grace time and is killed", self.index)
            self.kill()
            await process.wait()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def restart(self, grace_s: float) -> None:
        """End the process so that `run` starts a new one (a stall); one that does not hear is killed."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), grace_s)
        except TimeoutError:
            self.kill()


def ending(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
