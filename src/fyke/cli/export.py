"""`fyke export`: the rows of a source, streamed; no cell can become a formula, and numbers stay numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fyke.app import open_ledger
from fyke.cli.desk import applied_source
from fyke.cli.export_files import CsvWriter, LineWriter, ParquetWriter, Writer, XlsxWriter
from fyke.cli.moments import moment_ms
from fyke.cli.output import say
from fyke.cli.verb import one_verb, verb
from fyke.errors import UsageError, nearest
from fyke.model import ColumnType, SourceRow
from fyke.settings import Loaded

OWN: Final = ("_item_id", "_scope", "_key", "_url", "_version", "_first_at", "_updated_at")
OWN_TEXT: Final = frozenset(("_scope", "_key", "_url"))
MOMENT_COLUMNS: Final = frozenset(("_first_at", "_updated_at"))

app = one_verb()


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    XLSX = "xlsx"


@verb(app, example="fyke export ccgp --format csv -o notices.csv --since 7d --columns title,buyer,budget")
async def export(
    loaded: Loaded,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The id of an applied source.")],
    form: Annotated[
        Format | None, typer.Option("--format", help="csv, jsonl (one JSON object a line), parquet or xlsx.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="A file, whose name may say the format.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Rows stored or changed since: 7d, 2026-01-31, 2026-01-31T08:00."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="NAMES", help="Which columns, in this order: title,buyer,_url.")
    ] = None,
) -> None:
    """Write the rows of a source as CSV, JSON lines, Parquet or XLSX. Text that a spreadsheet would run stays text.

    In CSV such text gets a ' before it. Parquet and XLSX need -o and an extra: pip install 'fyke[parquet]',
    'fyke[xlsx]'. A file appears under its name only when it is whole.
    """
    chosen = _format(form, out)
    async with open_ledger(loaded.settings) as stores:
        row = await applied_source(stores.ledger, source)
        names = chosen_columns(row, columns)
        where: list[tuple[str, str, Any]] = []
        if since is not None:
            where.append(("_updated_at", ">=", moment_ms(since, await stores.ledger.now(), "--since")))
        number = 0
        with _writer(chosen, out, names) as writer:
            async for chunk in stores.ledger.rows(source, where=where):
                writer.write(chunk)
                number += len(chunk)
    if out is not None:
        say(f"{number} row(s) in {out}")
    for note in writer.notes:
        say(note)


def _format(form: Format | None, out: Path | None) -> Format:
    known = {f".{each.value}": each for each in Format} | {".ndjson": Format.JSONL}
    chosen = form or (known.get(out.suffix.lower()) if out is not None else None)
    if chosen is None:
        raise UsageError("the format is not said", field="--format", hint="one of csv, jsonl, parquet, xlsx")
    if out is None and chosen in (Format.PARQUET, Format.XLSX):
        raise UsageError(
            f"{chosen.value} is no text: it needs a file", field="--output", hint=f"-o rows.{chosen.value}"
        )
    return chosen


def columns_of(row: SourceRow) -> list[tuple[str, ColumnType]]:
    """The columns of a source's rows, ours last."""
    own = [(name, ColumnType.TEXT if name in OWN_TEXT else ColumnType.INTEGER) for name in OWN]
    return [*((column.name, column.type) for column in row.source.columns), *own]


def chosen_columns(row: SourceRow, names: str | None) -> list[tuple[str, ColumnType]]:
    """The columns that a person named, in that order; all where none is named.

    Raises:
        UsageError: there is no such column; names the nearest.
    """
    kinds = dict(columns_of(row))
    if names is None:
        return list(kinds.items())
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in wanted or [names]:
        if name not in kinds:
            hint = nearest(name, kinds) or f"there are {', '.join(kinds)}"
            raise UsageError(f"source {row.source.id!r} has no column {name!r}", field="--columns", hint=hint)
    return [(name, kinds[name]) for name in wanted]


@contextmanager
def _writer(form: Format, out: Path | None, columns: Sequence[tuple[str, ColumnType]]) -> Iterator[Writer]:
    """Standard output, or a file that appears under its name only when it is whole."""
    text: dict[Format, type[CsvWriter | LineWriter]] = {Format.CSV: CsvWriter, Format.JSONL: LineWriter}
    if out is None:
        writer: Writer = text[form](sys.stdout, columns)
        yield writer
        writer.end()
        sys.stdout.flush()
        return
    if not out.parent.is_dir():
        raise UsageError(f"the folder of {out} does not exist", hint="make it first")
    part = out.with_name(f"{out.name}.part")
    with ExitStack() as stack:
        if form is Format.XLSX:
            writer = XlsxWriter(part, columns)
        elif form is Format.PARQUET:
            writer = ParquetWriter(stack.enter_context(part.open("wb")), columns)
        else:
            writer = text[form](stack.enter_context(part.open("w", encoding="utf-8", newline="")), columns)
        try:
            yield writer
            writer.end()
        except BaseException:
            writer.abandon()
            part.unlink(missing_ok=True)
            raise
    part.replace(out)
