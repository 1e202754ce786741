"""Tables → rows: merged cells count for each place that they cover, a table inside a cell is text of that cell.

Bounded: a cell that says that it covers a million places covers a few hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from selectolax.lexbor import LexborHTMLParser, LexborNode

from fyke.sources.labels import in_unit, measured, plain
from fyke.sources.markup import text_of_node

MOST_ROWS: Final = 10_000
MOST_COLUMNS: Final = 300
MOST_SPANNED: Final = 1_000
MOST_CELLS: Final = 200_000

Grid: TypeAlias = list[list[str]]
Place: TypeAlias = tuple[int, str]  # a column and the unit that its heading says


@dataclass(frozen=True)
class Wanted:
    """A column that the source asks for: its name, the headings that it may have, and what is done with a cell."""

    name: str
    headings: tuple[str, ...]
    steps: Callable[[str], Any] | None = None


def table_in(node: LexborNode) -> LexborNode | None:
    """The node where it is a table, else the first one in it."""
    return node if node.tag == "table" else node.css_first("table")


def grid_of_html(html: str) -> Grid:
    table = LexborHTMLParser(html).css_first("table")
    return grid_of(table) if table is not None else []


def grid_of(table: LexborNode) -> Grid:
    """The texts of a table, each row as long as the longest."""
    grid: Grid = []
    below: dict[int, tuple[str, int]] = {}  # column -> text of a cell from above, and for how many rows more
    cells = 0
    for row in _rows(table):
        line: list[str] = []
        for cell in _cells(row):
            _from_above(line, below)
            text = text_of_node(cell)
            width, height = _span(cell, "colspan", MOST_COLUMNS), _span(cell, "rowspan", MOST_SPANNED)
            for _ in range(min(width, MOST_COLUMNS - len(line))):
                if height > 1:
                    below[len(line)] = (text, height - 1)
                line.append(text)
        _from_above(line, below)
        cells += len(line)
        if len(grid) >= MOST_ROWS or cells > MOST_CELLS:
            break
        grid.append(line)
    longest = max(map(len, grid), default=0)
    return [line + [""] * (longest - len(line)) for line in grid]


def _from_above(line: list[str], below: dict[int, tuple[str, int]]) -> None:
    while (above := below.pop(len(line), None)) is not None:
        text, left = above
        if left > 1:
            below[len(line)] = (text, left - 1)
        line.append(text)


def _rows(table: LexborNode) -> Iterator[LexborNode]:
    """The rows of this table, not of one in a cell."""
    for part in table.iter():
        if part.tag == "tr":
            yield part
        elif part.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in part.iter() if row.tag == "tr")


def _cells(row: LexborNode) -> Iterator[LexborNode]:
    return (cell for cell in row.iter() if cell.tag in ("td", "th"))


def _span(cell: LexborNode, name: str, most: int) -> int:
    said = (cell.attributes.get(name) or "1").strip()
    return max(1, min(int(said), most)) if said.isascii() and said.isdigit() and len(said) < 10 else 1


def rows_by_heading(grid: Grid, wanted: Sequence[Wanted] = ()) -> list[dict[str, Any]] | None:
    """Each row below the headings as a mapping; None where no row has all that is asked for.

    The headings are the first row with two different texts; where columns are asked for, the first row that has a
    heading of each that can be found on the table at all.
    """
    if wanted:
        return _chosen(grid, wanted)
    at = next((at for at, line in enumerate(grid) if len({text for text in line if text}) > 1), None)
    if at is None:
        return None
    names = _distinct(grid[at])
    return [dict(zip(names, line, strict=True)) for line in grid[at + 1 :] if any(line)]


def _chosen(grid: Grid, wanted: Sequence[Wanted]) -> list[dict[str, Any]] | None:
    best: tuple[int, dict[str, Place]] = (0, {})
    for at, line in enumerate(grid):
        places = _places(line, wanted)
        if len(places) > len(best[1]):
            best = (at, places)
        if len(places) == len(wanted):
            break
    at, places = best
    if not places:
        return None
    found = []
    for line in grid[at + 1 :]:
        if _places(line, wanted) == places:  # the headings once more, on the next printed page
            continue
        row = {one.name: _value(line, places.get(one.name), one) for one in wanted}
        if any(value is not None for value in row.values()):
            found.append(row)
    return found


def _places(line: Sequence[str], wanted: Sequence[Wanted]) -> dict[str, Place]:
    """Where the headings stand, also those that say a unit besides: 单价（万元）."""
    headings: dict[str, Place] = {}
    for at, text in enumerate(line):
        label, unit = measured(plain(text))
        headings.setdefault(plain(text), (at, unit))
        headings.setdefault(label, (at, unit))
    found = {}
    for one in wanted:
        place = next((headings[name] for name in one.headings if name in headings), None)
        if place is not None:
            found[one.name] = place
    return found


def _value(line: Sequence[str], place: Place | None, one: Wanted) -> Any:
    text = in_unit(line[place[0]], place[1]) if place else ""
    if not text:
        return None
    return one.steps(text) if one.steps is not None else text


def _distinct(texts: Sequence[str]) -> list[str]:
    """Headings as names: without blanks, none twice, none empty."""
    names: list[str] = []
    for at, text in enumerate(texts, 1):
        name = plain(text) or f"column{at}"
        names.append(name if name not in names else f"{name}{at}")
    return names
