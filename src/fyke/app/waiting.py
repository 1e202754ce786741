"""Processes may be started in any order: they wait for their servers, say so, and end with a clear error in the end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from fyke.errors import TransientError
from fyke.ports import Clock

log = logging.getLogger("fyke.start")

T = TypeVar("T")

FIRST_S: Final = 0.1
CAP_S: Final = 5.0
TOLD_EVERY_S: Final = 10.0


class Patience:
    """Waits for all servers of a process together, at most `wait_ms`; 0 tries each once."""

    def __init__(self, wait_ms: int, clock: Clock, random: Random) -> None:
        self._clock, self._random, self._wait_ms = clock, random, wait_ms
        self._until = clock.monotonic() + wait_ms / 1000
        self._told_at = float("-inf")

    async def reach(self, server: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """What `attempt` returns, once it does. `server`: its address for people, masked.

        Raises:
            TransientError: it was not there in time; names server and reason.
        """
        failures = 0
        while True:
            try:
                found = await attempt()
            except TransientError as error:
                left = self._until - self._clock.monotonic()
                if left <= 0:
                    after = f" after {self._wait_ms / 1000:g} s (servers.wait)" if self._wait_ms else ""
                    raise TransientError(f"{server} cannot be used{after}: {error}") from error
                self._tell(f"waiting for {server}: {error}")
                failures += 1
                pause = min(FIRST_S * 2 ** min(failures, 10), CAP_S) * (0.5 + self._random.random() / 2)
                await self._clock.sleep(max(0.0, min(pause, left)))
            else:
                if failures:
                    log.info("%s is there", server)
                return found

    def _tell(self, text: str) -> None:
        now = self._clock.monotonic()
        if now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            log.warning("%s", text)
