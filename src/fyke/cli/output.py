"""What verbs print: tables and lines for people, JSON for programs. Text of sites cannot steer a terminal."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import typer

# C0 and C1 controls and the marks that turn the direction of writing.
CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def print_json(value: Any) -> None:
    """One JSON document; structs become objects."""
    plain_value = msgspec.to_builtins(value, str_keys=True)
    typer.echo(json.dumps(plain_value, ensure_ascii=False, indent=2))


def say(text: str = "") -> None:
    """A line for people."""
    typer.echo(text)


def plain(value: Any) -> str:
    """A value as text of one line."""
    if value is None:
        return ""
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return CONTROLS.sub(lambda match: " " if match[0] in "\t\n\r" else f"\\x{ord(match[0]):02x}", str(value))


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns under a head; numbers stand right. On a terminal long cells are folded, elsewhere a row is one line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(head):
        right = bool(cells) and all(isinstance(row[number], int | float) or row[number] is None for row in cells)
        drawn.add_column(Text(name), justify="right" if right else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*(Text(plain(cell)) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    with console.capture() as captured:
        console.print(drawn)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


def when(ms: int | None) -> str:
    """A moment in the local zone, with its offset: `2025-06-27 17:52:00+0800`."""
    if ms is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S%z", time.localtime(ms / 1000))


def ago(ms: int | None, now: int) -> str:
    """How long ago a moment was, in its two largest units."""
    if ms is None:
        return ""
    left = max(0, (now - ms) // 1000)
    parts: list[str] = []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        if left >= seconds or (unit == "s" and not parts):
            parts.append(f"{left // seconds}{unit}")
            left %= seconds
    return " ".join(parts[:2])


def shortened(text: Any, length: int = 60) -> str:
    """A value as text of one line, cut where it is longer."""
    whole = plain(text)
    return whole if len(whole) <= length else f"{whole[: length - 1]}…"
