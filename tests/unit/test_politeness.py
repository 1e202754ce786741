import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.errors import UsageError
from fyke.model import LanePolicy
from fyke.policy.politeness import (
    LONGEST_GAP,
    drawn_gap,
    lane_of,
    least_gap,
    sane,
    strictest,
    with_robots_delay,
)

policies = st.builds(
    LanePolicy,
    lane=st.sampled_from(["a", "b"]),
    gap=st.integers(-5, 100_000),
    jitter=st.integers(-5, 100_000),
    concurrency=st.integers(-1, 2_000),
)


@pytest.mark.parametrize(
    ("url", "lane"),
    [
        ("https://example.org/a?b=c", "example.org"),
        ("HTTP://EXAMPLE.org/", "example.org"),
        ("https://example.org:443/", "example.org"),
        ("http://example.org:443/", "example.org:443"),
        ("http://example.org:8080/x", "example.org:8080"),
        ("http://user:word@example.org/", "example.org"),
        ("http://example.org./", "example.org"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://127.0.0.1:8000/", "127.0.0.1:8000"),
        ("http://[::1]:8000/", "[::1]:8000"),
        ("http://[::1]/", "[::1]"),
    ],
)
def test_addresses_of_one_host_share_one_lane(url: str, lane: str) -> None:
    assert lane_of(url) == lane


@pytest.mark.parametrize("url", ["", "/path", "ftp://example.org/", "mailto:a@b", "http://", "http://[::1", "x"])
def test_an_address_without_a_host_is_refused_with_the_address(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        lane_of(url)
    assert repr(url) in str(refused.value)


@given(st.integers(0, 10_000), st.integers(0, 20_000), st.floats(0, 1, exclude_max=True))
def test_a_drawn_gap_is_never_below_gap_less_jitter_nor_above_gap_and_jitter(
    gap: int, jitter: int, chance: float
) -> None:
    drawn = drawn_gap(gap, jitter, chance)
    if gap == 0:
        assert drawn == 0
    else:
        assert max(0, gap - jitter) <= drawn <= gap + jitter


def test_both_ends_of_a_drawn_gap_are_reached() -> None:
    assert drawn_gap(1_200, 400, 0.0) == 800
    assert drawn_gap(1_200, 400, 0.9999999) == 1_600


@given(st.lists(policies, max_size=6))
def test_merged_policies_are_as_strict_as_each_of_them(several: list[LanePolicy]) -> None:
    merged = {policy.lane: policy for policy in strictest(several)}
    assert set(merged) == {policy.lane for policy in several}
    for policy in map(sane, several):
        of_lane = merged[policy.lane]
        assert of_lane.gap >= policy.gap
        assert least_gap(of_lane) >= least_gap(policy)
        assert of_lane.concurrency <= policy.concurrency


@given(st.lists(policies, max_size=6))
def test_merging_does_not_depend_on_the_order_and_repeating_changes_nothing(several: list[LanePolicy]) -> None:
    merged = strictest(several)
    assert strictest(reversed(several)) == merged
    assert strictest([*merged, *several]) == merged


def test_a_merged_policy_is_no_stricter_than_needed() -> None:
    merged = strictest([LanePolicy("a", 1_000, 800, 4), LanePolicy("a", 500, 0, 2)])
    assert merged == [LanePolicy("a", 1_000, 500, 2)]


def test_the_robots_delay_makes_a_lane_slower_and_never_faster() -> None:
    policy = LanePolicy("a", 1_200, 400, 2)
    assert with_robots_delay(policy, 5_000) == LanePolicy("a", 5_000, 0, 2)
    assert with_robots_delay(LanePolicy("a", 6_000, 4_000, 2), 5_000) == LanePolicy("a", 6_000, 1_000, 2)
    assert with_robots_delay(policy, 500) == policy
    assert with_robots_delay(policy, None) == policy
    assert with_robots_delay(policy, 10**15).gap == LONGEST_GAP


@pytest.mark.parametrize(
    "path", ["/", "/a?b=http://other.example/", "/a#x", "/:443/", "/@other.example/", "/\u4e2d", "/a b", "/%zz"]
)
@pytest.mark.parametrize(
    "origin", ["http://a.example", "https://a.example:443", "http://a.example:8080", "http://a-b.c"]
)
def test_the_short_way_to_a_lane_ends_where_the_long_one_does(origin: str, path: str) -> None:
    assert lane_of(origin + path) == lane_of(origin)
