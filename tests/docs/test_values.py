"""Each line of the tables of dates and sums is read with its step and gives what the page says."""

import pytest

from tests.docs.pages import ROOT, table_rows
from tests.unit.sources.making import field_of

PAGE = ROOT / "docs" / "how-to" / "dates-and-money.md"
LINES = [row for row in table_rows(PAGE) if row[0].startswith("`")]


def value(text: str, step: str) -> object:
    page = f"<html><head></head><body><p>{text}</p></body></html>"
    return field_of(f"{{css: p, then: [{step}], optional: true}}", page)


@pytest.mark.parametrize(("written", "step", "told"), LINES)
def test_a_value_is_read_as_the_page_says(written: str, step: str, told: str) -> None:
    found = value(written.strip("`"), step.strip("`"))
    assert ("no value" if found is None else f"`{found}`") == told


def test_both_tables_are_there() -> None:
    steps = {row[1].strip("`{").partition(":")[0] for row in LINES}
    assert (steps, len(LINES)) == ({"datetime", "money", "number"}, 28)
