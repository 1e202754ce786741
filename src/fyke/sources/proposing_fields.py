"""What a row says, for `fyke new`: the selectors of its link, title and date, and the rule of its key.

A selector is tried on every row, and the one that finds most wins; what it finds is told with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from selectolax.lexbor import LexborNode

from fyke.sources.proposing_markup import classes, elements, has_plain_tag, place_among, squeezed
from fyke.sources.proposing_rows import leads_somewhere, whole_title, wording
from fyke.sources.timestamps import AUTO, read_time

ROWS_LOOKED_AT: Final = 5
PARTS_LOOKED_AT: Final = 80
LONGEST_DATE: Final = 300
LONGEST_TITLE: Final = 60
HEADINGS: Final = "h1,h2,h3,h4,h5"
MOST_SHARE: Final = 0.6
CUT: Final = ("...", "…")
# Parameters that change with each request, so that they make no key.
VOLATILE: Final = re.compile(
    r"(?:.*_)?(?:sign|signature|token|timestamp|ts|sid|s|session\w*|phpsessid|jsessionid|nonce|rand\w*|_)",
    re.IGNORECASE,
)
_IDS: Final = (
    r"_(\d+)\.s?html?$",
    r"/(\d+)\.s?html?$",
    r"-([0-9a-f]{32})\.s?html?$",
    r"/t?\d{8}_(\d+)\.s?html?$",
    r"-(\d+)\.s?html?$",
    r"/(\d+)/?$",
    r"-(\d+)/?$",
    r"/([\w-]{8,64})\.s?html?$",
    r"/([^/?#]+)/index\.html?$",
)


@dataclass(frozen=True)
class FieldFound:
    """A field of the proposal: its selector as the file writes it, and how many rows it fits."""

    name: str
    spec: dict[str, Any]
    hits: int


def fields_of(rows: Sequence[LexborNode], zone: tzinfo) -> list[FieldFound]:
    """Link, title and date of the rows, as far as they are there."""
    link = _link(rows)
    if link is None:
        return []
    hits = sum(1 for row in rows if _href(row, link))
    found = [FieldFound("url", {"css": f"{link}::attr(href)", "then": ["absolute_url"]}, hits)]
    title = _title(rows, link)
    if title is not None:
        found.append(title)
    date = _date(rows, zone)
    if date is not None:
        found.append(date)
    return found


def _first(row: LexborNode, css: str) -> LexborNode | None:
    return row.css_first(css)


def _href(row: LexborNode, css: str) -> str | None:
    node = _first(row, css)
    href = node.attributes.get("href") if node is not None else None
    return href if leads_somewhere(href) else None


def _short_names(node: LexborNode, row: LexborNode) -> list[str]:
    """Ways to name a part of a row, the shortest first."""
    above = node.parent
    if not has_plain_tag(node) or (above is not None and not has_plain_tag(above)):
        return []
    tag = node.tag or ""
    found = [tag, *(f"{tag}.{name}" for name in classes(node))]
    if above is not None and above.mem_id != row.mem_id:
        if above.tag in ("td", "th"):
            found.append(f"{place_among(above)} {tag}")
        else:
            found += [f"{above.tag} {tag}", *(f"{above.tag}.{name} {tag}" for name in classes(above)[:2])]
    if tag == "a" and (headings := node.css(HEADINGS)):
        found.append(f"a:has({headings[0].tag})")
    one_of_many = above is not None and above.mem_id == row.mem_id and len(row.css(tag)) > 1
    if tag in ("td", "th") or one_of_many:
        found.append(place_among(node))
    return found


def _ways(rows: Sequence[LexborNode], css: str) -> list[str]:
    """Names of the parts that the first rows have."""
    found: dict[str, None] = {}
    for row in rows[:ROWS_LOOKED_AT]:
        for node in row.css(css)[:PARTS_LOOKED_AT]:
            if node.mem_id != row.mem_id or css.startswith("a"):
                found |= dict.fromkeys(_short_names(node, row))
    return list(found)


def _best(ways: Iterable[str], worth: Callable[[str], float]) -> str | None:
    """The way that is worth most; a longer one must be worth clearly more."""
    best, most = None, 0.0
    for way in sorted(ways, key=lambda way: (len(way.split()), ":nth" in way, len(way))):
        if (value := worth(way)) > most * 1.05:
            best, most = way, value
    return best


def _link(rows: Sequence[LexborNode]) -> str | None:
    def worth(way: str) -> float:
        nodes = [_first(row, way) for row in rows]
        hrefs = [href for row in rows if (href := _href(row, way))]
        texts = [wording(node) for node in nodes if node is not None]
        said = sum(min(len(text), LONGEST_TITLE) for text in set(texts)) / max(1, len(texts))
        first = next((node for node in nodes if node is not None), None)
        headed = first is not None and _is_headed(first)
        return (
            (len(hrefs) / len(rows)) ** 2 * len(set(hrefs)) / max(1, len(hrefs)) * (1 + said) * (1.5 if headed else 1)
        )

    return _best(_ways(rows, "a[href]"), worth)


def _is_headed(link: LexborNode) -> bool:
    """Whether the link stands in a heading or has one inside."""
    above = link.parent
    return bool(link.css(HEADINGS)) or (above is not None and above.tag in HEADINGS.split(","))


def _title(rows: Sequence[LexborNode], link: str) -> FieldFound | None:
    nodes = [node for row in rows if (node := _first(row, link)) is not None]
    texts = [squeezed(node) for node in nodes]
    whole = [whole_title(node) for node in nodes]
    known = [text for text in texts if text]
    cut = sum(1 for text in texts if text.endswith(CUT))
    titled = [text for text in whole if text]
    if len(titled) >= MOST_SHARE * len(rows) and _distinct(titled) and (_mean(titled) > _mean(texts) or cut):
        spec: dict[str, Any] = {"first_of": [{"css": f"{link}::attr(title)"}, {"css": link}]}
        return FieldFound("title", spec, sum(1 for a, b in zip(texts, whole, strict=True) if a or b))
    if len(known) >= MOST_SHARE * len(rows) and _distinct(known):
        way = _part_of_link(rows, link) or link
        return FieldFound("title", {"css": way}, sum(1 for row in rows if _text(row, way)))
    best = _best(_ways(rows, "*"), lambda way: _said(rows, way))
    return FieldFound("title", {"css": best}, sum(1 for row in rows if _text(row, best))) if best else None


def _part_of_link(rows: Sequence[LexborNode], link: str) -> str | None:
    """A link around several lines: its first line is the title, the others are more fields."""
    first = _first(rows[0], link)
    parts = [part for part in elements(first) if squeezed(part)] if first is not None else []
    blocks = [part for part in parts if part.tag in ("div", "p", "dt", "h2", "h3", "h4", "h5", "strong", "b")]
    if len(blocks) < 2 or "".join(map(squeezed, parts)) == "":
        return None
    for way in reversed(_short_names(blocks[0], first or rows[0])):
        texts = [text for row in rows if (text := _text(row, way))]
        if len(texts) == len(rows) and _distinct(texts) and way not in ("div", "p"):
            return way
    return None


def _text(row: LexborNode, way: str | None) -> str:
    node = _first(row, way) if way else None
    return squeezed(node) if node is not None else ""


def _said(rows: Sequence[LexborNode], way: str) -> float:
    texts = [text for row in rows if (text := _text(row, way))]
    if not _distinct(texts) or _mean(texts) > 200:
        return 0.0
    return len(texts) / len(rows) * min(_mean(texts), 60)


def _distinct(texts: Sequence[str]) -> bool:
    """Whether the texts tell the rows apart; a few may share theirs."""
    return len(set(texts)) > 0.5 * len(texts)


def _mean(texts: Sequence[str]) -> float:
    return sum(map(len, texts)) / max(1, len(texts))


def _date(rows: Sequence[LexborNode], zone: tzinfo) -> FieldFound | None:
    def hits(way: str) -> int:
        texts = (_text(row, way)[:LONGEST_DATE] for row in rows)
        return sum(1 for text in texts if text and read_time(text, (AUTO,), zone) is not None)

    ways = _ways(rows, "*")
    marked = sum(1 for row in rows if (node := _first(row, "time[datetime]")) and node.attributes.get("datetime"))
    if marked >= MOST_SHARE * len(rows):
        spec: dict[str, Any] = {"css": "time::attr(datetime)", "then": [{"datetime": "auto"}]}
        return FieldFound("published", spec, marked)

    def worth(way: str) -> float:
        share = hits(way) / len(rows)
        # The date alone beats a text that has one somewhere.
        return share**2 / (1 + _mean([_text(row, way) for row in rows]) / 200) if share >= MOST_SHARE else 0.0

    best = _best(ways, worth)
    if best is None:
        return None
    return FieldFound("published", {"css": best, "then": [{"datetime": "auto"}]}, hits(best))


def key_rule(urls: Sequence[str], names: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The rule of the key for these addresses, and what a person should know of it.

    `names`: the fields that a key may be made of besides the address.
    """
    different = len(set(urls))
    for pattern in _IDS:
        found = {match[1] for url in urls if (match := re.search(pattern, url))}
        if len(found) == different and all(re.search(pattern, url) for url in urls):
            return {"field": "url", "then": [{"regex": pattern}]}, ""
    for name in _parameters(urls):
        pattern = rf"[?&;]{re.escape(name)}=([^&#;]+)"
        found = {match[1] for url in urls if (match := re.search(pattern, url))}
        if len(found) == different and all(re.search(pattern, url) for url in urls):
            return {"field": "url", "then": [{"regex": pattern}]}, ""
    if any(VOLATILE.fullmatch(part) for url in urls for part, _ in parse_qsl(urlsplit(url).query)):
        parts = [name for name in ("title", "published") if name in names]
        if parts:
            return {"hash": parts}, "the addresses have a signature or session in them: look for a better key"
    return {"field": "url"}, "the whole address is the key: a number in it would outlive a move of the site"


def _parameters(urls: Sequence[str]) -> list[str]:
    """The parameters that every address has and that may name an item, those called id first."""
    shared: dict[str, int] = {}
    for url in urls:
        for name in dict(parse_qsl(urlsplit(url).query)):
            shared[name] = shared.get(name, 0) + 1
    named = [name for name, count in shared.items() if count == len(urls) and not VOLATILE.fullmatch(name)]
    return sorted(named, key=lambda name: (not name.lower().endswith("id"), name))
