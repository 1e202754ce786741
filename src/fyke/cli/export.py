"""`fyke export`: the rows of a source, streamed; no cell can become a formula, and numbers stay numbers."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from fyke.app import open_ledger
from fyke.cli.desk import applied_source
from fyke.cli.output import say
from fyke.cli.verb import one_verb, verb
from fyke.errors import UsageError
from fyke.model import ColumnType, Fields, SourceRow
from fyke.settings import Loaded

# A spreadsheet reads a cell that begins with one of these as a formula.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
OWN: Final = ("_item_id", "_scope", "_key", "_url", "_version", "_first_at", "_updated_at")

app = one_verb()


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"


@verb(app, example="fyke export ccgp --format csv -o notices.csv")
async def export(
    loaded: Loaded,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The id of an applied source.")],
    form: Annotated[Format, typer.Option("--format", help="csv, or jsonl: one JSON object a line.")],
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="A file; else stdout.")] = None,
) -> None:
    """Write the rows of a source as CSV or JSON lines. Text that a spreadsheet would run gets a ' before it."""
    async with open_ledger(loaded.settings) as stores:
        row = await applied_source(stores.ledger, source)
        with _written(out) as stream:
            write = _as_csv if form is Format.CSV else _as_lines
            number = await write(stream, row, stores.ledger.rows(source))
    if out is not None:
        say(f"{number} row(s) in {out}")


async def _as_csv(stream: TextIO, source: SourceRow, chunks: AsyncIterator[list[Fields]]) -> int:
    numeric = _numeric(source)
    names = [column.name for column in source.source.columns] + list(OWN)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([safe(name) for name in names])
    number = 0
    async for chunk in chunks:
        writer.writerows([cell(fields.get(name), number=name in numeric) for name in names] for fields in chunk)
        number += len(chunk)
    return number


async def _as_lines(stream: TextIO, source: SourceRow, chunks: AsyncIterator[list[Fields]]) -> int:
    numeric = _numeric(source)
    number = 0
    async for chunk in chunks:
        for fields in chunk:
            stream.write(line(fields, numeric))
        number += len(chunk)
    return number


def _numeric(source: SourceRow) -> set[str]:
    return {each.name for each in source.source.columns if each.type in (ColumnType.NUMBER, ColumnType.INTEGER)}


def safe(text: str) -> str:
    """The text so that a spreadsheet shows it and does not run it."""
    return f"'{text}" if text.startswith(FORMULA) else text


def cell(value: Any, *, number: bool = False) -> Any:
    """A value as one CSV cell. `number`: the column holds numbers, which travel as text in canonical form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    text = str(value)
    return text if number and NUMBER.fullmatch(text) else safe(text)


def line(fields: Fields, numeric: Sequence[str] | set[str]) -> str:
    """A record as one line of JSON; decimals are written digit by digit, not through a float."""
    parts = []
    for name, value in fields.items():
        exact = name in numeric and isinstance(value, str) and NUMBER.fullmatch(value)
        text = value if exact else json.dumps(value, ensure_ascii=False)
        parts.append(f"{json.dumps(name, ensure_ascii=False)}: {text}")
    return "{" + ", ".join(parts) + "}\n"


@contextmanager
def _written(out: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears under its name only when it is whole."""
    if out is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as stream:
            yield stream
    except FileNotFoundError as error:
        raise UsageError(f"the folder of {out} does not exist", hint="make it first") from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.replace(out)
