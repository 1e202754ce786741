"""Addresses of ledgers and frontiers: which back end each names, and what is wrong with one that names none.

No text made here shows a user or a password, whatever a person wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from fyke.errors import nearest

LedgerKind: TypeAlias = Literal["sqlite", "postgres", "mysql"]
FrontierKind: TypeAlias = Literal["sql", "redis"]

LEDGERS: Final[dict[str, LedgerKind]] = {
    "sqlite": "sqlite",
    "postgresql": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
}
FRONTIERS: Final[dict[str, FrontierKind]] = {
    "redis": "redis",
    "rediss": "redis",
    "redis+sentinel": "redis",
    "rediss+sentinel": "redis",
    "redis+cluster": "redis",
    "rediss+cluster": "redis",
}
FORMS: Final = {
    "sqlite": "sqlite:///fyke.db, or sqlite:////absolute/path.db",
    "postgresql": "postgresql://USER:PASSWORD@HOST:5432/DATABASE",
    "mysql": "mysql://USER:PASSWORD@HOST:3306/DATABASE",
    "mariadb": "mariadb://USER:PASSWORD@HOST:3306/DATABASE",
    "sql": "sql",
    "redis": "redis://:PASSWORD@HOST:6379/0",
    "rediss": "rediss://:PASSWORD@HOST:6379/0",
    "redis+sentinel": "redis+sentinel://:PASSWORD@HOST1:26379,HOST2:26379/NAME/0",
    "rediss+sentinel": "rediss+sentinel://:PASSWORD@HOST1:26379,HOST2:26379/NAME/0",
    "redis+cluster": "redis+cluster://:PASSWORD@HOST1:6379,HOST2:6379",
    "rediss+cluster": "rediss+cluster://:PASSWORD@HOST1:6379,HOST2:6379",
}
# What other programs call the same.
OTHER_NAMES: Final = {
    "postgres": "postgresql",
    "pgsql": "postgresql",
    "postgresql+asyncpg": "postgresql",
    "postgresql+psycopg2": "postgresql",
    "mysql+pymysql": "mysql",
    "mysql+asyncmy": "mysql",
    "valkey": "redis",
    "valkeys": "rediss",
    "redis-sentinel": "redis+sentinel",
    "sentinel": "redis+sentinel",
    "redis-cluster": "redis+cluster",
    "cluster": "redis+cluster",
}
SENTINELS: Final = frozenset({"redis+sentinel", "rediss+sentinel"})
CLUSTERS: Final = frozenset({"redis+cluster", "rediss+cluster"})


def ledger_kind(url: str) -> LedgerKind:
    """Which database an address of a ledger names.

    Raises:
        ValueError: none; the message is for people and names the nearest form.
    """
    scheme = _scheme(url, "ledger", LEDGERS)
    if scheme == "sqlite":
        if not url.startswith("sqlite:///") or len(url) == len("sqlite:///"):
            raise ValueError(f"{masked(url)!r} names no file; write {FORMS['sqlite']}")
    else:
        path = _checked(url, scheme)
        if not path.strip("/") or "/" in path.strip("/"):
            raise ValueError(f"{masked(url)!r} names no database; write {FORMS[scheme]}")
    return LEDGERS[scheme]


def frontier_kind(url: str) -> FrontierKind:
    """Which frontier an address (or the word `sql`) names.

    Raises:
        ValueError: none; the message is for people and names the nearest form.
    """
    if url == "sql":
        return "sql"
    scheme = _scheme(url, "frontier", FRONTIERS)
    parts = [part for part in _checked(url, scheme).split("/") if part]
    if scheme in SENTINELS:
        if not parts:
            raise ValueError(f"{masked(url)!r} names no master; write {FORMS[scheme]}")
        parts = parts[1:]
    if len(parts) > 1 or any(not part.isdecimal() for part in parts):
        raise ValueError(f"{masked(url)!r}: the database of Redis is a number; write {FORMS[scheme]}")
    if scheme in CLUSTERS and parts not in ([], ["0"]):
        raise ValueError(f"{masked(url)!r}: a Redis cluster has database 0 only; write {FORMS[scheme]}")
    return FRONTIERS[scheme]


def sqlite_path(url: str) -> Path:
    """The file of `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    return Path(url.removeprefix("sqlite:///"))


def _scheme(url: str, what: str, known: dict[str, LedgerKind] | dict[str, FrontierKind]) -> str:
    scheme, sign, _ = url.partition(":")
    scheme = scheme.lower() if sign else ""
    if scheme in known:
        if not url.startswith(f"{scheme}://"):
            raise ValueError(f"{masked(url)!r} is no {what}; write {FORMS[scheme]}")
        return scheme
    words = [*known, "sql"] if what == "frontier" else list(known)
    near = OTHER_NAMES.get(scheme)
    if near in known:
        raise ValueError(f"{masked(url)!r} is no {what}; write {FORMS[str(near)]}")
    hint = nearest(scheme or url, words)
    forms = "; ".join(
        dict.fromkeys(FORMS[word] for word in words if word != "mariadb" and not word.startswith("rediss"))
    )
    raise ValueError(f"{masked(url)!r} is no {what}" + (f", {hint}" if hint else "") + f"; there are {forms}")


def _checked(url: str, scheme: str) -> str:
    """The path of an address whose hosts and ports can be read."""
    escape = "in user and password write %40 for @, %2F for /, %3A for :, %23 for #, %3F for ?"
    try:
        parts = urlsplit(url)
        parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError(f"{masked(url)!r} cannot be read; write {FORMS[scheme]}") from None
    if "@" in parts.path or "@" in parts.fragment or ("@" in parts.query and "@" not in parts.netloc):
        raise ValueError(f"{masked(url)!r} cannot be read: {escape}")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if len(hosts) > 1 and scheme not in SENTINELS | CLUSTERS:
        raise ValueError(f"{masked(url)!r} names several hosts; write {FORMS[scheme]}")
    for host in hosts:
        try:
            one = urlsplit(f"//{host}")
            bad = not one.hostname or one.port == 0
        except ValueError:
            bad = True
        if bad:
            raise ValueError(f"{masked(url)!r}: {host or 'nothing'!r} is no host; write {FORMS[scheme]}")
    return parts.path


def secrets_of(url: str) -> list[str]:
    """What may not be shown of an address, as it is written and as it is meant; the longest first.

    Texts of less than four characters are no secrets that could be masked: they stand in every second word.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return []
    user, sign, password = parts.netloc.rpartition("@")[0].partition(":")
    found = [password if sign else ""] + [value for name, value in parse_qsl(parts.query) if "pass" in name.lower()]
    if parts.scheme in ("http", "https"):
        found += [user, parts.path.strip("/"), parts.query]
    whole = {each for text in found for each in (text, unquote(text))}
    return sorted((each for each in whole if len(each) >= 4), key=len, reverse=True)


def masked(url: str) -> str:
    """The address without what opens doors: user and password, and of a web address path and query too."""
    head, sign, rest = url.partition("://")
    if not sign:
        # Whatever stands before a host may be a password, however it was mistyped.
        return f"***@{url.rpartition('@')[2]}" if "@" in url else url
    scheme = head.lower()
    if scheme == "sqlite":
        return url
    if "@" in rest:
        # The last @: a password may hold a bare one, or a slash.
        rest = f"***@{rest.rpartition('@')[2]}"
    rest, hash_sign, _ = rest.partition("#")
    place, query_sign, _ = rest.partition("?")
    if scheme in ("http", "https"):
        host, _, path = place.partition("/")
        return f"{scheme}://{host}" + ("/***" if path or query_sign or hash_sign else "")
    return f"{head}://{place}" + ("?***" if query_sign else "")
