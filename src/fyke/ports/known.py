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

    @property
    def text(self) -> str:
        return f"{self.kind}: {self.marks} entries of {self.planned} planned"


class KnownFilter(Protocol):
    """Remembers entries by marks of 12 bytes (`policy.identity.mark_of`).

    It may forget: then the ledger is asked. `exact`: what it says it knows, was added in this space and has not been
    voided since; whoever loses some of what it was told loses all of it. Not exact: what it says it knows may be
    another entry, so the ledger is asked; what it does not know goes straight to the insert, where the ledger finds out
    what the filter had forgotten. A space is `PassLease.space`, where it is exact with `known_space` behind it.

    `voids`: for each mark the one that makes it void; both begin with the same 4 bytes. A filter that is not exact
    knows none. Calls take at most 500 marks, are safe to repeat, and raise TransientError.
    """

    exact: bool
    planned: int
    shape: str
    """What must be the same for all who share an exact filter; others' marks are in other places."""

    async def hits(self, space: str, marks: Sequence[bytes], voids: Sequence[bytes] = ()) -> list[bool]:
        """For each mark whether it is remembered, and not void."""
        ...

    async def add(self, space: str, marks: Sequence[bytes], voids: Sequence[bytes] = ()) -> int:
        """Remember marks that are not void; about how many are remembered now."""
        ...

    async def void(self, space: str, voids: Sequence[bytes]) -> None:
        """Marks with these voids count no more, whether added before or after."""
        ...

    async def stats(self, space: str) -> FilterStats: ...

    async def close(self) -> None: ...
