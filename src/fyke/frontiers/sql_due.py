"""What there is to do: one look before anything is written, so that an idle frontier writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fyke.db.connection import Connection
from fyke.frontiers import sql_statements as sql

WAIT_LIMIT_MS = 1_000


class Due(NamedTuple):
    """When something may be leased from a pool, as one look found it."""

    clock_high: int
    classes: tuple[int | None, ...]
    delayed: int | None
    lease_end: int | None
    place_end: int | None
    expired: bool

    def best(self, now: int) -> int | None:
        """The best class that has a lane that may go."""
        return next((n for n, at in enumerate(self.classes) if at is not None and at <= now), None)

    def wait(self, now: int) -> int:
        # A lease that has run out is the reaper's affair: no reason to look again and again.
        return _first((*self.classes, self.delayed, self.lease_end, self.place_end), now)


def look(connection: Connection, pool: str, now: int) -> Due:
    high, first, second, third, *rest = connection.execute(sql.NEXT_DUE[pool], {"now": now}).fetchone()
    return Due(high, (first, second, third), *rest)


class Reaping(NamedTuple):
    """Whether there are leases, and whether the reaper has to do something."""

    leased: bool
    work: bool
    clock_high: int


def reaping(connection: Connection, now: int) -> Reaping:
    leased, expired, too_long, high = connection.execute(sql.REAP_NEEDED, {"now": now}).fetchone()
    work = expired or too_long or connection.execute(sql.DRIFTED).fetchone() is not None
    return Reaping(bool(leased), bool(work), high)


def _first(times: Iterable[int | None], now: int) -> int:
    """Milliseconds until the first of these times, at most a second."""
    waits = [at - now for at in times if at is not None]
    return max(0, min(WAIT_LIMIT_MS, *waits)) if waits else WAIT_LIMIT_MS
