"""The Chinese pages say what the English ones say: section by section the same blocks, links, tables and names."""

import re
from collections import Counter
from pathlib import Path

import pytest

from fyke.sources.reference import file_keys
from scripts import reference
from scripts.translated import DOCS, FIRST, Part, changed_alone, pages, parts, recorded, unrecorded
from tests.docs.pages import ROOT, name, table_rows

ZH = DOCS / "zh"
PAIRS = pages()
REFERENCE = ("commands.md", "settings.md", "source-file.md")

_FENCE = re.compile(r"^ *```(?P<info>[^\n`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r'(?:^|(?<=\s))(?:#|--) .*$|"""[^"]+"""', re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_DRAWN = set("─│►▼▲└├")


def both(english: Path, chinese: Path) -> list[tuple[Part, Part]]:
    return list(zip(parts(english), parts(chinese), strict=True))


def ids(pair: object) -> str:
    return name(pair[0]) if isinstance(pair, tuple) else str(pair)


def blocks(text: str) -> list[tuple[str, object]]:
    """Blocks without their comments; of a drawing, whose words are translated, the number of its lines."""
    found: list[tuple[str, object]] = []
    for block in _FENCE.finditer(text):
        drawn = not block["info"] and _DRAWN & set(block["text"])
        plain = [line.rstrip() for line in _COMMENT.sub("", block["text"]).splitlines() if line.strip()]
        found.append((block["info"].strip(), len(block["text"].splitlines()) if drawn else plain))
    rest = _FENCE.sub("", text)
    indented = [_COMMENT.sub("", line).strip() for line in rest.splitlines() if re.match(r" {4}\S", line)]
    return [*found, ("indented", indented)]


def prose(text: str) -> str:
    return _FENCE.sub("", text)


def spans(text: str) -> set[str]:
    return {" ".join(found.split()) for found in _SPAN.findall(prose(text))}


def tables(text: str) -> list[int]:
    """How many rows each table has."""
    rows = [line.lstrip().startswith("|") for line in prose(text).splitlines()]
    lengths = re.findall(r"T+", "".join("T" if row else "." for row in rows))
    return [len(found) for found in lengths]


def links(text: str, page: Path) -> Counter[str]:
    """Where the links lead, told as English pages; of an anchor, the number of its heading."""
    return Counter(target(link, page) for link in _LINK.findall(_SPAN.sub("", prose(text))))


def target(link: str, page: Path) -> str:
    if "://" in link:
        return link
    file, _, anchor = link.partition("#")
    path = (page.parent / file).resolve() if file else page
    told = english_of(path)
    return f"{told.relative_to(ROOT)}#{heading(path, anchor)}" if anchor else str(told.relative_to(ROOT))


def english_of(path: Path) -> Path:
    return FIRST[0] if path == FIRST[1] else DOCS / path.relative_to(ZH) if path.is_relative_to(ZH) else path


def heading(path: Path, anchor: str) -> int:
    titles = [re.sub(r"[^\w\- ]", "", part.title.lower()).strip().replace(" ", "-") for part in parts(path)]
    return titles.index(anchor)


def test_every_page_has_its_chinese_one_and_no_other_is_there() -> None:
    assert [name(chinese) for _, chinese in PAIRS if not chinese.exists()] == []
    assert set(ZH.rglob("*.md")) - {chinese for _, chinese in PAIRS} == set()


THERE = [pair for pair in PAIRS if pair[1].exists()]


@pytest.mark.parametrize("pair", THERE, ids=ids)
def test_each_page_leads_to_the_other_language_at_its_head(pair: tuple[Path, Path]) -> None:
    for page, other in (pair, pair[::-1]):
        head = "\n".join(page.read_text(encoding="utf-8").splitlines()[:12])
        assert other in {(page.parent / link).resolve() for link in _LINK.findall(head)}, name(page)


@pytest.mark.parametrize("pair", THERE, ids=ids)
def test_both_languages_have_the_same_headings(pair: tuple[Path, Path]) -> None:
    english, chinese = ([(part.level, part.title) for part in parts(page)] for page in pair)
    assert [level for level, _ in english] == [level for level, _ in chinese], (english, chinese)


@pytest.mark.parametrize("pair", THERE, ids=ids)
def test_both_languages_show_the_same_blocks_links_tables_and_names(pair: tuple[Path, Path]) -> None:
    different = []
    for ours, theirs in both(*pair):
        place = f"'{ours.title}' / '{theirs.title}'"
        if blocks(ours.text) != blocks(theirs.text):
            different.append(f"{place}: blocks {blocks(ours.text)} / {blocks(theirs.text)}")
        if tables(ours.text) != tables(theirs.text):
            different.append(f"{place}: rows of tables {tables(ours.text)} / {tables(theirs.text)}")
        if spans(ours.text) != spans(theirs.text):
            different.append(f"{place}: names in code {spans(ours.text) ^ spans(theirs.text)}")
        if links(ours.text, pair[0]) != links(theirs.text, pair[1]):
            different.append(f"{place}: links {links(ours.text, pair[0])} / {links(theirs.text, pair[1])}")
    assert different == []


def test_what_differs_between_two_sections_is_found() -> None:
    english = "```sh\nfyke run --once    # until done\n```\n\n| a | b |\n|---|---|\n| `gap` | x |\n\n    fyke audit\n"
    chinese = "```sh\nfyke run --once    # 做完为止\n```\n\n| 甲 | 乙 |\n|---|---|\n| `gap` | 某 |\n\n    fyke audit\n"
    assert (blocks(chinese), tables(chinese), spans(chinese)) == (blocks(english), tables(english), spans(english))
    assert blocks(chinese.replace("--once", "--wait 2h")) != blocks(english)
    assert blocks(chinese.replace("    fyke audit", "")) != blocks(english)
    assert tables(chinese.replace("| `gap` | 某 |\n", "")) != tables(english)
    assert spans(chinese.replace("`gap`", "`dead`")) != spans(english)
    page, other = ZH / "how-to" / "run-every-day.md", DOCS / "how-to" / "run-every-day.md"
    there = links("[限度](../explanation/promises.md#限度)", page)
    assert there == links("[limits](../explanation/promises.md#limits)", other)
    assert there != links("[limits](../explanation/promises.md#p4-polite)", other)


@pytest.mark.parametrize("pair", THERE, ids=ids)
def test_no_section_has_changed_in_one_language_alone(pair: tuple[Path, Path]) -> None:
    known = recorded().get(name(pair[0]), [])
    assert list(changed_alone(*pair, known)) == []
    assert not unrecorded(*pair, known), "run: python scripts/translated.py"


def test_a_section_that_changes_alone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.translated.ROOT", tmp_path)
    english, chinese = tmp_path / "a.md", tmp_path / "b.md"
    english.write_text("# Net\n\nIt holds.\n\n## Use\n\nDaily.\n", encoding="utf-8")
    chinese.write_text("# 网\n\n结实。\n\n## 用法\n\n每天。\n", encoding="utf-8")
    known = [f"{ours.digest} {theirs.digest}" for ours, theirs in both(english, chinese)]
    assert list(changed_alone(english, chinese, known)) == []
    english.write_text("# Net\n\nIt\nholds.\n\n## Use\n\nHourly.\n", encoding="utf-8")
    assert list(changed_alone(english, chinese, known)) == ["a.md, 'Use' has changed, and '用法' of b.md has not"]
    chinese.write_text("# 网\n\n结实。\n\n## 用法\n\n每小时。\n", encoding="utf-8")
    assert list(changed_alone(english, chinese, known)) == []
    assert unrecorded(english, chinese, known)


def test_each_word_of_the_glossary_has_one_chinese_word() -> None:
    english, chinese = ([row[0] for row in table_rows(page / "glossary.md")][1:] for page in (DOCS, ZH))
    assert len(english) == len(chinese)
    words = [re.split(r"[ ,、]*(?=[a-z])", told, maxsplit=1) for told in chinese]
    assert [word[1] for word in words] == english
    assert len({word[0] for word in words}) == len(words)


@pytest.mark.parametrize("path", [chinese for _, chinese in THERE], ids=name)
def test_chinese_pages_use_the_words_of_the_glossary(path: Path) -> None:
    assert re.findall("爬虫|爬取|队列|去重器", path.read_text(encoding="utf-8")) == []


# --- What the code says ---


@pytest.mark.parametrize("language", ["", "zh/"])
def test_every_part_that_the_code_gives_stands_in_the_reference(language: str) -> None:
    texts = [(DOCS / language / "reference" / page).read_text(encoding="utf-8") for page in REFERENCE]
    told = [part.split() for text in texts for part in re.findall(r"<!-- written by \S+: (.+?) -->", text)]
    assert {part[0] for part in told} == set(reference.PARTS)
    assert len({tuple(part) for part in told}) == len(told)
    below = {top for part in told if part[0] == "keys" for top in part[1:]}
    assert {key.path.partition(".")[0] for key in file_keys() if "." in key.path} - below == set()
    assert "top" in below


def asked() -> reference.Catalogue:
    catalogue = reference.Catalogue.read()
    for page in reference.PAGES:
        if page.startswith("zh/"):
            reference.written(page, catalogue)
    return catalogue


def test_every_text_of_the_reference_has_its_chinese() -> None:
    assert asked().missing() == [], f"write them into {name(reference.CATALOGUE)}"


def test_no_chinese_text_is_left_over() -> None:
    assert asked().stale() == []


def test_names_in_code_are_the_same_in_both_languages_of_a_text() -> None:
    texts = reference.Catalogue.read().texts
    assert len(texts) > 300
    assert [text for text, chinese in texts.items() if set(_SPAN.findall(text)) != set(_SPAN.findall(chinese))] == []
    assert [text for text, chinese in texts.items() if not re.search(r"[\u4e00-\u9fff]", chinese)] == []


def test_a_text_without_its_chinese_is_named() -> None:
    catalogue = reference.Catalogue({"The table.": "表。", "The name.": "名称。"})
    assert catalogue.say("The table.\n\nThe\nlist.") == "表。\n\nThe list."
    assert (catalogue.missing(), catalogue.stale()) == (["The list."], ["The name."])
