"""Keys and fingerprints: what makes two entries one item, and two readings one version.

Keeps P1: a key has one spelling, the same for every back end; equal content has one hash (P3).
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

LONGEST_KEY = 255
HASH_BYTES = 16
MARK_BYTES = 12


def canonical_json(value: Any) -> bytes:
    """One spelling for equal values: sorted names, no blanks, UTF-8."""
    return msgspec.json.encode(value, order="deterministic")


def fingerprint(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=HASH_BYTES).digest()


def mark_of(*parts: str | bytes) -> bytes:
    """A short fingerprint of several texts, for filters: 96 bits, no two lists of texts alike in what is hashed."""
    data = [part.encode() if isinstance(part, str) else part for part in parts]
    # Their number and lengths first; one call for all, for this is done for each entry of a page.
    head = struct.pack(f">B{len(data)}I", len(data), *map(len, data))
    return hashlib.blake2b(head + b"".join(data), digest_size=MARK_BYTES).digest()


def content_hash(fields: Mapping[str, Any], names: Iterable[str]) -> bytes:
    """The hash of the named fields. A field without a value counts as not there, so that a new, empty one changes
    nothing.
    """
    # Records are long, and processors have SHA-256 built in.
    data = canonical_json({name: value for name in names if (value := fields.get(name)) is not None})
    return hashlib.sha256(data).digest()[:HASH_BYTES]


def key_fault(key: str) -> str | None:
    """Why `key` may not stand in the ledger, or None."""
    fault = _unfit(key)
    if fault is None and len(key.encode()) > LONGEST_KEY:
        return f"the key is longer than {LONGEST_KEY} bytes"
    return fault


def _unfit(key: str) -> str | None:
    if not key:
        return "the key is empty"
    if key != key.strip():
        return "the key begins or ends with a blank"
    if "\ufffd" in key:
        # Another unreadable character would look the same, and its item would be taken for this one.
        return "the key holds U+FFFD, which stands for NUL or for what could not be read as text"
    if key.isprintable():
        return None
    for char in key:
        category = unicodedata.category(char)
        if category == "Cc":
            return f"the key holds the control character U+{ord(char):04X}"
        if category == "Cs":
            return f"the key holds half a surrogate pair, U+{ord(char):04X}"
    return None


def key_of(text: str) -> str:
    """The key as the ledger holds it: no blanks at the ends; what is longer than 255 bytes becomes `sha256:` and hex.

    Raises:
        ValueError: nothing is left, or it holds control characters; the message is for people.
    """
    key = text.strip()
    fault = _unfit(key)
    if fault is not None:
        raise ValueError(fault)
    data = key.encode()
    return key if len(data) <= LONGEST_KEY else f"sha256:{hashlib.sha256(data).hexdigest()}"


def fields_read_otherwise(before: str, after: str) -> list[str]:
    """The fields that the key is made of and that a changed source reads in another way; the texts are resolved ones.

    The rule is the same, and still the items may get other keys: each would be collected once more (P1).
    """
    old, new = (_fields_of_key(json.loads(text).get("source", {})) for text in (before, after))
    return sorted(name for name in old.keys() & new.keys() if old[name] != new[name])


def _fields_of_key(spec: Mapping[str, Any]) -> dict[str, Any]:
    fields = spec.get("listing", {}).get("fields", {})
    found: dict[str, Any] = {}
    waiting = _named(spec.get("identity", {}).get("key", {}))
    while waiting:
        name = waiting.pop()
        if name in fields and name not in found:
            found[name] = fields[name]
            waiting += _named(fields[name])
    return found


def _named(selector: Any) -> list[str]:
    """The fields that a selector is made of."""
    if not isinstance(selector, Mapping):
        return []
    names = [selector["field"]] if "field" in selector else []
    names += re.findall(r"\{(\w+)", str(selector.get("template", "")))
    hashed = selector.get("hash", [])
    names += [hashed] if isinstance(hashed, str) else hashed
    return names + [name for one in selector.get("first_of", []) for name in _named(one)]


def rule_text(rule: Mapping[str, Any]) -> str:
    """The canonical text of a key rule; sources of one scope agree on it."""
    return json.dumps(rule, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
