"""What only a server can show: transactions that meet half-way, and answers that are lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest

from fyke.db.address import parse_address
from fyke.db.bridge import ask
from fyke.db.connection import Connection
from fyke.errors import TransientError
from fyke.lab.relay import Relay, open_relay
from fyke.ledgers.sql import SqlLedger
from fyke.model import Committed, Event, Outcome, PassEnd, PassState, RunState, Task
from fyke.testing.clock import FakeClock
from fyke.testing.effects import install_effect_log, written_twice
from fyke.testing.ledger_steps import Book, failure, make_entry, make_result
from tests.contract.ledger_cases import OpenLedger
from tests.ledgers import EmptyLedger, OpenDatabase, connect

T = TypeVar("T")
# Long enough for a call that waits for nobody; a call that waits for a lock waits on.
AT_ONCE_S = 0.3


class Paused:
    """A database whose writes stop until `go` is set: before their COMMIT, or `early`, as soon as they have begun."""

    def __init__(self, database: Any, *, early: bool = False) -> None:
        self._database, self._early = database, early
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def write(self, call: Callable[[Connection], T], *, durable: bool = True) -> T:
        def paused(connection: Connection) -> T:
            if self._early:
                connection.execute("SELECT 1")
                self._stop()
            value = call(connection)
            if not self._early:
                self._stop()
            return value

        return await self._database.write(paused, durable=durable)  # type: ignore[no-any-return]

    def _stop(self) -> None:
        self.reached.set()
        ask(self.go.wait())


class Stage:
    """One handle that stops before its COMMIT, and others that do not."""

    def __init__(self, ledger: SqlLedger, clock: FakeClock, *, early: bool = False) -> None:
        self.paused = Paused(ledger._db, early=early)
        self.slow = SqlLedger(self.paused, clock)

    async def meet(self, first: Awaitable[T], second: Awaitable[T]) -> tuple[T, T]:
        """`first`, a call of `slow`, is stopped before its COMMIT; `second` has to wait for that."""
        one = asyncio.ensure_future(first)
        await asyncio.wait_for(self.paused.reached.wait(), 10)
        two = asyncio.ensure_future(second)
        done, _ = await asyncio.wait({two}, timeout=AT_ONCE_S)
        assert not done, "it did not wait for the transaction before it"
        self.paused.go.set()
        return await one, await two


def commits(request: bytes, _reply: bytes) -> bool:
    return request.rstrip(b"\0").endswith(b"COMMIT")


class LedgerOnServer:
    """The fixtures of a ledger on a server. A test file gives `server_kind`."""

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def open_ledger(self, open_database: OpenDatabase, clock: FakeClock, server_kind: str) -> OpenLedger:
        """One more handle on the same ledger, as another process has it."""

        async def open_one() -> SqlLedger:
            return SqlLedger(await open_database(server_kind), clock)

        return open_one

    @pytest.fixture
    async def ledger(self, open_ledger: OpenLedger) -> SqlLedger:
        return await open_ledger()

    @pytest.fixture
    async def other(self, open_ledger: OpenLedger) -> SqlLedger:
        return await open_ledger()

    @pytest.fixture
    async def relay(self, empty_ledger_url: EmptyLedger, server_kind: str) -> AsyncIterator[Relay]:
        async with await open_relay(parse_address(await empty_ledger_url(server_kind)).port) as found:
            yield found

    @pytest.fixture
    async def far(
        self, relay: Relay, empty_ledger_url: EmptyLedger, server_kind: str, clock: FakeClock
    ) -> AsyncIterator[SqlLedger]:
        """A handle behind the relay."""
        database = connect(relay.through(await empty_ledger_url(server_kind)))
        yield SqlLedger(database, clock)
        await database.close()


class ServerCases(LedgerOnServer):
    async def test_two_results_of_one_visit_meet_and_one_is_late(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        # P3, CRASH-WINDOWS 9
        book, stage = await Book(ledger, clock).prepare(), Stage(ledger, clock)
        await ledger._db.write(lambda connection: install_effect_log(connection, "gov_procure"))
        (task,) = await book.listed("a")
        other = await open_ledger()
        results = [make_result(task, {"title": title}) for title in ("first", "second")]
        first, second = await stage.meet(stage.slow.commit([results[0]]), other.commit([results[1]]))
        assert [first[0][0], second[0][0]] == [Committed.COMMITTED, Committed.LATE]
        assert (await book.rows())["a"]["title"] == "first"
        assert await ledger._db.read(written_twice) == []
        await book.balanced()

    async def test_two_pages_that_show_a_new_key_meet_and_it_is_new_once(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        # P1
        book, stage = await Book(ledger, clock).prepare(), Stage(ledger, clock)
        leases = await book.begin_all("one", "two")
        slow, fast = Book(stage.slow, clock), Book(await open_ledger(), clock)
        pages = [make_entry(key) for key in ("a", "b")], [make_entry(key) for key in ("b", "c")]
        first, second = await stage.meet(slow.show(leases[0], *pages[0]), fast.show(leases[1], *pages[1]))
        assert (first.new, second.new, second.known) == (2, 1, 1)
        assert (await book.count()).listed == 3
        await book.balanced()

    async def test_one_slot_that_two_schedulers_take_at_once_is_one_run(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        # CRASH-WINDOWS 27
        book, stage = await Book(ledger, clock).prepare(), Stage(ledger, clock)
        slow, fast = Book(stage.slow, clock), Book(await open_ledger(), clock)
        first, second = await stage.meet(slow.open(slot=5_000), fast.open(slot=5_000))
        assert (first.created, second.created) == (True, False)
        assert first.run_id == second.run_id
        assert [task.ref for task in first.tasks] == [task.ref for task in second.tasks]
        assert len(await book.ledger.runs()) == 1

    async def test_the_last_two_passes_of_a_run_end_at_once_and_the_run_ends(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        book, stage = await Book(ledger, clock).prepare(), Stage(ledger, clock)
        one, two = await book.begin_all("one", "two")
        end, other = PassEnd(PassState.COMPLETE), await open_ledger()
        ended = await stage.meet(
            stage.slow.end_pass(one.pass_id, one.fence, end), other.end_pass(two.pass_id, two.fence, end)
        )
        assert ended == (None, RunState.COMPLETE)
        assert await ledger.running() == []

    async def test_a_page_that_is_being_written_is_finished_before_another_walker_begins(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        # CRASH-WINDOWS 31
        book, stage = await Book(ledger, clock).prepare(), Stage(ledger, clock)
        lease = await book.begin()
        page = Book(stage.slow, clock).show(lease, make_entry("a"), checkpoint=b"page 2")
        other = await open_ledger()
        result: Any
        again: Any
        result, again = await stage.meet(page, other.start_pass(lease.pass_id, "w2"))
        assert result.accepted
        assert (again.fence, again.checkpoint) == (lease.fence + 1, b"page 2")
        assert not (await book.show(lease, make_entry("b"))).accepted

    async def test_events_are_numbered_in_the_order_of_their_commits(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        # Else a reader that has gone on to the later one never sees the earlier one.
        stage, other = Stage(ledger, clock), await open_ledger()
        await stage.meet(stage.slow.add_events([Event("one", "")]), other.add_events([Event("two", "")]))
        assert [event.kind for event in await ledger.events()] == ["one", "two"]

    async def test_blocks_that_are_counted_at_once_are_all_counted(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        stage, other = Stage(ledger, clock), await open_ledger()
        await ledger.hold_lane("site.example", 5_000, "busy")
        counts = await stage.meet(
            stage.slow.hold_lane("site.example", 9_000, "blocked", blocked=True),
            other.hold_lane("site.example", 7_000, "blocked", blocked=True),
        )
        assert counts == (1, 2)
        lane = await ledger.lane("site.example")
        assert lane is not None
        assert (lane.hold_until, lane.blocks) == (9_000, 2)

    async def test_a_connection_cut_in_a_transaction_repeats_it(
        self, ledger: SqlLedger, far: SqlLedger, relay: Relay, clock: FakeClock
    ) -> None:
        # CRASH-WINDOWS 22
        book, stage = await Book(ledger, clock).prepare(), Stage(far, clock, early=True)
        (task,) = await book.listed("a")
        answer = asyncio.ensure_future(stage.slow.commit([make_result(task)]))
        await asyncio.wait_for(stage.paused.reached.wait(), 10)
        assert relay.cut() > 0
        stage.paused.go.set()
        assert [answer for answer, _ in await answer] == [Committed.COMMITTED]
        assert (await book.count()).stored == 1
        await book.balanced()

    async def test_a_commit_whose_answer_is_lost_counts_once_when_it_is_repeated(
        self, ledger: SqlLedger, far: SqlLedger, relay: Relay, clock: FakeClock
    ) -> None:
        # CRASH-WINDOWS 10
        book = await Book(ledger, clock).prepare()
        await ledger._db.write(lambda connection: install_effect_log(connection, "gov_procure"))
        done, failing, before = await book.listed("a", "b", "before")
        await far.commit([make_result(before)])  # now it has ids in hand, whose giving is a commit, too
        results = [make_result(done), failure(failing, Outcome.UNAVAILABLE, None, costs=False, delay_ms=5)]
        lost = relay.swallow(commits, cut=True)
        with pytest.raises(TransientError, match="not known what was written"):
            await far.commit(results)
        assert lost.done()
        answers = [answer for answer, _ in await far.commit(results)]
        assert answers == [Committed.LATE, Committed.COMMITTED]
        found = await book.look("b")
        assert (len(found.visits), (await book.count()).stored) == (1, 2)
        assert await ledger._db.read(written_twice) == []
        await book.balanced()

    async def test_a_page_whose_answer_is_lost_is_written_again_and_nothing_is_new(
        self, ledger: SqlLedger, far: SqlLedger, relay: Relay, clock: FakeClock
    ) -> None:
        # CRASH-WINDOWS 2
        book = await Book(ledger, clock).prepare()
        lease, away = await book.begin(), Book(far, clock)
        await away.show(lease, make_entry("before"))
        relay.swallow(commits, cut=True)
        with pytest.raises(TransientError, match="not known what was written"):
            await away.show(lease, make_entry("a"), make_entry("b"))
        again = await away.show(lease, make_entry("a"), make_entry("b"))
        assert (again.accepted, again.new, again.known, len(again.due)) == (True, 0, 2, 2)
        await book.balanced()

    async def test_a_run_whose_answer_is_lost_is_found_again(
        self, ledger: SqlLedger, far: SqlLedger, relay: Relay, clock: FakeClock
    ) -> None:
        book, away = await Book(ledger, clock).prepare(), Book(far, clock)
        relay.swallow(commits, cut=True)
        with pytest.raises(TransientError, match="not known what was written"):
            await away.open(slot=5_000)
        again = await away.open(slot=5_000)
        assert (again.created, len(again.tasks)) == (False, 1)
        assert len(await book.ledger.runs()) == 1

    async def test_readers_and_writers_of_the_same_items_do_not_stop_each_other(
        self, ledger: SqlLedger, open_ledger: OpenLedger, clock: FakeClock
    ) -> None:
        # Pages lock items as commits do: in order of id, whatever the order of their keys.
        book = await Book(ledger, clock).prepare()
        keys = [f"k{(number * 7919) % 400:03}" for number in range(400)]
        one, two = await book.begin_all("one", "two")
        listers = [Book(await open_ledger(), clock) for _ in range(2)]
        collector = Book(await open_ledger(), clock)
        tasks: dict[int, Task] = {}
        for start in range(0, 400, 50):
            shown = await listers[0].show(one, *(make_entry(key) for key in keys[start : start + 50]))
            tasks |= {task.ref: task for task in shown.due}

        async def list_again(lister: Book, lease: Any, backwards: bool) -> None:
            order = keys[::-1] if backwards else keys
            for start in range(0, 400, 50):
                await lister.show(lease, *(make_entry(key) for key in order[start : start + 50]))

        async def collect() -> int:
            found = sorted(tasks.values(), key=lambda task: -task.ref)
            answers = [
                await collector.commit(*(make_result(task) for task in found[start : start + 80]))
                for start in range(0, 400, 80)
            ]
            return sum(answer is Committed.COMMITTED for part in answers for answer in part)

        *_, stored = await asyncio.gather(
            list_again(listers[0], one, False), list_again(listers[1], two, True), collect()
        )
        assert stored == 400
        await book.balanced()
