"""One value of one setting: read from what a person wrote, written back for people, secrets masked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit, urlunsplit

from fyke.errors import nearest
from fyke.policy.units import parse_duration, parse_size, write_duration, write_size

LATER_BACK_ENDS: Final = (
    ("postgres", "postgres", "the PostgreSQL ledger"),
    ("mysql", "mysql", "the MySQL ledger"),
    ("mariadb", "mysql", "the MariaDB ledger"),
    ("redis", "redis", "the Redis frontier"),
    ("valkey", "redis", "the Redis frontier"),
)


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


def sqlite_path(dsn: str) -> Path:
    """The file of `sqlite:///relative.db` or `sqlite:////absolute.db`.

    Raises:
        ValueError: not such an address; the message is for people.
    """
    for scheme, extra, what in LATER_BACK_ENDS:
        if dsn.startswith(scheme):
            raise ValueError(f"{what} comes with the extra fyke[{extra}] in a later release; use sqlite:///fyke.db")
    if not dsn.startswith("sqlite:///") or len(dsn) == len("sqlite:///"):
        raise ValueError(f"{masked(dsn)!r} is no ledger; write sqlite:///fyke.db or sqlite:////absolute/path.db")
    return Path(dsn.removeprefix("sqlite:///"))


def masked(url: str) -> str:
    """The address without what opens doors: user and password, and of a web address path and query too."""
    parts = urlsplit(url)
    if not parts.scheme or not parts.netloc:
        return url
    host = parts.netloc.rpartition("@")[2]
    netloc = f"***@{host}" if "@" in parts.netloc else host
    if parts.scheme in ("http", "https"):
        return (
            f"{parts.scheme}://{netloc}/***" if parts.path.strip("/") or parts.query else f"{parts.scheme}://{netloc}"
        )
    return urlunsplit((parts.scheme, netloc, parts.path, "***" if parts.query else "", ""))


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
    sqlite_path(_text(setting, value))
    return str(value)


def _frontier(setting: Kind, value: Any) -> str:
    text = _text(setting, value)
    for scheme, extra, what in LATER_BACK_ENDS:
        if text.startswith(scheme):
            raise ValueError(f"{what} comes with the extra fyke[{extra}] in a later release; use sql")
    if text != "sql":
        raise ValueError(f"{masked(text)!r} is no frontier; there is sql")
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
    "ledger": _ledger,
    "frontier": _frontier,
}
