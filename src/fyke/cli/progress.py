"""Live progress of a process that collects: one table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fyke.cli.output import ago, plain
from fyke.model import SourceCounts

RATE_OVER_S: Final = 10.0
LINES_EVERY_S: Final = 5.0
HEAD: Final = ("SOURCE", "ENTRIES", "NEW", "STORED", "WAITING", "DEAD", "RATE", "OLDEST WAITING")


class Board:
    """Shows counts as they change. `show` may be called as often as wanted."""

    def __init__(self, *, live: Live | None) -> None:
        self._live = live
        self._stored: deque[tuple[float, dict[str, int]]] = deque(maxlen=200)
        self._told: dict[str, tuple[int, ...]] = {}
        self._told_at = float("-inf")

    def log(self, line: str) -> None:
        """A line above the table."""
        if self._live is None:
            typer.echo(line, err=True)
        else:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, counts: Sequence[SourceCounts]) -> None:
        moment = time.monotonic()
        self._stored.append((moment, {row.source_id: row.stored for row in counts}))
        while len(self._stored) > 2 and moment - self._stored[0][0] > RATE_OVER_S:
            self._stored.popleft()
        if self._live is not None:
            self._live.update(self._table(counts), refresh=False)
        elif moment - self._told_at >= LINES_EVERY_S:
            self._told_at = moment
            self._lines(counts)

    def rate(self, source_id: str) -> float:
        """Items stored a second, over the last ten."""
        (first, before), (last, now) = self._stored[0], self._stored[-1]
        if last - first < 0.5:
            return 0.0
        return max(0, now.get(source_id, 0) - before.get(source_id, 0)) / (last - first)

    def _row(self, row: SourceCounts) -> tuple[Any, ...]:
        new = row.last_run.new if row.last_run else 0
        oldest = ago(row.oldest_open_at, int(time.time() * 1000))
        return (
            row.source_id,
            row.entries,
            new,
            row.stored,
            row.open,
            row.dead,
            f"{self.rate(row.source_id):.1f}/s",
            oldest,
        )

    def _table(self, counts: Sequence[SourceCounts]) -> Table:
        drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for number, name in enumerate(HEAD):
            drawn.add_column(name, justify="left" if number == 0 else "right")
        for row in counts:
            drawn.add_row(*(Text(plain(cell)) for cell in self._row(row)))
        return drawn

    def _lines(self, counts: Sequence[SourceCounts]) -> None:
        """Only what changed: an idle night leaves no lines."""
        for row in counts:
            state = (row.entries, row.stored, row.open, row.dead)
            if self._told.get(row.source_id) != state:
                self._told[row.source_id] = state
                cells = [
                    f"{name.lower()} {cell}"
                    for name, cell in zip(HEAD[1:], self._row(row)[1:], strict=True)
                    if cell != ""
                ]
                typer.echo(f"{row.source_id}: {', '.join(cells)}", err=True)


class Portion:
    """How far a long walk over everything is, on stderr: `rows counted: 340,000 of 1,000,000 (34 %)`.

    A line each five seconds; what is done before the first one leaves none. Any thread may call it.
    """

    def __init__(self, what: str) -> None:
        self._what, self._told_at = what, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        moment = time.monotonic()
        if moment - self._told_at >= LINES_EVERY_S:
            self._told_at = moment
            share = f" ({100 * done // total} %)" if total else ""
            typer.echo(f"{self._what}: {done:,} of {total:,}{share}", err=True)


@contextmanager
def board() -> Iterator[Board]:
    """A board on stderr, so that stdout holds results only."""
    if not sys.stderr.isatty():
        yield Board(live=None)
        return
    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        yield Board(live=live)
