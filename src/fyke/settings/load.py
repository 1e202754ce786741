"""`fyke.toml` in the working folder, `FYKE_*` variables over it, flags over both.

One rule names them all: `worker.concurrency` is `FYKE_WORKER_CONCURRENCY` and `--set worker.concurrency=4`. A name that
is not one of ours is an error with the nearest one; nothing that a person wrote is passed over in silence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_type_hints

from msgspec import Struct

from fyke.errors import UsageError, nearest
from fyke.settings.schema import PREFIX, Lane, Setting, Settings, all_settings
from fyke.settings.values import read_value

FILE_NAME: Final = "fyke.toml"
# Variables of ours that are no settings; secrets of sources bear names that people choose.
NOT_SETTINGS: Final = frozenset({"FYKE_DEBUG"})
NOT_SETTINGS_PREFIX: Final = "FYKE_SECRET_"


class Loaded(Struct, frozen=True):
    """Settings, and where each value came from: `default`, `fyke.toml:3`, `FYKE_LEDGER` or `--set`.

    `flags`: what was given on the command line, for processes that are started with the same.
    """

    settings: Settings
    origins: dict[str, str]
    flags: dict[str, str] = {}


def load_settings(folder: Path, environ: Mapping[str, str], flags: Mapping[str, str] | None = None) -> Loaded:
    """Read the settings that hold in `folder`.

    Raises:
        UsageError: an unknown name or a bad value; it names where it stands and the nearest valid name.
    """
    known = {setting.name: setting for setting in all_settings()}
    given = _from_file(folder / FILE_NAME, known)
    given |= _from_variables(environ, known)
    given |= _from_flags(flags or {}, known)
    origins = dict.fromkeys(known, "default") | {name: origin for name, (_, origin) in given.items()}
    settings = _build(Settings, {name: value for name, (value, _) in given.items()})
    pressure = settings.backpressure
    if pressure.low >= pressure.high:
        message = f"{pressure.low} is not less than backpressure.high, which is {pressure.high}"
        raise UsageError(message, field="backpressure.low", hint="say both, for example 100000 and 80000")
    return Loaded(settings, origins, dict(flags or {}))


def _from_file(path: Path, known: Mapping[str, Setting]) -> dict[str, tuple[Any, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", file=str(path)) from error
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise UsageError(
            f"is no TOML: {error}", file=FILE_NAME, line=int(found[1]) if found else _lines(text)
        ) from error
    lanes = tree.pop("lanes", {})
    given: dict[str, tuple[Any, str]] = {}
    for name, value in _leaves(tree):
        given[name] = _from_line(text, name, name, value, known)
    if not isinstance(lanes, dict) or not all(isinstance(lane, dict) for lane in lanes.values()):
        raise UsageError('lanes are tables by host: write [lanes."www.example.org"]', file=FILE_NAME, field="lanes")
    of_a_lane = {setting.name: setting for setting in all_settings(Lane)}
    for host, lane in lanes.items():
        for name, value in lane.items():
            whole = f"lanes.{host}.{name}"
            given[whole] = _from_line(text, whole, name, value, of_a_lane)
    return given


def _from_line(text: str, whole: str, name: str, value: Any, known: Mapping[str, Setting]) -> tuple[Any, str]:
    line = _line_of(text, whole)
    if name not in known:
        raise _unknown(name, known, f"there is no setting {whole!r}", file=FILE_NAME, line=line)
    try:
        return read_value(known[name], value), f"{FILE_NAME}:{line}" if line else FILE_NAME
    except ValueError as error:
        raise UsageError(str(error), file=FILE_NAME, line=line, field=whole) from error


def _from_variables(environ: Mapping[str, str], known: Mapping[str, Setting]) -> dict[str, tuple[Any, str]]:
    by_variable = {setting.variable: setting for setting in known.values()}
    given: dict[str, tuple[Any, str]] = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        if variable in NOT_SETTINGS or variable.startswith(NOT_SETTINGS_PREFIX):
            continue
        if variable not in by_variable:
            raise _unknown(variable, by_variable, f"the variable {variable} sets nothing")
        setting = by_variable[variable]
        try:
            given[setting.name] = (read_value(setting, environ[variable]), variable)
        except ValueError as error:
            raise UsageError(str(error), field=variable) from error
    return given


def _from_flags(flags: Mapping[str, str], known: Mapping[str, Setting]) -> dict[str, tuple[Any, str]]:
    given: dict[str, tuple[Any, str]] = {}
    for name, value in flags.items():
        if name not in known:
            raise _unknown(name, known, f"there is no setting {name!r}")
        origin = f"--{name}" if name in ("ledger", "sources") else f"--set {name}"
        try:
            given[name] = (read_value(known[name], value), origin)
        except ValueError as error:
            raise UsageError(str(error), field=origin) from error
    return given


def _unknown(
    name: str, valid: Mapping[str, Any], message: str, *, file: str | None = None, line: int | None = None
) -> UsageError:
    hint = nearest(name, valid) or "`fyke settings show` lists all"
    return UsageError(message, file=file, line=line, hint=hint)


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _lines(text: str) -> int:
    return text.count("\n") + 1


def _line_of(text: str, name: str) -> int | None:
    """The line where a dotted name is set; tomllib does not tell. None where it stands in an unusual form."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"""\s*\[\s*([\w.\s"':-]+?)\s*\]""", line):
            table = re.sub(r"""[\s"']""", "", header[1]) + "."
        elif key := re.match(r"\s*([\w.-]+)\s*=", line):
            whole = table + key[1]
            if whole == name or (name.startswith(f"{whole}.") and "{" in line):
                return number
    return None


def _build(struct: type[Struct], values: Mapping[str, Any], prefix: str = "") -> Any:
    chosen: dict[str, Any] = {}
    for name, hint in get_type_hints(struct).items():
        if isinstance(hint, type) and issubclass(hint, Struct):
            chosen[name] = _build(hint, values, f"{prefix}{name}.")
        elif prefix + name in values:
            chosen[name] = values[prefix + name]
    if struct is Settings:
        hosts = {name.removeprefix("lanes.").rpartition(".")[0] for name in values if name.startswith("lanes.")}
        chosen["lanes"] = {host: _build(Lane, values, f"lanes.{host}.") for host in sorted(hosts)}
    return struct(**chosen)
