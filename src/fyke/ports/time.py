"""Time as a port: everything that waits takes a `Clock`, so that tests move it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch; may jump, either way."""
        ...

    def monotonic(self) -> float:
        """Seconds, never backwards."""
        ...

    async def sleep(self, seconds: float) -> None: ...
