"""Shapes of selectors and fields: exactly one selector, its steps, and for a field its duties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from fyke.model import ColumnType
from fyke.sources.faults import Fault, Path
from fyke.sources.selectors import KINDS
from fyke.sources.shapes import Flag, Key, ListOf, MapOf, Notes, Section, Text
from fyke.sources.steps import StepsShape

FIELD_NAME: Final = r"[a-z][a-z0-9_]{0,62}"


@dataclass(frozen=True)
class SelectorShape:
    """A mapping with exactly one selector, and `then`; a field has its own keys besides."""

    section: Section
    bare: bool = False

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if not isinstance(value, Mapping):
            raise Fault("is no selector", path, hint=f"write {{css: …}}; one of {', '.join(KINDS)}")
        for name, part in value.items():
            if ("selector", name) in notes.later:
                raise Fault(f"'{name}' comes with a later version of Fyke", (*path, name), hint="leave it out for now")
            self.section.check_key(name, part, (*path, name), notes)
        given = [name for name in KINDS if name in value]
        if given == ["json", "regex"]:
            given = ["regex"]
        if len(given) > 1:
            raise Fault(f"{' and '.join(given)} stand together", path, hint="a field has one selector; see first_of")
        if not given and not self.bare:
            raise Fault("has no selector", path, hint=f"one of {', '.join(KINDS)}")
        if not given and "then" in value:
            raise Fault("has no selector before `then`", path)

    def json(self) -> dict[str, Any]:
        schema = self.section.json()
        kinds = [{"required": [name]} for name in KINDS]
        return schema if self.bare else schema | {"anyOf": kinds}


class _Selectors:
    """`first_of` holds selectors again, so the shape refers to itself."""

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        SELECTOR.check(value, path, notes)

    def json(self) -> dict[str, Any]:
        return {"$ref": "#/$defs/selector"}


_SELECTOR_KEYS: Final[Mapping[str, Key]] = MappingProxyType(
    {
        "css": Key(
            Text(), "A CSS selector, `::attr(name)` or `::text` at its end; a node is its whole text, squeezed."
        ),
        "xpath": Key(Text(), "An XPath; inside a row it begins with `.//`."),
        "json": Key(Text(), "A JMESPath from the row, or from the root of the page."),
        "feed": Key(
            Text(), "`id`, `link`, `title`, `published`, `updated`, `summary`, `content`, `author` or `ns:name`."
        ),
        "sitemap": Key(
            Text(), "`loc`, `lastmod`, `changefreq`, `priority`, `news:title` and the like, of an entry of a sitemap."
        ),
        "regex": Key(Text(), "Group 1 of a match in the source of the page or row; `json` may follow into it."),
        "label": Key(ListOf(Text(), single=True, least=1), "The value beside a label, in a table or as `标签：值`."),
        "field": Key(Text(), "A field read before, or a value of `each`."),
        "template": Key(Text(), "A text with {placeholders}."),
        "hash": Key(ListOf(Text(), single=True, least=1), "A fingerprint of fields read before."),
        "first_of": Key(ListOf(_Selectors(), least=1), "The first of these selectors that has a value."),
        "all": Key(Flag(), "Every hit as a list, not the first alone; with css, xpath or regex."),
        "then": Key(StepsShape(), "Steps on the value, in order."),
    }
)
SELECTOR: Final = SelectorShape(Section("selector", _SELECTOR_KEYS))
FIELD_KEYS: Final[Mapping[str, Key]] = MappingProxyType(
    {
        **_SELECTOR_KEYS,
        "required": Key(Flag(), "Nothing is stored without it; in a row, the row is refused."),
        "optional": Key(Flag(), "It does not count for coverage."),
        "type": Key(Text(choices=tuple(ColumnType)), "The column's type, where the last step does not say it."),
    }
)


def _one_word(field: Mapping[str, Any], path: Path) -> None:
    if field.get("required") and field.get("optional"):
        raise Fault("'required' and 'optional' stand together", path)


@dataclass(frozen=True)
class FieldShape:
    """A field; `bare` fields are those of a Python source, which have no selector."""

    bare: bool

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        SelectorShape(Section("field", FIELD_KEYS), bare=self.bare).check(value, path, notes)
        _one_word(value, path)

    def json(self) -> dict[str, Any]:
        return SelectorShape(Section("field", FIELD_KEYS), bare=self.bare).json()


def fields_shape(python: bool) -> MapOf:
    return MapOf(FieldShape(python), FIELD_NAME, "small letters, digits and _, a letter first", least=1)
