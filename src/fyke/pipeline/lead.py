"""Which of several schedulers plans now. It saves double work only: UNIQUE(source, slot) decides (P1)."""

from __future__ import annotations

import logging
from typing import Final

from fyke.errors import TransientError
from fyke.ports import Clock, Lock

log = logging.getLogger("fyke.scheduler")

STANDBY_S: Final = 0.5


class Lead:
    """The lead of one process. `length_ms`: how long it lasts without renewal; others wait at most that long."""

    def __init__(self, lock: Lock, clock: Clock, *, name: str, owner: str, length_ms: int) -> None:
        self._lock, self._clock, self._name, self._owner, self._length = lock, clock, name, owner, length_ms
        self._until, self._away = 0.0, False
        self.token: int | None = None
        """Of the lead that this process has, as far as it knows."""

    async def look(self) -> float:
        """Renew the lead, or take a free one; returns seconds until the next look.

        Raises:
            TransientError: the lock cannot be asked; until it can everybody may plan, for the ledger decides.
        """
        try:
            if self.token is None:
                await self._take()
            elif not await self._renew():
                log.warning("another scheduler plans now")
                await self._take()
        except TransientError:
            self._away = True
            raise
        self._away = False
        wait = self._length / 3000
        return wait if self.token is not None else min(wait, STANDBY_S)

    async def mine(self) -> bool:
        """Whether this process may plan, by what it knows; a lead that was not renewed in time is asked for anew."""
        if self.token is not None and self._clock.monotonic() >= self._until:
            return await self.confirmed()
        return self.token is not None or self._away

    async def confirmed(self) -> bool:
        """Whether this process may plan, asked for now: one that was paused finds out before it acts."""
        try:
            await self.look()
        except TransientError as error:
            log.debug("the lock cannot be asked: %s", error)
        return self.token is not None or self._away

    async def give_up(self) -> None:
        """Free the lead, so that another scheduler plans at once."""
        if self.token is None:
            return
        try:
            await self._lock.release(self._name, self._owner, self.token)
        except TransientError as error:
            log.debug("the lead ends by itself: %s", error)
        self.token = None

    async def _take(self) -> None:
        asked = self._clock.monotonic()
        self.token = await self._lock.acquire(self._name, self._owner, self._length)
        if self.token is not None:
            self._until = asked + self._length / 1000
            log.info("this scheduler plans now (%d)", self.token)

    async def _renew(self) -> bool:
        assert self.token is not None
        asked = self._clock.monotonic()
        if await self._lock.renew(self._name, self._owner, self.token, self._length):
            self._until = asked + self._length / 1000
            return True
        self.token = None
        return False
