"""A frontier against a simple model of it, driven by Hypothesis: any order of calls, stale tokens on purpose.

The model is a dict of tasks. After each step the frontier must tell the same of every task and every lane (P1, P2), and
the starts that it granted must keep the lanes' budgets (P4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fyke.errors import LeaseLost
from fyke.model import Delivery, LanePolicy, Retry, Task, TaskKind, TaskState
from fyke.ports import Frontier
from fyke.testing.clock import FakeClock

T = TypeVar("T")

LEASE = 3_000
POLICIES = {
    "free": LanePolicy("free", 0, 0, 100),
    "narrow": LanePolicy("narrow", 0, 0, 1),
    "slow": LanePolicy("slow", 1_000, 300, 3),
}
lanes = st.sampled_from(sorted(POLICIES))
tasks = st.builds(
    Task,
    kind=st.just(TaskKind.ITEM),
    ref=st.integers(0, 7),
    generation=st.integers(1, 4),
    lane=lanes,
    pool=st.sampled_from(["text", "text", "render"]),
    priority=st.integers(0, 2),
    source_hash=st.just("hash"),
    starts=st.integers(0, 2),
)
picks = st.lists(st.integers(0, 10_000), min_size=1, max_size=3)


@dataclass
class Known:
    """A live task as the model knows it."""

    task: Task
    age: int
    starts: int
    state: TaskState = TaskState.READY
    at: int = 0
    token: int = 0
    worker: str = ""
    begun: int = 0
    permits: set[str] = field(default_factory=set)

    def leave(self, state: TaskState, at: int = 0, *, starts: int = 0) -> None:
        self.state, self.at, self.starts = state, at, self.starts + starts
        self.token, self.worker, self.begun = 0, "", 0
        self.permits.clear()


class Model:
    """What the frontier should hold."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self.live: dict[str, Known] = {}
        self.left: dict[tuple[str, int], tuple[set[str], int]] = {}  # leases whose task is gone: lanes, deadline
        self.holds = dict.fromkeys(POLICIES, 0)
        self.last_start: int | None = None  # of the slow lane
        self.slow_free_at = 0  # by then at the latest the slow lane may go again
        self.age = 0

    def in_flight(self, lane: str) -> int:
        leased = sum(one.state is TaskState.LEASED and one.task.lane == lane for one in self.live.values())
        left = sum(lane in lanes for lanes, _ in self.left.values())
        return leased + left + sum(lane in one.permits for one in self.live.values())

    def take_away(self, key: str) -> None:
        """The task goes; what its holder has in flight stays where it is."""
        one = self.live.pop(key, None)
        if one is not None and one.state is TaskState.LEASED:
            self.left[key, one.token] = ({one.task.lane, *one.permits}, one.at)

    def end_expired_permits(self) -> None:
        for one in self.live.values():
            if one.state is TaskState.LEASED and one.at <= self.now():
                one.permits.clear()
        self.left = {mark: place for mark, place in self.left.items() if place[1] > self.now()}

    def owned(self, delivery: Delivery) -> Known | None:
        found = self.live.get(delivery.task.key)
        return found if found is not None and found.token == delivery.token != 0 else None

    def slow_start(self, at: int) -> None:
        policy = POLICIES["slow"]
        if self.last_start is not None:
            assert at - self.last_start >= policy.gap - policy.jitter
        self.last_start = at
        self.slow_free_at = max(self.slow_free_at, at + policy.gap + policy.jitter)

    def check_order(self, deliveries: list[Delivery], pool: str) -> None:
        """Best class first; oldest first in a lane; nothing better is left in a lane that may always go."""
        ranks = [delivery.task.priority for delivery in deliveries]
        assert ranks == sorted(ranks)
        for lane in POLICIES:
            own = [self.live[delivery.task.key] for delivery in deliveries if delivery.task.lane == lane]
            places = [(one.task.priority, one.age) for one in own]
            assert places == sorted(places)
            waiting = [(one.task.priority, one.age) for one in self.ready(lane, pool)]
            assert not places or not waiting or max(places) < min(waiting)
        better = [one.task.priority for one in self.ready("free", pool)] if self.holds["free"] <= self.now() else []
        assert not ranks or not better or max(ranks) <= min(better)

    def ready(self, lane: str, pool: str) -> list[Known]:
        return [
            one
            for one in self.live.values()
            if one.state is TaskState.READY and one.task.lane == lane and one.task.pool == pool
        ]

    def check_nothing_was_passed_over(self, pool: str, slow_is_able: bool) -> None:
        for lane, policy in POLICIES.items():
            able = self.holds[lane] <= self.now() and self.in_flight(lane) < policy.concurrency
            if able and (lane != "slow" or slow_is_able):
                assert self.ready(lane, pool) == []


class FrontierMachine(RuleBasedStateMachine):
    """Subclass with `open` (and `check_inside` for what only this back end can show) and run its `TestCase`."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.model = Model(self.clock.now)
        self.given: list[Delivery] = []
        self.tokens: set[tuple[str, int]] = set()
        self.epoch = 0
        self.frontier: Frontier = self.run(self.open())

    async def open(self) -> Frontier:
        raise NotImplementedError

    async def check_inside(self) -> None:
        """Compare what the back end keeps inside with itself."""

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def teardown(self) -> None:
        self.run(self.frontier.close())
        self.loop.close()

    def pick(self, numbers: list[int]) -> list[Delivery]:
        """Some of all deliveries ever made: most of them stale, some of them twice."""
        recent = self.given[-12:]
        return [recent[number % len(recent)] for number in numbers]

    # Calls

    @initialize()
    def configure(self) -> None:
        self.run(self.frontier.configure(list(POLICIES.values())))

    @rule(offered=st.lists(tasks, min_size=1, max_size=5))
    def offer(self, offered: list[Task]) -> None:
        best: dict[str, Task] = {}
        for task in offered:
            if task.key not in best or task.generation > best[task.key].generation:
                best[task.key] = task
        new = 0
        for key, task in best.items():
            if key not in self.model.live or task.generation > self.model.live[key].task.generation:
                new += key not in self.model.live
                self.model.take_away(key)
                self.model.age += 1
                self.model.live[key] = Known(task, self.model.age, task.starts)
        assert self.run(self.frontier.offer(offered)) == new

    @rule(limit=st.integers(1, 6), pool=st.sampled_from(["text", "text", "render"]), worker=st.sampled_from("ab"))
    def lease(self, limit: int, pool: str, worker: str) -> None:
        now = self.clock.now()
        self.model.end_expired_permits()
        for one in self.model.live.values():
            if one.state is TaskState.DELAYED and one.at <= now:
                one.leave(TaskState.READY)
        leased = self.run(self.frontier.lease(limit, LEASE, worker=worker, pool=pool))
        assert len(leased.deliveries) <= limit
        slow = 0
        for delivery in leased.deliveries:
            one = self.model.live[delivery.task.key]
            assert one.state is TaskState.READY
            assert (delivery.starts, delivery.deadline) == (one.starts, now + LEASE)
            assert (delivery.task.generation, delivery.task.lane) == (one.task.generation, one.task.lane)
            assert (delivery.task.key, delivery.token) not in self.tokens
            assert self.model.holds[one.task.lane] <= now
            self.tokens.add((delivery.task.key, delivery.token))
            self.given.append(delivery)
            one.state, one.at, one.token, one.worker = TaskState.LEASED, now + LEASE, delivery.token, worker
            slow += one.task.lane == "slow"
        for lane, policy in POLICIES.items():
            assert self.model.in_flight(lane) <= policy.concurrency
        self.model.check_order(leased.deliveries, pool)
        able_slow = now >= self.model.slow_free_at
        if slow:
            self.model.slow_free_at = max(self.model.slow_free_at, now) + slow * POLICIES["slow"].gap
        if len(leased.deliveries) < limit:
            self.model.check_nothing_was_passed_over(pool, able_slow and not slow)

    @precondition(lambda self: self.given)
    @rule(numbers=picks)
    def begin(self, numbers: list[int]) -> None:
        deliveries, now = self.pick(numbers), self.clock.now()
        answers = self.run(self.frontier.begin(deliveries))
        told: set[str] = set()
        for delivery, answer in zip(deliveries, answers, strict=True):
            one = self.model.owned(delivery)
            assert answer.lost == (one is None)
            if one is None:
                continue
            hold = self.model.holds[one.task.lane]
            if hold > now:
                assert (answer.starts, answer.wait_ms, answer.reserved) == (one.starts, hold - now, False)
                continue
            assert answer.reserved
            if one.task.key not in told and one.begun < now - 100:
                one.starts += not one.begun
                one.begun = now + answer.wait_ms
                if one.task.lane == "slow":
                    self.model.slow_start(one.begun)
                else:
                    assert answer.wait_ms == 0
            told.add(one.task.key)
            assert (answer.starts, answer.wait_ms) == (one.starts, max(0, one.begun - now))

    @precondition(lambda self: self.given)
    @rule(number=st.integers(0, 10_000), lane=lanes, limit=st.sampled_from([0, 1_000, 5_000]))
    def permit(self, number: int, lane: str, limit: int) -> None:
        (delivery,), now = self.pick([number]), self.clock.now()
        self.model.end_expired_permits()
        one = self.model.owned(delivery)
        try:
            wait = self.run(self.frontier.permit(delivery, lane, limit))
        except LeaseLost:
            assert one is None
            return
        assert one is not None
        full = self.model.in_flight(lane) >= POLICIES[lane].concurrency
        hold = max(0, self.model.holds[lane] - now)
        if hold or (lane != one.task.lane and lane not in one.permits and full):
            assert wait > limit
            assert wait >= hold
        elif lane != "slow":
            assert wait == 0
        assert self.run(self.frontier.held(lane)) == hold
        if wait <= limit:
            if lane != one.task.lane:
                one.permits.add(lane)
            if lane == "slow":
                self.model.slow_start(now + wait)

    @precondition(lambda self: self.given)
    @rule(numbers=picks)
    def extend(self, numbers: list[int]) -> None:
        deliveries = self.pick(numbers)
        mine = [self.model.owned(delivery) for delivery in deliveries]
        assert self.run(self.frontier.extend(deliveries, LEASE)) == [one is not None for one in mine]
        for one in mine:
            if one is not None:
                one.at = self.clock.now() + LEASE

    @precondition(lambda self: self.given)
    @rule(numbers=picks, end=st.sampled_from(["ack", "bury", "release", "retry"]), delay=st.integers(0, 5_000))
    def give_back(self, numbers: list[int], end: str, delay: int) -> None:
        deliveries, expected = self.pick(numbers), []
        for delivery in deliveries:
            one = self.model.owned(delivery)
            expected.append(one is not None)
            if one is None:
                self.model.left.pop((delivery.task.key, delivery.token), None)
                continue
            taken_back = -1 if one.begun and (end == "release" or delay % 2) else 0
            if end == "release":
                one.leave(TaskState.READY, starts=taken_back)
            elif end == "retry":
                one.leave(TaskState.DELAYED, self.clock.now() + delay, starts=taken_back)
            else:
                del self.model.live[one.task.key]
        if end == "retry":
            retries = [Retry(delivery, delay, "again", counted=delay % 2 == 0) for delivery in deliveries]
            assert self.run(self.frontier.retry(retries)) == expected
        else:
            assert self.run(getattr(self.frontier, end)(deliveries)) == expected

    @rule(limit=st.integers(1, 4))
    def reap(self, limit: int) -> None:
        now = self.clock.now()
        expired = {key for key, one in self.model.live.items() if one.state is TaskState.LEASED and one.at <= now}
        reaped = self.run(self.frontier.reap(limit))
        assert len(reaped) == min(limit, len(expired))
        for told in reaped:
            one = self.model.live[told.task.key]
            assert told.task.key in expired
            assert (told.worker, told.starts, told.begun) == (one.worker, one.starts, one.begun > 0)
            one.leave(TaskState.READY)

    @rule(lane=lanes, length=st.sampled_from([0, 500, 2_000, 10_000]))
    def hold(self, lane: str, length: int) -> None:
        until = self.clock.now() + length if length else 0
        self.run(self.frontier.hold(lane, until, "429"))
        self.model.holds[lane] = max(self.model.holds[lane], until) if until else 0

    @rule(ref=st.integers(0, 7), generation=st.integers(1, 4))
    def drop(self, ref: int, generation: int) -> None:
        one = self.model.live.get(f"i{ref}")
        mine = one is not None and one.task.generation == generation
        assert self.run(self.frontier.drop([(f"i{ref}", generation)])) == mine
        if mine:
            self.model.take_away(f"i{ref}")

    @rule(chance=st.integers(0, 9))
    def rebuild(self, chance: int) -> None:
        again = chance > 0 and self.epoch > 0
        self.epoch += not again
        assert self.run(self.frontier.rebuild("ledger", self.epoch)) != again
        if not again:
            self.model.live.clear()
            self.model.left.clear()
            policy = POLICIES["slow"]
            self.model.slow_free_at = max(self.model.slow_free_at, self.clock.now() + policy.gap + policy.jitter)

    @rule(ms=st.sampled_from([1, 100, 700, 1_000, 1_300, LEASE, 20_000]))
    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)

    # What must hold after every call

    @invariant()
    def each_task_is_in_one_place_and_all_sides_tell_the_same(self) -> None:
        keys = self.run(self.frontier.keys())
        assert [(key, generation) for key, generation, _ in keys] == [
            (key, self.model.live[key].task.generation) for key in sorted(self.model.live)
        ]
        stats = self.run(self.frontier.stats())
        count = dict.fromkeys(TaskState, 0)
        for key, one in self.model.live.items():
            count[one.state] += 1
            view = self.run(self.frontier.view(key))
            assert view is not None
            assert (view.state, view.starts, view.worker) == (one.state, one.starts, one.worker)
            assert one.state is TaskState.READY or view.at == one.at
        assert (stats.ready, stats.delayed, stats.leased) == tuple(count[state] for state in TaskState)
        self.run(self.check_inside())
