"""A site with two lists that show one scope, walked as the lister walks, and what comes of it in the ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from fyke.errors import TransientError
from fyke.model import (
    Entry,
    ForgetFilter,
    ItemState,
    Listing,
    ListPage,
    NewRun,
    Outcome,
    PageCommit,
    PageResult,
    PassLease,
    Task,
)
from fyke.pipeline.knowing import Knowing
from fyke.pipeline.walk_rules import copied
from fyke.policy.coverage import Move, Rules, Step, Walk, advance
from fyke.ports import FilterStats, KnownFilter
from fyke.testing.ledger_steps import LANE, MINUTE, Book, failure, make_entry, make_result

SCOPE = {"gov": "notice", "feed": "feed"}
PER_PAGE = 5
RULES = Rules(known=3, start="all", max_pages=20)


class Shaky:
    """A known filter whose server can be away."""

    def __init__(self, inner: KnownFilter) -> None:
        self.exact, self.planned, self.shape = inner.exact, inner.planned, inner.shape
        self.away, self.found = False, 0
        self._inner = inner

    async def hits(self, space: str, marks: Any, voids: Any = ()) -> list[bool]:
        found = await self._there().hits(space, marks, voids)
        self.found += sum(found)
        return found

    async def add(self, space: str, marks: Any, voids: Any = ()) -> int:
        return await self._there().add(space, marks, voids)

    async def void(self, space: str, voids: Any) -> None:
        await self._there().void(space, voids)

    async def stats(self, space: str) -> FilterStats:
        return await self._there().stats(space)

    async def close(self) -> None:
        await self._inner.close()

    def _there(self) -> KnownFilter:
        if self.away:
            raise TransientError("the filter's server is away")
        return self._inner


class Stroll:
    """A walk of one listing, page by page. `between` runs after the ledger or the filter was asked."""

    def __init__(self, book: Book, lease: PassLease, known_filter: KnownFilter | None, seed: int = 1) -> None:
        self.book, self.lease, self.scope = book, lease, SCOPE.get(lease.source_id, "notice")
        self.asking = Knowing(book.ledger, book.clock, Random(seed), known_filter).of_walk(lease, self.scope)
        self.walk, self.skipped, self.skipped_in_all, self.misjudged = Walk(), 0, 0, 0

    async def page(
        self, entries: list[Entry], *, more: bool = False, between: Callable[[], Awaitable[Any]] | None = None
    ) -> tuple[PageResult, Move]:
        page, read_at = ListPage(Outcome.OK, entries=entries, next={"page": 1} if more else None), self.book.clock.now()
        for ask_filter in (True, False):
            known = await self.asking.recognise(entries, ask_filter=ask_filter)
            if between is not None and ask_filter:
                await between()
            before, left = copied(self.walk), [entry for entry in entries if entry.key not in known.skipped]
            now, cover = self.book.clock.now(), self.lease.coverage
            move = advance(self.walk, page, known.standing, RULES, cover, now=now, refused_new=0)
            commit = PageCommit(
                number=move.number,
                look=move.look,
                url="http://e.example/",
                read_at=read_at,
                entries=left,
                refused=[],
                checkpoint=b"{}",
                skipped=len(entries) - len(left),
                fresh=known.fresh,
                known_space=known.space,
                told=known.told,
            )
            result = await self.book.ledger.page(self.lease.pass_id, self.lease.fence, commit)
            await self.asking.written(known, result)
            if not result.misjudged:
                self.skipped, self.skipped_in_all = commit.skipped, self.skipped_in_all + commit.skipped
                return result, move
            self.misjudged, self.walk = self.misjudged + 1, before
        raise AssertionError("misjudged by the ledger alone")

    async def end(self, move: Move) -> None:
        assert move.end is not None
        await self.book.ledger.end_pass(self.lease.pass_id, self.lease.fence, move.end)


async def begin(book: Book, source: str, *listings: str) -> list[PassLease]:
    book.clock.advance(MINUTE)
    run = NewRun(source, book.clock.now(), [Listing(name) for name in listings], [LANE] * len(listings))
    return [await book.start(task) for task in (await book.ledger.open_run(run)).tasks]


async def stroll(
    book: Book, known_filter: KnownFilter | None, *entries: Entry, source: str = "gov", listing: str = "all"
) -> tuple[Stroll, PageResult]:
    """A whole walk of a list of one page; what it makes due is collected."""
    (lease,) = await begin(book, source, listing)
    walk = Stroll(book, lease, known_filter)
    result, move = await walk.page(list(entries))
    await walk.end(move)
    await book.commit(*(make_result(task) for task in result.due))
    return walk, result


class Town:
    """Lists by seed: published, edited back and forth, withdrawn, shown twice, forgotten; and a filter that suffers.

    What the site does and what people do depends on the seed alone, never on what the filter said.
    """

    def __init__(
        self, book: Book, known_filter: Shaky | None, seed: int, hurt: Callable[[int], Awaitable[None]]
    ) -> None:
        self.book, self.filter, self.random, self._hurt = book, known_filter, Random(seed), hurt
        self.lists: dict[str, dict[str, list[str]]] = {"gov": {"a": [], "b": []}, "feed": {"a": []}}
        self.titles: dict[tuple[str, str], int] = {}
        self.number, self.skipped, self.misjudged = 0, 0, 0
        self.ended: list[Any] = []

    async def live(self, days: int) -> None:
        for _ in range(days):
            for source in self.lists:
                self._publish(source)
                await self._walk(source)
            if self.random.random() < 0.1:
                await self._forget()
            if self.random.random() < 0.05:
                self.book.clock.advance(20 * 86_400_000)
        await self._collect(self.book, await self.book.due(), all_of_them=True)

    def _publish(self, source: str) -> None:
        dice = self.random
        for name, keys in self.lists[source].items():
            for _ in range(dice.choice((0, 1, 1, 3))):
                self.number += 1
                known = sorted(key for other in self.lists[source].values() for key in other)
                keys.insert(0, dice.choice(known) if known and dice.random() < 0.2 else f"{source}-{self.number}")
            if keys and dice.random() < 0.3:
                keys.pop(dice.randrange(len(keys)))
            for key in dice.sample(keys, min(len(keys), dice.choice((0, 0, 0, 1, 2)))):
                # Of two or three words each, so that most go back to one that they had.
                self.titles[source, key] = dice.randrange(3)
            self.lists[source][name] = keys[:18]

    def _entries(self, source: str, listing: str) -> list[Entry]:
        direct = source == "feed"
        return [
            make_entry(key, f"{key} {self.titles.get((source, key), 0)}", position=at, direct=direct)
            for at, key in enumerate(self.lists[source][listing])
        ]

    async def _walk(self, source: str) -> None:
        names = list(self.lists[source])
        walks = {
            name: Stroll(self.book, lease, self.filter, self.random.getrandbits(30))
            for name, lease in zip(names, await begin(self.book, source, *names), strict=True)
        }
        places = dict.fromkeys(names, 0)
        while walks:
            name = self.random.choice(sorted(walks))
            # How often dice fall must not depend on where a walk ends: a day's trouble is drawn of its own.
            await self._trouble(Random(self.random.getrandbits(30)))
            self.book.clock.advance(1_000)
            entries = self._entries(source, name)
            start = places[name] * PER_PAGE
            shown = entries[start : start + PER_PAGE]
            result, move = await walks[name].page(shown, more=start + PER_PAGE < len(entries))
            await self._collect(self.book, result.due)
            places[name] = {Step.NEXT: places[name] + 1, Step.AGAIN: places[name]}.get(move.step, 0)
            if move.step is Step.END:
                self.skipped += walks[name].skipped_in_all
                self.misjudged += walks[name].misjudged
                await walks[name].end(move)
                self.ended.append(move.end)
                del walks[name]

    async def _trouble(self, dice: Random) -> None:
        if dice.random() < 0.02:
            await self._forget(dice)
        kind = dice.random()
        if self.filter is None:
            return
        if kind < 0.02:
            await self._hurt(0)
        elif kind < 0.05:
            await self._hurt(dice.getrandbits(30))
        elif kind < (0.6 if self.filter.away else 0.08):
            self.filter.away = not self.filter.away

    async def _forget(self, dice: Random | None = None) -> None:
        dice = dice or Random(self.random.getrandbits(30))
        source = dice.choice(sorted(self.lists))
        keys = sorted({key for keys in self.lists[source].values() for key in keys})
        if keys:
            await self.book.ledger.forget(ForgetFilter(scope=SCOPE[source], key=dice.choice(keys)))

    async def _collect(self, book: Book, tasks: list[Task], *, all_of_them: bool = False) -> None:
        for task in tasks:
            (due,) = await book.ledger.still_due([(task.ref, task.generation)])
            if due is None:
                continue
            key = due.key
            chance = Random(f"{key}{self.number}").random()
            if chance < 0.15 and not all_of_them:
                continue
            title = {"title": f"{key} {self.titles.get((due.source_id, key), 0)}"}
            if chance < 0.25 and not all_of_them:
                await book.commit(failure(task, Outcome.NOT_FOUND, ItemState.DEAD))
            else:
                await book.commit(make_result(task, title))
