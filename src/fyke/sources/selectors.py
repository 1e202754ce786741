"""Selectors: where a field's value is. Compiled once per source; each ends on a node, JSON or text, or on None."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from jmespath.exceptions import JMESPathError
from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from fyke.model import ColumnType
from fyke.policy.identity import canonical_json, fingerprint
from fyke.sources.document import read_json
from fyke.sources.faults import Doubt, Fault, Misfit, Path, StepFailed
from fyke.sources.feeds import NAMES, FeedEntry
from fyke.sources.labels import label_pattern, plain
from fyke.sources.markup import tag_number
from fyke.sources.nodes import LONGEST_SEARCHED, Context, element_of, is_empty, lexbor_of, raw_of
from fyke.sources.placeholders import NoValue, Template
from fyke.sources.shapes import nearest_key
from fyke.sources.sitemaps import NAMES as SITEMAP_NAMES
from fyke.sources.steps import Making, Step, compile_json, compile_regex, compile_steps, found_by

KINDS: Final = ("css", "xpath", "json", "feed", "sitemap", "regex", "label", "field", "template", "hash", "first_of")

MOST_HITS: Final = 10_000
_PSEUDO: Final = re.compile(r"::(?:attr\(\s*([\w:.-]+)\s*\)|text)\s*$")
_SCOPE: Final = "data-fyke-scope"
# Asked for one by one these are found without regard to case; no other attribute differs from them by it alone.
_LOWER: Final = frozenset(("href", "title", "src", "content", "value", "id", "class", "alt", "name"))
_FEED_NAME: Final = re.compile(r"[A-Za-z][\w.-]*:[A-Za-z][\w.-]*", re.ASCII)


class Selector(Protocol):
    def read(self, context: Context) -> Any:
        """The first hit in the context's row, or on its page."""
        ...


@dataclass(frozen=True)
class Setting:
    """Where a selector stands: its path, its row ("html", "json", "feed"; "" for a page), the names it may use."""

    path: Path
    row: str = ""
    names: Mapping[str, ColumnType] | None = None
    values: tuple[str, ...] = ()
    folder: str | None = None

    def at(self, *parts: str | int) -> Setting:
        return replace(self, path=(*self.path, *parts))

    @property
    def known(self) -> tuple[str, ...]:
        return (*(self.names or ()), *self.values)


class Css:
    """A CSS selector; `> li` begins at the row or container itself."""

    def __init__(self, text: str, path: Path) -> None:
        pseudo = _PSEUDO.search(text)
        self.query = (text[: pseudo.start()] if pseudo else text).strip()
        self.attribute = pseudo[1] if pseudo else None
        self.own_text = pseudo is not None and pseudo[1] is None
        self.relative = self.query.startswith(">")
        self.number = tag_number(self.query)
        if "::" in self.query:
            raise Fault("::attr(name) and ::text stand at the end only", path)
        if self.relative:
            self.query = f"[{_SCOPE}] {self.query}"
        try:
            LexborHTMLParser("").css(self.query)
        except (SelectolaxError, ValueError, TypeError) as error:
            raise Fault(f"the CSS selector {text!r} does not parse", path) from error

    def nodes(self, node: LexborNode) -> list[LexborNode]:
        if not self.relative:
            return node.css(self.query)
        # Lexbor has no :scope; the mark is taken away again.
        node.attrs[_SCOPE] = ""
        try:
            return node.css(self.query)
        finally:
            del node.attrs[_SCOPE]

    def read(self, context: Context) -> Any:
        document, row = context.document, context.row
        if row is None and not self.relative:
            first = document.first(self.query)
        else:
            node = row if isinstance(row, LexborNode) else lexbor_of(row, document)
            if node is None:
                return None
            if self.relative:
                found = self.nodes(node)
                first = found[0] if found else None
            else:
                first = document.first_in(node, self.query, self.number)
        if first is None:
            return None
        if self.attribute:
            place = first.attrs if self.attribute in _LOWER else first.attributes
            value = place.get(self.attribute)
            return value if value is not None else self.attribute_of_later(context)
        return first.text(deep=False) if self.own_text else first

    def attribute_of_later(self, context: Context) -> str | None:
        """The first hit may lack the attribute: `a::attr(href)` passes over `<a name=…>`."""
        node = lexbor_of(context.row, context.document)
        values = (hit.attributes.get(self.attribute or "") for hit in self.nodes(node)) if node is not None else ()
        return next((value for value in values if value is not None), None)

    def hits(self, context: Context) -> list[Any]:
        """All that `read` could give, in order."""
        node = lexbor_of(context.row, context.document)
        found = self.nodes(node) if node is not None else []
        if self.attribute:
            values = (hit.attributes.get(self.attribute) for hit in found)
            return [value for value in values if value is not None]
        return [hit.text(deep=False) for hit in found] if self.own_text else list(found)


class XPath:
    def __init__(self, text: str, path: Path, *, row: bool) -> None:
        try:
            self.compiled = etree.XPath(text, smart_strings=False, regexp=False)
            self.compiled(etree.Element("html"))
        except (etree.XPathError, ValueError) as error:
            raise Fault(f"the XPath {text!r} does not parse: {error}", path) from error
        if row and text.lstrip(" (").startswith("/"):
            raise Fault(f"the XPath {text!r} leaves its row", path, hint="begin with .// inside a row")

    def nodes(self, element: etree._Element) -> list[Any]:
        found = self.compiled(element)
        return found if isinstance(found, list) else [found]

    def read(self, context: Context) -> Any:
        found = self.hits(context)
        return found[0] if found else None

    def hits(self, context: Context) -> list[Any]:
        return self.nodes(element_of(context.row, context.document))


class Json:
    def __init__(self, text: str, path: Path) -> None:
        self.search = compile_json(text, path)

    def read(self, context: Context) -> Any:
        return self.search(context.document.json if context.row is None else context.row)


class Regex:
    """Reads the source of the page or row; with `json`, what it finds is JSON and the path goes into it."""

    def __init__(self, pattern: str, path: str | None, place: Path) -> None:
        self.pattern = compile_regex(pattern, (*place, "regex"))
        self.search = compile_json(path, (*place, "json")) if path is not None else None

    def read(self, context: Context) -> Any:
        found = found_by(self.pattern, raw_of(context.row, context.document))
        if found is None or self.search is None:
            return found
        try:
            return self.search(read_json(found))
        except Misfit:
            return None

    def hits(self, context: Context) -> list[Any]:
        matches = self.pattern.finditer(raw_of(context.row, context.document)[:LONGEST_SEARCHED])
        return [match[1] if self.pattern.groups else match[0] for match in itertools.islice(matches, MOST_HITS)]


class Many(Protocol):
    def hits(self, context: Context) -> list[Any]: ...


class Every:
    """Every hit of a selector as a list; None where there is none."""

    def __init__(self, selector: Many) -> None:
        self.selector = selector

    def read(self, context: Context) -> list[Any] | None:
        return self.selector.hits(context)[:MOST_HITS] or None


class Label:
    def __init__(self, names: str | list[str]) -> None:
        listed = [names] if isinstance(names, str) else names
        self.names = tuple(plain(name) for name in listed)
        self.patterns = tuple(label_pattern(name) for name in listed)

    def read(self, context: Context) -> str | None:
        row = lexbor_of(context.row, context.document) if context.row is not None else None
        return context.document.labels(row).value(self.names, self.patterns)


class Feed:
    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, context: Context) -> str | None:
        return context.row.get(self.name) if isinstance(context.row, FeedEntry) else None


class FieldOf:
    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, context: Context) -> Any:
        value = context.fields.get(self.name)
        return context.values.get(self.name) if value is None else value


class TemplateOf:
    def __init__(self, template: Template) -> None:
        self.template = template

    def read(self, context: Context) -> str | None:
        try:
            return self.template.fill({**context.values, **context.fields})
        except NoValue:
            return None


class HashOf:
    """A fingerprint of fields; None where none of them has a value."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def read(self, context: Context) -> str | None:
        values = [context.fields.get(name, context.values.get(name)) for name in self.names]
        if all(value is None for value in values):
            return None
        return fingerprint(canonical_json(values)).hex()


@dataclass(frozen=True)
class Reading:
    """One selector with its steps."""

    kind: str
    selector: Selector
    steps: tuple[Step, ...]
    type: ColumnType

    def read(self, field: str, context: Context) -> Any:
        """What selector and steps end on.

        Raises:
            StepFailed: one of them raised.
            Misfit: the page is of another kind, e.g. no JSON.
        """
        try:
            value = self.selector.read(context)
        except (etree.XPathError, JMESPathError, TypeError, ValueError, RecursionError) as error:
            raise StepFailed(field, self.kind, error) from error
        for step in self.steps:
            if value is None:
                return None
            try:
                value = step.run(value, context)
            except Doubt as doubt:
                context.flags.append(f"field '{field}': {doubt}")
                return None
            except Exception as error:  # a step may be a user's: it must not end the worker
                raise StepFailed(field, step.name, error) from error
        return value


class FirstOf:
    def __init__(self, paths: tuple[Reading, ...]) -> None:
        self.paths = paths

    def read(self, context: Context) -> Any:
        for path in self.paths:
            value = path.read("first_of", context)
            if not is_empty(value) and not (isinstance(value, (str, LexborNode)) and not has_text(value)):
                return value
        return None


def has_text(value: str | LexborNode) -> bool:
    return bool((value if isinstance(value, str) else value.text()).strip())


def compile_path(spec: Mapping[str, Any], setting: Setting) -> Reading:
    """A selector with its steps, checked by its shape before."""
    kind = next(name for name in KINDS if name in spec and not (name == "json" and "regex" in spec))
    check_fits(kind, setting)
    selector, own_type = _MAKERS[kind](spec, setting)
    if spec.get("all"):
        if not isinstance(selector, (Css, XPath, Regex)) or "json" in spec:
            raise Fault(f"'{kind}' has one value", setting.at("all").path, hint="all stands with css, xpath or regex")
        selector, own_type = Every(selector), ColumnType.JSON
    steps: tuple[Step, ...] = ()
    if "then" in spec:
        steps = compile_steps(spec["then"], Making((*setting.path, "then"), setting.known, setting.folder, own_type))
    return Reading(kind, selector, steps, (steps[-1].type or ColumnType.TEXT) if steps else own_type)


def check_fits(kind: str, setting: Setting) -> None:
    """A selector must be able to read what its row is."""
    wrong = {
        "json": ("css", "xpath", "label", "feed", "sitemap"),
        "feed": ("css", "xpath", "label", "json", "sitemap"),
        "sitemap": ("css", "xpath", "label", "json", "feed"),
        "html": ("json", "feed", "sitemap"),
        "": ("feed", "sitemap"),
    }[setting.row]
    if kind in wrong:
        rows = {
            "json": "a JSON row",
            "feed": "a feed's entry",
            "sitemap": "an entry of a sitemap",
            "html": "an HTML row",
            "": "a page",
        }[setting.row]
        fitting = [name for name in KINDS if name not in wrong]
        raise Fault(f"'{kind}' cannot read {rows}", setting.path, hint=f"one of {', '.join(fitting)}")


def _known(names: list[str], setting: Setting) -> list[str]:
    for name in names:
        if name not in setting.known:
            raise Fault(f"the field '{name}' is not read before", setting.path, hint=nearest_key(name, setting.known))
    return names


def _css(spec: Mapping[str, Any], setting: Setting) -> tuple[Selector, ColumnType]:
    css = Css(spec["css"], (*setting.path, "css"))
    if css.relative and not setting.row:
        raise Fault(f"{spec['css']!r} has nothing to begin from on a page", (*setting.path, "css"))
    return css, ColumnType.TEXT


def _feed(spec: Mapping[str, Any], setting: Setting) -> tuple[Selector, ColumnType]:
    name = spec["feed"]
    if name not in NAMES and not _FEED_NAME.fullmatch(name):
        raise Fault(f"a feed has no '{name}'", (*setting.path, "feed"), hint=nearest_key(name, (*NAMES, "ns:name")))
    return Feed(name), ColumnType.DATETIME if name in ("published", "updated") else ColumnType.TEXT


def _sitemap(spec: Mapping[str, Any], setting: Setting) -> tuple[Selector, ColumnType]:
    name = spec["sitemap"]
    if name not in SITEMAP_NAMES and not _FEED_NAME.fullmatch(name):
        hint = nearest_key(name, (*SITEMAP_NAMES, "news:title"))
        raise Fault(f"a sitemap has no '{name}'", (*setting.path, "sitemap"), hint=hint)
    return Feed(name), ColumnType.DATETIME if name == "lastmod" else ColumnType.TEXT


def _field(spec: Mapping[str, Any], setting: Setting) -> tuple[Selector, ColumnType]:
    (name,) = _known([spec["field"]], setting.at("field"))
    return FieldOf(name), (setting.names or {}).get(name, ColumnType.TEXT)


def _first_of(spec: Mapping[str, Any], setting: Setting) -> tuple[Selector, ColumnType]:
    paths = tuple(compile_path(part, setting.at("first_of", at)) for at, part in enumerate(spec["first_of"]))
    types = {path.type for path in paths}
    return FirstOf(paths), types.pop() if len(types) == 1 else ColumnType.TEXT


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any], Setting], tuple[Selector, ColumnType]]]] = {
    "css": _css,
    "xpath": lambda spec, setting: (
        XPath(spec["xpath"], (*setting.path, "xpath"), row=bool(setting.row)),
        ColumnType.TEXT,
    ),
    "json": lambda spec, setting: (Json(spec["json"], (*setting.path, "json")), ColumnType.TEXT),
    "regex": lambda spec, setting: (Regex(spec["regex"], spec.get("json"), setting.path), ColumnType.TEXT),
    "label": lambda spec, setting: (Label(spec["label"]), ColumnType.TEXT),
    "feed": _feed,
    "sitemap": _sitemap,
    "field": _field,
    "template": lambda spec, setting: (
        TemplateOf(Template(spec["template"], setting.known, (*setting.path, "template"))),
        ColumnType.TEXT,
    ),
    "hash": lambda spec, setting: (
        HashOf(_known(spec["hash"] if isinstance(spec["hash"], list) else [spec["hash"]], setting.at("hash"))),
        ColumnType.TEXT,
    ),
    "first_of": _first_of,
}
