"""What verbs print and export: nothing from a site steers a terminal or runs in a spreadsheet; numbers stay numbers."""

import csv
import io
import json

import pytest

from fyke.cli.export import columns_of
from fyke.cli.export_files import CsvWriter, LineWriter, cell, line, safe
from fyke.cli.output import ago, plain, shortened, table, when
from fyke.model import Column, ColumnType, Fields, ResolvedSource, SourceRow

COLUMNS = (
    Column("title"),
    Column("budget", ColumnType.NUMBER),
    Column("pages", ColumnType.INTEGER),
    Column("open", ColumnType.BOOLEAN),
    Column("extra", ColumnType.JSON),
)
ROW = SourceRow(1, ResolvedSource("s", "", "", "", "x", "t", "", COLUMNS, has_detail=False), applied_at=0)
OWN: Fields = {
    "_item_id": 7,
    "_scope": "x",
    "_key": "-5",
    "_url": "https://example.org/",
    "_version": 1,
    "_first_at": 0,
    "_updated_at": 0,
}


def written(kind: type[CsvWriter | LineWriter], *rows: Fields) -> str:
    """What a writer makes of the rows, each in a chunk of its own."""
    stream = io.StringIO()
    writer = kind(stream, columns_of(ROW))
    for row in rows:
        writer.write([row | OWN])
    writer.end()
    return stream.getvalue()


def test_a_title_cannot_steer_the_terminal() -> None:
    assert plain("a\x1b[2Jb\u202ec\nd") == "a\\x1b[2Jb\\x202ec d"


def test_a_row_of_a_table_is_one_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    long = "采购公告" * 100
    table(("KEY", "TITLE", "N"), [("1", long, 5), ("2", "[bold]x[/bold]", 1234)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert long in lines[1]
    assert "[bold]x[/bold]" in lines[2]
    assert lines[2].endswith("1234")


def test_moments_have_their_offset() -> None:
    assert when(None) == ""
    assert when(0)[-5:].lstrip("+-").isdigit()


@pytest.mark.parametrize(("ms", "text"), [(0, "0s"), (61_000, "1m 1s"), (90_061_000, "1d 1h"), (-5, "0s")])
def test_how_long_ago_is_told_in_two_units(ms: int, text: str) -> None:
    assert ago(1_000_000_000 - ms, 1_000_000_000) == text


def test_what_is_cut_says_so() -> None:
    assert shortened("x" * 100, 10) == "x" * 9 + "…"
    assert shortened({"a": "公告"}) == '{"a": "公告"}'


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_text_that_a_spreadsheet_would_run_gets_a_quote(text: str) -> None:
    assert safe(text) == f"'{text}"
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-569800.00", "-1", "1e5", "0.1"])
def test_numbers_stay_numbers(text: str) -> None:
    assert cell(text, number=True) == text
    assert cell(-3) == -3


def test_what_only_looks_like_a_number_is_made_safe_in_a_number_column() -> None:
    assert cell("-1+cmd|' /C calc'!A0", number=True) == "'-1+cmd|' /C calc'!A0"


def test_csv_has_the_declared_columns_in_order_and_only_safe_cells() -> None:
    fields = {"title": '=HYPERLINK("http://x")', "budget": "-569800.00", "pages": -3, "open": True, "extra": [{"a": 1}]}
    head, first, second = csv.reader(io.StringIO(written(CsvWriter, fields, {"title": "a\nb"})))
    assert head == ["title", "budget", "pages", "open", "extra", *OWN]
    assert first[:5] == ['\'=HYPERLINK("http://x")', "-569800.00", "-3", "true", '[{"a": 1}]']
    assert first[head.index("_key")] == "'-5"
    assert second[:5] == ["a\nb", "", "", "", ""]


def test_csv_of_no_rows_has_its_head() -> None:
    assert written(CsvWriter).startswith("title,budget,")


def test_json_lines_keep_every_digit_of_a_number() -> None:
    fields = {"title": "=1", "budget": "12345678901234567890.10", "pages": 3, "open": None, "extra": {"a": "b"}}
    text = written(LineWriter, fields)
    assert '"budget": 12345678901234567890.10' in text
    assert json.loads(text)["title"] == "=1"


def test_a_number_column_that_holds_text_stays_json() -> None:
    assert json.loads(line({"n": "about 5"}, {"n"})) == {"n": "about 5"}
