"""What a walk measures on its pages, and why its end is not to be believed. Pure.

Keeps P5: a suspicious walk covers nothing, whatever it connected to.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

from msgspec import Struct

from fyke.model import ListPage

MOST_DOUBTS: Final = 3
LONGEST_DOUBT: Final = 200


class Signs(Struct):
    """Counts of one walk; part of its checkpoint."""

    entries: int = 0
    first_page_rows: int = 0
    blank_first: bool = False
    refused: int = 0  # in this round
    most_refused: int = 0  # in any round
    last_refused: int = 0  # on the last page
    thin_page: int = 0  # a page with too few rows that is not the last one
    thin_last: int = 0
    filled: dict[str, list[int]] = {}  # field -> [with a value, rows]
    doubted: int = 0  # values that were left out for a doubt
    doubts: list[str] = []  # the first of them


def count_refused(signs: Signs, refused: int) -> None:
    signs.refused, signs.last_refused = signs.refused + refused, refused
    signs.most_refused = max(signs.most_refused, signs.refused)


def forget_page(signs: Signs, number: int) -> None:
    """The last page is going to be read once more."""
    signs.refused, signs.last_refused = signs.refused - signs.last_refused, 0
    if signs.thin_last == number:
        signs.thin_last = 0


def measure(
    signs: Signs,
    page: ListPage,
    number: int,
    shown: Set[str],
    *,
    usual_rows: int,
    rows_min: int | None,
    coverage: Mapping[str, float],
) -> None:
    """Take page `number` of the walk itself; keys in `shown` were on an earlier page and are measured already."""
    signs.entries += len(page.entries)
    signs.doubted += len(page.flags)
    signs.doubts = (signs.doubts + [flag[:LONGEST_DOUBT] for flag in page.flags[:MOST_DOUBTS]])[:MOST_DOUBTS]
    if number == 1:
        signs.first_page_rows = len(page.entries)
    if rows_min is not None:
        if signs.thin_last and not signs.thin_page:
            signs.thin_page = signs.thin_last  # a page with rows follows it, so it was not the last one
        signs.thin_last = number if len(page.entries) + len(page.refused) < rows_min else 0
        not_last = page.last_by_hint is False or (number == 1 and usual_rows >= rows_min)
        if signs.thin_last and not_last and not signs.thin_page:
            signs.thin_page = number
    for name in coverage:
        counts = signs.filled.setdefault(name, [0, 0])
        for entry in page.entries:
            if entry.key not in shown:
                counts[0] += entry.fields.get(name) not in (None, "", [], {})
                counts[1] += 1


def doubts_of(signs: Signs) -> str:
    """The values of rows that two readings made doubtful and that were left out, for people; "" where there is none."""
    more = ", …" if signs.doubted > len(signs.doubts) else ""
    return f"{signs.doubted} doubtful value(s) left out: {'; '.join(signs.doubts)}{more}" if signs.doubted else ""


def suspicion(signs: Signs, *, usual_rows: int, rows_min: int | None, coverage: Mapping[str, float]) -> str:
    """Why the walk is suspicious, for people; "" where nothing speaks against it."""
    if signs.most_refused:
        return f"{signs.most_refused} row(s) were refused"
    if signs.blank_first:
        return f"page one came back blank; usual are {usual_rows} rows"
    if signs.thin_page:
        return f"page {signs.thin_page} has fewer than {rows_min} rows"
    for name, least in coverage.items():
        filled, rows = signs.filled.get(name, [0, 0])
        if rows and filled / rows < least:
            return f"{filled} of {rows} rows have '{name}' ({filled / rows:.0%}), at least {least:.0%} were to have it"
    return ""
