"""The arithmetic of `fyke lab load`: rates of the middle, linearity, which part limits."""

import pytest

from fyke.lab.load.figures import (
    Limits,
    Request,
    Round,
    Sample,
    cpu_shares,
    in_flight,
    limiting,
    linearity,
    percentile,
    rate,
    window,
)


def steady(count: int, each: float, took: float, start: float = 0.0) -> list[Request]:
    """One request ends each `each` seconds."""
    return [Request(start + n * each, start + n * each + took, f"/{n}", True) for n in range(count)]


def a_round(
    *, per_second: float = 10.0, took: float = 0.4, cpu: dict[str, float] | None = None, **limits: float
) -> Round:
    requests = steady(200, 1 / per_second, took)
    end = requests[-1].end
    used = {part: cores * end for part, cores in (cpu or {}).items()}
    values = {"cores": 2, "workers": 1, "slots": 4, "host_concurrency": 1000, "host_delay": 0.0, **limits}
    return Round(
        workers=int(values["workers"]),
        limits=Limits(
            cores=int(values["cores"]),
            workers=int(values["workers"]),
            slots=int(values["slots"]),
            host_concurrency=int(values["host_concurrency"]),
            host_delay=values["host_delay"],
        ),
        requests=requests,
        samples=[Sample(0.0, 200, 0, dict.fromkeys(used, 0.0)), Sample(end, 0, 0, used)],
        failures=0,
        finished=True,
    )


def test_a_slow_start_and_a_slow_end_do_not_change_the_rate() -> None:
    even = steady(100, 0.1, 0.05)
    slow_ends = [Request(-60, -50, "/first", True), *even, Request(10, 90, "/last", True)]
    assert rate(slow_ends) == pytest.approx(10.0, rel=0.02)


def test_no_request_and_one_request_have_no_rate() -> None:
    assert (rate([]), rate(steady(1, 1, 1)), window([])) == (0.0, 0.0, (0.0, 0.0))


def test_linear_is_what_the_smallest_number_of_workers_promises() -> None:
    assert linearity({1: 10.0, 3: 30.0, 12: 114.0}) == {1: 100.0, 3: 100.0, 12: 95.0}
    assert linearity({2: 10.0, 4: 15.0}) == {2: 100.0, 4: 75.0}
    assert linearity({}) == {}
    assert linearity({1: 0.0, 3: 5.0}) == {1: 0.0, 3: 0.0}


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile(values, 1.0)) == (50.0, 95.0, 100.0)
    assert (percentile([], 0.5), percentile([7.0], 0.01)) == (0.0, 7.0)


def test_requests_in_flight_are_their_lengths_over_the_time() -> None:
    assert in_flight(steady(200, 0.1, 0.4)) == pytest.approx(4.0, rel=0.05)
    assert in_flight([]) == 0.0


def test_cpu_is_counted_between_samples_inside_and_falls_back_to_all_of_them() -> None:
    samples = [Sample(at, 0, 0, {"workers": used}) for at, used in ((0.0, 0.0), (1.0, 5.0), (2.0, 6.0), (3.0, 6.5))]
    assert cpu_shares(samples, 1.0, 2.0) == {"workers": 1.0}
    assert cpu_shares(samples, 1.4, 1.6) == {"workers": pytest.approx(6.5 / 3)}
    assert cpu_shares(samples[:1], 0.0, 1.0) == {}


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (a_round(), "the site's latency"),
        (a_round(took=0.1), "ledger and frontier"),
        (a_round(took=0.1, cpu={"redis": 0.9}), "redis"),
        (a_round(took=0.1, cpu={"site": 0.95, "workers": 0.2}), "site"),
        (a_round(took=0.1, cpu={"workers": 0.9}), "workers' CPU"),
        (a_round(took=0.1, workers=4, cpu={"workers": 1.2, "database": 0.6}), "this machine's cores"),
        (a_round(host_delay=0.1), "politeness"),
        (a_round(took=0.4, slots=64, host_concurrency=4), "politeness"),
        # A limit of the host that is nowhere near is not what limits.
        (a_round(took=0.1, slots=64, host_concurrency=4), "ledger and frontier"),
        (a_round(took=0.1, host_delay=0.01), "ledger and frontier"),
    ],
)
def test_the_part_that_limits_is_the_one_that_is_full(found: Round, part: str) -> None:
    verdict = limiting(found)
    assert verdict.part == part
    assert verdict.why


def test_the_database_may_use_several_cores_and_is_not_full_at_one() -> None:
    assert limiting(a_round(took=0.1, cores=8, cpu={"database": 1.5})).part == "ledger and frontier"
