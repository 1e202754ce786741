"""On how many rows each selector of a source hits: what `fyke try` shows beside the values. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from fyke.model import Fields, Listing, Response
from fyke.sources.document import Document
from fyke.sources.faults import Misfit, StepFailed
from fyke.sources.nodes import Context, is_empty
from fyke.sources.plan import FieldReading
from fyke.sources.selectors import FirstOf, Reading
from fyke.sources.source import FileSource


class Hit(Struct):
    """One selector of a field: on how many of `rows` it found something, and on how many a value came of it.

    Found and no value: a step could not read it, such as a time in another format. `branch` counts those of first_of.
    """

    field: str
    selector: str
    rows: int
    found: int
    values: int
    branch: int | None = None


class Hits(Struct):
    """Of a page: `container` is whether `rows.in` is there; None where the source names none."""

    rows: int = 0
    fields: list[Hit] = field(default_factory=list)


def list_hits(source: Any, listing: Listing, response: Response) -> Hits:
    """The hits of a list page's fields. Of a source whose rows Python reads, nothing is told."""
    if not isinstance(source, FileSource):
        return Hits()
    document = Document.of(response)
    context = source.plan.context(document, listing.values, {})
    try:
        rows = source.find_rows(listing, response, context)
    except (Misfit, StepFailed):
        return Hits()
    specs = _specs(source).get("listing", {}).get("fields", {})
    counts = _Counts(source.plan.fields, specs)
    for row in rows:
        if row is not None:
            context.row, context.fields = row, {}
            counts.add(context)
    return Hits(len(rows), list(counts.hits(len(rows))))


def detail_hits(source: Any, step: int, response: Response, fields: Fields) -> Hits:
    """The same for the fields of one detail step: one row, the page."""
    if not isinstance(source, FileSource):
        return Hits()
    document = Document.of(response)
    context = source.plan.context(document, {}, dict(fields))
    steps = _specs(source).get("detail", {}).get("steps", ())
    counts = _Counts(source.plan.steps[step].fields, steps[step].get("fields", {}) if step < len(steps) else {})
    counts.add(context)
    return Hits(1, list(counts.hits(1)))


def _specs(source: FileSource) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(source.resolved.text).get("source", {})
    return found


class _Counts:
    def __init__(self, fields: tuple[FieldReading, ...], specs: Mapping[str, Any]) -> None:
        self._fields = [one for one in fields if one.reading is not None]
        self._specs = specs
        # By field and branch; branch None is the field itself.
        self._found: dict[tuple[str, int | None], int] = {}
        self._values: dict[tuple[str, int | None], int] = {}

    def add(self, context: Context) -> None:
        """Count one row; its values stand in the context for the fields after them."""
        for one in self._fields:
            assert one.reading is not None
            selector = one.reading.selector
            if isinstance(selector, FirstOf):
                for at, branch in enumerate(selector.paths):
                    self._count(one.name, at, branch, context)
            self._count(one.name, None, one.reading, context)
            try:
                value = one.read(context)
            except (StepFailed, Misfit, RecursionError):
                continue
            if value is not None:
                self._values[one.name, None] = self._values.get((one.name, None), 0) + 1
                context.fields[one.name] = value

    def _count(self, name: str, branch: int | None, reading: Reading, context: Context) -> None:
        try:
            found = not is_empty(reading.selector.read(context))
            value = branch is not None and found and not is_empty(reading.read(name, context))
        except (StepFailed, Misfit, RecursionError, ValueError, TypeError):
            found, value = False, False
        self._found[name, branch] = self._found.get((name, branch), 0) + found
        if branch is not None:
            self._values[name, branch] = self._values.get((name, branch), 0) + value

    def hits(self, rows: int) -> Iterator[Hit]:
        for one in self._fields:
            spec = self._specs.get(one.name, {})
            key = (one.name, None)
            yield Hit(one.name, _shown(spec), rows, self._found.get(key, 0), self._values.get(key, 0))
            for at, branch in enumerate(spec.get("first_of", ())):
                place = (one.name, at)
                yield Hit(one.name, _shown(branch), rows, self._found.get(place, 0), self._values.get(place, 0), at)


def _shown(spec: Mapping[str, Any]) -> str:
    """A selector in a few words: `css a::attr(href)`."""
    kinds = [name for name in spec if name not in ("then", "required", "optional", "type")]
    if not kinds:
        return ""
    if kinds[0] == "first_of":
        return f"first of {len(spec['first_of'])}"
    parts = {name: spec[name] for name in kinds}
    return " ".join(
        f"{name} {part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)}"
        for name, part in parts.items()
    )
