"""What a page's entries are to the ledger, with a known filter before it where one is set.

Keeps P2 and P5 whatever the filter has forgotten or lost: it is only told what the ledger has committed, it is told of
a change before the ledger is, and where it is away the ledger is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from fyke.errors import TransientError
from fyke.model import Entry, PassLease, Standing
from fyke.policy.identity import mark_of
from fyke.ports import Clock, KnownFilter, Ledger

log = logging.getLogger("fyke.lister")

SPACE: Final = "known_space"
TOLD_EVERY_S: Final = 60.0
BATCH: Final = 500
SETTLED: Final = Standing(known=True, anchor=True)
NEW: Final = Standing(known=False, anchor=False)


class Known(Struct):
    """`skipped`: keys whose entries need not be written. `fresh`: keys that the ledger is not asked for."""

    standing: dict[str, Standing]
    skipped: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()


class Knowing:
    """Asks the filter first, then the ledger. Without a filter it only asks the ledger."""

    def __init__(self, ledger: Ledger, clock: Clock, known_filter: KnownFilter | None = None) -> None:
        self._ledger, self._clock, self._filter = ledger, clock, known_filter
        self._told_at = float("-inf")

    async def recognise(
        self, lease: PassLease, scope: str, entries: Sequence[Entry], *, ask_filter: bool = True
    ) -> Known:
        """What is known of the entries' keys. The first entry of a key stands for it, as in the ledger.

        Raises:
            TransientError: the ledger is away.
        """
        first: dict[str, Entry] = {}
        for entry in entries:
            first.setdefault(entry.key, entry)
        if self._filter is None or not ask_filter or not lease.space:
            return Known(await self._ledger.recognise(lease.pass_id, list(first)))
        try:
            hits = await self._hits(self._filter, lease, scope, first)
        except TransientError as error:
            self._tell(error)
            return Known(await self._ledger.recognise(lease.pass_id, list(first)))
        if self._filter.exact:
            left = [key for key in first if key not in hits]
            standing = await self._ledger.recognise(lease.pass_id, left) if left else {}
            await self._tell_filter(self._filter, lease, scope, first, standing)
            return Known(standing | dict.fromkeys(hits, SETTLED), skipped=hits)
        standing = await self._ledger.recognise(lease.pass_id, list(hits)) if hits else {}
        fresh = frozenset(first) - hits
        return Known(standing | dict.fromkeys(fresh, NEW), fresh=fresh)

    async def written(self, lease: PassLease, scope: str, entries: Sequence[Entry]) -> None:
        """A page is in the ledger: a filter that is not exact remembers all its keys."""
        if self._filter is None or self._filter.exact or not lease.space:
            return
        try:
            await self._add(self._filter, lease, sorted({mark_of(scope, entry.key) for entry in entries}))
        except TransientError as error:
            self._tell(error)

    async def _hits(
        self, known_filter: KnownFilter, lease: PassLease, scope: str, first: dict[str, Entry]
    ) -> frozenset[str]:
        keys = list(first)
        if not known_filter.exact:
            found = await self._ask(known_filter, lease, [mark_of(scope, key) for key in keys])
            return frozenset(key for key, hit in zip(keys, found, strict=True) if hit)
        marks = [settled_mark(lease, first[key]) for key in keys]
        found = await self._ask(known_filter, lease, marks)
        hits = [key for key, hit in zip(keys, found, strict=True) if hit]
        # An entry that has changed once may change back: such keys are asked for always.
        changed = await self._ask(known_filter, lease, [mark_of(scope, key) for key in hits])
        return frozenset(key for key, hit in zip(hits, changed, strict=True) if not hit)

    async def _tell_filter(
        self,
        known_filter: KnownFilter,
        lease: PassLease,
        scope: str,
        first: dict[str, Entry],
        standing: dict[str, Standing],
    ) -> None:
        """Remember what is settled; and, before the ledger hears of it, what has changed."""
        found = [(key, first[key], how) for key, how in standing.items() if how.known]
        changed = [mark_of(scope, key) for key, entry, how in found if how.hash != entry.hash]
        settled = [
            settled_mark(lease, entry)
            for _, entry, how in found
            if how.hash == entry.hash and how.settled and how.anchor
        ]
        try:
            await self._add(known_filter, lease, changed)
        except TransientError as error:
            self._tell(error)
            # The filter cannot be told that an older entry counts no more: then nothing that it remembers does.
            await self._ledger.cursor(SPACE, await self._ledger.cursor(SPACE) + 1)
            return
        try:
            await self._add(known_filter, lease, settled)
        except TransientError as error:
            self._tell(error)

    async def _ask(self, known_filter: KnownFilter, lease: PassLease, marks: list[bytes]) -> list[bool]:
        found: list[bool] = []
        for start in range(0, len(marks), BATCH):
            found += await known_filter.hits(lease.space, marks[start : start + BATCH])
        return found

    async def _add(self, known_filter: KnownFilter, lease: PassLease, marks: list[bytes]) -> None:
        for start in range(0, len(marks), BATCH):
            await known_filter.add(lease.space, marks[start : start + BATCH])

    def _tell(self, error: TransientError) -> None:
        now = self._clock.monotonic()
        if now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            log.warning("the known filter is passed over, the ledger is asked: %s", error)


def settled_mark(lease: PassLease, entry: Entry) -> bytes:
    """Of an entry that this listing has shown inside a covered stretch, and whose item is stored as it says."""
    return mark_of(lease.source_id, lease.listing.name, entry.key, entry.hash)
