"""Events as JSON posts to one webhook, grouped, repeated until they are taken.

At least once: the cursor in the ledger moves only after the other side has answered 2xx, so a death between the two
tells the same events again, and none is passed over.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Any, Protocol

import aiohttp
from msgspec import Struct, field
from yarl import URL

from fyke.errors import TransientError, UsageError
from fyke.model import Event, Fields
from fyke.ports import Clock

CURSOR = "alerts"
WINDOW_MS = 30_000
TIMEOUT_S = 10.0
BACKOFF_FIRST_S = 2.0
BACKOFF_CAP_S = 300.0
IDLE_S = 1.0
LEDGER_AWAY_S = 5.0
READ_LIMIT = 100
WAITING_LIMIT = 1_000  # groups held in memory; what is beyond stays in the ledger
GROUPS_PER_POST = 100

_log = logging.getLogger(__name__)

GroupKey = tuple[str, str, str]


class AlertFailed(TransientError):
    """The webhook did not take a message; it is sent again later. The text holds no secrets."""


class EventBook(Protocol):
    """What this module needs of a ledger."""

    async def events(self, after: int = 0, limit: int = 100) -> list[Event]: ...

    async def cursor(self, name: str, value: int | None = None) -> int: ...


class _Group(Struct):
    kind: str
    source: str
    first_id: int
    due: float  # by the clock's monotonic time
    first_at: int
    last_at: int
    message: str = ""
    count: int = 0
    data: Fields = field(default_factory=dict)

    def add(self, event: Event) -> None:
        self.count += 1
        self.first_at, self.last_at = min(self.first_at, event.at), max(self.last_at, event.at)
        self.message, self.data = event.message, event.data

    def told(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "source": self.source,
            "message": self.message,
            "count": self.count,
            "first_at": self.first_at,
            "last_at": self.last_at,
            "data": self.data,
        }

    def line(self) -> str:
        source = f" {self.source}:" if self.source else ""
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"[{self.kind}]{source} {self.message}{times}"


class Alerter:
    """Tells the ledger's events to one address. One per ledger; a second one tells everything twice.

    The first event of a group (kind, source, `Event.group`) goes out at once; those that follow within `window_ms`
    wait for its end and go out as one entry with their count, the last message and the last data.

    Args:
        url: of the webhook. Its path, query and user part count as secrets and are never logged.
        session: used and left open; None: one is made for each post.

    Raises:
        UsageError: `url` is no http or https address.
    """

    def __init__(
        self,
        ledger: EventBook,
        url: str,
        clock: Clock,
        *,
        session: aiohttp.ClientSession | None = None,
        window_ms: int = WINDOW_MS,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self._url = _checked(url)
        self._ledger, self._clock, self._session = ledger, clock, session
        self._window, self._timeout = window_ms / 1000, aiohttp.ClientTimeout(total=timeout)
        self._position: int | None = None
        self._cursor = 0
        self._waiting: dict[GroupKey, _Group] = {}
        self._quiet_until: dict[GroupKey, float] = {}
        self._failures, self._next_try = 0, 0.0

    async def run_once(self) -> float:
        """Tell what is due; returns the seconds after which it is worth calling again.

        While the other side fails, calls before the end of the backoff (2 s doubling to 5 min) do nothing.

        Raises:
            TransientError: from the ledger.
        """
        wait = self._next_try - self._clock.monotonic()
        if wait > 0:
            return wait
        try:
            await self.tell()
        except AlertFailed as error:
            self._failures += 1
            wait = backoff(self._failures)
            self._next_try = self._clock.monotonic() + wait
            _log.warning("alerts wait %g s: %s", wait, error)
            return wait
        self._failures = 0
        return IDLE_S

    async def tell(self, *, flush: bool = False) -> int:
        """Read what is new and tell what is due; returns the number of events told.

        `flush`: groups whose window has not ended are told too.

        Raises:
            AlertFailed: the other side did not take it; nothing is lost, call again later.
            TransientError: from the ledger.
        """
        told = 0
        while True:
            more = await self._read()
            now = self._clock.monotonic()
            due = [(key, group) for key, group in self._waiting.items() if flush or group.due <= now]
            for start in range(0, len(due), GROUPS_PER_POST):
                part = due[start : start + GROUPS_PER_POST]
                await self._post([group for _, group in part])
                for key, group in part:
                    del self._waiting[key]
                    self._quiet_until[key] = now + self._window
                    told += group.count
                await self._move_cursor()
            if not (more and due):
                return told

    async def run(self, stop: asyncio.Event) -> None:
        """Tell events until `stop` is set, then once more what waits. Outages are waited for."""
        while not stop.is_set():
            try:
                wait = await self.run_once()
            except TransientError as error:
                _log.warning("alerts wait for the ledger: %s", error)
                wait = LEDGER_AWAY_S
            await self._pause(stop, wait)
        try:
            await self.tell(flush=True)
        except TransientError as error:
            _log.warning("alerts are told at the next start: %s", error)

    async def _pause(self, stop: asyncio.Event, seconds: float) -> None:
        waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._clock.sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _read(self) -> bool:
        """Fold new events into groups; True where some were left for want of room."""
        if self._position is None:
            self._cursor = self._position = await self._ledger.cursor(CURSOR)
        now = self._clock.monotonic()
        self._quiet_until = {key: until for key, until in self._quiet_until.items() if until > now}
        while len(self._waiting) + READ_LIMIT <= WAITING_LIMIT:
            events = await self._ledger.events(self._position, READ_LIMIT)
            for event in events:
                key = (event.kind, event.source_id, event.group)
                group = self._waiting.get(key)
                if group is None:
                    due = self._quiet_until.get(key, now)
                    group = _Group(event.kind, event.source_id, event.id, due, event.at, event.at)
                    self._waiting[key] = group
                group.add(event)
                self._position = event.id
            if len(events) < READ_LIMIT:
                return False
        return True

    async def _move_cursor(self) -> None:
        assert self._position is not None
        reached = min((group.first_id - 1 for group in self._waiting.values()), default=self._position)
        if reached > self._cursor:
            await self._ledger.cursor(CURSOR, reached)
            self._cursor = reached

    async def _post(self, groups: Sequence[_Group]) -> None:
        body = {"text": "\n".join(group.line() for group in groups), "events": [group.told() for group in groups]}
        try:
            if self._session is not None:
                status = await self._send(self._session, body)
            else:
                async with aiohttp.ClientSession() as session:
                    status = await self._send(session, body)
        except TimeoutError:
            raise AlertFailed(f"the webhook at {self._place} did not answer in {self._timeout.total:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            # Without its cause: libraries put whole addresses into their texts and tracebacks.
            raise AlertFailed(f"the webhook at {self._place} cannot be reached: {type(error).__name__}") from None
        if not 200 <= status < 300:
            raise AlertFailed(f"the webhook at {self._place} answered {status}")

    async def _send(self, session: aiohttp.ClientSession, body: dict[str, Any]) -> int:
        # A redirect would turn the POST into a GET: it counts as not taken.
        async with session.post(self._url, json=body, timeout=self._timeout, allow_redirects=False) as response:
            return response.status

    @property
    def _place(self) -> str:
        return str(self._url.origin())


def backoff(failures: int) -> float:
    """Seconds to wait after this many failures in a row: 2, 4, 8 … 300."""
    return min(BACKOFF_CAP_S, BACKOFF_FIRST_S * math.pow(2, min(failures, 30) - 1))


def _checked(url: str) -> URL:
    way_out = "give an http or https address, e.g. https://chat.example.org/hooks/abc"
    try:
        found = URL(url)
    except ValueError:
        raise UsageError("it is no address", field="alerts.webhook", hint=way_out) from None
    if found.scheme not in ("http", "https") or not found.host:
        raise UsageError("it is no http or https address", field="alerts.webhook", hint=way_out)
    return found
