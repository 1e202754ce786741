"""Files that a table is exported into: CSV, JSON lines, Parquet, XLSX. Each takes rows in chunks, in flat memory.

No cell can become a formula: CSV puts a ' before such text, XLSX writes it as text. Numbers keep their digits.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TextIO

from fyke.errors import UsageError
from fyke.model import ColumnType, Fields

# A spreadsheet reads a cell that begins with one of these as a formula.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
# A spreadsheet's limits: rows of a sheet with its head, characters of a cell, digits of a number.
SHEET_ROWS: Final = 1_048_576
CELL_CHARS: Final = 32_767
NUMBER_DIGITS: Final = 15
# Digits of a decimal in Parquet, and how many of them stand behind the point.
DECIMAL_DIGITS: Final = 38
DECIMAL_SCALE: Final = 18
# Of our own columns these are moments in ms.
MOMENTS: Final = frozenset(("_first_at", "_updated_at"))
_BAD_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

Columns = Sequence[tuple[str, ColumnType]]


class Writer(Protocol):
    """Rows into one file. `notes` after `end`: what a person should know of it."""

    notes: list[str]

    def write(self, rows: Sequence[Fields]) -> None: ...

    def end(self) -> None: ...

    def abandon(self) -> None:
        """Let go of what is held, where the file will not be whole."""
        ...


def optional(module: str, extra: str, what: str) -> Any:
    """A module that comes with an extra.

    Raises:
        UsageError: it is not installed; names the extra.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise UsageError(
            f"the package {package} is not installed, which {what} needs", hint=f"pip install 'fyke[{extra}]'"
        ) from error


def numeric(columns: Columns) -> set[str]:
    return {name for name, kind in columns if kind in (ColumnType.NUMBER, ColumnType.INTEGER)}


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


def line(fields: Fields, numbers: Sequence[str] | set[str]) -> str:
    """A record as one line of JSON; decimals are written digit by digit, not through a float."""
    parts = []
    for name, value in fields.items():
        exact = name in numbers and isinstance(value, str) and NUMBER.fullmatch(value)
        text = value if exact else json.dumps(value, ensure_ascii=False)
        parts.append(f"{json.dumps(name, ensure_ascii=False)}: {text}")
    return "{" + ", ".join(parts) + "}\n"


class CsvWriter:
    def __init__(self, stream: TextIO, columns: Columns) -> None:
        self.notes: list[str] = []
        self._names, self._numeric = [name for name, _ in columns], numeric(columns)
        self._writer = csv.writer(stream, lineterminator="\n")
        self._writer.writerow([safe(name) for name in self._names])

    def write(self, rows: Sequence[Fields]) -> None:
        numbers = self._numeric
        self._writer.writerows(
            [cell(fields.get(name), number=name in numbers) for name in self._names] for fields in rows
        )

    def end(self) -> None:
        """Nothing is held back."""

    def abandon(self) -> None:
        """Nothing is held."""


class LineWriter:
    def __init__(self, stream: TextIO, columns: Columns) -> None:
        self.notes: list[str] = []
        self._stream, self._names, self._numeric = stream, [name for name, _ in columns], numeric(columns)

    def write(self, rows: Sequence[Fields]) -> None:
        for fields in rows:
            self._stream.write(line({name: fields.get(name) for name in self._names}, self._numeric))

    def end(self) -> None:
        """Nothing is held back."""

    def abandon(self) -> None:
        """Nothing is held."""


class ParquetWriter:
    """A row group for each 10,000 rows. Numbers are decimals with 18 digits behind the point, moments are in UTC."""

    GROUP: Final = 10_000

    def __init__(self, stream: BinaryIO, columns: Columns) -> None:
        self.notes: list[str] = []
        self._arrow = optional("pyarrow", "parquet", "a Parquet file")
        parquet = optional("pyarrow.parquet", "parquet", "a Parquet file")
        self._columns = [(name, kind, self._maker(name, kind)) for name, kind in columns]
        self._schema = self._arrow.schema([(name, self._type(name, kind)) for name, kind in columns])
        self._writer = parquet.ParquetWriter(stream, self._schema, compression="zstd")
        self._rows: list[Fields] = []

    def _type(self, name: str, kind: ColumnType) -> Any:
        arrow = self._arrow
        if name in MOMENTS or kind is ColumnType.DATETIME:
            return arrow.timestamp("us", tz="UTC")
        if kind is ColumnType.NUMBER:
            return arrow.decimal128(DECIMAL_DIGITS, DECIMAL_SCALE)
        return {ColumnType.INTEGER: arrow.int64(), ColumnType.BOOLEAN: arrow.bool_()}.get(kind, arrow.string())

    def _maker(self, name: str, kind: ColumnType) -> Callable[[Any], Any]:
        if name in MOMENTS:
            return lambda value: datetime.fromtimestamp(value / 1000, UTC)
        makers: Mapping[ColumnType, Callable[[Any], Any]] = {
            ColumnType.DATETIME: _moment,
            ColumnType.NUMBER: _decimal,
            ColumnType.JSON: lambda value: json.dumps(value, ensure_ascii=False),
            ColumnType.TEXT: str,
        }
        return makers.get(kind, lambda value: value)

    def write(self, rows: Sequence[Fields]) -> None:
        self._rows += rows
        if len(self._rows) >= self.GROUP:
            self._flush()

    def _flush(self) -> None:
        arrays = [
            self._arrow.array([self._value(fields, name, make) for fields in self._rows], type=field.type)
            for (name, _, make), field in zip(self._columns, self._schema, strict=True)
        ]
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))
        self._rows = []

    def _value(self, fields: Fields, name: str, make: Callable[[Any], Any]) -> Any:
        value = fields.get(name)
        if value is None:
            return None
        try:
            return make(value)
        except (ValueError, OverflowError) as error:
            raise UsageError(
                f"{value!r} of item {fields.get('_key', fields.get('_item_id'))!r} does not fit a Parquet column",
                field=name,
                hint="choose other --columns, or csv or jsonl, which keep every digit",
            ) from error

    def end(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()

    def abandon(self) -> None:
        self._writer.close()


def _moment(value: Any) -> datetime:
    return datetime.fromisoformat(str(value)).astimezone(UTC)


def _decimal(value: Any) -> Decimal:
    found = Decimal(str(value))
    digits, exponent = len(found.as_tuple().digits), found.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > DECIMAL_SCALE or digits + exponent > DECIMAL_DIGITS - DECIMAL_SCALE:
        raise ValueError("too many digits")
    return found


class XlsxWriter:
    """Sheets of at most 1,048,576 rows; the next one begins where one is full. Each row goes to disk as it comes."""

    def __init__(self, path: Path, columns: Columns, *, sheet_rows: int = SHEET_ROWS) -> None:
        self.notes: list[str] = []
        library = optional("xlsxwriter", "xlsx", "an XLSX file")
        self._book = library.Workbook(
            str(path), {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        )
        self._columns, self._limit = columns, sheet_rows
        self._bold = self._book.add_format({"bold": True})
        # Shown as text, and still text after a person has edited the cell.
        self._quoted = self._book.add_format({"quote_prefix": True})
        self._sheets, self._row, self._cut = 0, 0, 0
        self._sheet: Any = None
        self._begin()

    def _begin(self) -> None:
        self._sheets += 1
        self._sheet = self._book.add_worksheet(f"Rows {self._sheets}")
        self._sheet.freeze_panes(1, 0)
        for at, (name, _) in enumerate(self._columns):
            self._sheet.write_string(0, at, name, self._bold)
        self._row = 1

    def write(self, rows: Sequence[Fields]) -> None:
        for fields in rows:
            if self._row == self._limit:
                self._begin()
            for at, (name, kind) in enumerate(self._columns):
                value = fields.get(name)
                if value is not None:
                    self._cell(at, kind, value)
            self._row += 1

    def _cell(self, at: int, kind: ColumnType, value: Any) -> None:
        if isinstance(value, bool):
            self._sheet.write_boolean(self._row, at, value)
            return
        number = kind in (ColumnType.NUMBER, ColumnType.INTEGER) and NUMBER.fullmatch(str(value))
        if number and sum(char.isdigit() for char in str(value)) <= NUMBER_DIGITS:
            self._sheet.write_number(self._row, at, float(value) if "." in str(value) else int(Decimal(str(value))))
            return
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
        text = _BAD_IN_XML.sub("\ufffd", text)
        if len(text) > CELL_CHARS:
            self._cut += 1
            text = text[: CELL_CHARS - 1] + "…"
        self._sheet.write_string(self._row, at, text, self._quoted if text.startswith(FORMULA) else None)

    def end(self) -> None:
        self._book.close()
        if self._sheets > 1:
            self.notes.append(f"more rows than a sheet can hold: they are on {self._sheets} sheets")
        if self._cut:
            self.notes.append(
                f"{self._cut} cell(s) are cut: a cell holds {CELL_CHARS:,} characters; csv and jsonl hold all"
            )

    def abandon(self) -> None:
        # A book that is closed is put together first, which takes as long as all that was written.
        self._book.fileclosed = True
