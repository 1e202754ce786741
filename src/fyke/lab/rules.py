"""`fyke source diff`: what a changed source would make of pages that were recorded: which keys, rows and values differ.

A key that changes would make an item a second time (P1), so it is told first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from fyke.lab.recorded import Reading
from fyke.model import Entry, Outcome


class ChangedKey(Struct):
    """One entry whose key differs. `stored`: whether the ledger holds a row under the old key; None: not asked."""

    old: str
    new: str
    url: str
    title: str
    stored: bool | None = None


class ChangedField(Struct):
    """One field that differs, with its first example."""

    name: str
    changed: int
    key: str
    old: Any
    new: Any


class RuleDiff(Struct):
    """Old rules against new ones. Fields are those of entries, and of records where details were recorded."""

    entries_old: int
    entries_new: int
    same_keys: int = 0
    changed_keys: list[ChangedKey] = field(default_factory=list)
    only_old: list[str] = field(default_factory=list)
    only_new: list[str] = field(default_factory=list)
    refused_old: int = 0
    refused_new: int = 0
    fields: list[ChangedField] = field(default_factory=list)
    records: list[ChangedField] = field(default_factory=list)
    scope: tuple[str, str] | None = None
    table: tuple[str, str] | None = None
    outcomes: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether the new rules bring what the old ones bring."""
        rows = self.changed_keys or self.only_old or self.only_new or self.fields or self.records
        return not (rows or self.outcomes or self.scope or self.table or self.refused_old != self.refused_new)


def compare(old: Reading, new: Reading) -> RuleDiff:
    """Entries are matched by address, then by place on the page; their keys and values are compared."""
    before, after = list(_entries(old)), list(_entries(new))
    found = RuleDiff(len(before), len(after))
    found.refused_old = sum(len(one.read.refused) for one in old.lists)
    found.refused_new = sum(len(one.read.refused) for one in new.lists)
    found.outcomes = list(_outcomes(old, new))
    pairs, found.only_old, found.only_new = _matched(before, after)
    changed = _Changes()
    for one, other in pairs:
        if one.key == other.key:
            found.same_keys += 1
        else:
            title = str(one.fields.get("title") or "")
            found.changed_keys.append(
                ChangedKey(one.key, other.key, one.url or str(one.fields.get("url") or ""), title)
            )
        changed.add(one.key, one.fields, other.fields)
    found.fields = changed.found()
    records = _Changes()
    others = {one.request.url: one for one in new.details}
    for detail in old.details:
        other_detail = others.get(detail.request.url)
        if other_detail is None:
            continue
        if detail.outcome is not other_detail.outcome:
            why = f": {other_detail.reason}" if other_detail.reason else ""
            found.outcomes.append(f"{detail.request.url}: {detail.outcome} → {other_detail.outcome}{why}")
        if detail.record is not None and other_detail.record is not None:
            records.add(detail.entry.key, detail.record, other_detail.record)
    found.records = records.found()
    return found


class _Changes:
    """Differing fields, counted, with the first example of each."""

    def __init__(self) -> None:
        self._fields: dict[str, ChangedField] = {}

    def add(self, key: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        for name in dict.fromkeys((*old, *new)):
            if old.get(name) != new.get(name):
                one = self._fields.setdefault(name, ChangedField(name, 0, key, old.get(name), new.get(name)))
                one.changed += 1

    def found(self) -> list[ChangedField]:
        return list(self._fields.values())


def _entries(reading: Reading) -> Iterable[tuple[tuple[str, int, int], Entry]]:
    for one in reading.lists:
        for entry in one.read.entries:
            yield (one.listing, one.page, entry.position), entry


def _matched(
    old: list[tuple[tuple[str, int, int], Entry]], new: list[tuple[tuple[str, int, int], Entry]]
) -> tuple[list[tuple[Entry, Entry]], list[str], list[str]]:
    """Pairs, and the keys of entries that have no partner."""
    left = dict(enumerate(new))
    by_url: dict[tuple[str, str], list[int]] = {}
    by_place: dict[tuple[str, int, int], int] = {}
    for at, (place, entry) in left.items():
        by_place[place] = at
        if url := _address(entry):
            by_url.setdefault((place[0], url), []).append(at)
    pairs: list[tuple[Entry, Entry]] = []
    alone: list[tuple[tuple[str, int, int], Entry]] = []
    for place, entry in old:
        found = next((at for at in by_url.get((place[0], _address(entry)), ()) if at in left), None)
        if found is None:
            alone.append((place, entry))
        else:
            pairs.append((entry, left.pop(found)[1]))
    only_old = []
    for place, entry in alone:
        same_place = by_place.get(place)
        if same_place in left:
            pairs.append((entry, left.pop(same_place)[1]))
        else:
            only_old.append(entry.key)
    return pairs, only_old, [entry.key for _, entry in left.values()]


def _address(entry: Entry) -> str:
    return entry.url or str(entry.fields.get("url") or "")


def _outcomes(old: Reading, new: Reading) -> Iterable[str]:
    others = {(one.listing, one.page): one for one in new.lists}
    for one in old.lists:
        other = others.get((one.listing, one.page))
        if other is None:
            yield f"listing {one.listing}, page {one.page}: not read by the new rules"
        elif other.read.outcome is not one.read.outcome or other.read.outcome is not Outcome.OK:
            why = f": {other.read.reason}" if other.read.reason else ""
            yield f"listing {one.listing}, page {one.page}: {one.read.outcome} → {other.read.outcome}{why}"
