"""Secrets by reference: `${secret:NAME}` stands in files and in the ledger, the value only in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from fyke.sources.faults import Fault
from fyke.sources.faults import Path as Place

Secrets: TypeAlias = Callable[[str], str | None]

REFERENCE: Final = re.compile(r"\$\{secret:([A-Za-z][A-Za-z0-9_]*)\}")
MARK: Final = "${secret:"
LARGEST: Final = 65_536
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PROXY: Final = re.compile(
    r"http://(?:[^\s/?#@]*@)?(?:\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(?::([0-9]{1,5}))?/?", re.IGNORECASE
)


def environment_secrets(environ: Mapping[str, str] | None = None, folder: Path | None = None) -> Secrets:
    """Secrets from the variable FYKE_SECRET_NAME, the file that FYKE_SECRET_NAME_FILE names, or `folder`/NAME."""
    variables = os.environ if environ is None else environ

    def look_up(name: str) -> str | None:
        value = variables.get(f"FYKE_SECRET_{name}")
        if value is not None:
            return value
        named = variables.get(f"FYKE_SECRET_{name}_FILE")
        path = Path(named) if named else folder / name if folder else None
        if path is None or not path.is_file():
            return None
        with path.open(encoding="utf-8") as file:
            return file.read(LARGEST).strip()

    return look_up


def reveal(value: Any, secrets: Secrets, path: Place) -> Any:
    """`value` with each reference in its texts replaced.

    Raises:
        Fault: a secret that is not there, or a reference that is misspelt.
    """
    if isinstance(value, Mapping):
        return {name: reveal(part, secrets, (*path, name)) for name, part in value.items()}
    if isinstance(value, list):
        return [reveal(part, secrets, (*path, at)) for at, part in enumerate(value)]
    if not isinstance(value, str) or MARK not in value:
        return value
    for name in REFERENCE.findall(value):
        if secrets(name) is None:
            raise Fault(
                f"the secret '{name}' is not set",
                path,
                hint=f"set FYKE_SECRET_{name}, or FYKE_SECRET_{name}_FILE to a file that holds it",
            )
    shown = REFERENCE.sub(lambda match: secrets(match[1]) or "", value)
    if MARK in REFERENCE.sub("", value):
        raise Fault("a secret is written wrongly", path, hint="write ${secret:NAME}")
    return shown


def refuse_elsewhere(value: Any, path: Place, allowed: Callable[[Place], bool]) -> None:
    """Raise a Fault for a reference where its value would reach the ledger or a log, such as an address."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            refuse_elsewhere(part, (*path, name), allowed)
    elif isinstance(value, list):
        for at, part in enumerate(value):
            refuse_elsewhere(part, (*path, at), allowed)
    elif isinstance(value, str) and MARK in value and not allowed(path):
        raise Fault(
            "no secret may stand here: it would be written into the ledger",
            path,
            hint="secrets go into fetch.proxy, headers, form or json",
        )


def proxy_of(written: str | None, secrets: Secrets, path: Place) -> str | None:
    """The address of a proxy with its references replaced. No message tells any of it.

    Raises:
        Fault: a literal password, a secret that is not there, or no address of our form.
    """
    if written is None:
        return None
    before, user, _ = _SCHEME.sub("", REFERENCE.sub("\0", written), count=1).rpartition("@")
    name, colon, password = before.partition(":")
    if user and (password if colon else name) != "\0":
        raise Fault(
            "a password may not stand here: it would be written into the ledger",
            path,
            hint="write ${secret:NAME} for the whole address, or for the password, and set FYKE_SECRET_NAME",
        )
    shown: str = reveal(written, secrets, path)
    found = _PROXY.fullmatch(shown)
    if found is None or (found[1] and not 0 < int(found[1]) < 65_536):
        raise Fault(
            "is not of the form http://user:password@host:port",
            path,
            hint="its value is not shown; in user and password / ? # @ are written as %2F %3F %23 %40",
        )
    return shown
