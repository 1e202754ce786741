"""What a walk remembers of its first round, so that a second look pays little for a list that has not moved."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from fyke.model import ListPage

MOST_REMEMBERED = 10_000


class Rounds:
    """Pages of the first round, so that a second look reads no page again whose bytes have not changed.

    At most `MOST_REMEMBERED` entries are held; pages beyond are read again.
    """

    def __init__(self) -> None:
        self._pages: dict[str, tuple[bytes, ListPage]] = {}
        self._entries = 0

    def same(self, cursor: dict[str, Any] | None, body: bytes) -> ListPage | None:
        """The page that these bytes were."""
        found = self._pages.get(cursor_name(cursor))
        return found[1] if found is not None and found[0] == digest(body) else None

    def remember(self, cursor: dict[str, Any] | None, body: bytes, page: ListPage) -> None:
        if self._entries + len(page.entries) <= MOST_REMEMBERED:
            self._entries += len(page.entries)
            self._pages[cursor_name(cursor)] = (digest(body), page)


def cursor_name(cursor: dict[str, Any] | None) -> str:
    """A short name: a cursor may hold a whole form."""
    return "" if cursor is None else digest(msgspec.json.encode(cursor, order="deterministic")).hex()


def digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()
