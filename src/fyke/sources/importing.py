"""Python of a source's author: functions and classes named `package.module:name`, beside the file or on the path."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from fyke.errors import nearest
from fyke.sources.faults import Fault
from fyke.sources.faults import Path as Place


def import_name(name: str, folder: str | None, path: Place) -> Any:
    """What `package.module:name` names.

    Raises:
        Fault: no such module or name, or the module raised while it was imported.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), *attribute.split(".")]):
        raise Fault(f"{name!r} names no Python", path, hint="write package.module:name")
    found: Any = _module(module_name, folder, path)
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [known for known in vars(found) if not known.startswith("_")]
            raise Fault(f"{module_name!r} has no '{part}'", path, hint=nearest(part, names))
        found = getattr(found, part)
    return found


def _module(name: str, folder: str | None, path: Place) -> ModuleType:
    beside = Path(folder, *name.split(".")).with_suffix(".py") if folder else None
    if beside is not None and beside.is_file():
        return import_file(beside, path)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and not name.startswith(error.name):
            raise Fault(f"the module '{name}' needs '{error.name}', which is not installed", path) from error
        where = f"beside the source file ({folder}) or on the path" if folder else "on the path"
        raise Fault(f"the module '{name}' is not {where}", path) from error
    except Exception as error:  # the module is a user's: whatever it raises is a mistake in it
        raise Fault(f"the module '{name}' cannot be imported: {type(error).__name__}: {error}", path) from error


def import_file(file: Path, path: Place) -> ModuleType:
    """The module in a file, once per file and process, whatever other folders hold under the same name."""
    file = file.resolve()
    name = f"fyke_source_{blake2b(str(file).encode(), digest_size=8).hexdigest()}_{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Fault(f"{file} is no Python module", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception):
            raise
        raise Fault(f"{file} cannot be imported: {type(error).__name__}: {error}", path) from error
    return module
