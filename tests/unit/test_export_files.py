"""Files that rows are exported into: no formula, every digit, a sheet's limit, and no more memory for more rows."""

import builtins
import re
import tracemalloc
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fyke.cli.export_files import CELL_CHARS, CsvWriter, ParquetWriter, XlsxWriter
from fyke.errors import UsageError
from fyke.model import ColumnType, Fields

COLUMNS = [
    ("title", ColumnType.TEXT),
    ("budget", ColumnType.NUMBER),
    ("pages", ColumnType.INTEGER),
    ("open", ColumnType.BOOLEAN),
    ("extra", ColumnType.JSON),
    ("published", ColumnType.DATETIME),
    ("_updated_at", ColumnType.INTEGER),
]
ROW: Fields = {
    "title": "=cmd|' /C calc'!A0",
    "budget": "569800.10",
    "pages": 3,
    "open": True,
    "extra": {"a": [1]},
    "published": "2026-03-01T00:30:00+08:00",
    "_updated_at": 1_700_000_000_123,
}


def sheet(path: Path, number: int = 1) -> str:
    with zipfile.ZipFile(path) as book:
        return book.read(f"xl/worksheets/sheet{number}.xml").decode()


def in_xlsx(path: Path, rows: list[Fields], **options: Any) -> XlsxWriter:
    writer = XlsxWriter(path, COLUMNS, **options)
    writer.write(rows)
    writer.end()
    return writer


@pytest.mark.parametrize("sign", ["=", "+", "-", "@"])
def test_text_that_looks_like_a_formula_is_text_in_a_sheet(tmp_path: Path, sign: str) -> None:
    in_xlsx(tmp_path / "a.xlsx", [ROW | {"title": f"{sign}1+1"}])
    text = sheet(tmp_path / "a.xlsx")
    assert "<f>" not in text
    assert re.search(rf't="inlineStr"><is><t>{re.escape(sign)}1\+1</t>', text)
    with zipfile.ZipFile(tmp_path / "a.xlsx") as book:
        assert 'quotePrefix="1"' in book.read("xl/styles.xml").decode()


def test_a_number_stays_a_number_in_a_sheet_unless_digits_would_be_lost(tmp_path: Path) -> None:
    exact = "12345678901234567.89"
    in_xlsx(tmp_path / "a.xlsx", [ROW, ROW | {"budget": exact}])
    text = sheet(tmp_path / "a.xlsx")
    assert "<v>569800.1</v>" in text
    assert f"<t>{exact}</t>" in text


def test_more_rows_than_a_sheet_holds_go_on_the_next_one(tmp_path: Path) -> None:
    writer = in_xlsx(tmp_path / "a.xlsx", [ROW] * 7, sheet_rows=4)
    assert [sheet(tmp_path / "a.xlsx", number).count("<row ") for number in (1, 2, 3)] == [4, 4, 2]
    assert any("3 sheets" in note for note in writer.notes)


def test_a_cell_that_is_cut_is_told(tmp_path: Path) -> None:
    writer = in_xlsx(tmp_path / "a.xlsx", [ROW | {"title": "x" * (CELL_CHARS + 1)}])
    assert any("1 cell(s) are cut" in note for note in writer.notes)


def test_what_xml_cannot_hold_does_not_break_the_sheet(tmp_path: Path) -> None:
    in_xlsx(tmp_path / "a.xlsx", [ROW | {"title": "a\x01b\ud800c"}])
    assert "a\ufffdb\ufffdc" in sheet(tmp_path / "a.xlsx")


def test_parquet_keeps_types_digits_and_moments(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with (tmp_path / "a.parquet").open("wb") as file:
        writer = ParquetWriter(file, COLUMNS)
        writer.write([ROW, {"title": None}])
        writer.end()
    read = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert read[0]["title"] == ROW["title"]
    assert read[0]["budget"] == Decimal("569800.10")
    assert read[0]["published"].isoformat() == "2026-02-28T16:30:00+00:00"
    assert (read[0]["pages"], read[0]["open"], read[0]["extra"]) == (3, True, '{"a": [1]}')
    assert set(read[1].values()) == {None}


def test_a_number_that_parquet_cannot_hold_is_named_and_not_rounded(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with (tmp_path / "a.parquet").open("wb") as file:
        writer = ParquetWriter(file, COLUMNS)
        writer.write([ROW | {"budget": "0.1234567890123456789", "_key": "k7"}])
        with pytest.raises(UsageError, match=r"budget: .*'k7' does not fit"):
            writer.end()
        writer.abandon()


@pytest.mark.parametrize(("module", "extra"), [("pyarrow", "parquet"), ("xlsxwriter", "xlsx")])
def test_a_missing_extra_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str) -> None:
    def missing(name: str) -> Any:
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return builtins.__import__(name)

    monkeypatch.setattr("fyke.cli.export_files.import_module", missing)
    with (tmp_path / "file").open("wb") as file, pytest.raises(UsageError, match=rf"pip install 'fyke\[{extra}\]'"):
        XlsxWriter(tmp_path / "a.xlsx", COLUMNS) if extra == "xlsx" else ParquetWriter(file, COLUMNS)


def many(count: int) -> Iterator[list[Fields]]:
    for start in range(0, count, 1_000):
        yield [ROW | {"title": f"Notice {n} of the county"} for n in range(start, start + 1_000)]


@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet"])
def test_more_rows_take_no_more_memory(tmp_path: Path, kind: str) -> None:
    """The full million is in the bench; here the second thousands must not add to the first."""
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"a.{kind}"
    text, binary = (tmp_path / "t").open("w", encoding="utf-8"), (tmp_path / "b").open("wb")
    with text, binary:
        writer: Any = (
            XlsxWriter(path, COLUMNS)
            if kind == "xlsx"
            else ParquetWriter(binary, COLUMNS)
            if kind == "parquet"
            else CsvWriter(text, COLUMNS)
        )
        writer.GROUP = 1_000
        tracemalloc.start()
        try:
            peaks = []
            for _ in range(2):
                tracemalloc.reset_peak()
                for chunk in many(3_000):
                    writer.write(chunk)
                peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        writer.end()
    assert peaks[1] < peaks[0] * 1.3 + 200_000
