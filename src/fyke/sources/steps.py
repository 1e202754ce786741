"""Steps: what `then:` may name. Each turns the value of the selector, or of the step before it, into the next.

A step gives None for what it cannot read; the field then has no value. Steps after that are not asked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from functools import lru_cache
from html import unescape
from types import MappingProxyType
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError

from fyke.model import ColumnType
from fyke.policy.identity import canonical_json, fingerprint
from fyke.sources.addresses import absolute_url
from fyke.sources.amounts import read_money, read_number
from fyke.sources.document import read_json
from fyke.sources.faults import Fault, Misfit, Path
from fyke.sources.importing import import_name
from fyke.sources.many import SPLIT, by_table, for_each, join, map_shape, split, table_rows, table_shape
from fyke.sources.markup import clean_html, normal_html, paragraphs_of_html, squeeze, text_of_html
from fyke.sources.nodes import LONGEST_SEARCHED, Context, Run, StepContext, html_of, plain_json, text_of
from fyke.sources.placeholders import NoValue, Template
from fyke.sources.shapes import (
    Either,
    Key,
    ListOf,
    Notes,
    Section,
    Shape,
    Text,
    nearest_key,
)
from fyke.sources.timestamps import AUTO, read_time
from fyke.sources.timestamps import LONGEST as LONGEST_TIME


@dataclass(frozen=True)
class Making:
    """What a step may need while it is made: where it stands, the names it may use, the folder of the source file."""

    path: Path
    names: tuple[str, ...] = ()
    folder: str | None = None
    start: ColumnType = ColumnType.TEXT  # of what the first step gets


@dataclass(frozen=True)
class StepKind:
    """A step: its argument's shape (None: it takes none), what it does, the column type that it ends on (None: any)."""

    doc: str
    make: Callable[[Any, Making], Run]
    argument: Shape | None = None
    optional: bool = False
    type: ColumnType | None = ColumnType.TEXT


@dataclass(frozen=True)
class Step:
    name: str
    run: Run
    type: ColumnType | None


def compile_regex(pattern: str, path: Path) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise Fault(f"the regular expression does not compile: {error}", path) from error


def found_by(pattern: re.Pattern[str], text: str | None) -> str | None:
    """Group 1 where there is one, else the whole match."""
    match = pattern.search(text[:LONGEST_SEARCHED]) if text else None
    return None if match is None else match[1] if pattern.groups else match[0]


def compile_json(expression: str, path: Path) -> Callable[[Any], Any]:
    try:
        compiled = jmespath.compile(expression)
    except JMESPathError as error:
        raise Fault(f"the JSON path does not compile: {' '.join(str(error).split())}", path) from error
    return compiled.search


def _regex(argument: Any, making: Making) -> Run:
    pattern = compile_regex(argument, making.path)
    return lambda value, _: found_by(pattern, text_of(value))


def _datetime(argument: Any, making: Making) -> Run:
    formats = tuple(argument if isinstance(argument, list) else [argument or AUTO])

    # The rows of a list share few days.
    @lru_cache(maxsize=512)
    def read(text: str, zone: tzinfo) -> str | None:
        return read_time(text, formats, zone)

    def run(value: Any, context: Context) -> str | None:
        text = (text_of(value) or "")[:LONGEST_TIME]
        found = read(text, context.zone)
        if found is None and text and (at := context.document.at) is not None:
            return read_time(text, formats, context.zone, at)
        return found

    return run


def _number(argument: Any, making: Making) -> Run:
    mark = (argument or {}).get("decimal", ".")
    return lambda value, _: read_number(value if isinstance(value, (int, Decimal)) else text_of(value), mark)


def _money(argument: Any, making: Making) -> Run:
    said = {"currency": argument} if isinstance(argument, str) else argument
    currency, mark = said["currency"], said.get("decimal", ".")
    return lambda value, _: read_money(text_of(value), currency, mark)


def _json(argument: Any, making: Making) -> Run:
    search = compile_json(argument, making.path)

    def run(value: Any, _: Context) -> Any:
        if isinstance(value, str):
            try:
                value = read_json(value)
            except Misfit:
                return None
        return search(value)

    return run


def _split(argument: Any, making: Making) -> Run:
    by_pattern = isinstance(argument, Mapping)
    return split(compile_regex(argument["regex"] if by_pattern else re.escape(argument), making.path))


def _map(argument: Any, making: Making) -> Run:
    return by_table(argument) if isinstance(argument, Mapping) else for_each(_chain(argument, making))


def _chain(argument: Any, making: Making) -> Run:
    steps = compile_steps(argument, making)

    def run(value: Any, context: Context) -> Any:
        for step in steps:
            if value is None:
                return None
            value = step.run(value, context)
        return value

    return run


def _table(argument: Any, making: Making) -> Run:
    said = argument or {}
    columns = {
        name: part if isinstance(part, Mapping) else {"heading": part} for name, part in said.get("columns", {}).items()
    }
    chains = {name: _chain(part["then"], making) for name, part in columns.items() if "then" in part}
    headings = {name: part["heading"] for name, part in columns.items()}
    return table_rows(headings, chains, headed=said.get("headings", True))


def _hash(argument: Any, making: Making) -> Run:
    if argument == "sha256":
        return lambda value, _: hashlib.sha256((text_of(value) or "").encode()).hexdigest()
    return lambda value, _: fingerprint(canonical_json(plain_json(value))).hex()


def _template(argument: Any, making: Making) -> Run:
    template = Template(argument, ("value", *making.names), making.path)

    def run(value: Any, context: Context) -> str | None:
        try:
            return template.fill({**context.values, **context.fields, "value": text_of(value)})
        except NoValue:
            return None

    return run


def _python(argument: Any, making: Making) -> Run:
    function = import_name(argument, making.folder, making.path)
    if not callable(function):
        raise Fault(f"{argument!r} is no function", making.path)
    return lambda value, context: function(_handed(value), StepContext(context))


def _handed(value: Any) -> Any:
    """A python step gets JSON as it is, and text for everything else."""
    return value if isinstance(value, (dict, list, int, bool)) else text_of(value)


def _plain(run: Callable[[Any], Any]) -> Callable[[Any, Making], Run]:
    return lambda _argument, _making: lambda value, _context: run(value)


_DECIMAL: Final = Section(
    "number", {"decimal": Key(Text(choices=(".", ",")), "The decimal mark; default a full stop.")}
)
_MONEY: Final = Section(
    "money",
    {
        "currency": Key(Text(pattern="[A-Z]{3}", example="CNY"), "The currency that the result is in.", required=True),
        "decimal": Key(Text(choices=(".", ",")), "The decimal mark; default a full stop."),
    },
)
_PATTERN: Final = Text()


class _Steps:
    """`map` and `table` hold steps again, so the shape refers to itself."""

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        StepsShape().check(value, path, notes)

    def json(self) -> dict[str, Any]:
        return {"$ref": "#/$defs/steps"}


STEPS: Final[Mapping[str, StepKind]] = MappingProxyType(
    {
        "text": StepKind(
            "The text of a node or a piece of HTML, squeezed.",
            _plain(lambda value: text_of_html(normal_html(value)) if isinstance(value, str) else text_of(value)),
        ),
        "squeeze": StepKind("One blank for each run of blanks.", _plain(lambda value: squeeze(text_of(value) or ""))),
        "strip": StepKind("No blanks at the ends.", _plain(lambda value: (text_of(value) or "").strip())),
        "unescape": StepKind(
            "Entities once more into characters.", _plain(lambda value: unescape(text_of(value) or ""))
        ),
        "regex": StepKind("Group 1 of the first match, or the whole match.", _regex, _PATTERN),
        "absolute_url": StepKind(
            "The address from the page's own or its `<base>`; nothing for `javascript:` and the like.",
            lambda _argument, _making: absolute_url,
        ),
        "datetime": StepKind(
            "A time: formats of strptime, `auto`, `day_first`, `month_first`, `epoch_s` or `epoch_ms`.",
            _datetime,
            ListOf(Text(), single=True, least=1),
            optional=True,
            type=ColumnType.DATETIME,
        ),
        "number": StepKind(
            "The first number, exact: 1.2万, 三百二十, 1.234,5 with a decimal comma.",
            _number,
            _DECIMAL,
            optional=True,
            type=ColumnType.NUMBER,
        ),
        "money": StepKind(
            "A sum in whole units of its currency: 万元, 亿元, 元, ￥, 贰佰万元整; said twice it must agree.",
            _money,
            Either(((str, _MONEY.keys["currency"].shape), (Mapping, _MONEY)), "a currency such as CNY"),
            type=ColumnType.NUMBER,
        ),
        "split": StepKind(
            "The parts of a text between separators, without empty ones.",
            _split,
            SPLIT,
            type=ColumnType.JSON,
        ),
        "join": StepKind(
            "One text of the parts of a list; between them a comma, unless said.",
            lambda argument, _: join(argument),
            Text(),
            True,
        ),
        "map": StepKind(
            "A value by a table ('*' for all others; without it they are none), or steps for each part of a list.",
            _map,
            map_shape(_Steps()),
            type=None,
        ),
        "table": StepKind(
            "The rows of a table, each with its cells by heading.",
            _table,
            table_shape(_Steps()),
            optional=True,
            type=ColumnType.JSON,
        ),
        "html_to_text": StepKind(
            "Text by lines: one for each paragraph and table row, cells apart by a bar.",
            _plain(lambda value: paragraphs_of_html(normal_html(html_of(value) or "")) or None),
        ),
        "html": StepKind("The HTML of a node.", _plain(html_of)),
        "clean": StepKind(
            "HTML without scripts, styles, comments and event handlers.",
            _plain(lambda value: clean_html(html_of(value) or "")),
        ),
        "json": StepKind("A JMESPath into JSON, also JSON in a text.", _json, Text(), type=None),
        "hash": StepKind(
            "A fingerprint of the value: `blake2b` (default) or `sha256`.",
            _hash,
            Text(choices=("blake2b", "sha256")),
            optional=True,
        ),
        "template": StepKind("A text with `{value}` and the fields before.", _template, Text()),
        "python": StepKind("`module:function`, called as `function(value, context)`.", _python, Text(), type=None),
    }
)


@dataclass(frozen=True)
class StepsShape:
    """A list of steps, each a name or a mapping of one name to its argument."""

    def check(self, value: Any, path: Path, notes: Notes) -> None:
        if isinstance(value, list):
            for at, part in enumerate(value):
                self.check_step(part, (*path, at), notes)
        else:
            self.check_step(value, path, notes)

    def check_step(self, value: Any, path: Path, notes: Notes) -> None:
        if isinstance(value, Mapping) and len(value) != 1:
            raise Fault("a step is one name with its argument", path, hint="write [{regex: …}, absolute_url]")
        name, argument = next(iter(value.items())) if isinstance(value, Mapping) else (value, None)
        if not isinstance(name, str):
            raise Fault(f"{name!r} is no step", path, hint=f"steps: {', '.join(STEPS)}")
        if ("step", name) in notes.later:
            raise Fault(f"the step '{name}' comes with a later version of Fyke", path, hint="leave it out for now")
        kind = STEPS.get(name)
        if kind is None:
            raise Fault(f"the step '{name}' is not known", path, hint=nearest_key(name, STEPS))
        if argument is None:
            if kind.argument is not None and not kind.optional:
                raise Fault(f"the step '{name}' needs an argument", path, hint=kind.doc)
        elif kind.argument is None:
            raise Fault(f"the step '{name}' takes no argument", path)
        else:
            kind.argument.check(argument, (*path, name) if isinstance(value, Mapping) else path, notes)

    def json(self) -> dict[str, Any]:
        return {"$ref": "#/$defs/steps"}


def steps_schema() -> dict[str, Any]:
    bare = [name for name, kind in STEPS.items() if kind.argument is None or kind.optional]
    called = {name: {"description": kind.doc} | kind.argument.json() for name, kind in STEPS.items() if kind.argument}
    step = {
        "anyOf": [
            {"enum": bare},
            {
                "type": "object",
                "properties": called,
                "additionalProperties": False,
                "maxProperties": 1,
                "minProperties": 1,
            },
        ]
    }
    return {"anyOf": [step, {"type": "array", "items": step}]}


def _type_after(name: str, argument: Any, before: ColumnType | None) -> ColumnType | None:
    if name != "map":
        return STEPS[name].type
    return ColumnType.JSON if before is ColumnType.JSON or not isinstance(argument, Mapping) else ColumnType.TEXT


def compile_steps(value: Any, making: Making) -> tuple[Step, ...]:
    """The steps of one `then:`, checked by `StepsShape` before."""
    steps: list[Step] = []
    for at, part in enumerate(value if isinstance(value, list) else [value]):
        name, argument = next(iter(part.items())) if isinstance(part, Mapping) else (part, None)
        kind = STEPS[name]
        place = Making((*making.path, at, name), making.names, making.folder)
        before = steps[-1].type if steps else making.start
        steps.append(Step(name, kind.make(argument, place), _type_after(name, argument, before)))
    return tuple(steps)
