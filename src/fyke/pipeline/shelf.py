"""Sources as workers use them: compiled from the ledger's text, once per hash; never from a worker's own disk."""

from __future__ import annotations

from collections.abc import Callable

from fyke.model import SourceRow
from fyke.ports import Ledger, Source

MOST_COMPILED = 2_000


class SourceShelf:
    """Compiled sources by id and hash. `compile_text` turns a resolved text into a Source."""

    def __init__(self, ledger: Ledger, compile_text: Callable[[str], Source]) -> None:
        self._ledger, self._compile = ledger, compile_text
        self._rows: dict[str, SourceRow] = {}
        self._compiled: dict[tuple[str, str], Source] = {}

    async def get(self, source_id: str, source_hash: str) -> Source | None:
        """The source at the given hash, or its current text where that hash is gone; None for a removed source.

        Raises:
            UsageError: the text cannot be compiled here, e.g. a python step is missing on this machine.
        """
        found = self._compiled.get((source_id, source_hash))
        if found is not None:
            return found
        self._rows = {row.source.id: row for row in await self._ledger.sources()}
        row = self._rows.get(source_id)
        if row is None:
            return None
        key = (source_id, row.source.hash)
        if key not in self._compiled:
            if len(self._compiled) >= MOST_COMPILED:
                self._compiled.clear()
            self._compiled[key] = self._compile(row.source.text)
        return self._compiled[key]

    async def all(self) -> list[tuple[SourceRow, Source]]:
        """Every source that is not removed, with its row; those that cannot be compiled here raise as in `get`."""
        rows = await self._ledger.sources()
        found = []
        for row in rows:
            source = await self.get(row.source.id, row.source.hash)
            if source is not None:
                found.append((row, source))
        return found
