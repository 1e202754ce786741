"""XML of feeds and sitemaps: read strictly where it is well formed, else what can be read, with what is lost counted.

Entities are never expanded and nothing is loaded. Keeps P2: of a page that is cut off or broken no part is silent.
"""

from __future__ import annotations

import re
from html.entities import html5
from typing import Final

from lxml import etree
from msgspec import Struct

CUT_INSIDE: Final = "the page ends inside this entry"
CUT: Final = "the page is cut off: entries may be missing behind the last one"
UNREAD: Final = "the page is broken XML here: an entry of it could not be read"

_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]{0,200}\?>")
_ENTITY: Final = re.compile(r"&([a-zA-Z][a-zA-Z0-9]{1,31});")
_XML_ENTITIES: Final = frozenset(("amp", "lt", "gt", "quot", "apos"))
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ASIDE: Final = re.compile(r"(<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z))", re.DOTALL)
_BARE: Final = re.compile(r"&(?!#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|[a-zA-Z][a-zA-Z0-9]{1,31};)")
_LONE: Final = re.compile(r"<(?=[\s\d=<])")


class XmlPage(Struct):
    """`parts`: the wanted elements in their order. `cut`: the last of them is not whole. `lost`: a reason for each part
    that is not among them.
    """

    root: etree._Element
    parts: list[etree._Element]
    cut: bool = False
    lost: list[str] = []


def local_name(root: etree._Element | None) -> str:
    # Of what is no XML the parser gives names that are none, such as `:`.
    return root.tag.rpartition("}")[2].lower() if root is not None and isinstance(root.tag, str) else ""


def read_xml(text: str, wanted: dict[str, str]) -> XmlPage | str:
    """The page, or the name of its root where that is none of `wanted` ("" for what is no XML at all).

    Args:
        wanted: the local name of the parts, by that of the root.
    """
    text = _UNREADABLE.sub("\ufffd", _DECLARATION.sub("", text.lstrip("\ufeff \t\r\n")))
    if "<!ENTITY" not in text:
        text = _ENTITY.sub(_known_entity, text)
    whole = True
    try:
        root = etree.fromstring(text.encode(), _parser(recover=False)) if text.strip() else None
    except etree.XMLSyntaxError:
        text, whole = _mended(text), False
        root = etree.fromstring(text.encode(), _parser(recover=True))
    name = local_name(root)
    if root is None or name not in wanted:
        return name
    part = wanted[name]
    page = XmlPage(root, [found for found in root.iter("{*}" + part) if found.getparent() is not None])
    if not whole:
        _count(page, _ASIDE.sub("", text), name, part)
    return page


def _parser(*, recover: bool) -> etree.XMLParser:
    return etree.XMLParser(
        recover=recover, resolve_entities=False, no_network=True, load_dtd=False, encoding="utf-8", remove_pis=True
    )


def _known_entity(match: re.Match[str]) -> str:
    """HTML's entities, which XML does not know, as characters; those of XML stay."""
    name = match[1]
    if name in _XML_ENTITIES:
        return match[0]
    char = html5.get(f"{name};")
    return match[0] if char is None or char in "<>&\"'" else char


def _mended(text: str) -> str:
    """A bare & or < would take the letters behind it along, so that an address is read as another one.

    After its first error the parser drops every entity that has a name, also &amp;, but none that has a number.
    """
    pieces = _ASIDE.split(text)
    pieces[::2] = [_ENTITY.sub(_numbered, _LONE.sub("&#60;", _BARE.sub("&#38;", piece))) for piece in pieces[::2]]
    return "".join(pieces)


def _numbered(match: re.Match[str]) -> str:
    chars = html5.get(f"{match[1]};")
    return "".join(f"&#{ord(char)};" for char in chars) if chars else f"&#38;{match[1]};"


def _count(page: XmlPage, bare: str, root: str, part: str) -> None:
    """Compare what was read with the tags that the text has. `bare`: without comments and CDATA."""
    opened = [tag.start() for tag in re.finditer(rf"<(?:[\w.-]+:)?{part}(?=[\s/>])", bare)]
    closed = [tag.start() for tag in re.finditer(rf"</(?:[\w.-]+:)?{part}\s*>", bare)]
    if not re.search(rf"</(?:[\w.-]+:)?{root}\s*>", bare, re.IGNORECASE):
        page.cut = bool(opened and page.parts and opened[-1] > (closed[-1] if closed else -1))
        if not page.cut:
            page.lost.append(CUT)
    page.lost += [UNREAD] * (len(opened) - len(page.parts))
