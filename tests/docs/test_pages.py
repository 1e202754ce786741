"""What the pages say of each other and of the code is true: links, tests, events, settings, words."""

import ast
import re
from pathlib import Path

import pytest

from fyke.db.frontier_tables import SQLITE
from fyke.db.tables import METADATA
from fyke.db.typed import OWN_COLUMNS, SQL_TYPES
from fyke.model import ColumnType, Outcome, PassState, RunState
from fyke.settings import all_settings
from tests.docs.pages import PAGES, ROOT, anchors, links, name, plain_words, spans, table_rows, text_of

DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "fyke"
EVENTS = DOCS / "reference" / "events.md"

# Words that the glossary replaces. Inline code may name them: keys, and the glossary's own list.
BANNED = ("spider", "job", "crawl", "crawler", "dupefilter", "seen", "queue", "push", "nack", "reclaim", "save")
BANNED_WORD = re.compile(rf"\b(?:{'|'.join((*BANNED, 'quarantine'))})s?\b", re.IGNORECASE)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_no_link_leads_nowhere(path: Path) -> None:
    broken = []
    for link in links(path):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_index_names_every_page() -> None:
    index = DOCS / "README.md"
    reached = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    reached |= {(DOCS / "decisions" / link).resolve() for link in links(DOCS / "decisions" / "README.md")}
    # The Chinese index has the same links, which the tests of the translation compare.
    pages = {path for path in DOCS.rglob("*.md") if path != index and "zh" not in path.parts}
    assert {name(path) for path in pages if path not in reached and path.parent not in reached} == set()


def test_every_test_that_a_page_names_exists() -> None:
    code = [path.read_text(encoding="utf-8") for top in ("tests", "src/fyke/testing") for path in _python(ROOT / top)]
    known = set(re.findall(r"def (test_\w+)", "\n".join(code)))
    named = {(name(path), span) for path in PAGES for span in spans(path) if re.fullmatch(r"test_\w+", span)}
    assert named
    assert {(page, test) for page, test in named if test not in known} == set()


def test_every_file_of_ours_that_a_page_names_exists() -> None:
    pattern = re.compile(r"(?:src|tests|examples|scripts|docs)/[\w./-]*\w")
    named = {(name(path), span) for path in PAGES for span in spans(path) if pattern.fullmatch(span.rstrip("/"))}
    assert {(page, file) for page, file in named if not (ROOT / file).exists()} == set()


# --- Events, outcomes, states, settings, tables ---


def event_kinds() -> set[str]:
    """The kinds of `Event(…)` in the package; an end of a pass is told under its state."""
    kinds: set[str] = set()
    for path in _python(PACKAGE):
        if "testing" in path.parts or "lab" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Event"
            if not called or not isinstance(node, ast.Call) or not node.args:
                continue
            kind = node.args[0]
            if isinstance(kind, ast.Constant):
                kinds.add(str(kind.value))
            elif ast.unparse(kind) == "end.state.value":
                kinds |= {state.value for state in PassState} - {PassState.RUNNING, PassState.COMPLETE}
            elif not isinstance(kind, ast.Name):
                raise AssertionError(f"{path}: an event of unknown kind: {ast.unparse(kind)}")
    return kinds


def first_spans(path: Path) -> set[str]:
    """The words in code in the first cells of a page's tables."""
    return {word for row in table_rows(path) for word in re.findall(r"`([^`]+)`", row[0])}


def test_every_kind_of_event_is_explained_and_no_other() -> None:
    assert first_spans(EVENTS) == event_kinds()


def test_every_outcome_and_every_end_of_a_pass_is_explained() -> None:
    assert first_spans(DOCS / "explanation" / "outcomes.md") == {outcome.value for outcome in Outcome}
    assert first_spans(DOCS / "explanation" / "coverage.md") == {state.value for state in PassState} - {"running"}
    told = {word for word in spans(DOCS / "explanation" / "the-way-of-the-data.md") if " " not in word}
    assert RunState.SKIPPED in told


def test_settings_that_pages_name_exist() -> None:
    known = {setting.name for setting in all_settings()}
    groups = {setting.partition(".")[0] for setting in known if "." in setting}
    pattern = re.compile(rf"(?:{'|'.join(sorted(groups - {'fetch'}))})\.[a-z_]+")
    named = {(name(path), span) for path in PAGES for span in spans(path) if pattern.fullmatch(span)}
    assert named
    assert {(page, setting) for page, setting in named if setting not in known} == set()


def test_every_table_and_every_column_of_ours_is_told() -> None:
    told = set(spans(DOCS / "reference" / "tables.md"))
    frontier = set(re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", " ".join(SQLITE)))
    assert set(METADATA.tables) - told == set()
    assert {table for table in frontier if not table.startswith("task")} == set()
    assert set(OWN_COLUMNS) - told == set()


def test_the_type_of_each_column_is_told_for_each_database() -> None:
    told = {row[0]: tuple(row[1:4]) for row in table_rows(DOCS / "reference" / "tables.md") if len(row) == 5}
    databases = [SQL_TYPES[kind] for kind in ("sqlite", "postgres", "mysql")]
    types = {column.value: tuple(kinds[column] for kinds in databases) for column in ColumnType}
    assert {name: found for name, found in told.items() if name in types} == types


# --- Words ---


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_pages_use_the_words_of_the_glossary(path: Path) -> None:
    assert BANNED_WORD.findall(plain_words(path)) == []


def test_names_in_code_use_the_words_of_the_glossary() -> None:
    found = []
    for path in _python(PACKAGE):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower().split("_")
                found += [f"{name(path)}:{node.lineno} {node.name}" for word in words if BANNED_WORD.fullmatch(word)]
    assert found == []


def test_every_word_of_the_glossary_is_there() -> None:
    words = {word.strip() for row in table_rows(DOCS / "glossary.md") for word in row[0].split(",")}
    assert {"item", "sighting", "generation", "lane", "anchor", "watermark", "epoch", "refused entry"} <= words
    assert {word for word in BANNED if word not in ("crawler",)} <= set(spans(DOCS / "glossary.md"))


def test_the_promises_are_quoted_word_for_word() -> None:
    """Where the package's docstrings name a promise, the page has it."""
    page = text_of(DOCS / "explanation" / "promises.md")
    assert re.findall(r"^## (P\d [a-z ]+)$", page, re.MULTILINE) == [
        "P1 one item",
        "P2 nothing is lost",
        "P3 one effect",
        "P4 polite",
        "P5 complete",
    ]
    assert "However many schedulers, listings and retries, an item key exists once." in page
    assert "never ask a host faster than its policy allows" in page


def _python(top: Path) -> list[Path]:
    return sorted(path for path in top.rglob("*.py") if "__pycache__" not in path.parts)
