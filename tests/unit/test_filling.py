"""The fall of a field's fill rate: told when it is large and sure, not before."""

from __future__ import annotations

import pytest

from fyke.policy.filling import fall_text, fallen


@pytest.mark.parametrize(
    ("base", "now", "expected"),
    [
        ((20, 20), (0, 10), True),
        ((20, 20), (5, 10), True),
        ((20, 20), (6, 10), False),
        ((9, 9), (0, 10), None),
        ((20, 20), (0, 9), None),
        ((0, 20), (0, 10), False),
        ((4, 20), (0, 10), False),
    ],
)
def test_a_fall_is_told_when_both_sides_have_enough_pages(
    base: tuple[int, int], now: tuple[int, int], expected: bool | None
) -> None:
    assert fallen(*base, *now) is expected


def test_the_alert_names_the_source_the_field_and_both_shares() -> None:
    text = fall_text("ccgp", "title", (200, 200), (0, 12))
    for part in ("ccgp", "'title'", "100%", "0%", "12"):
        assert part in text
