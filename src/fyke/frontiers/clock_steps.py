"""Notices when the wall clock was moved, and keeps the reaper still for one lease after it.

After a step, or after the database was away, leases look expired whose holders are alive and about to extend them.
"""

from __future__ import annotations

from fyke.ports import Clock

STEP_MS = 5_000


class StepWatch:
    """Compares the wall clock with the monotonic one between calls; `step` is what the tables were not told yet."""

    def __init__(self, clock: Clock, lease_ms: int) -> None:
        self._clock, self._lease_ms = clock, lease_ms
        self._wall, self._steady = clock.now(), clock.monotonic()
        self._still_until = self._steady
        self.step = 0

    def look(self) -> None:
        wall, steady = self._clock.now(), self._clock.monotonic()
        moved = wall - self._wall - round((steady - self._steady) * 1000)
        self._wall, self._steady = wall, steady
        if abs(moved) > STEP_MS:
            self.step += moved
            self.pause()

    def told(self, step: int) -> None:
        """The tables were told of `step`."""
        self.step -= step

    def pause(self) -> None:
        self._still_until = self._clock.monotonic() + self._lease_ms / 1000

    @property
    def paused(self) -> bool:
        return self._clock.monotonic() < self._still_until
