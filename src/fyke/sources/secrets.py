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
        raise Fault(f"a secret is written wrongly in {value!r}", path, hint="write ${secret:NAME}")
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
