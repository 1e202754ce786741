"""Shapes of values in a source file: each checks a value, names what is wrong with it, and writes its JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from fyke.errors import nearest
from fyke.policy.units import parse_duration, parse_rate, parse_size
from fyke.sources.faults import Fault, Path

NO_EFFECT: Final = "no effect yet"
REFUSED: Final = "refused"


@dataclass
class Notes:
    """What a check finds besides mistakes. `later`: (section, key) → NO_EFFECT or REFUSED."""

    later: Mapping[tuple[str, str], str]
    ignored: list[str] = field(default_factory=list)


class Shape(Protocol):
    def check(self, value: Any, path: Path, notes: Notes) -> None:
        """Raise a Fault for what does not fit."""
        ...

    def json(self) -> dict[str, Any]:
        """The JSON Schema of this shape."""
        ...


def kind_of(value: Any) -> str:
    """A value as an error shows it."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"{str(value).lower()}" if isinstance(value, bool) else repr(value)


@dataclass(frozen=True)
class Text:
    """Text; `choices` or `pattern` say which."""

    choices: tuple[str, ...] = ()
    pattern: str = ""
    example: str = ""
    longest: int = 100_000

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if not isinstance(value, str):
            quoted = isinstance(value, (int, float))
            raise Fault(f"is {kind_of(value)}, not text", path, hint="put it in quotes" if quoted else None)
        if self.choices and value not in self.choices:
            hint = nearest(value, self.choices) or f"one of {', '.join(self.choices)}"
            raise Fault(f"{value!r} is not known", path, hint=hint)
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise Fault(f"{value!r} does not fit", path, hint=f"write for example {self.example}")
        if len(value) > self.longest:
            raise Fault(f"is longer than {self.longest:,} characters", path)

    def json(self) -> dict[str, Any]:
        if self.choices:
            return {"enum": list(self.choices)}
        return {"type": "string", "pattern": f"^(?:{self.pattern})$"} if self.pattern else {"type": "string"}


@dataclass(frozen=True)
class Scalar:
    """Text, or a number that is taken as its text."""

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise Fault(f"is {kind_of(value)}, not text or a number", path)

    def json(self) -> dict[str, Any]:
        return {"type": ["string", "number"]}


@dataclass(frozen=True)
class Flag:
    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if not isinstance(value, bool):
            raise Fault(f"is {kind_of(value)}, not true or false", path)

    def json(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Whole:
    least: int
    most: int

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Fault(f"is {kind_of(value)}, not a whole number", path)
        if not self.least <= value <= self.most:
            raise Fault(f"{value} is not between {self.least} and {self.most:,}", path)

    def json(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Share:
    """A part of the whole, from 0 to 1."""

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise Fault(f"is {kind_of(value)}, not a number from 0 to 1", path)

    def json(self) -> dict[str, Any]:
        return {"type": "number", "minimum": 0, "maximum": 1}


@dataclass(frozen=True)
class Measured:
    """Text with a unit, read by one of the parsers of `policy.units`."""

    parse: Callable[[str], int]
    example: str

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise Fault(f"is {kind_of(value)}", path, hint=f"write for example {self.example}")
        try:
            self.parse(value)
        except ValueError as error:
            raise Fault(str(error), path) from error

    def json(self) -> dict[str, Any]:
        return {"type": ["string", "integer"], "examples": [self.example]}


DURATION: Final = Measured(parse_duration, "30s")
SIZE: Final = Measured(parse_size, "50MB")
RATE: Final = Measured(parse_rate, "6/min")


@dataclass(frozen=True)
class ListOf:
    """A list; `single` allows one value without the brackets."""

    part: Shape
    single: bool = False
    least: int = 0

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if not isinstance(value, list):
            if not self.single:
                raise Fault(f"is {kind_of(value)}, not a list", path, hint="write [a, b]")
            self.part.check(value, path, notes)
            return
        if len(value) < self.least:
            raise Fault("the list is empty", path)
        for at, part in enumerate(value):
            self.part.check(part, (*path, at), notes)

    def json(self) -> dict[str, Any]:
        listed = {"type": "array", "items": self.part.json(), "minItems": self.least}
        return {"anyOf": [self.part.json(), listed]} if self.single else listed


@dataclass(frozen=True)
class MapOf:
    """A mapping with names of the author's."""

    part: Shape
    name: str = ".+"
    example: str = ""
    least: int = 0

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if not isinstance(value, Mapping):
            raise Fault(f"is {kind_of(value)}, not a mapping", path)
        if len(value) < self.least:
            raise Fault("is empty", path)
        for name, part in value.items():
            if not re.fullmatch(self.name, name):
                raise Fault(f"the name {name!r} does not fit", (*path, name), hint=self.example)
            self.part.check(part, (*path, name), notes)

    def json(self) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^(?:{self.name})$"},
            "additionalProperties": self.part.json(),
            "minProperties": self.least,
        }


@dataclass(frozen=True)
class Anything:
    def check(self, value: Any, path: Path, notes: Notes) -> None:
        return

    def json(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Either:
    """One of several shapes, chosen by the kind of the value."""

    kinds: tuple[tuple[type | tuple[type, ...], Shape], ...]
    wanted: str

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        for kind, shape in self.kinds:
            if isinstance(value, kind):
                shape.check(value, path, notes)
                return
        raise Fault(f"is {kind_of(value)}, not {self.wanted}", path)

    def json(self) -> dict[str, Any]:
        return {"anyOf": [shape.json() for _, shape in self.kinds]}


@dataclass(frozen=True)
class Key:
    """One key of a section: its shape and what it means."""

    shape: Shape
    doc: str
    required: bool = False


@dataclass(frozen=True)
class Section:
    """A mapping with fixed keys; `name` is that in the table of later work; of `one_of` exactly one is given."""

    name: str
    keys: Mapping[str, Key]
    one_of: tuple[str, ...] = ()
    extra: Callable[[Mapping[str, Any], Path], None] | None = None
    others: MapOf | None = None  # what stands under names of the author's, where they may be added
    elsewhere: tuple[tuple[str, str], ...] = ()  # keys that a person may look for here, and why they are not

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if not isinstance(value, Mapping):
            raise Fault(f"is {kind_of(value)}, not a mapping", path, hint=f"keys: {', '.join(self.keys)}")
        for name, part in value.items():
            self.check_key(name, part, (*path, name), notes)
        missing = [name for name, key in self.keys.items() if key.required and name not in value]
        if missing:
            raise Fault(f"'{missing[0]}' is missing", (*path, missing[0]), hint=self.keys[missing[0]].doc)
        given = [name for name in self.one_of if name in value]
        if self.one_of and len(given) != 1:
            what = f"{' and '.join(given)} stand together" if given else "is not said"
            raise Fault(what, path, hint=f"one of {', '.join(self.one_of)}")
        if self.extra is not None:
            self.extra(value, path)

    def check_key(self, name: str, part: Any, path: Path, notes: Notes) -> None:
        if name in self.keys:
            self.keys[name].shape.check(part, path, notes)
            return
        if self.others is not None:
            self.others.check({name: part}, path[:-1], notes)
            return
        for absent, why in self.elsewhere:
            if name == absent:
                raise Fault(f"'{name}' does not stand here: {why}", path, hint=f"keys here: {', '.join(self.keys)}")
        later = notes.later.get((self.name, name))
        if later == NO_EFFECT:
            notes.ignored.append(".".join(str(step) for step in path))
            return
        if later is not None:
            raise Fault(f"'{name}' comes with a later version of Fyke", path, hint="leave it out for now")
        raise Fault(f"the key '{name}' is not known", path, hint=nearest_key(name, self.keys))

    def json(self) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: {"description": key.doc} | key.shape.json() for name, key in self.keys.items()},
            "required": [name for name, key in self.keys.items() if key.required],
            "additionalProperties": False if self.others is None else self.others.part.json(),
        }
        if self.others is not None:
            schema["propertyNames"] = {"pattern": f"^(?:{self.others.name})$"}
            schema["minProperties"] = self.others.least
        if self.one_of:
            schema["oneOf"] = [{"required": [name]} for name in self.one_of]
        return schema


def nearest_key(name: str, valid: Iterable[str]) -> str:
    names = list(valid)
    return nearest(name, names) or f"keys: {', '.join(names)}"
