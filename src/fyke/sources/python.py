"""Sources written in Python, of the same shape as a file: the class reads the pages, the rest is in `settings`.

A file may name the class (`source: package.module:Class`) and say the rest; its words win over those of the class.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from fyke.model import Fields, Listing, Response
from fyke.sources.faults import Fault, Misfit, StepFailed
from fyke.sources.importing import import_file, import_name
from fyke.sources.nodes import Context, stored_value
from fyke.sources.source import FileSource


class PythonSource(FileSource):
    """Subclass it, give `settings` in the words of a source file, and write `rows` (and `visit` where details are).

    ``listing.fields`` and ``detail.steps[].fields`` name the fields and their types; they have no selectors::

        class Bulletin(PythonSource):
            settings = {
                "id": "bulletin",
                "listing": {
                    "request": {"url": "https://example.org/bulletin.txt"},
                    "fields": {"id": {"required": True}, "published": {"type": "datetime"}},
                },
                "identity": {"scope": "example.org", "key": {"field": "id"}},
                "store": {"table": "bulletin"},
            }

            def rows(self, page, listing):
                for line in page.text.splitlines():
                    number, day = line.split(";")
                    yield {"id": number, "published": day}

    Both methods are pure: no requests, no clock, no state. What they raise becomes the outcome `error`.
    """

    settings: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def rows(self, page: Response, listing: Listing) -> Iterable[Mapping[str, Any]]:
        """The rows of a list page, one mapping of fields each; `pinned: True` marks one that stands on every page.

        Raises:
            Misfit: the page has no place for rows; no rows means that there is nothing new.
        """

    def visit(self, step: int, page: Response, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields of hop `step`; `fields` are those known before."""
        raise NotImplementedError(f"{type(self).__name__} has detail steps and no method visit")

    def find_rows(self, listing: Listing, response: Response, context: Context) -> list[Any]:
        try:
            return list(self.rows(response, listing))
        except Exception as error:
            raise _failed("rows", error) from error

    def read_fields(self, row: Any, context: Context) -> None:
        if not isinstance(row, Mapping):
            raise StepFailed("rows", type(self).__name__, TypeError(f"a row is {type(row).__name__}, not a mapping"))
        for field in self.plan.fields:
            value = stored_value(row.get(field.name), field.type, context.zone)
            value = field.read(context) if value is None else value
            if value is not None:
                context.fields[field.name] = value

    def pinned(self, row: Any, context: Context) -> bool:
        return row.get("pinned") is True

    def read_step(self, step: int, response: Response, context: Context) -> Fields:
        try:
            read = self.visit(step, response, dict(context.fields))
        except Exception as error:
            raise _failed("visit", error) from error
        found: Fields = {}
        for field in self.plan.steps[step].fields:
            value = stored_value(read.get(field.name), field.type, context.zone)
            value = field.read(context) if value is None else value
            if value is not None:
                found[field.name] = context.fields[field.name] = value
        return found

    @classmethod
    def line(cls) -> int:
        """The line where the class begins in its file."""
        try:
            return inspect.getsourcelines(cls)[1]
        except (OSError, TypeError):
            return 1


def _failed(method: str, error: Exception) -> Exception:
    """A misfit stays one; anything else is an error in the author's code."""
    from_us = isinstance(error, (Misfit, StepFailed))
    return error if from_us else StepFailed(method, "python", error)


def classes_of(path: Path) -> Iterator[tuple[str, type[PythonSource]]]:
    """The sources that a Python file defines; a file that names no PythonSource is not imported."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Fault(f"{path} cannot be read: {error}") from error
    if "PythonSource" not in text:
        return
    module = import_file(path, ())
    for name, made in vars(module).items():
        own = isinstance(made, type) and issubclass(made, PythonSource) and made.__module__ == module.__name__
        if own and not inspect.isabstract(made):
            yield name, made


def default_data(data: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The file's data over the class's settings, where it names a class."""
    if not isinstance(data.get("source"), str):
        return dict(data)
    made = import_name(data["source"], folder, ("source",))
    settings = getattr(made, "settings", {})
    return {**settings, **data}
