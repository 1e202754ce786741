"""The pages that people read, taken apart: blocks of code, command lines, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("README*.md"), ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")], key=str)

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: str
    info: str
    text: str


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path) -> list[Block]:
    return [Block(name(path), found["info"].strip(), found["text"]) for found in _FENCE.finditer(text_of(path))]


def prose(path: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", text_of(path))


def spans(path: Path) -> list[str]:
    """Inline code, blanks and line breaks squeezed."""
    return [" ".join(found.split()) for found in _SPAN.findall(prose(path))]


def plain_words(path: Path) -> str:
    """The page without blocks and without inline code."""
    return _SPAN.sub("", prose(path))


def links(path: Path) -> list[str]:
    return _LINK.findall(_SPAN.sub("", prose(path)))


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    titles = (re.sub(r"[^\w\- ]", "", title.lower()) for title in _HEADING.findall(prose(path)))
    return {title.strip().replace(" ", "-") for title in titles}


def commands(path: Path) -> Iterator[str]:
    """Every `fyke …` that a page shows, in blocks and in text, without comments."""
    for block in blocks(path):
        if block.info not in ("", "sh"):
            continue
        for line in block.text.splitlines():
            command = re.sub(r"\s+#.*", "", line.strip())
            parts = (part.strip() for part in re.split(r"\|\||&&|\| ", command))
            # What the reference prints as usage is written from the code.
            yield from (part for part in parts if part.startswith("fyke ") and "[OPTIONS]" not in part)
    for span in spans(path):
        if span.startswith("fyke "):
            yield span


def table_rows(path: Path) -> Iterator[list[str]]:
    """Rows of all tables, cells stripped; a bar inside inline code does not end a cell."""
    for line in text_of(path).splitlines():
        if line.startswith("| ") and not set(line) <= set("|- "):
            yield [cell.strip() for cell in re.findall(r"((?:`[^`]*`|[^|`])+)", line.strip("| "))]
