"""A source made from a file: the pure reading of list pages and details.

Keeps P2 at its first step: every row becomes an entry or a refused entry, never nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from fyke.errors import UsageError
from fyke.model import (
    ColumnType,
    DetailPage,
    Entry,
    Fields,
    FoundListings,
    Listing,
    ListPage,
    Outcome,
    RefusedEntry,
    Relation,
    Request,
    Response,
)
from fyke.policy.identity import content_hash, fingerprint, key_of
from fyke.policy.politeness import lane_of
from fyke.policy.revisits import next_visit
from fyke.ports.source import SourceFill
from fyke.sources.attachments import AttachmentSource
from fyke.sources.document import Document
from fyke.sources.each import read_listings
from fyke.sources.faults import Misfit, StepFailed
from fyke.sources.feeds import FeedEntry
from fyke.sources.filling import asked
from fyke.sources.markup import sane, squeeze
from fyke.sources.nodes import Context, raw_of, stored_value, text_of
from fyke.sources.paging import parts_of_index
from fyke.sources.plan import FieldReading, Plan
from fyke.sources.relating import relations
from fyke.sources.rows import MOST_ROWS
from fyke.sources.timestamps import epoch_ms

LONGEST_RAW: Final = 2_000


class Refused(Exception):
    """A row that becomes no entry; the text is the reason."""


class FileSource:
    """A `ports.Source` that follows a compiled plan. Methods are pure and safe to call from threads."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.resolved = plan.resolved
        self.schedule, self.connect, self.checks, self.fetch = plan.schedule, plan.connect, plan.checks, plan.fetch
        self.list_fields = tuple(field.name for field in plan.fields)
        self.compared = plan.compared
        self.paged = plan.requests.paged
        self.steps = len(plan.steps)
        self.attached = AttachmentSource(plan.resolved, plan.attachments, plan.fetch) if plan.attachments else None
        self.fill: SourceFill | None = None
        self._windows: FileSource | None = None
        if (fill := plan.fill) is not None:
            self.fill = SourceFill(fill.window, fill.max_pages, fill.requests.paged, fill.aside)
            self._windows = FileSource(
                replace(plan, requests=fill.requests, rows=fill.rows, fields=fill.fields, fill=None, discovery=None)
            )
        self._required = tuple(field.name for field in plan.fields if field.required)
        # The rows of a list share few times.
        self._epoch_ms = lru_cache(maxsize=512)(epoch_ms)
        self._dated = plan.types.get("published") is ColumnType.DATETIME
        self._list_compared = tuple(name for name in self.list_fields if name in set(plan.compared))

    def listings(self) -> list[Listing]:
        return list(self.plan.listings)

    def list_request(self, listing: Listing, cursor: dict[str, Any] | None) -> Request:
        if listing.filled and self.plan.fill is not None and self._windows is not None:
            return self._windows.list_request(asked(listing, self.plan.fill), cursor)
        if listing.discovers and self.plan.discovery is not None:
            return self.plan.discovery.request.make(listing.values)
        return self.plan.requests.make(listing.values, cursor)

    def detail_request(self, step: int, fields: Fields) -> Request:
        return self.plan.steps[step].request.make(fields)

    def read_listings(self, listing: Listing, response: Response) -> FoundListings:
        if self.plan.discovery is None:
            return FoundListings(Outcome.ERROR, "the source discovers no listings")
        try:
            context = self.plan.context(Document.of(response), listing.values, {})
            return read_listings(self.plan.discovery, listing, context)
        except Misfit as error:
            return FoundListings(Outcome.MISFIT, str(error))
        except (StepFailed, RecursionError) as error:
            return FoundListings(Outcome.ERROR, str(error))

    def read_page(self, listing: Listing, response: Response, cursor: dict[str, Any] | None) -> ListPage:
        if listing.filled and self.plan.fill is not None and self._windows is not None:
            return self._windows.read_page(asked(listing, self.plan.fill), response, cursor)
        try:
            document = Document.of(response)
            context = self.plan.context(document, listing.values, {})
            if not document.text or document.text.isspace():
                raise Misfit("the answer is empty")
            if self.plan.rows is not None and self.plan.rows.is_index(document):
                found = parts_of_index(document.sitemap, cursor, response)
                return ListPage(Outcome.OK, next=found.next, doubt=found.doubt, index=True)
            rows = self.find_rows(listing, response, context)
            if len(rows) > MOST_ROWS:
                raise Misfit(f"the page has more than {MOST_ROWS:,} rows")
            page = ListPage(Outcome.OK, blank=not rows)
            lanes: dict[str, str] = {}
            for position, row in enumerate(rows):
                self._read_row(page, position, row, context, lanes)
            context.row, context.fields, context.flags = None, {}, page.flags
            found = self.plan.requests.following(context, cursor, response)
            page.next, page.last_by_hint, page.doubt, page.total_hint, page.last_hint = found
        except Misfit as error:
            return ListPage(Outcome.MISFIT, str(error))
        except StepFailed as error:
            return ListPage(Outcome.ERROR, str(error))
        except Exception as error:  # noqa: BLE001 - a mistake of a reader must not end the worker
            return ListPage(Outcome.ERROR, _mistake(error))
        return page

    def find_rows(self, listing: Listing, response: Response, context: Context) -> list[Any]:
        """The page's rows, before anything is read in them.

        Raises:
            Misfit: the page has no place for rows.
        """
        if self.plan.rows is None:
            raise Misfit("the source does not say where rows are")
        return self.plan.rows.read(context.document)

    def read_fields(self, row: Any, context: Context) -> None:
        """Read the row's fields into the context.

        Raises:
            StepFailed: a step raised.
        """
        for field in self.plan.fields:
            value = field.read(context)
            if value is not None:
                context.fields[field.name] = value

    def pinned(self, row: Any, context: Context) -> bool:
        return self.plan.rows is not None and self.plan.rows.is_pinned(row, context)

    def _read_row(self, page: ListPage, position: int, row: Any, context: Context, lanes: dict[str, str]) -> None:
        context.row, context.fields, context.flags = row, {}, []
        try:
            page.entries.append(self._entry(position, row, context, lanes))
        except (Refused, StepFailed, Misfit, UsageError, RecursionError) as error:
            page.refused.append(_refused(position, str(error), row, context.document))
        except Exception as error:  # noqa: BLE001 - a mistake of a reader must not take the other rows along
            page.refused.append(_refused(position, _mistake(error), row, context.document))
        if context.flags:
            page.flags += [f"row {position + 1}, {flag}" for flag in context.flags]

    def _entry(self, position: int, row: Any, context: Context, lanes: dict[str, str]) -> Entry:
        if row is None:
            raise Refused("the row is null")
        if isinstance(row, FeedEntry) and row.lost:
            raise Refused(row.lost)
        self.read_fields(row, context)
        fields = context.fields
        for name in self._required:
            if name not in fields:
                raise Refused(f"the required field '{name}' has no value")
        url, lane = self._address(fields, lanes)
        published = fields.get("published")
        return Entry(
            position=position,
            key=self._key(context),
            fields=fields,
            hash=content_hash(self._comparable(fields), self._list_compared),
            url=url,
            lane=lane,
            relations=None if self.plan.steps else self.relations(fields),
            pinned=self.pinned(row, context),
            published_at=self._epoch_ms(published) if published and self._dated else None,
        )

    def _address(self, fields: Fields, lanes: dict[str, str]) -> tuple[str, str]:
        if not self.plan.steps:
            return str(fields.get("url") or ""), ""
        try:
            url = self.plan.steps[0].request.address(fields)
            # The rows of a page mostly share a host; the part up to it decides the lane.
            host = url[: url.find("/", 8) + 1]
            lane = lanes.get(host)
            if lane is None:
                lane = lane_of(url)
                if host:
                    lanes[host] = lane
            return url, lane
        except UsageError as error:
            raise Refused(f"no address: {error}") from error

    def _key(self, context: Context) -> str:
        value = self.plan.key.read("identity.key", context)
        text = text_of(value)
        if text is None or not text.strip():
            raise Refused("no key: the fields of `identity.key` have no value")
        try:
            return key_of(text)
        except ValueError as error:
            raise Refused(f"no key: {error}") from error

    def read_detail(self, step: int, response: Response, fields: Fields) -> DetailPage:
        plan = self.plan.steps[step]
        try:
            document = Document.of(response)
        except Misfit as error:
            return DetailPage(Outcome.MISFIT, str(error))
        if not document.text or document.text.isspace():
            return DetailPage(Outcome.EMPTY, "the page is empty")
        context = self.plan.context(document, {}, dict(fields))
        try:
            lack = plan.ready.lack(context) if plan.ready else None
            if lack:
                return DetailPage(Outcome.MISFIT, lack)
            found = self.read_step(step, response, context)
        except Misfit as error:
            return DetailPage(Outcome.MISFIT, str(error))
        except (StepFailed, RecursionError) as error:
            return DetailPage(Outcome.ERROR, str(error))
        except Exception as error:  # noqa: BLE001 - as above
            return DetailPage(Outcome.ERROR, _mistake(error))
        page = _judged(plan.fields, found)
        page.flags = context.flags
        if self.plan.attachments is not None and page.outcome is Outcome.OK:
            context.fields = {}
            try:
                page.attachments = self.plan.attachments.read(context)
            except Misfit as error:
                return DetailPage(Outcome.MISFIT, str(error))
        return page

    def read_step(self, step: int, response: Response, context: Context) -> Fields:
        """The fields of one hop that have a value.

        Raises:
            StepFailed, Misfit: a step raised; the page is of another kind.
        """
        found: Fields = {}
        for field in self.plan.steps[step].fields:
            value = field.read(context)
            if value is not None:
                found[field.name] = context.fields[field.name] = value
        return found

    def revisit_at(self, opened_at: int, now: int) -> int | None:
        return next_visit(opened_at, now, *self.plan.revisit) if self.plan.revisit else None

    def relations(self, record: Fields) -> list[Relation] | None:
        return relations(self.plan.relate, record) if self.plan.relate else None

    def record(self, entry: Fields, detail: Fields) -> tuple[Fields, bytes, dict[str, bool]]:
        merged = entry | {name: value for name, value in detail.items() if value is not None}
        stored: Fields = {}
        filled: dict[str, bool] = {}
        for column in self.resolved.columns:
            value = merged.get(column.name)
            # Texts were brought into their form when they were read; the long ones make most of a record.
            if not (column.type is ColumnType.TEXT and isinstance(value, str) and value):
                value = stored_value(value, column.type, self.plan.zone)
            if value is not None:
                stored[column.name] = value
            if column.expected:
                filled[column.name] = value is not None
        return stored, content_hash(self._comparable(stored), self.compared), filled

    def _comparable(self, fields: Fields) -> Mapping[str, Any]:
        """The fields with the noise of `updates.ignore` taken out of their texts."""
        if not self.plan.ignore:
            return fields
        found = {}
        for name, value in fields.items():
            if isinstance(value, str):
                for pattern in self.plan.ignore:
                    value = pattern.sub("", value)  # noqa: PLW2901
            found[name] = value
        return found


def _refused(position: int, reason: str, row: Any, document: Document) -> RefusedEntry:
    try:
        raw = squeeze(sane(raw_of(row, document))) if row is not None else "null"
        text = squeeze(sane(text_of(row) or "")) or raw
    except (Misfit, RecursionError) as error:
        raw = text = f"({error})"
    return RefusedEntry(position, reason, raw[:LONGEST_RAW], fingerprint(text.encode()))


def _mistake(error: Exception) -> str:
    return f"the page could not be read: {type(error).__name__}: {' '.join(str(error).split())[:500]}"


def _judged(fields: tuple[FieldReading, ...], found: Fields) -> DetailPage:
    """Whether a page that was read may be stored."""
    missing = [field.name for field in fields if field.required and field.name not in found]
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        return DetailPage(Outcome.MISFIT, f"no value for the required {names}", found, missing)
    if not found and any(field.expected for field in fields):
        expected = [field.name for field in fields if field.expected]
        return DetailPage(Outcome.MISFIT, "not one field of the page has a value", found, expected)
    return DetailPage(Outcome.OK, fields=found)
