"""Addresses put behind others, without the standard library's work where they are whole already."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urljoin

# Addresses that urljoin would give back as they are.
WHOLE: Final = re.compile(r"https?://[A-Za-z0-9._:-]+(?:/[^\x00-\x20\\?#;]*)?(?:\?[^\x00-\x20\\#]+)?")


def joined(base: str, link: str) -> str | None:
    """The address of a link; None where it or the base is none that can be read."""
    if WHOLE.fullmatch(link):
        return link
    try:
        return urljoin(base, link)
    except ValueError:
        return None
