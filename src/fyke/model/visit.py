"""Visits of items and what they came to."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

from fyke.model.words import Fields, ItemState, Outcome


class DueItem(Struct, frozen=True):
    """An item that is still due at the asked generation, with what its visit needs."""

    item_id: int
    generation: int
    source_id: str
    source_hash: str  # of the source's current text
    scope: str
    key: str
    url: str
    lane: str
    entry: Fields
    entry_hash: bytes
    state: ItemState
    first_started_at: int | None
    soft_failures: int
    soft_ms: int
    paused_ms: int  # how long the source was paused since first_started_at
    attempts: int = 0  # costing failures of this generation; a delivery with more starts has met a death
    opened_at: int = 0  # when it was first listed


class Relation(NamedTuple):
    """What relates an item to others of its scope: they share the text of a field.

    `kind` is what this item is to those without one ("corrects"); "" for one that others may be something to.
    """

    kind: str
    field: str
    shared: str


AS_PLANNED = -1


class Result(Struct):
    """What a visit came to. `final` None: the attempt failed and the item stays due.

    `record` is set when `final` is stored and the outcome ok: the entry's fields overlaid by the detail's.
    `filled` says of each expected field whether it had a value (outcomes ok, misfit).
    """

    item_id: int
    generation: int
    outcome: Outcome
    final: ItemState | None
    worker: str
    started_at: int
    ended_at: int
    starts: int
    reason: str = ""
    costs: bool = False
    delay_ms: int = 0
    record: Fields | None = None
    record_hash: bytes = b""
    entry_hash: bytes = b""
    evidence: Fields = field(default_factory=dict)
    filled: dict[str, bool] = field(default_factory=dict)
    relations: list[Relation] | None = None  # None: the source has no such rules
    revisit_at: int = AS_PLANNED  # ms: when it is visited again; 0: not again
    hold_ms: int = 0  # the part of delay_ms for which the lane is held; it does not count towards giving up
