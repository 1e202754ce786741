"""Steps that make many values of one, or one of many: split, join, map, table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fyke.sources.labels import plain
from fyke.sources.markup import squeeze
from fyke.sources.nodes import LONGEST_SEARCHED, Context, Run, html_of, plain_json, text_of
from fyke.sources.shapes import Either, Flag, Key, ListOf, MapOf, Scalar, Section, Shape, Text
from fyke.sources.tables import Wanted, grid_of_html, rows_by_heading

OTHERS: Final = "*"

SPLIT: Final = Either(
    (
        (str, Text()),
        (Mapping, Section("split", {"regex": Key(Text(), "What stands between the parts.", required=True)})),
    ),
    "a separator, or {regex: …}",
)
_HEADINGS: Final = ListOf(Text(), single=True, least=1)


def map_shape(steps: Shape) -> Shape:
    return Either(((Mapping, MapOf(Scalar(), least=1)), ((str, list), steps)), "a table of values, or steps")


def table_shape(steps: Shape) -> Section:
    column = Section(
        "column",
        {
            "heading": Key(_HEADINGS, "The heading, or those that it may have.", required=True),
            "then": Key(steps, "Steps on each cell."),
        },
    )
    either = Either(((Mapping, column), ((str, list), _HEADINGS)), "a heading, or {heading: …, then: …}")
    name = r"[a-z][a-z0-9_]{0,62}"
    return Section(
        "table",
        {
            "columns": Key(
                MapOf(either, name, "small letters, digits and _, a letter first", least=1),
                "The columns that are kept, each by its heading; without it all, named by their headings.",
            ),
            "headings": Key(Flag(), "false: the table has none, and a row is a list of texts."),
        },
    )


def split(pattern: re.Pattern[str]) -> Run:
    def run(value: Any, _: Context) -> list[str]:
        parts = pattern.split((text_of(value) or "")[:LONGEST_SEARCHED])
        return [part for part in (squeeze(part or "") for part in parts) if part]

    return run


def join(between: str | None) -> Run:
    mark = ", " if between is None else between

    def run(value: Any, _: Context) -> str | None:
        if not isinstance(value, list):
            return text_of(value)
        texts = [text for part in value if (text := text_of(part))]
        return mark.join(texts) if texts else None

    return run


def for_each(chain: Run) -> Run:
    def run(value: Any, context: Context) -> list[Any] | None:
        found = [chain(part, context) for part in (value if isinstance(value, list) else [value])]
        return [part for part in found if part is not None] or None

    return run


def by_table(table: Mapping[str, Any]) -> Run:
    """A value that is not in the table is none, unless the table has a word for all others."""
    meanings = {squeeze(str(name)): str(meant) for name, meant in table.items()}
    others = meanings.get(OTHERS)

    def meaning(value: Any) -> str | None:
        return meanings.get(squeeze(text_of(value) or ""), others)

    def run(value: Any, _: Context) -> Any:
        if not isinstance(value, list):
            return meaning(value)
        return [found for part in value if (found := meaning(part)) is not None] or None

    return run


def table_rows(headings: Mapping[str, str | list[str]], chains: Mapping[str, Run], *, headed: bool) -> Run:
    def wanted(name: str, context: Context) -> Wanted:
        said, chain = headings[name], chains.get(name)
        names = tuple(plain(heading) for heading in (said if isinstance(said, list) else [said]))
        return Wanted(name, names, None if chain is None else lambda text: plain_json(chain(text, context)))

    def run(value: Any, context: Context) -> Any:
        grid = grid_of_html(html_of(value) or "")
        if not headed:
            return [line for line in grid if any(line)] or None
        return rows_by_heading(grid, [wanted(name, context) for name in headings]) or None

    return run
