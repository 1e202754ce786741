"""Addresses of database servers. A password in one is never shown."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from fyke.errors import UsageError

PORTS: Mapping[str, int] = {"postgresql": 5432, "postgres": 5432, "mysql": 3306, "mariadb": 3306}


class Address(Struct, frozen=True):
    """Where a database is, and as whom."""

    scheme: str
    host: str
    port: int
    user: str
    password: str
    database: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"Address({self})"

    def __str__(self) -> str:
        """Without user, password and options."""
        return f"{self.scheme}://{self.host}:{self.port}/{self.database}"

    def hide(self, text: str) -> str:
        """The text of a driver's error, without the password."""
        return text.replace(self.password, "***") if self.password else text


def parse_address(url: str) -> Address:
    """
    Raises:
        UsageError: it is no such address; the message does not repeat it, for a password may be in it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UsageError(
            "the database's address cannot be read", hint="scheme://USER:PASSWORD@HOST:PORT/NAME"
        ) from None
    scheme, name = parts.scheme, unquote(parts.path.lstrip("/"))
    if scheme not in PORTS or not parts.hostname or not name or "/" in name:
        raise UsageError(
            "the database's address must name server and database",
            hint="postgresql://USER:PASSWORD@HOST:PORT/NAME or mysql://USER:PASSWORD@HOST:PORT/NAME;"
            " signs like @ and / in a password are written as %40 and %2F",
        )
    return Address(
        scheme=scheme,
        host=parts.hostname,
        port=port or PORTS[scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=name,
        options=dict(parse_qsl(parts.query)),
    )
