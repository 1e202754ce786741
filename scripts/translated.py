"""Which Chinese section was written to which English one: docs/zh/sections.toml, so that neither changes alone.

`python scripts/translated.py` records all pages, once both languages of a section have changed.
`python scripts/translated.py --same PAGE …` records a page of which one language needed no change.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RECORD = DOCS / "zh" / "sections.toml"
FIRST = (ROOT / "README.md", ROOT / "README.zh-CN.md")

_HEADING = re.compile(r"^(#+) +(.+?) *$")
_WRITTEN = re.compile(
    r"<!-- written by scripts/reference\.py: .+? -->.*?<!-- end -->|<!-- figures: .+? -->.*?<!-- end of figures -->",
    re.DOTALL,
)


@dataclass(frozen=True)
class Part:
    """What stands below one heading, without what programs write there."""

    level: int
    title: str
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(" ".join(self.text.split()).encode()).hexdigest()[:12]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def pages() -> list[tuple[Path, Path]]:
    """Each English page with the place of its Chinese one. The decisions have none."""
    english = (path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in ("zh", "decisions"))
    return [FIRST, *((path, DOCS / "zh" / path.relative_to(DOCS)) for path in sorted(english))]


def parts(path: Path) -> list[Part]:
    """The sections of a page; what comes before the first heading belongs to a heading of level 0."""
    found: list[tuple[int, str, list[str]]] = [(0, "", [])]
    fenced = False
    for line in _WRITTEN.sub("", path.read_text(encoding="utf-8")).splitlines():
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading:
            found.append((len(heading[1]), heading[2], []))
        found[-1][2].append(line)
    return [Part(level, title, "\n".join(lines)) for level, title, lines in found]


def recorded() -> dict[str, list[str]]:
    """Of each page, in order, `ENGLISH CHINESE` digests."""
    with RECORD.open("rb") as file:
        return tomllib.load(file)


def changed_alone(english: Path, chinese: Path, known: list[str]) -> Iterator[str]:
    """The sections of a page of which one language has changed and the other has not."""
    pairs = {tuple(pair.split()) for pair in known}
    old = {of_english for of_english, _ in pairs}, {of_chinese for _, of_chinese in pairs}
    for ours, theirs in zip(parts(english), parts(chinese), strict=False):
        if (ours.digest, theirs.digest) in pairs:
            continue
        if ours.digest in old[0]:
            yield f"{name(chinese)}, '{theirs.title}' has changed, and '{ours.title}' of {name(english)} has not"
        elif theirs.digest in old[1]:
            yield f"{name(english)}, '{ours.title}' has changed, and '{theirs.title}' of {name(chinese)} has not"


def unrecorded(english: Path, chinese: Path, known: list[str]) -> bool:
    return known != _pairs(english, chinese)


def _pairs(english: Path, chinese: Path) -> list[str]:
    return [f"{ours.digest} {theirs.digest}" for ours, theirs in zip(parts(english), parts(chinese), strict=False)]


def main(arguments: list[str]) -> int:
    same = set(arguments[1:]) if arguments[:1] == ["--same"] else set()
    known = recorded() if RECORD.exists() else {}
    lines = ["# Written by scripts/translated.py: the digests of each section, English and Chinese."]
    alone: list[str] = []
    for english, chinese in pages():
        if not chinese.exists():
            continue
        page, found = name(english), []
        if page not in same:
            found = list(changed_alone(english, chinese, known.get(page, [])))
        alone += found
        pairs = known.get(page, []) if found else _pairs(english, chinese)
        lines += [f'"{page}" = [', *(f'    "{pair}",' for pair in pairs), "]"]
    RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write("".join(f"{line}\n" for line in alone))
    return 1 if alone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
