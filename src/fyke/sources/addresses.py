"""Addresses as browsers read them: from the page's base, also those that only a call of a script names.

What leads nowhere (javascript:, mailto:, a bare #) is no address; nothing is guessed where a call names several.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from fyke.sources.document import Document
from fyke.sources.joining import WHOLE
from fyke.sources.nodes import Context, text_of

# Addresses that follow a folder of the base as they are.
_NAME: Final = r"[^\x00-\x20\\/:?#;.][^\x00-\x20\\/:?#;]*"
_RELATIVE: Final = re.compile(rf"((?:\.\./)*)(?:\./)?({_NAME}(?:/{_NAME})*/?(?:\?[^\x00-\x20\\#]+)?)")
# As browsers read an address: no line breaks, slashes for backslashes, blanks encoded.
_UNSAFE: Final = str.maketrans({"\t": None, "\r": None, "\n": None, "\\": "/", " ": "%20"})
_SCRIPT: Final = re.compile(r"\s*(?:javascript:\s*)?(?:return\s+)?(?:void\s+)?[\w.$]*\s*[(=]", re.IGNORECASE)
_QUOTED: Final = re.compile(r"""'([^'\n]{1,2000})'|"([^"\n]{1,2000})\"""")
_LIKE_ADDRESS: Final = re.compile(
    r"https?://\S+|/\S+|\.{1,2}/\S+|\?\S+=\S*|[\w./%-]+\.(?:s?html?|aspx?|jsp|jhtml|php|do|pdf)(?:[?#]\S*)?",
    re.IGNORECASE,
)


def absolute_url(value: Any, context: Context) -> str | None:
    """The address from the page's base; None for what leads nowhere."""
    text = text_of(value)
    return None if text is None else absolute(text, context.document)


def absolute(text: str, document: Document) -> str | None:
    """As `absolute_url`, of a text."""
    text = text.strip()
    if WHOLE.fullmatch(text):
        return text
    if ("(" in text or "=" in text) and ("'" in text or '"' in text) and _SCRIPT.match(text):
        return _called(text, document)
    relative = _RELATIVE.fullmatch(text)
    if relative and (folders := document.folders):
        return folders[min(len(relative[1]) // 3, len(folders) - 1)] + relative[2]
    text = text.translate(_UNSAFE)
    if not text or text == "#":
        return None
    if text[0] == "/" and text[1:2] != "/" and "/." not in text:
        return document.origin + text
    try:
        found = urljoin(document.base, text)
        parts = urlsplit(found)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return None
    return found


def _called(text: str, document: Document) -> str | None:
    """The one address among the arguments of a call: `showDetail(this,'0203','/information/b/1.html')`."""
    quoted = [first or second for first, second in _QUOTED.findall(text)]
    found = {part for part in quoted if _LIKE_ADDRESS.fullmatch(part.strip()) and not _SCRIPT.match(part)}
    return absolute(found.pop(), document) if len(found) == 1 else None
