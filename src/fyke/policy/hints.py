"""What a site says of its own length: totals, numbers of the last page. Hints, never a proof.

They turn a doubtful end into a gap, and explain a page that repeats an earlier one; no walk ends by them, for real
totals are rounded down, capped or old (P5).
"""

from __future__ import annotations

from typing import Final

from fyke.model import ListPage

ITSELF: Final = "the page names itself as the next one"
CIRCLE: Final = "the page names one as its next that this walk has read already"


def says_enough(page: ListPage, number: int, counted: int, total: int) -> bool:
    """Whether page `number`, which repeats an earlier one, is where the list should end by the site's own word."""
    if page.last_by_hint is not None:
        return page.last_by_hint
    past_last = page.last_hint is not None and 0 < page.last_hint < number
    return past_last or 0 < total <= counted


def end_doubt(page: ListPage, number: int, counted: int, total: int) -> str:
    """Why page `number`, which has no next one, should not be the last. One whose link leads back to where the walk was
    is the last where the site says so.
    """
    if page.doubt not in (ITSELF, CIRCLE):
        return page.doubt
    if page.last_by_hint is not None:
        return "" if page.last_by_hint else page.doubt
    on_last = page.last_hint is not None and 0 < page.last_hint <= number
    return "" if on_last or 0 < total <= counted else page.doubt


def blank_doubt(page: ListPage, number: int, counted: int, total: int) -> str:
    """Why page `number`, which is blank, should not be the end of the list."""
    if page.last_by_hint is False:
        return f"page {number} is blank, and the site says that more pages follow"
    # An empty list is said to have one page.
    if page.last_hint is not None and (page.last_hint > number or page.last_hint == number > 1):
        return f"page {number} is blank, and the site says that page {page.last_hint} is the last"
    if total > counted:
        return f"page {number} is blank after {counted} rows, and the site says that it has {total}"
    return ""
