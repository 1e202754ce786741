"""How the pages of a list follow each other, for `fyke new`: a link to the next page, or numbers in addresses."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from selectolax.lexbor import LexborNode

from fyke.sources.document import Document
from fyke.sources.proposing_markup import ancestors, joined, names_of, squeezed
from fyke.sources.proposing_rows import leads_somewhere

NEXT: Final = re.compile(
    r"(?:下\s*一?\s*页|后\s*一?\s*页|下一頁|次へ|次の?ページ|next(?:\s+page)?|older(?:\s+posts)?|weiter|nächste(?:\s+seite)?"
    r"|suivante?|siguiente|próxima|следующая|następna)?\s*[>›»▶→]{0,2}",
    re.IGNORECASE,
)
# Names of parameters that count pages.
PAGE_NAMES: Final = re.compile(
    r"(?:.*[._-])?(?:page(?:_?(?:no|num|number|index|id))?|p|pn|pg|cur_?page|current_?page|cp)", re.IGNORECASE
)
OFFSET_NAMES: Final = re.compile(r"(?:.*[._-])?(?:offset|start|skip|from)|\w*offset", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\d+")
_PLAIN: Final = re.compile(r"[\w.-]*", re.ASCII)


def pages_of(document: Document, url: str, rows: Collection[int]) -> tuple[dict[str, Any] | None, str, str]:
    """`pages` as the file writes it or None, the address to ask for, and what a person should know.

    `rows`: the links that are rows, by their node: what they are called is no sign of a pager.
    """
    for css in ("link[rel=next]", "a[rel=next]"):
        if document.html.css_first(css) is not None:
            return {"next": {"css": f"{css}::attr(href)"}}, url, ""
    links = [link for link in document.html.css("a") if link.mem_id not in rows]
    following = [link for link in links if _is_next(link)]
    for link in following:
        if leads_somewhere(link.attributes.get("href")) and (spec := _next_by(document, link)):
            return {"next": spec}, url, ""
    numbered = _numbers(links, document.base, url)
    if numbered is not None:
        return (*numbered, "")
    if following or any("page" in (link.attributes.get("onclick") or "").lower() for link in links):
        return (
            None,
            url,
            ("the next page comes by a script: look in the browser's network view for the address that it asks for"),
        )
    return None, url, "no link to a next page was found: one page is read"


def _is_next(link: LexborNode) -> bool:
    text = squeezed(link)
    title = (link.attributes.get("title") or "").strip()
    return any(len(word) <= 20 and word and NEXT.fullmatch(word) is not None for word in (text, title))


def _next_by(document: Document, link: LexborNode) -> dict[str, Any] | None:
    """A selector whose first hit is this link."""
    named = [name for name in names_of(link) if name != "a"]
    title = (link.attributes.get("title") or "").strip()
    if title and NEXT.fullmatch(title) and '"' not in title:
        named.append(f'a[title="{title}"]')
    above = next(ancestors(link), None)
    if above is not None:
        named += [f"{name} > a" for name in names_of(above)[:-1]]
    for name in named:
        first = document.html.css_first(name)
        if first is not None and first.mem_id == link.mem_id and _says_next(name):
            return {"css": f"{name}::attr(href)"}
    text = squeezed(link)
    if '"' in text or not text:
        return None
    return {"xpath": f'//a[normalize-space(.)="{text}"]/@href'}


def _says_next(name: str) -> bool:
    """A place alone would be another link on the last page."""
    return re.search(r"next|xia|older|下|后", name, re.IGNORECASE) is not None


def _numbers(links: list[LexborNode], base: str, url: str) -> tuple[dict[str, Any], str] | None:
    """Links called 2 and 3, whose addresses differ by one number."""
    named: dict[str, str] = {}
    for link in links:
        text = squeezed(link).strip("[]【】（）() ")
        href = link.attributes.get("href")
        if text in ("1", "2", "3", "4") and href and leads_somewhere(href):
            named.setdefault(text, joined(base, href))
    for one, other in (("2", "3"), ("3", "4")):
        if one in named and other in named and (found := _between(named[one], named[other], int(one), url)):
            return found
    return None


def _between(one: str, other: str, page: int, url: str) -> tuple[dict[str, Any], str] | None:
    parts, others = _DIGITS.split(one), _DIGITS.split(other)
    numbers, more = _DIGITS.findall(one), _DIGITS.findall(other)
    moved = [at for at, (a, b) in enumerate(zip(numbers, more, strict=False)) if a != b]
    if parts != others or len(moved) != 1:
        return None
    at = moved[0]
    step = int(more[at]) - int(numbers[at])
    before = _joined(parts[: at + 1], numbers[:at])
    after = _joined(parts[at + 1 :], numbers[at + 1 :])
    if step < 1 or any(sign in before + after for sign in "{}"):
        return None
    if step > 1:
        begin = int(numbers[at]) - step * (page - 1)
        spec = {"step": step} | ({"first": begin} if begin else {})
        return ({"offset": spec}, f"{before}{{offset}}{after}") if "?" in before and begin >= 0 else None
    second = int(numbers[at]) - (page - 2)
    if "?" in before:
        return {"number": {"first": second - 1}}, f"{before}{{page}}{after}"
    # index.html, index_2.html: what changes is a name in a folder.
    folder, _, name = before.rpartition("/")
    own = url.partition("?")[0].partition("#")[0]
    first = own.removeprefix(f"{folder}/") if own.startswith(f"{folder}/") else None
    then = f"{name}{{n}}{after}"
    if first is None or not _PLAIN.fullmatch(first) or not _PLAIN.fullmatch(f"{name}{after}"):
        return {"number": {"first": second - 1}}, f"{before}{{page}}{after}"
    if first == f"{name}{second - 1}{after}":
        return {"number": {"first": second - 1}}, f"{before}{{page}}{after}"
    return {"number": {"first": first, "then": then, "from": second}}, f"{folder}/{{page}}"


def _joined(parts: list[str], numbers: list[str]) -> str:
    return "".join(part + (numbers[at] if at < len(numbers) else "") for at, part in enumerate(parts))


def pages_by_name(url: str, form: dict[str, str], count: int) -> tuple[dict[str, Any] | None, str, dict[str, str]]:
    """Of an address or a form that names the page by a parameter: `pages`, the address and form with {page}.

    `count`: how many rows the page has, for a parameter that counts rows instead.
    """
    for name, value in form.items():
        if PAGE_NAMES.fullmatch(name) and value in ("0", "1"):
            return {"number": {"first": int(value)}}, url, form | {name: "{page}"}
        if OFFSET_NAMES.fullmatch(name) and value == "0":
            return {"offset": {"step": count}}, url, form | {name: "{offset}"}
    parts = urlsplit(url)
    for name, value in parse_qsl(parts.query):
        named: dict[str, Any] | None = None
        if PAGE_NAMES.fullmatch(name) and value in ("0", "1"):
            named, place = {"number": {"first": int(value)}}, "{page}"
        elif OFFSET_NAMES.fullmatch(name) and value == "0":
            named, place = {"offset": {"step": count}}, "{offset}"
        if named is not None:
            query = re.sub(rf"(^|&)({re.escape(name)}=){value}(?=&|$)", rf"\1\2{place}", parts.query)
            return named, urlunsplit(parts._replace(query=query)), form
    return None, url, form
