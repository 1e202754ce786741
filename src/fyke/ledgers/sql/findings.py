"""What an audit can find, in words, and how much of it is kept.

Keeps P2: each key that does not add up is counted once, and named while there is room.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from fyke.db.connection import Connection
from fyke.model import Finding

FINDINGS_LIMIT = 1_000
DENSE_LIMIT = 1 << 27  # ids below are one byte each, the few beyond are in a dict


class Kind(StrEnum):
    """What is wrong with a key. The text is what the CLI prints and programs compare."""

    ITEM_MISSING = "item_missing"
    SIGHTING_MISSING = "sighting_missing"
    SIGHTING_DIFFERS = "sighting_differs"
    ROW_MISSING = "row_missing"
    ROW_DIFFERS = "row_differs"
    ROW_WITHOUT_ITEM = "row_without_item"
    VERSION_MISSING = "version_missing"
    VERSION_WITHOUT_ITEM = "version_without_item"
    STORED_NOTHING = "stored_nothing"
    NOT_MARKED_STORED = "not_marked_stored"
    LETTER_MISSING = "letter_missing"
    LETTER_ORPHAN = "letter_orphan"
    NOT_PENDING = "not_pending"
    PENDING_CLOSED = "pending_closed"
    COLLECTED_PENDING = "collected_pending"
    REFUSED_MISSING = "refused_missing"
    PAGE_DIFFERS = "page_differs"
    PASS_DIFFERS = "pass_differs"
    # Not counted as unaccounted: no key is on one side only, or another part of Fyke sees to it.
    HISTORY_MISSING = "history_missing"
    TALLY_DIFFERS = "tally_differs"
    UNQUEUED = "unqueued"
    TASK_UNKNOWN = "task_unknown"


MESSAGES: dict[Kind, str] = {
    Kind.ITEM_MISSING: "a listing showed it, and there is no item",
    Kind.SIGHTING_MISSING: "it is an item, and no listing is on record as having shown it",
    Kind.SIGHTING_DIFFERS: "its sighting names another item",
    Kind.ROW_MISSING: "it is stored, and its row is not in the table; the head version is there",
    Kind.ROW_DIFFERS: "its row in the table is not what the head version says",
    Kind.ROW_WITHOUT_ITEM: "the table has its row, and there is no item",
    Kind.VERSION_MISSING: "it is stored, and its head version is missing; the row is in the table",
    Kind.VERSION_WITHOUT_ITEM: "there are versions of it, and neither item nor row nor sighting: nothing names its key",
    Kind.STORED_NOTHING: "it is marked stored, and there is neither a row nor a version",
    Kind.NOT_MARKED_STORED: "it has a row or versions, and it is not marked stored",
    Kind.LETTER_MISSING: "it is dead, and there is no dead letter",
    Kind.LETTER_ORPHAN: "there is an open dead letter, and its item is not dead",
    Kind.NOT_PENDING: "it is open, and marked as not due: it would never be collected",
    Kind.PENDING_CLOSED: "it is closed, and marked as due",
    Kind.COLLECTED_PENDING: "it was collected at this generation, and is marked as due at it",
    Kind.REFUSED_MISSING: "the page counted refused entries that are not on record",
    Kind.PAGE_DIFFERS: "the page's entries are not the sum of new, known and refused",
    Kind.PASS_DIFFERS: "the pass counted other entries than its pages on record",
    Kind.HISTORY_MISSING: "an older version of it is missing; the head version is there",
    Kind.TALLY_DIFFERS: "the running counts are not what counting again gives",
    # The ledger alone cannot mend these two: the reconciler does, in `fyke run` and in `fyke audit --repair`.
    Kind.UNQUEUED: "it is due, and the frontier does not know it; the reconciler offers it again",
    Kind.TASK_UNKNOWN: "the frontier holds a task of it, and the ledger has no such item; the reconciler drops it",
}

# Why a finding cannot be mended by `--repair`, and what to do instead.
UNMENDABLE: dict[Kind, str] = {
    Kind.VERSION_WITHOUT_ITEM: "cannot be mended: their key is unknown; read and remove them in table `version`",
    Kind.REFUSED_MISSING: "cannot be mended: their text is gone; the next run shows rows that are still on the list",
    Kind.PAGE_DIFFERS: "cannot be mended: nothing says which count is right",
    Kind.PASS_DIFFERS: "cannot be mended: nothing says which count is right",
    Kind.HISTORY_MISSING: "cannot be mended: what it said is written nowhere else",
}
FAULTLESS = {Kind.HISTORY_MISSING, Kind.TALLY_DIFFERS, Kind.UNQUEUED, Kind.TASK_UNKNOWN}

SIGHTED, ROW, ROW_EQUAL, FAULTY, GONE, ITEM, LETTER = 1, 2, 4, 8, 16, 32, 64


class Flags:
    """A byte of flags for each item id: bounded by the highest id, not by what is wrong."""

    def __init__(self, highest: int) -> None:
        self._dense = bytearray(min(highest + 1, DENSE_LIMIT))
        self._sparse: dict[int, int] = {}

    def get(self, item: int) -> int:
        return self._dense[item] if 0 <= item < len(self._dense) else self._sparse.get(item, 0)

    def set(self, item: int, flag: int) -> int:
        """Raise a flag; returns the flags before."""
        if 0 <= item < len(self._dense):
            before = self._dense[item]
            self._dense[item] = before | flag
            return before
        before = self._sparse.get(item, 0)
        self._sparse[item] = before | flag
        return before


class Findings:
    """Collects findings and counts the keys that do not add up, each key once."""

    def __init__(self, connection: Connection, flags: Flags) -> None:
        self._flags = flags
        self.names: dict[int, str] = dict(connection.execute("SELECT id, name FROM source").fetchall())
        self.kept: list[Finding] = []
        self.unaccounted: Counter[int] = Counter()

    def item(self, kind: Kind, source: int, item: int, scope: str, key: str, *, cannot: str = "") -> None:
        """A finding about one key. `cannot`: why it cannot be mended, where that is not so for the whole kind."""
        if kind not in FAULTLESS and not self._flags.set(item, FAULTY) & FAULTY:
            self.unaccounted[source] += 1
        self._keep(kind, source, scope, key, cannot, item)

    def place(self, kind: Kind, source: int, place: str, *, count: int = 0, detail: str = "") -> None:
        """A finding about a page or a source; `count` entries do not add up by it."""
        if count:
            self.unaccounted[source] += count
        self._keep(kind, source, "", place, "", 0, detail)

    def _keep(self, kind: Kind, source: int, scope: str, key: str, cannot: str, item: int, detail: str = "") -> None:
        if len(self.kept) >= FINDINGS_LIMIT:
            return
        cannot = cannot or UNMENDABLE.get(kind, "")
        message = "; ".join(part for part in (MESSAGES[kind] + (f" ({detail})" if detail else ""), cannot) if part)
        name = self.names.get(source, "")
        self.kept.append(Finding(kind.value, name, scope, key, message, mendable=not cannot, item_id=item))
