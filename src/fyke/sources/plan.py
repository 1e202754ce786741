"""What a source is once it is compiled: its readings, requests and policies, with nothing of the file's syntax."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from lxml import etree
from selectolax.lexbor import LexborNode

from fyke.model import ColumnType, FetchPolicy, Listing, ResolvedSource
from fyke.ports.source import SourceChecks, SourceConnect, SourceSchedule
from fyke.sources.attachments import Attachments
from fyke.sources.document import Document
from fyke.sources.faults import Fault, Misfit, Path
from fyke.sources.nodes import Context, stored_value, text_of
from fyke.sources.paging import ListRequests
from fyke.sources.relating import Rule
from fyke.sources.requests import RequestMaker
from fyke.sources.rows import Rows
from fyke.sources.selectors import Css, Json, Reading, Selector, XPath


@dataclass(frozen=True)
class FieldReading:
    """A field: its name, type and duties; `reading` None for a field that Python code reads."""

    name: str
    reading: Reading | None
    type: ColumnType
    required: bool
    expected: bool

    def read(self, context: Context) -> Any:
        """The value in its stored form, or None.

        Raises:
            StepFailed, Misfit: see `Reading.read`.
        """
        if self.reading is None:
            return None
        value = self.reading.read(self.name, context)
        if isinstance(value, LexborNode):
            value = context.document.text_of(value)
            # What the parser gives is sound text already.
            if self.type is ColumnType.TEXT:
                return value or None
        return None if value is None else stored_value(value, self.type, context.zone)


class Ready:
    """What a whole page has."""

    def __init__(self, spec: Mapping[str, Any], path: Path) -> None:
        self.kind = next(name for name in ("css", "xpath", "json") if name in spec)
        self.text: str = spec[self.kind]
        self.least = int(spec.get("min_chars", 0))
        place = (*path, self.kind)
        self.selector: Selector
        if self.kind == "css":
            css = self.selector = Css(self.text, place)
            if css.relative:
                raise Fault(f"{self.text!r} has nothing to begin from on a page", place)
        elif self.kind == "xpath":
            self.selector = XPath(self.text, place, row=False)
        else:
            self.selector = Json(self.text, place)

    def lack(self, context: Context) -> str | None:
        """Why the page is not ready, or None."""
        try:
            found = self.selector.read(context)
        except (etree.XPathError, TypeError, ValueError) as error:
            raise Misfit(f"not ready: {self.text!r} cannot be read: {error}") from error
        if found is None or found is False:
            return f"not ready: {self.text!r} is not on the page"
        if self.least:
            text = context.document.text_of(found) if isinstance(found, LexborNode) else text_of(found)
            length = len(text or "")
            if length < self.least:
                return f"not ready: {self.text!r} has {length} characters, fewer than {self.least}"
        return None


@dataclass(frozen=True)
class DetailStep:
    request: RequestMaker
    ready: Ready | None
    fields: tuple[FieldReading, ...]


@dataclass(frozen=True)
class Discovery:
    """Where the values of `each` are read at the start of each run."""

    request: RequestMaker
    rows: Rows
    fields: tuple[FieldReading, ...]


@dataclass(frozen=True)
class FillPlan:
    """How a date window is read; `window` in ms. `aside`: with fields of its own, so that known items stay as they
    are.
    """

    requests: ListRequests
    rows: Rows | None
    fields: tuple[FieldReading, ...]
    window: int
    max_pages: int
    exclusive: bool
    aside: bool


@dataclass(frozen=True)
class Plan:
    """All of a compiled source."""

    resolved: ResolvedSource
    schedule: SourceSchedule
    connect: SourceConnect
    checks: SourceChecks
    fetch: FetchPolicy
    zone: tzinfo
    listings: tuple[Listing, ...]
    requests: ListRequests
    rows: Rows | None
    fields: tuple[FieldReading, ...]
    key: Reading
    steps: tuple[DetailStep, ...]
    compared: tuple[str, ...]
    ignore: tuple[re.Pattern[str], ...]
    revisit: tuple[tuple[int, ...], int | None] | None = None
    relate: tuple[Rule, ...] = ()
    attachments: Attachments | None = None
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    discovery: Discovery | None = None
    fill: FillPlan | None = None

    def context(self, document: Document, values: Mapping[str, str], fields: dict[str, Any]) -> Context:
        return Context(document, self.zone, values, fields)
