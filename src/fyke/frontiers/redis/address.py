"""Addresses of a Redis frontier. A password is read here and never shown again."""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

from fyke.errors import UsageError, nearest

Kind = Literal["server", "sentinel", "cluster"]

SCHEMES: Final[dict[str, tuple[Kind, bool]]] = {
    "redis": ("server", False),
    "rediss": ("server", True),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}
TLS_OPTIONS: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
DEFAULT_PORT: Final = {"server": 6379, "sentinel": 26379, "cluster": 6379}
_NODE: Final = re.compile(r"(\[[^\]]+\]|[^:\[\]]*)(?::(\d{1,5}))?")


class Address(Struct, frozen=True):
    """Where the frontier is. `nodes`: one server, or the sentinels, or some nodes of the cluster."""

    scheme: str
    kind: Kind
    nodes: tuple[tuple[str, int], ...]
    user: str | None = None
    password: str | None = None
    service: str = ""  # sentinel: the master's name
    db: int = 0
    tls: dict[str, str] | None = None  # None: without TLS

    def __str__(self) -> str:
        """For people and logs: without user and password."""
        hosts = ",".join(f"{host}:{port}" for host, port in self.nodes)
        path = "" if self.kind == "cluster" else f"/{self.db}"
        return f"{self.scheme}://{hosts}{f'/{self.service}' if self.service else ''}{path}"

    def __repr__(self) -> str:
        return f"Address({self})"

    def hidden(self, text: str) -> str:
        """A text of the driver or the server, without the password."""
        return text.replace(self.password, "***") if self.password else text


def read_address(url: str) -> Address:
    """
    Raises:
        UsageError: it is none; the text does not repeat what may hold a password.
    """
    scheme, found, rest = url.partition("://")
    if not found or scheme not in SCHEMES:
        hint = nearest(scheme, SCHEMES) or f"it begins with {', '.join(f'{name}://' for name in SCHEMES)}"
        raise UsageError(f"not an address of a Redis frontier: {scheme}://…", field="frontier", hint=hint)
    kind, tls = SCHEMES[scheme]
    rest, _, query = rest.partition("?")
    place, _, path = rest.partition("/")
    login, _, hosts = place.rpartition("@")
    user, _, password = login.partition(":")
    parts = [part for part in path.split("/") if part]
    service = ""
    if kind == "sentinel":
        if not parts:
            raise UsageError(
                "the address names no master", field="frontier", hint="redis+sentinel://HOST:PORT,HOST:PORT/NAME/DB"
            )
        service = unquote(parts.pop(0))
    return Address(
        scheme=scheme,
        kind=kind,
        nodes=tuple(_node(part, kind) for part in hosts.split(",")),
        user=unquote(user) or None,
        password=unquote(password) or None,
        service=service,
        db=_database(parts, kind),
        tls=_options(query, tls),
    )


def _node(text: str, kind: Kind) -> tuple[str, int]:
    found = _NODE.fullmatch(text.strip())
    if found is None or (found[2] and not 0 < int(found[2]) < 65_536):
        raise UsageError("a host of the frontier's address cannot be read", field="frontier", hint="HOST or HOST:PORT")
    return (found[1].strip("[]") or "localhost", int(found[2] or DEFAULT_PORT[kind]))


def _database(parts: list[str], kind: Kind) -> int:
    if not parts:
        return 0
    if len(parts) > 1 or not parts[0].isdecimal() or (kind == "cluster" and int(parts[0])):
        hint = "a cluster has database 0 only" if kind == "cluster" else "the number of the database, such as /0"
        raise UsageError(f"no such database: {'/'.join(parts)!r}", field="frontier", hint=hint)
    return int(parts[0])


def _options(query: str, tls: bool) -> dict[str, str] | None:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if not tls or name not in TLS_OPTIONS:
            hint = nearest(name, TLS_OPTIONS) if tls else "options are for rediss:// only"
            raise UsageError(f"unknown option {name!r} in the frontier's address", field="frontier", hint=hint)
    return options if tls else None
