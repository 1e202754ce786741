"""Durations, sizes and rates: what people write, and what a slip of the keyboard gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.policy.units import LONGEST_MS, parse_duration, parse_rate, parse_size, write_duration, write_size


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("500ms", 500),
        ("30s", 30_000),
        ("1.5s", 1_500),
        (" 10m ", 600_000),
        ("36h", 129_600_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "30", "-3s", "3 parsecs", "1h30m", "0.0001s", "9999999d", "٣s", "1e3s"])
def test_what_is_no_duration_is_refused_with_the_text_in_the_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no duration|finer than|longer than") as error:
        parse_duration(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("1024", 1024), ("800kB", 800_000), ("50MB", 50_000_000), ("1.5MiB", 1_572_864)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "50 monkeys", "-1", "0.3B", "5000000GB", "50mb"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no size|whole number|larger than"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "gap"), [("1/s", 1_000), ("6/min", 10_000), ("100/h", 36_000), ("7/s", 143), ("0.5/s", 2_000)]
)
def test_a_rate_is_a_gap_that_never_exceeds_it(text: str, gap: int) -> None:
    assert parse_rate(text) == gap


@pytest.mark.parametrize("text", ["", "6", "0/s", "6/fortnight", "-1/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no rate|never ask"):
        parse_rate(text)


@given(st.integers(0, LONGEST_MS))
def test_what_is_written_is_read_back(value: int) -> None:
    assert parse_duration(write_duration(value)) == value
    assert parse_size(write_size(value)) == value
