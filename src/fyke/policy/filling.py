"""When the share of pages on which a field has a value has fallen: a site that renamed an element fails in silence
else.
"""

from __future__ import annotations

WINDOW = 10
LEAST_BASE = 10
FALL = 0.5


def fallen(base_filled: int, base_total: int, filled: int, total: int) -> bool | None:
    """Whether the last `total` values show a fall against the base; None while either side has too few to tell."""
    if base_total < LEAST_BASE or total < WINDOW:
        return None
    return base_filled / base_total - filled / total >= FALL


def fall_text(source_id: str, name: str, base: tuple[int, int], now: tuple[int, int]) -> str:
    """What a person reads; each pair is (with a value, all)."""
    before, after = base[0] / base[1], now[0] / now[1]
    return (
        f"source '{source_id}': '{name}' had a value on {before:.0%} of the pages and now on {after:.0%} "
        f"({now[0]} of the last {now[1]}); has the page changed? `fyke try {source_id} --detail`"
    )
