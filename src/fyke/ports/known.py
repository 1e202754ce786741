"""A filter of known entries in front of the ledger, for very large listings. It saves work and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class FilterStats(Struct, frozen=True):
    """`marks`: about how many entries are remembered; `planned`: for how many it was made."""

    kind: str
    marks: int
    planned: int


class KnownFilter(Protocol):
    """Remembers entries by marks of 12 bytes (`policy.identity.mark_of`), in a space (`PassLease.space`).

    It may forget: then the ledger is asked. `exact`: what it says it knows, was added; and it is only added what the
    ledger has committed as settled. Not exact: what it says it knows may be another entry, so the ledger is asked;
    what it does not know goes straight to the insert, where the ledger finds out what the filter had forgotten.
    Calls take at most 500 marks and raise TransientError.
    """

    exact: bool

    async def hits(self, space: str, marks: Sequence[bytes]) -> list[bool]:
        """For each mark whether it is remembered."""
        ...

    async def add(self, space: str, marks: Sequence[bytes]) -> None:
        """Remember marks; safe to repeat."""
        ...

    async def stats(self, space: str) -> FilterStats: ...

    async def close(self) -> None: ...
