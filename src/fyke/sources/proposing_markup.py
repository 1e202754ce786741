"""What `fyke new` asks of HTML: names of elements as CSS, their texts, and the selector that finds just these nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urljoin

from selectolax.lexbor import LexborNode, SelectolaxError

from fyke.sources.document import Document
from fyke.sources.markup import text_of_node

# What says where a row stands or how it looks just now, not what it is.
NOISE: Final = re.compile(
    r"clear(?:fix)?|cf|hot|active|current|on|off|odd|even|first|last|hover|selected|new|top|left|right|fl|fr|pull-\w+"
    r"|col(?:-\w+)*|row-?\d*|well\S*|.*\d{3,}.*|.*(?:odd|even|first|last)",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")
# What a page that is broken calls its elements cannot stand in a selector.
_TAG: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_MOST_LEVELS: Final = 5


def squeezed(node: LexborNode) -> str:
    """The node's text as a field would have it."""
    return text_of_node(node)


def classes(node: LexborNode) -> list[str]:
    """The class names that may stand in a selector and say what the node is."""
    names = (node.attributes.get("class") or "").split()
    return [name for name in dict.fromkeys(names) if _NAME.fullmatch(name) and not NOISE.fullmatch(name)]


def own_id(node: LexborNode) -> str | None:
    name = node.attributes.get("id") or ""
    return name if _NAME.fullmatch(name) and not re.search(r"\d{3}|_\d+$", name) else None


def has_plain_tag(node: LexborNode) -> bool:
    return _TAG.fullmatch(node.tag or "") is not None


def joined(base: str, href: str | None) -> str:
    """The address of a link; empty where it has none that can be read."""
    try:
        return urljoin(base, (href or "").strip())
    except ValueError:
        return ""


def elements(node: LexborNode) -> list[LexborNode]:
    """The child elements."""
    return [part for part in node.iter() if part.tag and not part.tag.startswith(("-", "!"))]


def ancestors(node: LexborNode) -> Iterator[LexborNode]:
    above = node.parent
    while above is not None and above.tag not in (None, "html", "-undef", "-document"):
        yield above
        above = above.parent


def names_of(node: LexborNode) -> list[str]:
    """Ways to name an element, the surest first."""
    tag = (node.tag or "*") if has_plain_tag(node) else "*"
    found = [f"{tag}#{name}"] if (name := own_id(node)) else []
    listed = classes(node)
    found += [f"{tag}.{name}" for name in listed]
    if len(listed) > 1:
        found.append(f"{tag}.{'.'.join(listed)}")
    return [*found, tag]


def place_among(node: LexborNode) -> str:
    """`td:nth-child(2)`: the node among its parent's elements."""
    above = node.parent
    listed = elements(above) if above is not None else [node]
    at = next((at for at, part in enumerate(listed, 1) if part.mem_id == node.mem_id), 1)
    return f"{node.tag if has_plain_tag(node) else '*'}:nth-child({at})"


def selector_for(document: Document, nodes: Sequence[LexborNode]) -> str | None:
    """The shortest plain selector that finds exactly these nodes on the page; None where there is none."""
    wanted = {node.mem_id for node in nodes}

    def fits(css: str) -> bool:
        try:
            return {found.mem_id for found in document.html.css(css)} == wanted
        except (SelectolaxError, ValueError):
            return False

    first = nodes[0]
    for name in names_of(first):
        if fits(name):
            return name
    tails = names_of(first)[-2:]
    for level, above in enumerate(ancestors(first)):
        if level == _MOST_LEVELS:
            break
        for name in names_of(above)[:-1]:
            for tail in reversed(tails):
                for joint in (" > ", " ") if level == 0 else (" ",):
                    if fits(css := f"{name}{joint}{tail}"):
                        return css
    return _by_places(first, fits) if len(nodes) == 1 else None


def _by_places(node: LexborNode, fits: object) -> str | None:
    """A path of places from the nearest element that has a name of its own: the last resort."""
    path = [place_among(node)]
    for above in ancestors(node):
        named = names_of(above)[0]
        if callable(fits) and fits(css := " > ".join([named, *path])):
            return css
        path.insert(0, place_among(above) if above.tag != "body" else "body")
    return None
