"""Each call on Redis and PostgreSQL × each fault, and what others may do to Redis before each frontier call.

All of them are in `make crash`; `make test` plays a sample, in which each call has at least one fault.
"""

from __future__ import annotations

import pytest

from fyke.pipeline import once
from tests.crash.pair import Pair
from tests.crash.playing import play_case
from tests.crash.scenario import ALL, SAMPLED, Case, sample


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle looks are what such a case takes longest for."""
    monkeypatch.setattr(once, "LOOK_S", 3.0)


@pytest.mark.parametrize("case", sample(), ids=str)
def test_a_sample_of_faults_on_redis_and_postgres_breaks_no_promise(case: Case, the_pair: Pair) -> None:
    play_case(case, the_pair.emptied)


@pytest.mark.crash_long
@pytest.mark.parametrize("case", ALL, ids=str)
def test_a_fault_on_redis_and_postgres_breaks_no_promise(case: Case, the_pair: Pair) -> None:
    play_case(case, the_pair.emptied)


def test_the_sample_has_each_call_and_each_fault() -> None:
    chosen = sample()
    assert len(chosen) == SAMPLED
    assert {case.point[0] for case in chosen} == {case.point[0] for case in ALL}
    assert {case.fault for case in chosen} == {case.fault for case in ALL}
