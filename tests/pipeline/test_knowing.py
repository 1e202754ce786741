"""A known filter in front of the ledger changes no row: exact and Bloom, filled, wiped, half lost and away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fyke.db.connection import Connection
from fyke.db.sqlite import SqliteDatabase
from fyke.frontiers.redis.known_filter import RedisKnownFilter, bloom_size
from fyke.lab.servers import RedisServer
from fyke.lab.servers.redis import ask
from fyke.ledgers.sql import SqlLedger
from fyke.model import ForgetFilter, PassState
from fyke.pipeline.knowing import CHECK_EVERY, FULL, SPACE, Asking
from fyke.policy.identity import MARK_BYTES, mark_of
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_steps import Book, make_entry, make_result, make_source
from tests.ledgers import MigratedDatabases, connect
from tests.pipeline.knowing_world import Shaky, Stroll, Town, begin, stroll
from tests.servers import servers

# Not the one of this folder, which is a ledger and a frontier.
__all__ = ["servers"]

LEDGERS = ("sqlite", "postgres-15")
OPEN = Callable[[], Awaitable[Book]]
A, B, C = (make_entry("k", f"title {word}") for word in "ABC")
TOP, LAST = make_entry("top"), make_entry("last")


@pytest.fixture(params=LEDGERS)
async def open_book(
    request: pytest.FixtureRequest, tmp_path: Path, migrated_databases: MigratedDatabases
) -> AsyncIterator[OPEN]:
    """Opens an empty ledger, again and again."""
    numbers = count()
    async with AsyncExitStack() as stack:

        async def make() -> Book:
            clock = FakeClock()
            database: Any
            if request.param == "sqlite":
                database = SqliteDatabase(tmp_path / f"{next(numbers)}.db")
            else:
                database = connect(await migrated_databases.emptied(request.param))
            stack.push_async_callback(database.close)
            ledger = SqlLedger(database, clock)
            await ledger.migrate()
            return await Book(ledger, clock).prepare()

        yield make


@pytest.fixture
async def book(open_book: OPEN) -> Book:
    return await open_book()


@pytest.fixture
async def make_filter(fresh_redis: Callable[..., str]) -> AsyncIterator[Callable[..., Shaky]]:
    url = fresh_redis()
    async with AsyncExitStack() as stack:

        def make(kind: str = "exact", clock: FakeClock | None = None, **changes: Any) -> Shaky:
            settings = {"kind": kind, "namespace": "test", "planned": 10_000, "error_rate": 0.001} | changes
            inner = RedisKnownFilter.at(url, clock or FakeClock(), **settings)
            stack.push_async_callback(inner.close)
            return Shaky(inner)

        yield make


@pytest.fixture
def exact(make_filter: Callable[..., Shaky]) -> Shaky:
    return make_filter("exact")


@pytest.fixture
def bloom(make_filter: Callable[..., Shaky]) -> Shaky:
    return make_filter("bloom")


async def titles(book: Book, source: str = "gov") -> dict[str, Any]:
    return {key: row["title"] for key, row in (await book.rows(source)).items()}


async def learn(book: Book, known_filter: Shaky, *entries: Any, **more: Any) -> Stroll:
    """Show entries until the filter has learned them, and prove that it has."""
    for _ in range(3):
        await stroll(book, known_filter, *entries, **more)
    walk, _ = await stroll(book, known_filter, *entries, **more)
    # The first hit of a walk is asked for all the same, and one more.
    assert walk.skipped >= len(entries) - 2
    return walk


# --- Parts ---


def test_marks_of_texts_that_read_alike_when_joined_differ() -> None:
    found = {mark_of("a", "bc"), mark_of("ab", "c"), mark_of("abc"), mark_of("a", "b", "c"), mark_of("", "abc")}
    assert len(found) == 5
    assert {len(mark) for mark in found} == {MARK_BYTES}
    assert mark_of("a", b"bc") == mark_of("a", "bc")


def test_a_bloom_filter_has_the_textbook_size() -> None:
    bits, hashes = bloom_size(1_000_000, 0.001)
    assert (round(bits / 1_000_000, 2), hashes) == (14.38, 10)
    assert bloom_size(1, 0.1)[0] >= 64


# --- Exact ---


async def test_what_is_settled_is_skipped_and_counted(book: Book, exact: Shaky) -> None:
    entries = [make_entry(f"k{number}") for number in range(8)]
    walk = await learn(book, exact, *entries)
    assert walk.skipped == 6
    (last, *_) = await book.ledger.runs()
    assert (last.entries, last.new, last.known, last.state.value) == (8, 0, 8, "complete")
    await book.balanced()


async def test_what_has_changed_and_changed_back_is_never_skipped(book: Book, exact: Shaky) -> None:
    await learn(book, exact, TOP, A, LAST)
    for entry in (B, A, B, A, C, A):
        _, result = await stroll(book, exact, TOP, entry, LAST)
        assert result.changed == 1
    await book.balanced()


@pytest.mark.parametrize("source", ["feed", "gov"])
async def test_a_change_while_the_filter_is_away_makes_void_what_it_knows(
    book: Book, exact: Shaky, source: str
) -> None:
    rows = [make_entry(key, direct=source == "feed") for key in ("top", "k", "last", "more")]
    other = make_entry("k", "another", direct=source == "feed")
    await learn(book, exact, *rows, source=source)
    exact.away = True
    _, result = await stroll(book, exact, rows[0], other, *rows[2:], source=source)
    assert result.changed == 1
    exact.away = False
    book.clock.advance(60_000)
    _, result = await stroll(book, exact, *rows, source=source)
    assert result.changed == 1


async def test_a_change_by_a_process_without_the_filter_makes_void_what_it_knows(book: Book, exact: Shaky) -> None:
    await learn(book, exact, TOP, A, LAST)
    await stroll(book, None, TOP, B, LAST)
    assert await book.ledger.cursor(SPACE) == 0
    _, result = await stroll(book, exact, TOP, A, LAST)
    assert result.changed == 1


@pytest.mark.parametrize("changes", [{"planned": 500}, {"months": 3}, {"namespace": "other"}])
async def test_filters_that_are_set_differently_rely_on_nothing_of_each_other(
    book: Book, exact: Shaky, make_filter: Callable[..., Shaky], changes: dict[str, Any]
) -> None:
    """One of them would not hear what the other is told."""
    other = make_filter("exact", **changes)
    await learn(book, exact, TOP, A, LAST)
    await stroll(book, other, TOP, B, LAST)
    walk, result = await stroll(book, exact, TOP, A, LAST)
    assert (walk.skipped, result.changed) == (0, 1)


async def test_a_change_that_its_walk_had_not_foreseen_makes_void_what_the_filter_knows(
    book: Book, exact: Shaky
) -> None:
    """Two lists show a new key differently; the slower one had asked before the other made the item."""
    slow, fast = (Stroll(book, lease, exact) for lease in await begin(book, "gov", "all", "b"))
    result, _ = await slow.page([A], between=lambda: fast.page([B]))
    assert result.changed == 1
    assert await book.ledger.cursor(SPACE) == 0


async def test_a_forgotten_item_is_collected_again(book: Book, exact: Shaky) -> None:
    await learn(book, exact, TOP, A, LAST)
    await book.ledger.forget(ForgetFilter(scope="notice", key="k"))
    _, result = await stroll(book, exact, TOP, A, LAST)
    assert (result.new, result.known) == (1, 2)
    assert await book.state("k") == ("stored", 1, False)
    await book.balanced()


async def test_an_item_that_is_forgotten_between_the_question_and_the_page_is_made_anew(
    book: Book, exact: Shaky
) -> None:
    rows = [TOP, make_entry("x1"), A, make_entry("x2"), LAST]
    await learn(book, exact, *rows)
    (lease,) = await begin(book, "gov", "all")
    walk = Stroll(book, lease, exact)

    async def forget() -> None:
        for key in ("x1", "k", "x2"):
            await book.ledger.forget(ForgetFilter(scope="notice", key=key))

    result, move = await walk.page(rows, between=forget)
    assert (walk.misjudged, result.new) == (1, 3)
    await walk.end(move)
    await book.commit(*(make_result(task) for task in result.due))
    await book.balanced()
    # The walk has gone on in the new space, and so do the next ones.
    assert (await learn(book, exact, *rows)).misjudged == 0


async def test_a_ledger_that_was_put_back_is_noticed_at_the_newest_entry(book: Book, exact: Shaky) -> None:
    """What the filter knows and the ledger does not: as after a restored backup."""
    rows = [make_entry(f"k{number}") for number in range(6)]
    await learn(book, exact, *rows)
    space = await book.ledger.cursor(SPACE)
    await book.ledger.forget(ForgetFilter(scope="notice", key="k0"))
    await book.ledger.forget(ForgetFilter(scope="notice", key="k3"))
    await book.ledger.cursor(SPACE, space)
    _, result = await stroll(book, exact, *rows)
    assert result.new == 2
    assert await book.ledger.cursor(SPACE) not in (0, space)
    await book.balanced()


async def test_an_entry_stands_for_its_key_once_on_a_page(book: Book, exact: Shaky) -> None:
    rows = [TOP, A, make_entry("x"), B, A, LAST]
    await learn(book, exact, *rows)
    (last, *_) = await book.ledger.runs()
    assert (last.entries, last.known) == (6, 6)
    assert (await book.look("k")).generation == 1
    await book.balanced()


async def test_what_is_due_is_offered_by_each_walk(book: Book, exact: Shaky) -> None:
    """The visit failed each time: nothing of it is settled."""
    for _ in range(4):
        (lease,) = await begin(book, "gov", "all")
        walk = Stroll(book, lease, exact)
        result, move = await walk.page([TOP, A, LAST])
        await walk.end(move)
        assert len(result.due) == 3
        assert walk.skipped == 0


async def test_what_another_list_showed_is_no_anchor_of_this_one(book: Book, exact: Shaky) -> None:
    """P5: a walk connects by what its own listing has shown."""
    await learn(book, exact, TOP, A, LAST)
    (lease,) = await begin(book, "gov", "other")
    known = await Stroll(book, lease, exact).asking.recognise([TOP, A, LAST])
    assert not known.skipped
    assert not any(standing.anchor for standing in known.standing.values())


async def test_a_suspicious_walk_makes_nothing_skipped(book: Book, exact: Shaky) -> None:
    for _ in range(3):
        (lease,) = await begin(book, "gov", "all")
        walk = Stroll(book, lease, exact)
        result, _ = await walk.page([TOP, A, LAST])
        await book.end(lease, PassState.SUSPICIOUS)
        await book.commit(*(make_result(task) for task in result.due))
        assert walk.skipped == 0


async def test_another_source_of_the_scope_voids_nothing_by_its_own_way_to_say_it(book: Book, exact: Shaky) -> None:
    await book.ledger.apply_source(make_source("second"))
    await learn(book, exact, TOP, A, LAST)
    space = await book.ledger.cursor(SPACE)
    (lease,) = await begin(book, "second", "all")
    known = await Asking(Stroll(book, lease, exact).asking._knowing, lease, "notice").recognise([TOP, B, LAST])
    assert not known.told
    assert await book.ledger.cursor(SPACE) == space


async def test_a_restart_of_the_server_makes_all_be_asked_for(
    book: Book, own_redis: Callable[..., RedisServer]
) -> None:
    server = own_redis()
    inner = RedisKnownFilter.at(server.url, FakeClock(), kind="exact", namespace="test", planned=1_000)
    exact = Shaky(inner)
    await learn(book, exact, TOP, A, LAST)
    server.kill()
    _, result = await stroll(book, exact, TOP, A, LAST)
    assert result.known == 3
    server.start()
    book.clock.advance(60_000)
    walk, _ = await stroll(book, exact, TOP, A, LAST)
    assert walk.skipped == 0
    assert (await learn(book, exact, TOP, A, LAST)).skipped
    await exact.close()


async def test_all_pages_but_one_in_some_are_skipped_whole(book: Book, exact: Shaky) -> None:
    rows = [make_entry(f"k{number}") for number in range(4)]
    await learn(book, exact, *rows)
    (lease,) = await begin(book, "gov", "all")
    walk = Stroll(book, lease, exact)
    skipped = []
    for _ in range(CHECK_EVERY + 1):
        await walk.page(rows, more=True)
        skipped.append(walk.skipped)
    assert sum(count < 4 for count in skipped) == 2


async def test_a_person_is_told_once_that_more_is_known_than_was_planned(
    book: Book, make_filter: Callable[..., Shaky]
) -> None:
    for kind in ("exact", "bloom"):
        small = make_filter(kind, planned=3)
        for _ in range(3):
            await stroll(book, small, *(make_entry(f"k{number}") for number in range(12)))
    (event,) = await book.told(FULL)
    assert "planned for 3" in event.message


# --- Bloom ---


async def test_a_bloom_filter_asks_for_what_it_knows_and_inserts_the_rest(book: Book, bloom: Shaky) -> None:
    entries = [make_entry(f"k{number}") for number in range(5)]
    first, result = await stroll(book, bloom, *entries)
    assert (result.new, first.misjudged) == (5, 0)
    again, result = await stroll(book, bloom, make_entry("new"), *entries)
    assert (result.new, result.known, again.misjudged, bloom.found) == (1, 5, 0, 5)
    await book.balanced()


async def test_what_a_bloom_filter_has_lost_is_found_by_the_ledger(
    book: Book, bloom: Shaky, fresh_redis: Callable[..., str]
) -> None:
    rows = [TOP, A, LAST]
    await stroll(book, bloom, *rows)
    fresh_redis()
    walk, result = await stroll(book, bloom, make_entry("new"), TOP, B, LAST)
    assert (walk.misjudged, result.new, result.known, result.changed) == (1, 1, 3, 1)
    walk, result = await stroll(book, bloom, make_entry("new"), TOP, B, LAST)
    assert (walk.misjudged, result.known) == (0, 4)
    await book.balanced()


async def test_a_key_that_another_walk_makes_meanwhile_is_found(book: Book, bloom: Shaky) -> None:
    slow, fast = (Stroll(book, lease, bloom) for lease in await begin(book, "gov", "all", "b"))
    result, _ = await slow.page([TOP, A, LAST], between=lambda: fast.page([A]))
    assert (slow.misjudged, result.new, result.known) == (1, 2, 1)
    await book.balanced()


# --- All together ---


def hurt(url: str) -> Callable[[int], Awaitable[None]]:
    """0: the server loses all; else about half of its keys, chosen by the number."""

    async def wound(seed: int) -> None:
        if not seed:
            ask(url, "FLUSHALL")
            return
        for key in sorted(ask(url, "KEYS", "*")):
            if Random(f"{seed}{key!r}").random() < 0.5:
                ask(url, "DEL", key)

    return wound


def outcome(connection: Connection) -> dict[str, list[Any]]:
    """What people and the next walks read; moments and addresses left out."""
    questions = {
        "items": "SELECT scope, key, state, generation, pending, entry_hash, head_n FROM item",
        "gov": "SELECT _scope, _key, _version, title FROM gov_procure",
        "feed": "SELECT _scope, _key, _version, title FROM feed_rows",
        "versions": "SELECT i.scope, i.key, v.n, v.hash FROM version v JOIN item i ON i.id = v.item_id",
        "sightings": "SELECT n.name, l.name, p.key, CASE WHEN p.stretch_id IS NULL THEN 0 ELSE 1 END FROM sighting p",
        "passes": "SELECT n.name, l.name, p.opened_at, p.state, p.reason, p.pages, p.entries, p.new, p.known,"
        " p.refused, p.newest_key, p.oldest_key FROM pass p",
        "holes": "SELECT n.name, l.name, p.found_at, p.newer_key, p.older_key, p.reason FROM hole p",
        "tally": "SELECT n.name, t.entries, t.new, t.known, t.listed, t.stored, t.dead, t.open, t.versions FROM tally t"
        " JOIN source n ON n.id = t.source_id",
    }
    of_listing = " JOIN listing l ON l.id = p.listing_id JOIN source n ON n.id = l.source_id"
    questions |= {name: questions[name] + of_listing for name in ("sightings", "passes", "holes")}
    return {name: sorted(connection.execute(text).fetchall(), key=repr) for name, text in questions.items()}


@pytest.mark.parametrize(
    ("open_book", "seed", "days"),
    [*(("sqlite", seed, 25) for seed in range(4)), ("postgres-15", 4, 10)],
    indirect=["open_book"],
)
async def test_each_filter_leaves_the_same_tables_as_none(
    open_book: OPEN, make_filter: Callable[..., Shaky], fresh_redis: Callable[..., str], seed: int, days: int
) -> None:
    found, used = {}, {}
    for kind in ("off", "exact", "bloom"):
        url, book = fresh_redis(), await open_book()
        # So small a Bloom filter takes many a new key for a known one; what it has lost is chance, and is shown above.
        known_filter = None
        if kind != "off":
            known_filter = make_filter(kind, book.clock, planned=40 if kind == "bloom" else 1_000, error_rate=0.1)
        town = Town(book, known_filter, seed, hurt(url))
        await town.live(days)
        await book.balanced()
        assert isinstance(book.ledger, SqlLedger)
        found[kind] = await book.ledger._db.read(outcome)
        used[kind] = town.skipped
    assert found["exact"] == found["off"]
    assert found["bloom"] == found["off"]
    assert used["exact"] > days / 2
