"""Placeholders: `{name}` and `{name:format}` in addresses, forms, bodies and templates.

A value put into an address is percent-encoded, except a field that is the whole address and the page number.
`{{` and `}}` stand for braces.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from urllib.parse import quote

from fyke.errors import UsageError
from fyke.sources.faults import Fault, Path
from fyke.sources.nodes import text_of
from fyke.sources.shapes import nearest_key

PAGE: Final = "page"
OFFSET: Final = "offset"
CURSOR: Final = "cursor"
FORMATS: Final = "int, number, bool, raw, or a date format such as %Y-%m-%d"

_PART: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z]\w*)(?::([^{}]*))?\}", re.ASCII)
_TYPED: Final = ("int", "number", "bool")
_PADDED: Final = re.compile(r"0?\d{1,2}d?", re.ASCII)


class NoValue(UsageError):
    """A placeholder has no value."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the placeholder {{{name}}} has no value")
        self.name = name


class Template:
    """A text with placeholders, taken apart once."""

    __slots__ = ("names", "parts", "text", "whole")

    def __init__(self, text: str, names: Collection[str], path: Path) -> None:
        self.text = text
        self.parts: list[str | tuple[str, str]] = []
        end = 0
        for match in _PART.finditer(text):
            self.parts.append(text[end : match.start()])
            end = match.end()
            if match[1] is None:
                self.parts.append(match[0][0])
                continue
            name, form = match[1], match[2] or ""
            if name not in names:
                raise Fault(f"the placeholder {{{name}}} is not known here", path, hint=nearest_key(name, names))
            if form and form not in (*_TYPED, "raw") and not form.startswith("%") and not _PADDED.fullmatch(form):
                raise Fault(f"the format '{form}' of {{{name}}} is not known", path, hint=FORMATS)
            self.parts.append((name, form))
        self.parts.append(text[end:])
        self.parts = [part for part in self.parts if part]
        self.names = frozenset(part[0] for part in self.parts if isinstance(part, tuple))
        only = self.parts[0] if len(self.parts) == 1 else None
        self.whole = only if isinstance(only, tuple) else None

    def fill(self, values: Mapping[str, Any]) -> str:
        """The text with its values.

        Raises:
            NoValue: a placeholder has none.
        """
        return "".join(part if isinstance(part, str) else _formatted(*part, values) for part in self.parts)

    def address(self, values: Mapping[str, Any]) -> str:
        """As `fill`, for an address."""
        if self.whole:
            name, form = self.whole
            value = None if form else values.get(name)
            return value if value and isinstance(value, str) else _formatted(name, form, values)
        return "".join(part if isinstance(part, str) else _encoded(*part, values) for part in self.parts)

    def typed(self, values: Mapping[str, Any]) -> Any:
        """As `fill`, for JSON: a placeholder that is the whole text and says int, number or bool gives a value of that
        type.
        """
        if self.whole and self.whole[1] in _TYPED:
            return _typed(*self.whole, values)
        return self.fill(values)


def _typed(name: str, form: str, values: Mapping[str, Any]) -> Any:
    text = _formatted(name, "", values)
    try:
        if form == "int":
            return int(text)
        if form == "number":
            number = Decimal(text)
            return int(number) if number == number.to_integral_value() else float(number)
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except (ValueError, KeyError, InvalidOperation, OverflowError):
        kind = {"int": "whole number", "number": "number", "bool": "true or false"}[form]
        raise UsageError(f"{{{name}:{form}}} is {text!r}, no {kind}") from None


def _formatted(name: str, form: str, values: Mapping[str, Any]) -> str:
    value = values.get(name)
    text = text_of(value)
    if text is None or (text == "" and name != PAGE):
        raise NoValue(name)
    if not form or form == "raw" or form in _TYPED:
        return text
    if form.startswith("%"):
        try:
            return datetime.fromisoformat(text).strftime(form)
        except ValueError:
            raise UsageError(f"{{{name}:{form}}} is {text!r}, no time") from None
    try:
        return format(int(Decimal(text)), form if form.endswith("d") else f"{form}d")
    except (InvalidOperation, ValueError):
        raise UsageError(f"{{{name}:{form}}} is {text!r}, no number") from None


def _encoded(name: str, form: str, values: Mapping[str, Any]) -> str:
    text = _formatted(name, form, values)
    return text if form == "raw" or name == PAGE else quote(text, safe="")
