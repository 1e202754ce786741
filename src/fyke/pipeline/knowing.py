"""What a page's entries are to the ledger, with a known filter before it where one is set.

Keeps P2 and P5 whatever the filter has forgotten or lost: it is only told what the ledger has committed, it is told of
a change before the ledger is, and where it is away the ledger is asked. The ledger has the last word: it refuses what
was skipped as of a space that is over, and ends the space with a change that the filter was not told of.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from typing import Final, TypeVar

from msgspec import Struct

from fyke.errors import TransientError
from fyke.model import Entry, Event, PageResult, PassLease, Standing
from fyke.policy.identity import mark_of
from fyke.ports import Clock, KnownFilter, Ledger

T = TypeVar("T")

log = logging.getLogger("fyke.lister")

SPACE: Final = "known_space"
FULL: Final = "known_filter_full"
FULL_AGAIN_MS: Final = 30 * 86_400_000
TOLD_EVERY_S: Final = 60.0
AWAY_S: Final = 5.0
BATCH: Final = 500
CHECK_EVERY: Final = 16  # pages
SHAPE_BITS: Final = 16  # with the moment in ms and some chance they make 63
RANDOM_BITS: Final = 6
SAME_BUCKET: Final = 4  # bytes at the beginning of a mark and of its void
SETTLED: Final = Standing(known=True, anchor=True)
NEW: Final = Standing(known=False, anchor=False)


class Known(Struct):
    """`skipped`: keys whose entries need not be written. `fresh`: keys that the ledger is not asked for.

    `told`: keys of which the filter knows that they have changed, in `space`. `marks`: what it is to remember once the
    page is written.
    """

    standing: dict[str, Standing]
    skipped: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()
    told: frozenset[str] = frozenset()
    space: int = 0
    marks: list[bytes] = []

    @property
    def doubtful(self) -> bool:
        """Whether the ledger may find that the filter was wrong."""
        return bool(self.skipped or self.fresh)


class Knowing:
    """Makes what a walk asks; it lives as long as its worker."""

    def __init__(self, ledger: Ledger, clock: Clock, random: Random, known_filter: KnownFilter | None = None) -> None:
        self.ledger, self.filter, self._clock, self._random = ledger, known_filter, clock, random
        self._told_at, self._away_at = float("-inf"), float("-inf")
        self._full = False

    def of_walk(self, lease: PassLease, scope: str) -> Asking:
        return Asking(self, lease, scope)

    @property
    def is_away(self) -> bool:
        return self._clock.monotonic() - self._away_at < AWAY_S

    def tell(self, error: TransientError) -> None:
        """The filter is away."""
        self._away_at = now = self._clock.monotonic()
        if now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            log.warning("the known filter is passed over, the ledger is asked: %s", error)

    async def space(self) -> int:
        """The space that filters are used in now; it gets a name that none has had where it has none.

        Raises:
            TransientError: the ledger is away.
        """
        found = self.usable(await self.ledger.cursor(SPACE))
        if found or self.filter is None:
            return found
        name = await self.ledger.now() << RANDOM_BITS | self._random.getrandbits(RANDOM_BITS)
        return await self.ledger.cursor(SPACE, name << SHAPE_BITS | _shape(self.filter))

    def usable(self, space: int) -> int:
        """The space, or 0 where it is not that of a filter of this shape: one of them would not hear what another is
        told.
        """
        same = self.filter is not None and space % (1 << SHAPE_BITS) == _shape(self.filter)
        return space if same else 0

    async def look_how_full(self, marks: int, planned: int) -> None:
        """A person is told once a month."""
        if marks <= planned or self._full:
            return
        self._full, now = True, self._clock.now()
        if abs(now - await self.ledger.cursor(FULL)) < FULL_AGAIN_MS:
            return
        await self.ledger.cursor(FULL, now)
        message = f"the known filter holds {marks} marks and was planned for {planned}: known_filter.planned"
        log.warning(message)
        await self.ledger.add_events(
            [Event("known_filter_full", message, group=FULL, data={"marks": marks, "planned": planned})]
        )


class Asking:
    """Asks the filter first, then the ledger, for one walk. Without a filter it only asks the ledger."""

    def __init__(self, knowing: Knowing, lease: PassLease, scope: str) -> None:
        self._knowing, self._lease, self._scope = knowing, lease, scope
        # What a filter skips is not written, and a date window is to show all that it has.
        asked = lease.space and not lease.listing.filled
        self._filter, self._ledger = knowing.filter if asked else None, knowing.ledger
        self._space, self._pages = knowing.usable(lease.known_space), 0

    async def recognise(self, entries: Sequence[Entry], *, ask_filter: bool = True) -> Known:
        """What is known of the entries' keys. The first entry of a key stands for it, as in the ledger.

        `ask_filter` False: the ledger has found that the filter was wrong.

        Raises:
            TransientError: the ledger is away.
        """
        first: dict[str, Entry] = {}
        for entry in entries:
            first.setdefault(entry.key, entry)
        if self._filter is None or not first:
            return Known(await self._ask_ledger(list(first)))
        return await (self._exact if self._filter.exact else self._bloom)(self._filter, first, ask_filter=ask_filter)

    async def written(self, known: Known, result: PageResult) -> None:
        """The page is in the ledger, or was misjudged: go on in the space that it told."""
        if self._filter is None:
            return
        if self._filter.exact:
            self._space = self._knowing.usable(result.known_space)
        if result.misjudged or not known.marks:
            return
        bloom, marks = self._filter, known.marks

        async def remember() -> None:
            remembered = 0
            for start in range(0, len(marks), BATCH):
                remembered = await bloom.add(self._lease.space, marks[start : start + BATCH])
            await self._knowing.look_how_full(remembered, bloom.planned)

        await self._try(remember)

    async def _ask_ledger(self, keys: list[str]) -> dict[str, Standing]:
        return await self._ledger.recognise(self._lease.pass_id, keys) if keys else {}

    async def _bloom(self, bloom: KnownFilter, first: dict[str, Entry], *, ask_filter: bool) -> Known:
        marks = {key: mark_of(self._scope, key) for key in first}
        found = await self._try(lambda: self._hits(bloom, self._lease.space, list(marks.values()), ()))
        if found is None:
            return Known(await self._ask_ledger(list(first)))
        hits = {key for key, hit in zip(marks, found, strict=True) if hit}
        new = [mark for key, mark in marks.items() if key not in hits]
        if not ask_filter:
            return Known(await self._ask_ledger(list(first)), marks=new)
        fresh = frozenset(first) - hits
        standing = await self._ask_ledger([key for key in first if key in hits])
        return Known(standing | dict.fromkeys(fresh, NEW), fresh=fresh, marks=new)

    async def _exact(self, exact: KnownFilter, first: dict[str, Entry], *, ask_filter: bool) -> Known:
        self._space = self._space or await self._knowing.space()
        space = f"{self._lease.space}:{self._space}"
        hits: set[str] = set()
        if ask_filter:
            voids = [mark_of(self._scope, key) for key in first]
            marks = [self._mark(entry, void) for entry, void in zip(first.values(), voids, strict=True)]
            found = await self._try(lambda: self._hits(exact, space, marks, voids)) or [False] * len(first)
            hits = {key for key, hit in zip(first, found, strict=True) if hit}
        checked = self._to_check([key for key in first if key in hits])
        standing = await self._ask_ledger([key for key in first if key not in hits or key in checked])
        if any(not _is_settled(standing[key], first[key]) for key in checked):
            # The ledger was put back to an older state, or somebody changed marks.
            await self._ledger.cursor(SPACE, 0)
            self._space = 0
            return await self._exact(exact, first, ask_filter=False)
        skipped = frozenset(hits - checked)
        told = await self._tell(exact, space, first, standing)
        return Known(standing | dict.fromkeys(skipped, SETTLED), skipped, told=told, space=self._space)

    def _to_check(self, hits: list[str]) -> set[str]:
        """Now and then the ledger is asked for what the filter knows: the newest entry, and one by turns."""
        self._pages += 1
        if not hits or self._pages % CHECK_EVERY != 1:
            return set()
        return {hits[0], hits[self._pages * 7 % len(hits)]}

    async def _tell(
        self, exact: KnownFilter, space: str, first: dict[str, Entry], standing: dict[str, Standing]
    ) -> frozenset[str]:
        """Void what has changed, before the ledger hears of it; then remember what is settled. What was voided."""
        changed = [key for key, how in standing.items() if how.known and how.hash and how.hash != first[key].hash]
        settled = [key for key, how in standing.items() if how.settled and _is_settled(how, first[key])]

        async def tell() -> frozenset[str]:
            for keys in _batches(changed):
                await exact.void(space, [mark_of(self._scope, key) for key in keys])
            return frozenset(changed)

        async def remember() -> None:
            remembered = 0
            for keys in _batches(settled):
                voids = [mark_of(self._scope, key) for key in keys]
                marks = [self._mark(first[key], void) for key, void in zip(keys, voids, strict=True)]
                remembered = await exact.add(space, marks, voids)
            await self._knowing.look_how_full(remembered, exact.planned)

        told = await self._try(tell)
        if told is not None:
            await self._try(remember)
        return told or frozenset()

    async def _hits(
        self, known_filter: KnownFilter, space: str, marks: Sequence[bytes], voids: Sequence[bytes]
    ) -> list[bool]:
        found: list[bool] = []
        for start in range(0, len(marks), BATCH):
            end = start + BATCH
            found += await known_filter.hits(space, marks[start:end], voids[start:end])
        return found

    async def _try(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """None where the filter is away, or was a moment ago: no walk waits for it page by page."""
        if self._knowing.is_away:
            return None
        try:
            return await call()
        except TransientError as error:
            self._knowing.tell(error)
            return None

    def _mark(self, entry: Entry, void: bytes) -> bytes:
        """Of an entry that this listing has shown inside a covered stretch, and whose item is stored as it says."""
        mark = mark_of(self._lease.source_id, self._lease.listing.name, entry.key, entry.hash)
        return void[:SAME_BUCKET] + mark[SAME_BUCKET:]


def _shape(known_filter: KnownFilter) -> int:
    return int.from_bytes(mark_of(known_filter.shape)[: SHAPE_BITS // 8], "big")


def _is_settled(how: Standing, entry: Entry) -> bool:
    """Whether the ledger knows the entry as this listing's own, and says the same; another source's says nothing."""
    return how.known and how.anchor and how.hash in (b"", entry.hash)


def _batches(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]
