"""Text that a database takes: NUL and lone surrogates are taken out before the write, and counted.

So a page's bad byte costs nobody a record; the database's own refusals are only the last net.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder()
_BAD = re.compile("[\x00\ud800-\udfff]")


def to_json(value: Any) -> str:
    """The value as JSON text, cleaned."""
    return clean_json(value)[0]


def clean_json(value: Any) -> tuple[str, Any, int]:
    """JSON text, the value that it says, and how many characters were taken out."""
    try:
        text = _ENCODER.encode(value).decode()
    except UnicodeEncodeError:
        text = ""
    # Nearly all values are clean, and then this costs one look at the text.
    if text and "\\u0000" not in text:
        return text, value, 0
    removed = [0]
    cleaned = _clean(value, removed)
    return _ENCODER.encode(cleaned).decode(), cleaned, removed[0]


def _clean(value: Any, removed: list[int]) -> Any:
    if isinstance(value, str):
        found, count = _BAD.subn("", value)
        removed[0] += count
        return found
    if isinstance(value, dict):
        return {_clean(key, removed): _clean(part, removed) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(part, removed) for part in value]
    return value
