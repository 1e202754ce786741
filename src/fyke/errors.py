"""Errors, sorted by what the caller does next.

FykeError
├── UsageError        a person must change something; the CLI prints it and exits with 2
│   └── LedgerClosed  this ledger is not used any more: the process ends
├── TransientError    repeat later: a server is away, a lock is held, a disk is full
├── PermanentError    repeating brings nothing: a row that the database refuses
├── LeaseLost         another worker owns the task now; drop the work quietly
└── FetchFailed       a request brought no usable answer; carries the outcome
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class FykeError(Exception):
    """Any error of this library."""


class UsageError(FykeError):
    """A person's mistake. The text says what is wrong, where, and what to do.

    Args:
        message: what is wrong, with the value.
        file, line, field: where, as far as known.
        hint: the way out, e.g. the nearest valid name.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message, self.file, self.line, self.field, self.hint = message, file, line, field, hint
        where = ":".join(str(part) for part in (file, line) if part is not None)
        text = ": ".join(part for part in (where, field, message) if part)
        super().__init__(f"{text} ({hint})" if hint else text)


class LedgerClosed(UsageError):
    """The ledger was moved away, or is being filled: no loop goes on, the process ends with exit code 2."""


class TransientError(FykeError):
    """Repeat later. `retry_after` is in milliseconds where the other side named a time."""

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PermanentError(FykeError):
    """Repeating brings nothing."""


class LeaseLost(FykeError):
    """The lease ran out and the task was leased again, reaped or replaced: drop the work quietly."""


class FetchFailed(FykeError):
    """A request brought no usable answer.

    Args:
        outcome: a value of `model.Outcome` (network, timeout, proxy, unavailable, too_large, robots, policy, …).
        reason: for people; secrets masked.
        retry_after: ms, where the site named a time.
        evidence: status, address, size, … as far as known.
    """

    def __init__(
        self,
        outcome: str,
        reason: str,
        *,
        retry_after: int | None = None,
        evidence: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(reason)
        self.outcome, self.reason, self.retry_after = outcome, reason, retry_after
        self.evidence: dict[str, Any] = evidence or {}
        self.lane = ""  # of the host that answered so, where that is known


class Deferred(FykeError):
    """A further request of this task would wait longer than may be waited for in hand.

    The task is given back at no cost; the visit starts again when `lane` may go (`wait_ms`).
    """

    def __init__(self, lane: str, wait_ms: int) -> None:
        super().__init__(f"lane {lane} may go in {wait_ms} ms")
        self.lane, self.wait_ms = lane, wait_ms


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The hint for a misspelt name, or None where nothing is near: ``did you mean 'connect'?``"""
    found = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.6)
    return f"did you mean '{found[0]}'?" if found else None


def there_are(names: Iterable[str], most: int = 10) -> str:
    """The hint where nothing is near: the first names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return f"there are {', '.join(listed[:most])}{more}"
