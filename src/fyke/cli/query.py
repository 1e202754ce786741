"""`fyke query`: a look at the rows of a source, chosen by plain comparisons; no SQL is taken from anybody."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from fyke.app import open_ledger
from fyke.cli.desk import applied_source
from fyke.cli.export import MOMENT_COLUMNS, chosen_columns, columns_of
from fyke.cli.flags import Json
from fyke.cli.moments import moment_ms
from fyke.cli.output import print_json, say, shortened, table, when
from fyke.cli.verb import one_verb, verb
from fyke.errors import UsageError, nearest
from fyke.model import ColumnType, Fields
from fyke.policy.cadence import zone
from fyke.settings import Loaded
from fyke.sources.timestamps import AUTO, read_time

USUAL_LIMIT: Final = 20
MOST: Final = 10_000
SHOWN_FIELDS: Final = 6
CELL: Final = 40
CONDITION: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*(>=|<=|!=|!~|=|~|>|<)\s*(.*)", re.ASCII | re.DOTALL)
OPERATORS: Final = "= != < <= > >= ~ !~"

Test = Callable[[Fields], bool]
Condition = tuple[str, str, Any]

app = one_verb()


@verb(app, "query", example="fyke query ccgp --where 'title~路灯' --where 'budget>=500000' --columns title,budget")
async def query(
    loaded: Loaded,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The id of an applied source.")],
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="field=value, !=, <, <=, >, >=, field~text (has it), field!~text; empty value: none. All must hold.",
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="NAMES", help="Which columns, in this order: title,buyer,_url.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST, help="How many rows.")] = USUAL_LIMIT,
    newest: Annotated[bool, typer.Option("--newest", help="The last ones that became known, not the first.")] = False,
    as_json: Json = False,
) -> None:
    """Look at the rows of a source without SQL. Numbers and times are compared as such; `~` has no regard to case.

    A time is a length before now (7d) or a date, in the source's zone. For more than a look: fyke export, or SQL.
    """
    async with open_ledger(loaded.settings) as stores:
        row = await applied_source(stores.ledger, source)
        chosen = chosen_columns(row, columns)
        kinds = dict(columns_of(row))
        zone_name = json.loads(row.source.text).get("source", {}).get("schedule", {}).get("timezone", "Asia/Shanghai")
        now = await stores.ledger.now()
        read = [_condition(text, kinds, now, zone(zone_name)) for text in where or []]
        pushed = [condition for condition, _ in read if condition is not None]
        tests = [test for condition, test in read if condition is None]
        found: deque[Fields] = deque(maxlen=limit if newest else None)
        more = False
        async for chunk in stores.ledger.rows(source, where=pushed):
            for fields in chunk:
                if not all(test(fields) for test in tests):
                    continue
                if not newest and len(found) == limit:
                    more = True
                    break
                more = more or len(found) == limit
                found.append(fields)
            if more and not newest:
                break
    rows = [{name: fields.get(name) for name, _ in chosen} for fields in found]
    if as_json:
        print_json({"rows": rows, "more": more})
        return
    _show(rows, [name for name, _ in chosen], named=columns is not None, more=more)


def _show(rows: list[Fields], names: list[str], *, named: bool, more: bool) -> None:
    if not named:
        declared = [name for name in names if not name.startswith("_")]
        # Columns without a value in these rows tell nothing.
        filled = [name for name in declared if any(row[name] is not None for row in rows)]
        names = ["_key", *filled[:SHOWN_FIELDS]]
        left = filled[SHOWN_FIELDS:]
    else:
        left = []
    if rows:
        table(names, [[_cell(name, row[name]) for name in names] for row in rows])
    say(f"{len(rows)} row(s)" + ("; there are more: --limit N" if more else ""))
    if left:
        say(f"also: --columns {','.join(left)}")


def _cell(name: str, value: Any) -> Any:
    if name in MOMENT_COLUMNS:
        return when(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else shortened(value, CELL)


def _condition(text: str, kinds: dict[str, ColumnType], now: int, in_zone: tzinfo) -> tuple[Condition | None, Test]:
    """A condition that the ledger compares, or None and the test that is made here.

    Raises:
        UsageError: it is none, names no column, or its value is not of the column's type.
    """
    match = CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no condition", field="--where", hint=f"write FIELD=VALUE; one of {OPERATORS}")
    name, operator, value = match[1], match[2], match[3].strip()
    if name not in kinds:
        hint = nearest(name, kinds) or f"there are {', '.join(kinds)}"
        raise UsageError(f"there is no column {name!r}", field="--where", hint=hint)
    kind = kinds[name]
    if operator in ("~", "!~"):
        wanted, has = value.casefold(), operator == "~"
        return None, lambda fields: (wanted in _as_text(fields.get(name)).casefold()) is has
    if value == "" and operator in ("=", "!="):
        without = operator == "="
        return None, lambda fields: (fields.get(name) is None) is without
    if name in MOMENT_COLUMNS:
        return (name, operator, moment_ms(value, now, "--where")), _never
    if kind is ColumnType.TEXT and operator in ("=", "!="):
        return (name, operator, value), _never
    make = _maker(kind, now, in_zone)
    bound = _made(make, value, name, kind)
    compare = _COMPARISONS[operator]

    def test(fields: Fields) -> bool:
        stored = fields.get(name)
        try:
            return stored is not None and compare(make(stored), bound)
        except (ValueError, InvalidOperation):
            return False

    return None, test


def _never(fields: Fields) -> bool:
    """The ledger has compared it."""
    return True


def _as_text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _made(make: Callable[[Any], Any], value: str, name: str, kind: ColumnType) -> Any:
    try:
        return make(value)
    except (ValueError, InvalidOperation) as error:
        hint = {ColumnType.DATETIME: "such as 7d or 2026-01-31", ColumnType.BOOLEAN: "true or false"}
        raise UsageError(
            f"{value!r} is no {kind.value}, as {name!r} is", field="--where", hint=hint.get(kind, "such as 500000")
        ) from error


def _maker(kind: ColumnType, now: int, in_zone: tzinfo) -> Callable[[Any], Any]:
    """What makes a value comparable, a stored one and a person's alike."""
    if kind in (ColumnType.NUMBER, ColumnType.INTEGER):
        return lambda value: _finite(Decimal(str(value)))
    if kind is ColumnType.BOOLEAN:
        return _boolean
    if kind is ColumnType.DATETIME:
        return lambda value: _moment(str(value), now, in_zone)
    return _as_text


def _finite(number: Decimal) -> Decimal:
    if not number.is_finite():
        raise ValueError("no number")
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false"):
        raise ValueError("no boolean")
    return str(value).lower() == "true"


def _moment(text: str, now: int, in_zone: tzinfo) -> datetime:
    found = read_time(text, (AUTO,), in_zone)
    if found is not None:
        return datetime.fromisoformat(found)
    try:
        return datetime.fromtimestamp(moment_ms(text, now, "--where") / 1000, in_zone)
    except UsageError as error:
        raise ValueError(str(error)) from error


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "=": lambda one, other: bool(one == other),
        "!=": lambda one, other: bool(one != other),
        "<": lambda one, other: bool(one < other),
        "<=": lambda one, other: bool(one <= other),
        ">": lambda one, other: bool(one > other),
        ">=": lambda one, other: bool(one >= other),
    }
)
