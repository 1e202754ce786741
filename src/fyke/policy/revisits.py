"""When an item is visited again: at ages since it was first listed, the last of them over and over until an end."""

from __future__ import annotations

from collections.abc import Sequence


def next_visit(opened_at: int, now: int, after: Sequence[int], until: int | None) -> int | None:
    """The next visit after `now`, in ms; None where there is none.

    Args:
        after: ages in ms, rising. With `until` (an age, too) the last is repeated: [1h, 1d] is also at 2d, 3d, …
    """
    age = now - opened_at
    found = next((step for step in after if step > age), None)
    if found is None:
        if until is None or not after:
            return None
        found = (age // after[-1] + 1) * after[-1]
    if until is not None and found > until:
        # The last visit is at the end itself.
        if age >= until:
            return None
        found = until
    return opened_at + found
