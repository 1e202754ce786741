"""From a checked source to a compiled one, and from the ledger's text back to it.

The resolved text holds everything: profiles are merged, secrets stay references; only python steps are looked up beside
the file, whose folder the text then names.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from fyke.db.typed import check_names
from fyke.errors import UsageError
from fyke.model import Column, ColumnType, FetchPolicy, LanePolicy, ResolvedSource
from fyke.policy.attaching import SUFFIX, attached_table
from fyke.policy.identity import fingerprint, rule_text
from fyke.policy.politeness import lane_of
from fyke.policy.units import parse_duration, parse_rate, parse_size
from fyke.ports.source import SourceChecks, SourceConnect, SourceSchedule
from fyke.sources.attachments import COLUMNS, AttachmentSource, compile_attachments
from fyke.sources.each import DISCOVER, listings_of
from fyke.sources.faults import Fault, Path
from fyke.sources.filling import compile_fill, sample
from fyke.sources.importing import import_name
from fyke.sources.paging import ListRequests
from fyke.sources.placeholders import PAGE
from fyke.sources.plan import DetailStep, Discovery, FieldReading, Plan, Ready
from fyke.sources.relating import compile_rules
from fyke.sources.requests import RequestMaker, address_at
from fyke.sources.rows import Rows
from fyke.sources.schema import check
from fyke.sources.secrets import Secrets, environment_secrets, proxy_of, refuse_elsewhere, reveal
from fyke.sources.selectors import Setting, compile_path
from fyke.sources.shapes import nearest_key
from fyke.sources.sitemaps import MOST_PARTS
from fyke.sources.source import FileSource
from fyke.sources.steps import compile_regex
from fyke.sources.timestamps import AUTO, read_time
from fyke.sources.updates import compile_revisit

_PRIORITIES: Final = ("high", "normal", "low")
_KEY_KINDS: Final = ("field", "template", "hash", "first_of")
_SECRET_PLACES: Final = ("proxy", "headers", "cookies", "form", "json")


def compile_text(text: str, *, secrets: Secrets | None = None) -> FileSource:
    """The source of a resolved text as the ledger keeps it.

    Raises:
        UsageError: it cannot be compiled here: a secret or a python step is missing on this machine; or it is that of
            attachments.
    """
    source = compile_any(text, secrets=secrets)
    if not isinstance(source, FileSource):
        name = source.resolved.id
        raise UsageError(f"source '{name}' takes attachments only", hint="name the source whose pages have them")
    return source


def compile_any(text: str, *, secrets: Secrets | None = None) -> FileSource | AttachmentSource:
    """As `compile_text`, also of attachments."""
    try:
        whole = json.loads(text)
        data, folder = dict(whole["source"]), whole.get("folder")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError("the text is no resolved source", hint="apply the source file again") from error
    source = compile_source(data, folder=folder, secrets=secrets)
    if whole.get("part") != SUFFIX:
        return source
    if source.attached is None:
        raise UsageError("the text names no attachments", hint="apply the source file again")
    return source.attached


def resolved_text(data: Mapping[str, Any], folder: str | None) -> str:
    """The text that `compile_text` reads. The folder is in it where Python has to be found beside the file."""
    whole: dict[str, Any] = {"source": {name: part for name, part in data.items() if name != "extends"}}
    if folder is not None and ("source" in data or _uses_python(data)):
        whole["folder"] = folder
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))


def _uses_python(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "python" in value or any(_uses_python(part) for part in value.values())
    return isinstance(value, list) and any(_uses_python(part) for part in value)


def compile_source(data: Mapping[str, Any], *, folder: str | None, secrets: Secrets | None = None) -> FileSource:
    """Check and compile a merged source.

    Raises:
        Fault: the first mistake, with its path in the data.
    """
    secrets = secrets or environment_secrets()
    if "source" not in data:
        check(data)
        return FileSource(_Compiler(data, folder, secrets).plan())
    if not isinstance(data["source"], str):
        raise Fault("is no name of a Python class", ("source",), hint="write package.module:Class")
    made = import_name(data["source"], folder, ("source",))
    if not (isinstance(made, type) and issubclass(made, FileSource)):
        raise Fault(f"{data['source']!r} is no PythonSource", ("source",), hint="class X(fyke.sources.PythonSource)")
    check(data, python=True)
    return made(_Compiler(data, folder, secrets).plan())


def resolve(data: Mapping[str, Any], *, folder: str | None = None) -> ResolvedSource:
    """The source as the ledger keeps it, of checked data."""
    return compile_source(data, folder=folder).resolved


USUAL_KNOWN: Final = 10


class _Compiler:
    """One source on its way from data to plan."""

    def __init__(self, data: Mapping[str, Any], folder: str | None, secrets: Secrets) -> None:
        self.data, self.folder, self.secrets = data, folder, secrets
        refuse_elsewhere(data, (), lambda path: any(name in path for name in _SECRET_PLACES))
        self.schedule = self._schedule()
        self.zone = ZoneInfo(self.schedule.timezone)
        self.types: dict[str, ColumnType] = {}

    def plan(self) -> Plan:
        data = self.data
        listings = listings_of(data.get("each"))
        discovery = self._discovery(tuple(listings[0].values))
        values = (*listings[0].values, *(field.name for field in (discovery.fields if discovery else ())))
        rows = Rows(data["listing"]["rows"], ("listing", "rows")) if "rows" in data["listing"] else None
        fields = self._fields(data["listing"]["fields"], ("listing", "fields"), rows.row if rows else "", values)
        list_names = dict(self.types)
        steps = self._steps()
        columns = self._columns(fields, steps)
        _check_names(data["store"]["table"], columns)
        names = [column.name for column in columns]
        attachments = compile_attachments(data.get("detail", {}).get("attachments"))
        if attachments is not None:
            _check_names(attached_table(data["store"]["table"]), COLUMNS)
        compared = _named(data.get("updates", {}).get("compare"), names, ("updates", "compare")) or tuple(names)
        requests = ListRequests(
            data["listing"], values, ("listing",), self.secrets, self.folder, rows.row if rows else ""
        )
        key_setting = Setting(("identity", "key"), "html", list_names, values, self.folder)
        key = compile_path(self._key_rule(data["identity"]["key"], ("identity", "key")), key_setting)
        ignore = _listed(data.get("updates", {}).get("ignore"))
        maker = discovery.request if discovery else None
        fill = compile_fill(data["listing"], values, self._fields, self.secrets, self.folder)
        place: Path = ("each", DISCOVER, "request") if maker else ("listing", "request")
        asking = maker.make if maker else partial(requests.make, cursor=None)
        urls = [address_at(place, partial(asking, each.values)) for each in listings]
        if fill is not None and discovery is None:
            urls += [sample(each.values, fill) for each in listings]
        lanes = self._lanes(urls)
        return Plan(
            resolved=self._resolved(columns, bool(steps), lanes),
            schedule=self.schedule,
            connect=self._connect(),
            checks=self._checks(names),
            fetch=self._fetch(),
            zone=self.zone,
            listings=listings,
            requests=requests,
            rows=rows,
            fields=fields,
            key=key,
            steps=steps,
            compared=compared,
            revisit=compile_revisit(data.get("updates", {}).get("revisit"), has_detail=bool(steps)),
            attachments=attachments,
            relate=compile_rules(data.get("updates", {}).get("relate", ()), names),
            ignore=tuple(compile_regex(text, ("updates", "ignore", at)) for at, text in enumerate(ignore)),
            types=self.types,
            discovery=discovery,
            fill=fill,
        )

    def _resolved(self, columns: tuple[Column, ...], has_detail: bool, lanes: tuple[LanePolicy, ...]) -> ResolvedSource:
        data = self.data
        text = resolved_text(data, self.folder)
        return ResolvedSource(
            id=data["id"],
            title=data.get("title", data["id"]),
            text=text,
            hash=fingerprint(text.encode()).hex(),
            scope=data["identity"]["scope"],
            table=data["store"]["table"],
            identity=rule_text(data["identity"]["key"]),
            columns=columns,
            has_detail=has_detail,
            lanes=lanes,
            priority=_PRIORITIES.index(data.get("priority", "normal")),
        )

    def _schedule(self) -> SourceSchedule:
        spec = self.data.get("schedule", {})
        zone = spec.get("timezone", "Asia/Shanghai")
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise Fault(f"{zone!r} is no time zone", ("schedule", "timezone"), hint="such as Asia/Shanghai") from error
        crons = _listed(spec.get("cron"))
        for at, cron in enumerate(crons):
            try:
                CronSim(cron, datetime(2025, 1, 1))
            except (CronSimError, ValueError) as error:
                where = ("schedule", "cron", at) if isinstance(spec["cron"], list) else ("schedule", "cron")
                raise Fault(f"{cron!r} is no cron expression: {error}", where, hint='such as "0 8 * * *"') from error
        return SourceSchedule(
            cron=tuple(crons),
            timezone=zone,
            late=spec.get("late", "run"),
            overlap=spec.get("overlap", "skip"),
            limit=_duration(spec.get("limit", "1h")),
        )

    def _discovery(self, fixed: tuple[str, ...]) -> Discovery | None:
        each = self.data.get("each")
        if not isinstance(each, Mapping) or DISCOVER not in each:
            return None
        spec, path = each[DISCOVER], ("each", DISCOVER)
        rows = Rows(spec["rows"], (*path, "rows"))
        # These are no columns: what they are called binds no field of the list.
        types, self.types = self.types, {}
        fields = self._fields(spec["fields"], (*path, "fields"), rows.row, fixed)
        self.types = types
        return Discovery(RequestMaker(spec["request"], fixed, (*path, "request"), self.secrets), rows, fields)

    def _fields(
        self, spec: Mapping[str, Any], path: Path, row: str, values: tuple[str, ...]
    ) -> tuple[FieldReading, ...]:
        found = []
        for name, field in spec.items():
            place = (*path, name)
            if name == PAGE or name in values:
                raise Fault(f"the name '{name}' is taken by a placeholder", place, hint="take another name")
            setting = Setting(place, row, dict(self.types), values, self.folder)
            has_selector = any(key not in ("required", "optional", "type") for key in field)
            reading = compile_path(field, setting) if has_selector else None
            kind = ColumnType(field["type"]) if "type" in field else reading.type if reading else ColumnType.TEXT
            if self.types.setdefault(name, kind) is not kind:
                raise Fault(
                    f"is {kind.value} here and {self.types[name].value} before",
                    place,
                    hint="say `type:` in one of them",
                )
            required = bool(field.get("required"))
            found.append(FieldReading(name, reading, kind, required, not field.get("optional")))
        return tuple(found)

    def _steps(self) -> tuple[DetailStep, ...]:
        steps = []
        for at, spec in enumerate(self.data.get("detail", {}).get("steps", ())):
            path: Path = ("detail", "steps", at)
            request = RequestMaker(spec["request"], tuple(self.types), (*path, "request"), self.secrets)
            ready = Ready(spec["ready"], (*path, "ready")) if "ready" in spec else None
            steps.append(DetailStep(request, ready, self._fields(spec["fields"], (*path, "fields"), "", ())))
        return tuple(steps)

    def _columns(self, fields: tuple[FieldReading, ...], steps: tuple[DetailStep, ...]) -> tuple[Column, ...]:
        """One column a name; where list and detail both read it, the detail's word counts."""
        columns: dict[str, Column] = {}
        for field in itertools.chain(fields, *(step.fields for step in steps)):
            before = columns.get(field.name)
            required = field.required or (before is not None and before.required)
            columns[field.name] = Column(field.name, field.type, required, field.expected)
        return tuple(columns.values())

    def _key_rule(self, spec: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
        """A key comes from fields, so that it can be told again from what the ledger holds."""
        kind = next(name for name in spec if name != "then")
        if kind not in _KEY_KINDS:
            raise Fault(
                f"a key is made of fields, not of '{kind}'", (*path, kind), hint=f"one of {', '.join(_KEY_KINDS)}"
            )
        for at, part in enumerate(spec.get("first_of", ())):
            self._key_rule(part, (*path, "first_of", at))
        return spec

    def _connect(self) -> SourceConnect:
        listing = self.data["listing"]
        said = listing.get("connect", {})
        whole = said == "all"
        if listing.get("order") == "none" and not whole:
            raise Fault("a list without order is read whole", ("listing", "order"), hint="write connect: all")
        start, value = self._start(listing.get("start"))
        sitemap = "sitemap" in listing.get("rows", {})
        return SourceConnect(
            # One known row proves little where rows may be pinned without a mark: several in a row are asked for.
            known=1 if whole else said.get("known", USUAL_KNOWN if "pages" in listing or sitemap else 1),
            lookback=0 if whole else _duration(said.get("lookback", "0")),
            all=whole,
            start=start,
            start_value=value,
            max_pages=MOST_PARTS if sitemap else listing.get("pages", {}).get("max", 100),
        )

    def _start(self, text: str | None) -> tuple[str, int]:
        if text is None or text == "all":
            return text or "page", 0
        try:
            return "length", parse_duration(text)
        except ValueError:
            found = read_time(text, (AUTO,), self.zone)
        if found is None:
            raise Fault(
                f"{text!r} is no start", ("listing", "start"), hint="write 7d, a date such as 2025-01-31, or all"
            )
        return "since", int(datetime.fromisoformat(found).timestamp() * 1_000)

    def _checks(self, names: list[str]) -> SourceChecks:
        spec = self.data.get("checks", {})
        coverage = {name: float(share) for name, share in spec.get("coverage", {}).items()}
        for name in coverage:
            if name not in names:
                raise Fault(f"there is no field '{name}'", ("checks", "coverage", name), hint=nearest_key(name, names))
        return SourceChecks(rows_per_page_min=spec.get("rows_per_page", {}).get("min"), coverage=coverage)

    def _fetch(self) -> FetchPolicy:
        written = self.data.get("fetch", {})
        proxy = proxy_of(written.get("proxy"), self.secrets, ("fetch", "proxy"))
        spec = reveal(written, self.secrets, ("fetch",))
        timeout = {name: _duration(text) for name, text in spec.get("timeout", {}).items()}
        plain = FetchPolicy()
        encoding = spec.get("encoding")
        if encoding is not None:
            try:
                "".encode(encoding)
            except LookupError as error:
                raise Fault(f"{encoding!r} is no encoding", ("fetch", "encoding"), hint="such as gb18030") from error
        return FetchPolicy(
            user_agent=spec.get("user_agent", plain.user_agent),
            headers={name: str(text) for name, text in spec.get("headers", {}).items()},
            connect_timeout=timeout.get("connect", plain.connect_timeout),
            read_timeout=timeout.get("read", plain.read_timeout),
            total_timeout=timeout.get("total", plain.total_timeout),
            max_body=parse_size(str(spec["max_body"])) if "max_body" in spec else plain.max_body,
            max_redirects=spec.get("max_redirects", plain.max_redirects),
            private_addresses=spec.get("private_addresses") == "allow",
            proxy=proxy,
            encoding=encoding,
            respect_robots=spec.get("robots", "respect") == "respect",
            blocked_text=tuple(_listed(spec.get("blocked", {}).get("text"))),
        )

    def _lanes(self, urls: list[str]) -> tuple[LanePolicy, ...]:
        """The source's policy for the hosts of its lists, and as `*` for any host that its details lead to."""
        spec = self.data.get("fetch", {}).get("politeness", {})
        usual = LanePolicy("*")
        delay = _duration(spec["delay"]) if "delay" in spec else usual.gap
        jitter = _duration(spec["jitter"]) if "jitter" in spec else min(usual.jitter, delay)
        if "rate" in spec:
            # The shortest gap is what a rate limits.
            delay = max(delay, parse_rate(spec["rate"]) + jitter)
        if jitter > delay:
            raise Fault("is longer than the delay", ("fetch", "politeness", "jitter"))
        at_once = spec.get("concurrency", usual.concurrency)
        try:
            lanes = sorted({lane_of(url) for url in urls})
        except UsageError as error:
            raise Fault(error.message, ("listing", "request", "url"), hint=error.hint) from error
        return tuple(LanePolicy(lane, delay, jitter, at_once) for lane in ["*", *lanes])


def _check_names(table: str, columns: Sequence[Column]) -> None:
    """The ledger's own rule, so that a file that is good here is not refused there."""
    try:
        check_names(table, columns)
    except UsageError as error:
        path = ("store", "table") if error.field == "store.table" else ("listing", "fields")
        raise Fault(error.message, path, hint=error.hint) from error


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _duration(value: Any) -> int:
    return parse_duration(str(value))


def _named(value: Any, names: Iterable[str], path: Path) -> tuple[str, ...]:
    listed = _listed(value)
    for at, name in enumerate(listed):
        if name not in names:
            raise Fault(f"there is no field '{name}'", (*path, at), hint=nearest_key(name, names))
    return tuple(listed)
