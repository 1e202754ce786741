"""Rewrites the SQL that all three databases share: written as SQLite takes it, but for few marked pieces."""

from __future__ import annotations

import re

TEXTS_REMEMBERED = 2_048

_LOCK = re.compile(r"\s+FOR\s+UPDATE(\s+SKIP\s+LOCKED)?\s*$")
_EXTREME = {"greatest(": "max(", "least(": "min("}


def for_sqlite(sql: str) -> str:
    """The text without its lock, and with SQLite's names of greatest and least."""
    sql = _LOCK.sub("", sql)
    return re.sub(r"\b(greatest|least)\(", lambda found: _EXTREME[found.group()], sql)
