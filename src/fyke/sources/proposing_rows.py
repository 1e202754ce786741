"""Where the rows of a list page are, by what repeats on it, for `fyke new`. Pure: a page in, groups out, best first.

Works on links: the elements that hold them are grouped by parent and kind; the group whose rows say most wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Final

from selectolax.lexbor import LexborNode

from fyke.sources.document import Document
from fyke.sources.proposing_markup import ancestors, classes, elements, has_plain_tag, own_id, selector_for, squeezed
from fyke.sources.timestamps import AUTO, read_time

MOST_LINKS: Final = 5_000
MOST_LEVELS: Final = 12
MOST_JUDGED: Final = 200
MOST_PROPOSED: Final = 3
LONGEST_TITLE: Final = 60
LEAST_OF_BEST: Final = 0.2
LEAST_LINKED: Final = 0.6
# Parts of a page that repeat and are no list of items.
_ASIDE: Final = re.compile(
    r"(?:^|[_-])(?:sub)?(?:nav\w*|menu\w*|foot\w*|crumbs?|breadcrumbs?|pager|paging\w*|pagination|share|toolbar"
    r"|friend\w*|links?|tags?|tabs?|popup\w*|login|select\w*|options?)(?:$|[_-])",
    re.IGNORECASE,
)
_ASIDE_TAGS: Final = frozenset(("nav", "header", "footer", "aside", "select", "form"))
_NO_ROWS: Final = frozenset(("head", "script", "style", "noscript", "option"))


@dataclass
class RowGroup:
    """Rows of one kind: `inside` and `css` as a source writes them, the nodes that they find, and how much they say."""

    inside: str
    css: str
    rows: list[LexborNode]
    score: float


@dataclass
class _Group:
    parents: list[LexborNode] = field(default_factory=list)
    rows: list[LexborNode] = field(default_factory=list)
    tag: str = ""
    kind: str = ""
    score: float = 0.0


def leads_somewhere(href: str | None) -> bool:
    text = (href or "").strip()
    return bool(text) and not text.lower().startswith(("javascript:", "mailto:", "tel:", "#"))


def row_groups(document: Document) -> list[RowGroup]:
    """The groups that may be the list, best first; none where nothing repeats that has links."""
    groups = [_judged(group) for group in _groups(document)]
    groups = sorted((group for group in groups if group.score > 0), key=lambda group: -group.score)
    found: list[RowGroup] = []
    taken: set[int] = set()
    for group in groups[:MOST_JUDGED]:
        if group.score < LEAST_OF_BEST * groups[0].score:
            break
        links = {node.mem_id for row in group.rows for node in _links(row)}
        if taken & links:
            continue
        made = _written(document, group)
        if made is not None:
            found.append(made)
            taken |= links
        if len(found) == MOST_PROPOSED:
            break
    return found


def _links(row: LexborNode) -> list[LexborNode]:
    found = [node for node in row.css("a[href]") if leads_somewhere(node.attributes.get("href"))]
    return found[:20]


def _groups(document: Document) -> Iterator[_Group]:
    parents: dict[int, tuple[LexborNode, set[int]]] = {}
    for link in document.html.css("a[href]")[:MOST_LINKS]:
        if not leads_somewhere(link.attributes.get("href")):
            continue
        below = link
        for level, above in enumerate(ancestors(link)):
            if level == MOST_LEVELS:
                break
            parents.setdefault(above.mem_id, (above, set()))[1].add(below.mem_id)
            below = above
    merged: dict[tuple[object, ...], _Group] = {}
    for parent, linked in parents.values():
        if len(linked) < 2 and parent.tag not in ("tr", "li", "ul", "ol", "tbody", "div"):
            continue
        for tag, kind, rows in _kinds(parent, linked):
            alone = (_signature(parent), parent.mem_id, tag, kind)
            for key in {(_signature(parent), tag, kind), alone} if len(rows) > 1 else {(_signature(parent), tag, kind)}:
                group = merged.setdefault(key, _Group(tag=tag, kind=kind))
                group.parents.append(parent)
                group.rows += rows
    for group in merged.values():
        if len(group.rows) > 1:
            yield group


def _kinds(parent: LexborNode, linked: set[int]) -> Iterator[tuple[str, str, list[LexborNode]]]:
    """The children of one tag, and those of one tag and class, where some have links."""
    children = [child for child in elements(parent) if has_plain_tag(child)]
    for tag in dict.fromkeys(child.tag for child in children if child.mem_id in linked):
        if tag is None or tag in _NO_ROWS:
            continue
        alike = [child for child in children if child.tag == tag]
        yield tag, "", alike
        named = dict.fromkeys(name for child in alike if child.mem_id in linked for name in classes(child))
        for name in list(named)[:10]:
            rows = [child for child in alike if name in classes(child)]
            if len(rows) < len(alike):
                yield tag, name, rows


def _signature(node: LexborNode) -> tuple[object, ...]:
    """What lists of one kind on a page share: tag and classes, or those of what is around them."""
    names: list[object] = []
    for part in [node, *ancestors(node)][:4]:
        listed = classes(part)
        names.append((part.tag, *sorted(listed)))
        if own_id(part):
            return (*names, own_id(part))
        if listed:
            break
    return tuple(names)


def whole_title(link: LexborNode) -> str:
    """The link's `title=` where it is the whole of what the link shows; some tell of other things."""
    text, title = squeezed(link), " ".join((link.attributes.get("title") or "").split())
    return title if title.startswith(text.rstrip(".… ")) else ""


def wording(link: LexborNode) -> str:
    """What a link is called."""
    return max(squeezed(link), whole_title(link), key=len)


def title_of(row: LexborNode) -> tuple[str, str]:
    """The address and the longest text of the row's links."""
    best = ("", "")
    for link in _links(row):
        text = wording(link)
        if len(text) > len(best[1]) or not best[0]:
            best = (link.attributes.get("href") or "", text)
    return best


def has_date(row: LexborNode) -> bool:
    return read_time(squeezed(row)[:500], (AUTO,), UTC) is not None


def _width(text: str) -> int:
    """The room that a title takes, up to its usual length: Chinese says as much in half the letters."""
    return min(LONGEST_TITLE, sum(2 if ord(char) > 0x2E80 else 1 for char in text[:LONGEST_TITLE]))


def _judged(group: _Group) -> _Group:
    rows = list({row.mem_id: row for row in group.rows}.values())
    group.rows = rows
    found = [title_of(row) for row in rows[:500]]
    linked = [(href, text) for href, text in found if href]
    addresses = {href for href, _ in linked}
    # A header, and a line between rows, has no link and no text of its own.
    blank = sum(1 for row, (href, _) in zip(rows, found, strict=False) if not href and _is_no_row(row))
    share = len(linked) / max(1, len(found) - blank)
    if len(addresses) < 2 or share < LEAST_LINKED:
        return group
    said: float = sum(_width(text) for text in {text for _, text in linked})
    # Links that all say "Documents" stand in rows that say more.
    said = max(said, sum(_width(text) for text in {squeezed(row) for row in rows[:500]}) / 2)
    dated = sum(map(has_date, rows[:50])) / len(rows[:50])
    spread = len(addresses) / len(linked)
    group.score = said * share**2 * spread * (1 + 1.5 * dated) * _likeness(rows[:50]) ** 2
    if len(group.parents) > 1 and len(group.parents) * 2 > len(rows):
        group.score *= 0.5
    # What stands around the rows of a list tells more than the link alone.
    group.score *= 1.1 if group.tag not in ("a", "span", "p", "h3", "td") else 1.0
    return group if not _aside(group.parents[0]) else _dampened(group)


def _likeness(rows: Sequence[LexborNode]) -> float:
    """How much of what most rows are made of the rows have: one that is made otherwise is no row of theirs."""
    made = [{f"{part.tag}.{name}" for part in row.css("*")[:60] for name in ("", *classes(part))} for row in rows]
    counts: dict[str, int] = {}
    for names in made:
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    usual = {name for name, count in counts.items() if count >= LEAST_LINKED * len(rows)}
    return sum(len(names & usual) for names in made) / (len(usual) * len(rows)) if usual else 0.1


def _dampened(group: _Group) -> _Group:
    group.score *= 0.05
    return group


def _is_no_row(row: LexborNode) -> bool:
    return not squeezed(row) or (row.tag == "tr" and not row.css("td"))


def _aside(node: LexborNode) -> bool:
    for part in [node, *ancestors(node)]:
        if part.tag in _ASIDE_TAGS and part.tag != "form":
            return True
        words = [*(part.attributes.get("class") or "").split(), part.attributes.get("id") or ""]
        if part.tag not in ("body", "html") and any(_ASIDE.search(word) for word in words):
            return True
    return False


def _written(document: Document, group: _Group) -> RowGroup | None:
    inside = selector_for(document, list({node.mem_id: node for node in group.parents}.values()))
    if inside is None:
        return None
    css = f"> {group.tag}" + (f".{group.kind}" if group.kind else "")
    rows: Sequence[LexborNode] = group.rows
    without = [row for row in rows if not _links(row)]
    if without and all(map(_is_no_row, without)):
        css += ":has(td)" if group.tag == "tr" and all(row.css("td") for row in rows if _links(row)) else ":has(a)"
        rows = [row for row in rows if _links(row)]
    return RowGroup(inside, css, list(rows), group.score)
