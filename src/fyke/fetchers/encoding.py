"""Bytes of a page → text, by a ladder in which every claim is checked against the bytes.

BOM; strict UTF-8; what the header and the page say; the detector last. gb2312 and gbk are read as gb18030, their
superset. What could not be decoded is counted, so that a garbled page is never taken for a good one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from encodings.aliases import aliases
from typing import Final, NamedTuple

import chardet

HEAD: Final = 4_096  # declarations stand in the first bytes
SAMPLE: Final = 65_536  # what the detector is shown


class Decoded(NamedTuple):
    """`source`: bom, utf-8, http, meta, detector, source, or "" for what is no text (then encoding is "" too).

    `replaced` counts characters that could not be decoded; U+FFFD that the site itself sent does not count.
    """

    text: str
    encoding: str
    source: str
    replaced: int


_BOMS: Final = (
    (b"\xef\xbb\xbf", "utf-8", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32", "utf-32-be"),
    (b"\xff\xfe", "utf-16", "utf-16-le"),
    (b"\xfe\xff", "utf-16", "utf-16-be"),
)
_MAGIC: Final = (
    *(b"%PDF-", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b", b"RIFF", b"\xd0\xcf\x11\xe0"),
    *(
        b"\x00\x00\x01\x00",
        b"Rar!",
        b"7z\xbc\xaf",
        b"OggS",
        b"ID3",
        b"wOFF",
        b"wOF2",
        b"\x7fELF",
        b"II*\x00",
        b"MM\x00*",
    ),
)
_BINARY_TYPE: Final = re.compile(
    r"(?:image/(?!svg)|audio/|video/|font/|application/(?:pdf|zip|gzip|x-gzip|x-rar|x-7z|msword|octet-stream|vnd\.))",
    re.IGNORECASE,
)

# What the web calls X is read by the first of these that takes the bytes: the declared name is often the subset.
_FAMILIES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    **dict.fromkeys(("gb2312", "gbk", "gb18030"), ("gb18030", ("gb18030",))),
    **dict.fromkeys(("big5", "big5hkscs", "cp950"), ("big5", ("big5hkscs", "cp950"))),
    **dict.fromkeys(("shift_jis", "cp932", "shift_jisx0213", "shift_jis_2004"), ("shift_jis", ("cp932",))),
    **dict.fromkeys(("euc_kr", "cp949"), ("euc-kr", ("cp949",))),
    **dict.fromkeys(("latin_1", "ascii", "cp1252"), ("windows-1252", ("cp1252", "latin_1"))),
    **dict.fromkeys(("iso8859_9", "cp1254"), ("windows-1254", ("cp1254", "iso8859_9"))),
    **dict.fromkeys(("tis_620", "iso8859_11", "cp874"), ("windows-874", ("cp874",))),
    "utf_8": ("utf-8", ("utf-8",)),
    "utf_16": ("utf-16", ("utf-16-le",)),
}
_NAMES_OF_OURS: Final = {
    **dict.fromkeys(("x_gbk", "gb_2312", "cn_gb", "gb_k", "gb_18030", "x_gb2312", "gb2312_1980"), "gb18030"),
    **dict.fromkeys(("x_sjis", "windows_31j", "shift_jis", "sjis"), "shift_jis"),
    **dict.fromkeys(("big5_hkscs", "x_x_big5", "big_5"), "big5"),
    **dict.fromkeys(("koi8_u", "cp874", "utf_8"), None),
    "utf8mb4": "utf_8",
    "windows_874": "cp874",
}
_NOT_TEXT: Final = frozenset({"rot_13", "utf_7", "mbcs"})
# Alone these prove nothing: they take any bytes, and servers name them by default.
_TAKE_ANYTHING: Final = frozenset({"windows-1252"})

_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_XML: Final = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_META: Final = re.compile(rb"<meta\b[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
# A misspelt tag still names the encoding somewhere.
_BROKEN_META: Final = re.compile(
    rb"<meta\b[^>]{0,500}?[=\"'\s;:](gb[-_ ]?2312|x-gbk|gb[-_]?k|gb[-_ ]?18030|big5(?:-hkscs)?|utf-?8|shift[-_]jis"
    rb"|euc-(?:jp|kr)|windows-125\d|iso-8859-\d{1,2})\b",
    re.IGNORECASE,
)
_HIGH: Final = re.compile(rb"[\x80-\xff]")
_ASCII: Final = bytes(range(128))


def decode(body: bytes, content_type: str = "", forced: str | None = None) -> Decoded:
    """The text of a body. Never raises: at the worst the characters that could not be read are replaced and counted.

    Args:
        content_type: the header as it came.
        forced: an encoding that the source states; it is believed.
    """
    if forced:
        name, codecs = family(forced) or ("utf-8", ("utf-8",))
        return _read(body, name, codecs, "source")
    for mark, codec_family, codec in _BOMS:
        if body.startswith(mark):
            return _read(body[len(mark) :], codec_family, (codec,), "bom")
    if is_binary(body, content_type):
        return Decoded("", "", "", 0)
    if b"\x1b" not in body:  # ISO-2022 is pure ASCII to UTF-8, and garbage as text
        try:
            return Decoded(body.decode(), "utf-8", "utf-8", 0)
        except UnicodeDecodeError:
            pass
    return _by_claims(body, content_type)


def is_binary(body: bytes, content_type: str) -> bool:
    """Whether this is no text: by its first bytes, or by its type where the bytes do not deny it."""
    if body.startswith(_MAGIC):
        return True
    if not content_type or not _BINARY_TYPE.match(content_type.lstrip()):
        return False
    head = body[:1_024]
    return b"\0" in head or (not head.lstrip().startswith((b"<", b"{", b"[")) and not _is_utf8(head))


def family(label: str) -> tuple[str, tuple[str, ...]] | None:
    """Our name of an encoding and the codecs to try for it; None for a label that names none."""
    key = re.sub(r"[-\s:.]+", "_", label.strip().lower())
    found = _NAMES_OF_OURS.get(key, aliases.get(key, key if key in _CODECS else None)) or key
    if found in _FAMILIES:
        return _FAMILIES[found]
    if found not in _CODECS or found in _NOT_TEXT or found.endswith("_codec"):
        return None
    return found.replace("_", "-"), (found,)


# Only names known beforehand are looked up: the interpreter tries to import whatever label it is given.
_CODECS: Final = frozenset(aliases.values()) | {"koi8_u", "cp874", "utf_8"}


def _by_claims(body: bytes, content_type: str) -> Decoded:
    nearly = _read(body, "utf-8", ("utf-8",), "utf-8")
    foreign = len(body.translate(None, _ASCII))
    if foreign and nearly.replaced * 10 <= foreign:
        # Text cut between two bytes of a character is no other encoding: those leave most characters broken.
        return nearly
    http, meta = _header_claim(content_type), _page_claim(body[:HEAD])
    readings = [
        _read(body, *known, source)
        for label, source in ((meta, "meta"), (http, "http"))
        if label and (known := family(label))
    ]
    strict = next((reading for reading in readings if not reading.replaced), None)
    if strict and not (strict.encoding in _TAKE_ANYTHING and strict.source == "http"):
        return strict
    close = next((reading for reading in readings if 0 < reading.replaced * 50 <= foreign), None)
    if close and not strict:
        return close
    guess = _detected(body)
    if strict and (guess.replaced or guess.encoding.startswith(("windows", "iso8859", "cp", "mac"))):
        return strict
    return _best((guess, *readings, nearly))


def _best(readings: Iterable[Decoded]) -> Decoded:
    return min(readings, key=lambda reading: reading.replaced)


def _detected(body: bytes) -> Decoded:
    first = _HIGH.search(body)
    start = max(0, first.start() - 1_000) if first else 0
    answer = chardet.detect(body[start : start + SAMPLE], max_bytes=SAMPLE, prefer_superset=True, compat_names=False)
    name, codecs = family(answer["encoding"] or "windows-1252") or _FAMILIES["cp1252"]
    return _read(body, name, codecs, "detector")


def _header_claim(content_type: str) -> str | None:
    found = _CHARSET.search(content_type)
    return found[1] if found else None


def _page_claim(head: bytes) -> str | None:
    found = _XML.match(head) or _META.search(head)
    if found and family(found[1].decode("ascii", "replace")):
        return found[1].decode("ascii")
    found = _BROKEN_META.search(head)
    return found[1].decode("ascii") if found else None


def _read(body: bytes, name: str, codecs: tuple[str, ...], source: str) -> Decoded:
    for codec in codecs:
        try:
            return Decoded(body.decode(codec), name, source, 0)
        except UnicodeDecodeError:
            continue
    text = body.decode(codecs[0], "replace")
    sent = body.count(b"\xef\xbf\xbd") if name == "utf-8" else 0
    return Decoded(text, name, source, max(text.count("\ufffd") - sent, 1))


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4
    return True
