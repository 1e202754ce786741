"""What a failure costs: the table of DESIGN 3, row by row, and its limits to the millisecond (SCENARIOS 14, 21, 24)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fyke.model import ItemState, Outcome
from fyke.policy.outcome import DAY, HOUR, MINUTE, SECOND, Effect, Limits, backoff, block_hold, decide

LIMITS = Limits()
ALMOST_ONE = 1 - 2**-53


def effect(outcome: Outcome, **values: Any) -> Effect:
    usual: dict[str, Any] = {"starts": 1, "soft_failures": 0, "soft_ms": 0, "age_ms": 0, "uniform": 0.5}
    return decide(outcome, **{**usual, "limits": LIMITS, **values})


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_ends_or_waits(outcome: Outcome) -> None:
    found = effect(outcome)
    assert found.final is not None or found.delay_ms > 0 or found.blocked


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNCHANGED])
def test_ok_and_unchanged_are_stored(outcome: Outcome) -> None:
    assert effect(outcome) == Effect(ItemState.STORED)


SOFT = (Outcome.NETWORK, Outcome.TIMEOUT, Outcome.PROXY, Outcome.UNAVAILABLE, Outcome.DATABASE)
COSTING = (
    *(Outcome.NOT_FOUND, Outcome.EMPTY, Outcome.MISFIT, Outcome.ERROR, Outcome.TOO_LARGE),
    *(Outcome.WORKER_DIED,),
)


@pytest.mark.parametrize("outcome", SOFT)
def test_what_passes_costs_no_attempt_however_often_it_was_tried(outcome: Outcome) -> None:
    assert effect(outcome, starts=1_000, age_ms=8 * DAY) == Effect(None, delay_ms=2 * SECOND)


@pytest.mark.parametrize("outcome", SOFT)
def test_what_passes_is_given_up_after_24_hours_of_it(outcome: Outcome) -> None:
    assert effect(outcome, soft_ms=DAY - 1).final is None
    assert effect(outcome, soft_ms=DAY) == Effect(ItemState.DEAD, gave_up=True)
    assert effect(outcome, soft_ms=DAY, retry_after=7 * SECOND) == Effect(ItemState.DEAD, gave_up=True)


@pytest.mark.parametrize("outcome", COSTING)
def test_the_third_attempt_is_the_last(outcome: Outcome) -> None:
    assert effect(outcome, starts=1) == Effect(None, costs=True, delay_ms=30 * SECOND)
    assert effect(outcome, starts=2) == Effect(None, costs=True, delay_ms=10 * MINUTE)
    for starts in (3, 4):
        assert effect(outcome, starts=starts) == Effect(ItemState.DEAD, costs=True)


def test_a_late_page_is_not_given_up_for_its_age() -> None:
    assert effect(Outcome.NOT_FOUND, starts=2, soft_ms=9 * DAY, age_ms=9 * DAY).final is None


def test_more_attempts_than_delays_repeat_the_last_delay_and_none_means_at_once() -> None:
    many = Limits(attempts=5, attempt_delays=(SECOND, MINUTE))
    delays = [effect(Outcome.EMPTY, starts=starts, limits=many).delay_ms for starts in range(5)]
    assert delays == [SECOND, SECOND, MINUTE, MINUTE, MINUTE]
    assert effect(Outcome.EMPTY, limits=Limits(attempt_delays=())) == Effect(None, costs=True)


@pytest.mark.parametrize("outcome", [Outcome.ROW_REFUSED, Outcome.GONE, Outcome.REFUSED, Outcome.GAVE_UP])
def test_what_no_repeat_can_mend_is_dead_at_once(outcome: Outcome) -> None:
    assert effect(outcome) == Effect(ItemState.DEAD)


@pytest.mark.parametrize("outcome", [Outcome.ROBOTS, Outcome.POLICY])
def test_what_we_may_not_fetch_is_ignored_at_once(outcome: Outcome) -> None:
    assert effect(outcome) == Effect(ItemState.IGNORED)


@pytest.mark.parametrize("outcome", [Outcome.BLOCKED, Outcome.LOGIN])
def test_a_block_costs_nothing_and_is_given_up_after_seven_days(outcome: Outcome) -> None:
    assert effect(outcome, starts=1_000, soft_ms=8 * DAY, age_ms=7 * DAY - 1) == Effect(None, blocked=True)
    assert effect(outcome, age_ms=7 * DAY) == Effect(ItemState.DEAD, blocked=True, gave_up=True)


def test_blocks_in_a_row_hold_the_lane_from_ten_minutes_to_six_hours() -> None:
    holds = [block_hold(blocks, LIMITS) // MINUTE for blocks in range(9)]
    assert holds == [10, 10, 20, 40, 80, 160, 320, 360, 360]
    assert block_hold(10**9, LIMITS) == 6 * HOUR


@pytest.mark.parametrize(("failures", "least", "most"), [(0, 1, 3), (1, 2, 6), (2, 4, 12)])
def test_waits_double_with_jitter(failures: int, least: int, most: int) -> None:
    waits = [backoff(failures, uniform, LIMITS) for uniform in (0.0, 0.5, ALMOST_ONE)]
    assert waits == [least * SECOND, (least + most) * SECOND // 2, most * SECOND]


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
@settings(derandomize=True, deadline=None)
def test_no_wait_is_longer_than_an_hour_or_shorter_than_half_its_width(failures: int, uniform: float) -> None:
    width = min(2 * SECOND * 2 ** min(failures, 40), HOUR)
    assert width // 2 <= backoff(failures, uniform, LIMITS) <= min(2 * width, HOUR)


def test_a_named_wait_holds_the_lane() -> None:
    assert effect(Outcome.UNAVAILABLE, retry_after=7 * SECOND) == Effect(None, delay_ms=7000, hold_ms=7000)


def test_a_named_wait_over_the_cap_is_waited_for_up_to_the_cap_and_not_dropped() -> None:
    assert effect(Outcome.UNAVAILABLE, retry_after=30 * DAY) == Effect(None, delay_ms=DAY, hold_ms=DAY)
    short = Limits(retry_after_cap=MINUTE)
    assert effect(Outcome.UNAVAILABLE, retry_after=HOUR, limits=short) == Effect(None, delay_ms=MINUTE, hold_ms=MINUTE)


@pytest.mark.parametrize("named", [None, 0, -5])
def test_a_wait_that_names_no_time_to_come_means_our_own(named: int | None) -> None:
    assert effect(Outcome.UNAVAILABLE, retry_after=named) == Effect(None, delay_ms=2 * SECOND)


def test_a_site_that_always_says_one_second_is_asked_ever_more_rarely() -> None:
    # A hold does not count towards giving up: without a wait of our own above it, this would go on for ever.
    found = effect(Outcome.UNAVAILABLE, soft_failures=9, retry_after=SECOND)
    assert (found.hold_ms, found.delay_ms) == (SECOND, 1_024 * SECOND)


def test_a_named_wait_on_a_failure_that_costs_changes_nothing() -> None:
    assert effect(Outcome.NOT_FOUND, retry_after=HOUR) == effect(Outcome.NOT_FOUND)
    assert effect(Outcome.GONE, retry_after=HOUR) == effect(Outcome.GONE)
