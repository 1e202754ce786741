"""One value of one setting: read from what a person wrote, written back for people, secrets masked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from fyke.errors import nearest
from fyke.policy.units import parse_duration, parse_size, write_duration, write_size
from fyke.settings.places import frontier_kind, ledger_kind, masked


class Kind(Protocol):
    """What a value needs to know of its setting."""

    @property
    def kind(self) -> str: ...
    @property
    def optional(self) -> bool: ...
    @property
    def secret(self) -> bool: ...
    @property
    def limits(self) -> Mapping[str, Any]: ...
    @property
    def choices(self) -> tuple[str, ...]: ...


def shown(setting: Kind, value: Any) -> str:
    """The value as a person writes it, secrets masked."""
    if value is None:
        return ""
    if setting.kind == "duration":
        return write_duration(value)
    if setting.kind == "durations":
        return ", ".join(write_duration(each) for each in value)
    if setting.kind == "size":
        return write_size(value)
    if setting.kind == "switch":
        return "true" if value else "false"
    return masked(value) if setting.secret else str(value)


def read_value(setting: Kind, value: Any) -> Any:
    """The value of a setting from what a file (typed) or a variable or flag (text) says. Raises ValueError."""
    if setting.optional and value == "":
        return None
    read = READERS[setting.kind](setting, value)
    least, most = setting.limits["min"], setting.limits.get("max")
    for number in read if isinstance(read, tuple) else (read,):
        if isinstance(number, int) and (number < least or (most is not None and number > most)):
            limits = f"from {least} to {most}" if most is not None else f"at least {least}"
            raise ValueError(f"{value!r} is out of range: {limits}")
    return read


def _text(setting: Kind, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")  # noqa: TRY004 - one error for all that a person wrote wrong
    if len(value) < setting.limits.get("least", 0):
        raise ValueError("must not be empty")
    return value


def _number(_: Kind, value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value.strip(), re.ASCII):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")  # noqa: TRY004 - as above
    return value


def _duration(_: Kind, value: Any) -> int:
    return parse_duration(value if isinstance(value, str) else str(value))


def _durations(_: Kind, value: Any) -> tuple[int, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not parts or len(parts) > 100:
        raise ValueError(f"{value!r} is no list of durations; write for example 30s, 10m")
    return tuple(parse_duration(str(part)) for part in parts)


def _size(_: Kind, value: Any) -> int:
    return parse_size(value if isinstance(value, str) else str(value))


def _url(_: Kind, value: Any) -> str:
    parts = urlsplit(value) if isinstance(value, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no web address; write http://… or https://…")
    return str(value)


def _choice(setting: Kind, value: Any) -> str:
    if value not in setting.choices:
        hint = nearest(str(value), setting.choices)
        raise ValueError(f"{value!r} is none of {', '.join(setting.choices)}" + (f"; {hint}" if hint else ""))
    return str(value)


def _ledger(setting: Kind, value: Any) -> str:
    ledger_kind(_text(setting, value))
    return str(value)


def _frontier(setting: Kind, value: Any) -> str:
    frontier_kind(_text(setting, value))
    return str(value)


def _switch(_: Kind, value: Any) -> bool:
    words = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
    if isinstance(value, bool):
        return value
    found = words.get(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is neither true nor false")
    return found


def _name(setting: Kind, value: Any) -> str:
    text = _text(setting, value)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,31}", text, re.ASCII):
        raise ValueError(f"{text!r} is no name; it has 1 to 32 of a-z, 0-9, _, . and -, a letter or a digit first")
    return text


def _archive(setting: Kind, value: Any) -> str:
    # Better refused than passed over: a person would look for the pages when it is too late.
    raise ValueError(f"{_text(setting, value)!r} cannot be used: the archive comes in a later release; leave it out")


READERS: Final = {
    "archive": _archive,
    "text": _text,
    "number": _number,
    "duration": _duration,
    "durations": _durations,
    "size": _size,
    "url": _url,
    "choice": _choice,
    "switch": _switch,
    "name": _name,
    "ledger": _ledger,
    "frontier": _frontier,
}
