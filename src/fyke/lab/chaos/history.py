"""The history of a chaos run: one JSON object a line, written as it happens, so that it outlives a crash of ours."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

FILE: Final = "history.jsonl"


class History:
    """`start`, `fault`, `counts`, `ended`, `result` lines; `at` is seconds since the start."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.faults: Counter[str] = Counter()
        self.ended: list[str] = []
        self._file = self.path.open("wb", buffering=0)
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._began, 2)

    def write(self, what: str, **values: Any) -> None:
        self._file.write(msgspec.json.encode({"at": self.seconds, "what": what, **values}) + b"\n")

    def fault(self, name: str, detail: str) -> None:
        self.faults[name] += 1
        self.write("fault", fault=name, detail=detail)

    def left(self, name: str, code: int) -> None:
        """A process ended though nothing was done to it."""
        self.ended.append(f"{name} ({code})")
        self.write("ended", process=name, code=code)

    def close(self) -> None:
        self._file.close()
