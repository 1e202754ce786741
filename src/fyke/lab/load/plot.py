"""Curves as SVG, drawn by hand: no library, no script, the same bytes for the same figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from msgspec import Struct

WIDTH: Final = 420
HEIGHT: Final = 260
MARGIN: Final = (46, 14, 34, 52)  # top, right, bottom, left
COLOURS: Final = ("#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22")
TICKS: Final = 5

Points = Sequence[tuple[float, float]]


class Line(Struct, frozen=True):
    name: str
    points: list[tuple[float, float]]
    dashed: bool = False
    marks: bool = False


class Panel(Struct, frozen=True):
    """One chart; `bars`: (from, to, row) instead of lines."""

    title: str
    across: str
    up: str
    lines: list[Line] = []
    bars: list[tuple[float, float, int]] = []


def drawing(title: str, panels: Sequence[Panel]) -> str:
    """The panels beside each other."""
    width, height = WIDTH * len(panels), HEIGHT + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="18" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({number * WIDTH} 24)">', *_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def nice_top(value: float) -> float:
    """The least of 1, 2, 2.5, 5 times a power of ten that is not below `value`; 1 where that is not positive."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * (1 - 1e-9))


def _panel(panel: Panel) -> list[str]:
    points = [point for line in panel.lines for point in line.points]
    right = nice_top(max([x for x, _ in points] + [end for _, end, _ in panel.bars], default=1.0))
    top = nice_top(max([y for _, y in points] + [row + 1.0 for _, _, row in panel.bars], default=1.0))
    above, beside, below, left = MARGIN
    wide, high = WIDTH - left - beside, HEIGHT - above - below

    def place(x: float, y: float) -> tuple[float, float]:
        return round(left + wide * x / right, 1), round(above + high * (1 - y / top), 1)

    parts = [f'<text x="{left}" y="16" font-weight="bold">{escape(panel.title)}</text>']
    for tick in range(TICKS + 1):
        x, _ = place(right * tick / TICKS, 0)
        _, y = place(0, top * tick / TICKS)
        parts += [
            f'<line x1="{left}" y1="{y}" x2="{left + wide}" y2="{y}" stroke="#ddd"/>',
            f'<text x="{left - 5}" y="{y + 4}" text-anchor="end">{_number(top * tick / TICKS)}</text>',
            f'<text x="{x}" y="{above + high + 14}" text-anchor="middle">{_number(right * tick / TICKS)}</text>',
        ]
    parts += [
        f'<text x="{left + wide}" y="{HEIGHT - 4}" text-anchor="end">{escape(panel.across)}</text>',
        f'<text x="{left}" y="30">{escape(panel.up)}</text>',
    ]
    for start, end, row in panel.bars:
        (x, y), (x2, y2) = place(start, row + 0.9), place(end, row + 0.1)
        parts.append(
            f'<rect x="{x}" y="{y}" width="{max(0.5, round(x2 - x, 1))}" height="{max(0.4, round(y2 - y, 1))}" '
            f'fill="{COLOURS[0]}"/>'
        )
    for number, line in enumerate(panel.lines):
        parts += _line(line, COLOURS[number % len(COLOURS)], [place(*point) for point in line.points], number)
    return parts


def _line(line: Line, colour: str, places: Points, number: int) -> list[str]:
    path = " ".join(f"{x},{y}" for x, y in places)
    dash = ' stroke-dasharray="4 3"' if line.dashed else ""
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>']
    if line.marks:
        parts += [f'<circle cx="{x}" cy="{y}" r="2.6" fill="{colour}"/>' for x, y in places]
    x, y = WIDTH - MARGIN[1] - 90, MARGIN[0] + 8 + number * 13
    parts += [
        f'<line x1="{x}" y1="{y - 4}" x2="{x + 16}" y2="{y - 4}" stroke="{colour}" stroke-width="1.6"{dash}/>',
        f'<text x="{x + 20}" y="{y}">{escape(line.name)}</text>',
    ]
    return parts


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:g}"
