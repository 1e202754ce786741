"""The arithmetic of a comparison, and its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct


class Outcome(Struct, frozen=True):
    """One mode, once without kills or once with."""

    mode: str
    title: str
    kills: int
    items: int  # that the site showed
    rows: int
    doubled: int  # rows more than keys
    lost: int  # shown, and no row
    fetches: int  # of detail pages
    extra_fetches: int
    seconds: float  # from the first request to the last one
    finished: bool = True
    missing: str = ""  # why it could not be run here

    @property
    def per_second(self) -> float:
        """Items stored a second."""
        return (self.items - self.lost) / self.seconds if self.seconds else 0.0


def judge(
    mode: str,
    title: str,
    *,
    truth: Collection[str],
    rows: Sequence[str],
    hits: Mapping[str, int],
    seconds: float,
    kills: int,
    finished: bool,
) -> Outcome:
    """Rows against what the site showed, requests against what was needed."""
    found = Counter(rows)
    return Outcome(
        mode=mode,
        title=title,
        kills=kills,
        items=len(truth),
        rows=len(rows),
        doubled=len(rows) - len(found),
        lost=len(set(truth) - found.keys()),
        fetches=sum(hits.values()),
        extra_fetches=sum(count - 1 for count in hits.values() if count > 1),
        seconds=round(seconds, 2),
        finished=finished,
    )


def share(part: int, whole: int) -> str:
    """A rate in per cent; an exact zero reads 0."""
    if not part or not whole:
        return "0"
    rate = 100 * part / whole
    return f"{rate:.2f} %" if rate < 1 else f"{rate:.1f} %" if rate < 100 else f"{rate:,.0f} %"


HEAD = ("MODE", "KILLS", "ROWS DOUBLED", "LOST", "FETCHED AGAIN", "PAGES/S")


def cells(one: Outcome) -> tuple[str, ...]:
    if one.missing:
        return (one.title, "", "", "", "", f"not run: {one.missing}")
    speed = f"{one.per_second:.0f}" + ("" if one.finished else " (not finished)")
    return (
        one.title,
        str(one.kills),
        share(one.doubled, one.items),
        share(one.lost, one.items),
        share(one.extra_fetches, one.items),
        speed,
    )


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The table as the docs keep it."""
    head = ("mode", "kills", "rows doubled", "lost", "fetched again", "pages/s")
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cells(one))} |" for one in outcomes]
    return "\n".join(lines) + "\n"
