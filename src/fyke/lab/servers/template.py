"""A data folder that is made once and copied for each server that wants an empty one."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path


def make_data(data: Path, make: Callable[[Path], None], name: str, templates: Path | None) -> None:
    """Fill `data` by `make`, or with a copy of what `make` has once made under this name in `templates`.

    Processes that share the templates wait for each other.
    """
    if templates is None:
        make(data)
        return
    templates.mkdir(parents=True, exist_ok=True)
    done = templates / f"{name}.done"
    with (templates / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(templates / name, ignore_errors=True)
            make(templates / name)
            done.touch()
    shutil.copytree(templates / name, data, symlinks=True)
