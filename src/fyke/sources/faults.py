"""Mistakes in a source file and misfits of a page, each with the place where it is.

A fault is raised with its path in the file; the loader knows file and line and adds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from fyke.errors import FykeError, UsageError

Path: TypeAlias = tuple[str | int, ...]
Lines: TypeAlias = Mapping[Path, tuple[str, int]]


def dotted(path: Path) -> str | None:
    """`('listing', 'fields', 0)` as people write it: `listing.fields[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or None


class Fault(UsageError):
    """A mistake at `path` of a source."""

    def __init__(self, message: str, path: Path = (), *, hint: str | None = None) -> None:
        super().__init__(message, field=dotted(path), hint=hint)
        self.path = path

    def located(self, file: str, lines: Lines) -> UsageError:
        """The same mistake with file and line: those of the nearest part that is written there."""
        path = self.path
        while path and path not in lines:
            path = path[:-1]
        name, line = lines.get(path, (file, None))
        return UsageError(self.message, file=name, line=line, field=self.field, hint=self.hint)


class Misfit(FykeError):
    """The page does not fit the source; the text says what is missing."""


class Doubt(FykeError):
    """A value that a page says in two ways which differ: the field has none, and the text says why."""


class StepFailed(FykeError):
    """An exception in one step of one field."""

    def __init__(self, field: str, step: str, error: BaseException) -> None:
        text = " ".join(str(error).split())[:500]
        super().__init__(f"field '{field}', step {step}: {type(error).__name__}{': ' + text if text else ''}")
