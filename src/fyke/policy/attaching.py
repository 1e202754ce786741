"""Attachments as items of their own: how they are named after the item that they belong to (P1)."""

from __future__ import annotations

from urllib.parse import urlsplit

from fyke.policy.identity import LONGEST_KEY, fingerprint, key_of

SUFFIX = "attachments"


def attached_source(source_id: str) -> str:
    """The source that an item's attachments belong to."""
    return f"{source_id}.{SUFFIX}"


def attached_scope(scope: str) -> str:
    return f"{scope}/{SUFFIX}"


def attached_table(table: str) -> str:
    return f"{table}_{SUFFIX}"


def attached_key(parent: str, url: str) -> str:
    """`PARENT/host/path?query`: one file of one item, over http or https; of long ones a fingerprint."""
    parts = urlsplit(url)
    rest = f"{parts.netloc}{parts.path}{'?' if parts.query else ''}{parts.query}"
    key = f"{parent}/{rest}"
    if len(key.encode()) > LONGEST_KEY:
        key = f"{parent}/{fingerprint(rest.encode()).hex()}"
    return key_of(key)


def keys_under(parent: str) -> tuple[str, str]:
    """The first key that an attachment of this item may have, and the first that is behind them all."""
    return f"{parent}/", f"{parent}0"
