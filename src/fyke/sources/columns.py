"""Rows of JSON that is no list of rows: columns side by side, and JSON inside a script."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any

from fyke.sources.document import read_json, read_number
from fyke.sources.faults import Misfit
from fyke.sources.nodes import LONGEST_SEARCHED


def rows_of_columns(value: Any, name: str) -> list[Any]:
    """Columns side by side as rows: a mapping of lists makes mappings, a list of lists makes lists.

    Raises:
        Misfit: there are none, or they are not of one length: then no value can be told to be in a row with another.
    """
    if isinstance(value, Mapping):
        named = {key: column for key, column in value.items() if isinstance(column, list)}
        columns = list(named.values())
    else:
        named = {}
        columns = value if isinstance(value, list) and all(isinstance(part, list) for part in value) else []
    if not columns:
        raise Misfit(f"'{name}' has no columns" if value is not None else f"the answer has no '{name}'")
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        said = ", ".join(f"{key} {len(column)}" for key, column in (named or dict(enumerate(columns))).items())
        raise Misfit(f"the columns of '{name}' differ in length: {said[:300]}")
    rows = zip(*columns, strict=True)
    return [dict(zip(named, row, strict=True)) for row in rows] if named else [list(row) for row in rows]


def json_inside(text: str, pattern: re.Pattern[str]) -> Any:
    """The JSON that begins where the pattern's group 1 does: where it ends is its own affair.

    A text that is JSON itself (`JSON.parse("[…]")`) and one with escaped quotes (`data-rows="[&quot;…"`) are read, too.

    Raises:
        Misfit: the pattern is not in the text, or no JSON begins there.
    """
    found = pattern.search(text[:LONGEST_SEARCHED])
    if found is None:
        raise Misfit(f"the pattern {pattern.pattern!r} is not on the page")
    group = 1 if pattern.groups else 0
    inside = found[group] or ""
    try:
        value = _first_json(text, found.start(group))
    except Misfit:
        if "&quot;" not in inside and "&#34;" not in inside:
            raise
        value = _first_json(html.unescape(inside), 0)
    return read_json(value) if isinstance(value, str) else value


def _first_json(text: str, at: int) -> Any:
    while at < len(text) and text[at].isspace():
        at += 1
    decoder = json.JSONDecoder(parse_float=read_number, parse_constant=lambda _: None, strict=False)
    try:
        return decoder.raw_decode(text, max(at, 0))[0]
    except RecursionError as error:
        raise Misfit("the JSON is nested too deep") from error
    except ValueError as error:
        raise Misfit(f"what the pattern finds is no JSON: {error}") from error
