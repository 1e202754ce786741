"""The closed sets of words: states, kinds, outcomes."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

Fields: TypeAlias = dict[str, Any]


class ItemState(StrEnum):
    OPEN = "open"
    STORED = "stored"
    DEAD = "dead"
    IGNORED = "ignored"


class PassState(StrEnum):
    """`running` or how a walk ended, from best to worst in this order."""

    RUNNING = "running"
    COMPLETE = "complete"
    GAP = "gap"
    SUSPICIOUS = "suspicious"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


class RunState(StrEnum):
    """`running`, the worst state of the run's passes, or `skipped` (the run before was still going)."""

    RUNNING = "running"
    COMPLETE = "complete"
    GAP = "gap"
    SUSPICIOUS = "suspicious"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    SKIPPED = "skipped"


class TaskState(StrEnum):
    READY = "ready"
    DELAYED = "delayed"
    LEASED = "leased"


class TaskKind(StrEnum):
    ITEM = "i"
    PASS = "p"


class Outcome(StrEnum):
    """What one visit or list request came to; DESIGN 3 gives the effect of each."""

    OK = "ok"
    UNCHANGED = "unchanged"
    NETWORK = "network"
    TIMEOUT = "timeout"
    PROXY = "proxy"
    UNAVAILABLE = "unavailable"  # 408, 425, 429, 5xx
    DATABASE = "database"
    BLOCKED = "blocked"
    LOGIN = "login"
    NOT_FOUND = "not_found"  # 404
    GONE = "gone"  # 410
    REFUSED = "refused"  # any other 4xx
    EMPTY = "empty"
    MISFIT = "misfit"
    ERROR = "error"
    TOO_LARGE = "too_large"
    WORKER_DIED = "worker_died"
    ROW_REFUSED = "row_refused"
    ROBOTS = "robots"
    POLICY = "policy"
    GAVE_UP = "gave_up"


class Committed(StrEnum):
    COMMITTED = "committed"
    LATE = "late"  # generation or state moved on: nothing was changed
    REJECTED = "rejected"  # the database refused the row: the item is dead


class ColumnType(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    DATETIME = "datetime"
    BOOLEAN = "boolean"
    JSON = "json"
