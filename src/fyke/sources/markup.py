"""From markup to text: what a person reads of a piece of HTML, and HTML without what runs.

All of it works on serialised HTML, where quotes are balanced and `<` in text is escaped, so each pass is linear.
"""

from __future__ import annotations

import re
from html import unescape
from operator import attrgetter
from typing import Final

from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

# Elements that end a word where they begin and end; all others (font, span, a, b …) stand inside text.
_BLOCKS: Final = (
    "address|article|aside|blockquote|body|br|button|caption|center|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption"
    "|figure|footer|form|frameset|h[1-6]|head|header|hr|html|legend|li|main|menu|nav|ol|optgroup|option|p|pre|section"
    "|select|summary|table|tbody|td|textarea|tfoot|th|thead|title|tr|ul"
)
_REST: Final = r'[^>"]*(?:"[^"]*"[^>"]*)*>'
BLOCKS: Final = frozenset(_BLOCKS.replace("h[1-6]", "h1|h2|h3|h4|h5|h6").split("|"))
# The parser writes its names in lower case; ignoring case would take three times as long.
_INLINE: Final = re.compile(rf"</?(?!(?:{_BLOCKS})[\s/>])[a-zA-Z]{_REST}")
_TAG: Final = re.compile(f"<{_REST}")
_SILENT: Final = re.compile(r"<(script|style|template)\b[^>]*>.*?</\1\s*>", re.DOTALL)
_UNREAD: Final = re.compile(r"<(?:!--|script|style|template)")
_SILENT_TAGS: Final = frozenset(("script", "style", "template"))
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_FILLERS: Final = ("\u200b", "\ufeff", "\u00ad", "\u200e", "\u200f", "\u2060")
_RUNNING: Final = re.compile(
    r"<(script|style|iframe|object|embed|applet|noscript|template)\b[^>]*>.*?</\1\s*>"
    r"|</?(?:script|style|iframe|object|embed|applet|noscript|template|link|meta|base)\b[^>]*>",
    re.DOTALL | re.IGNORECASE,
)
_OPEN_TAG: Final = re.compile(rf"<[a-zA-Z]{_REST}")
_ATTRIBUTE: Final = re.compile(r'\s([^\s="/>]+)(?:="([^"]*)")?')
_ADDRESSES: Final = frozenset(("href", "src", "action", "formaction", "xlink:href", "data", "poster", "background"))
_RUNS: Final = re.compile(r"[\s\x00-\x20]*(?:javascript|vbscript|data)\s*:", re.IGNORECASE)

INLINE_EDGE: Final = "\x1f"


# What is in these is written without escapes.
_RAW: Final = ("script", "style", "xmp", "iframe", "noembed", "noframes", "plaintext", "noscript")
_COMMON: Final = ("a", "b", "em", "font", "i", "img", "label", "small", "span", "strong", "time", "u")
_SPECIAL_BLOCKS: Final = frozenset(("html", "head", "body", "frameset", "title", "textarea"))


def _numbers() -> dict[str | None, int]:
    """The parser's number of each tag of these, and of `-text`."""
    table = "<table><caption><thead><tr><th><tbody><tr><td><tfoot></table>x"
    pages = [table, *(f"<{name}></{name}>" for name in (*BLOCKS, *_RAW, *_COMMON))]
    roots = [root for page in pages if (root := LexborHTMLParser(page).root) is not None]
    return {part.tag: part.tag_id for root in roots for part in root.traverse(include_text=True)}


_NUMBERS: Final = _numbers()
_TEXT_NUMBER: Final = _NUMBERS["-text"]
_PLAIN_NUMBERS: Final = frozenset(_NUMBERS[name] for name in BLOCKS - _SPECIAL_BLOCKS)
_tag_number: Final = attrgetter("tag_id")
_RAW_NUMBERS: Final = frozenset(_NUMBERS[name] for name in _RAW)


def tag_number(query: str) -> int | None:
    """The parser's number of the tag, where a selector is the name of a block or of a common inline element."""
    return _NUMBERS.get(query)


def squeeze(text: str) -> str:
    """One blank for each run of blanks of any kind (also U+00A0 and U+3000), none at the ends, no fillers."""
    if not text.isascii():
        for filler in _FILLERS:
            if filler in text:
                text = text.replace(filler, "")
    return " ".join(text.split())


def sane(text: str) -> str:
    """Text that every database takes: NUL and halves of surrogate pairs become U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _without_silent(html: str) -> str:
    return _SILENT.sub("", _COMMENT.sub("", html)) if _UNREAD.search(html) else html


def text_of_html(html: str) -> str:
    """The whole text of serialised HTML, squeezed: blocks are apart, inline elements are not; no scripts or styles."""
    if "<" in html:
        html = _TAG.sub(" ", _INLINE.sub("", _without_silent(html)))
    if "&" in html:
        html = unescape(html)
    return squeeze(html)


def text_of_node(node: LexborNode) -> str:
    """As `text_of_html` of what is in the node. Where there are blocks only, each text is a word of its own."""
    child = node.first_child
    if child is None or (child.tag_id == _TEXT_NUMBER and child.next is None) or not _is_plain(node):
        return text_of_html(node.inner_html or "")
    return squeeze(node.text(separator=" "))


def _is_plain(node: LexborNode) -> bool:
    parts = node.traverse()
    if next(parts).tag_id in _RAW_NUMBERS:  # the node itself
        return False
    return _PLAIN_NUMBERS.issuperset(map(_tag_number, parts))


def text_of_element(element: etree._Element) -> str:
    """As `text_of_html`, of an element of lxml."""
    parts: list[str] = []
    silent = 0
    for event, part in etree.iterwalk(element, events=("start", "end", "comment", "pi")):
        name = part.tag if isinstance(part.tag, str) else ""
        starts = event == "start"
        if name in _SILENT_TAGS:
            silent += 1 if starts else -1
        elif name in BLOCKS:
            parts.append(" ")
        if starts and part.text and not silent:
            parts.append(part.text)
        if not starts and part is not element and part.tail and not silent:
            parts.append(part.tail)
    return squeeze("".join(parts))


def lines_of_html(html: str) -> list[str]:
    """The text by lines, one for each block; the edges of inline elements are marked with U+001F."""
    if "<" in html:
        html = " ".join(_without_silent(html).split())
        html = _TAG.sub("\n", _INLINE.sub(INLINE_EDGE, html))
    if "&" in html:
        html = unescape(html)
    return [line for line in html.split("\n") if line.strip(f" \t\xa0{INLINE_EDGE}")]


_CELL_EDGE: Final = re.compile(r"</t[dh]>\s*(?=<t[dh][\s>])")
_CELL: Final = re.compile(rf"</?(?:td|th)(?:\s{_REST}|>)")
_BREAK: Final = re.compile(rf"<br(?:\s{_REST}|/?>)")
_MOST_PARAGRAPHED: Final = 2_000_000


def paragraphs_of_html(html: str) -> str:
    """The text of serialised HTML with its lines: a paragraph, list point or row is one, cells are apart by a bar.

    What stands in one cell or inside a paragraph is squeezed; blank lines are left out.
    """
    html = _without_silent(html[:_MOST_PARAGRAPHED])
    html = " ".join(html.split())
    html = _CELL.sub(" ", _CELL_EDGE.sub(INLINE_EDGE, html))
    text = unescape(_TAG.sub("\n", _INLINE.sub("", _BREAK.sub("\n", html))))
    lines = (" | ".join(squeeze(cell) for cell in line.split(INLINE_EDGE)) for line in text.split("\n"))
    return "\n".join(line for line in lines if line.strip(" |"))


def normal_html(html: str) -> str:
    """Any HTML as the parser writes it."""
    return LexborHTMLParser(html, is_fragment=True).html or ""


def clean_html(html: str) -> str:
    """HTML without scripts, styles, frames, comments, event handlers and addresses that run code."""
    html = _COMMENT.sub("", normal_html(html))
    html = _RUNNING.sub("", html)
    return _OPEN_TAG.sub(lambda tag: _ATTRIBUTE.sub(_harmless, tag[0]), html).strip()


def _harmless(attribute: re.Match[str]) -> str:
    name = attribute[1].lower()
    if name.startswith("on") or name in ("style", "srcdoc"):
        return ""
    return "" if name in _ADDRESSES and _RUNS.match(unescape(attribute[2] or "")) else attribute[0]
