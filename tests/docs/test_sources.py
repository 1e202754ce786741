"""Every source that a page shows loads, every key of the language is explained, and the first example runs."""

import asyncio
import copy
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from fyke.cli import run
from fyke.errors import UsageError
from fyke.lab.site import RunningSite, SiteConfig, serve_site
from fyke.sources.loader import load_file, load_folder
from fyke.sources.schema import LATER, SOURCE, check, json_schema
from fyke.sources.selectors import KINDS
from fyke.sources.shapes import NO_EFFECT, REFUSED
from fyke.sources.steps import STEPS
from fyke.sources.yamlfile import parse_yaml
from tests.docs.pages import PAGES, ROOT, Block, blocks, spans, table_rows, text_of

FIRST = ROOT / "examples" / "first"
REFERENCE = ROOT / "docs" / "reference" / "source-file.md"
SHOWN = [block for path in PAGES for block in blocks(path) if block.info in ("yaml source", "python source")]

BASE: dict[str, Any] = {
    "id": "base",
    "listing": {
        "request": {"url": "https://example.org/list"},
        "rows": {"css": "li"},
        "fields": {"title": {"css": "a"}},
    },
    "identity": {"scope": "example.org", "key": {"field": "title"}},
    "detail": {"steps": [{"request": {"url": "{url}"}, "fields": {"text": {"css": "p"}}}]},
    "store": {"table": "base"},
}
# Of these a section has one: the others make room for an example.
ONE_OF = [{"css", "xpath", "json", "feed"}, {"number", "next"}, {"form", "json"}]
# What must stand beside an example for it to be whole.
BESIDE: dict[str, dict[str, Any]] = {
    "listing.pages.number.then": {"first": "a"},
    "listing.pages.number.from": {"first": "a"},
    "listing.pages.max": {"number": {"first": 1}},
    "detail.steps[].ready.min_chars": {"css": "p"},
}


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: f"{block.page}-{SHOWN.index(block)}")
def test_a_source_that_a_page_shows_loads(block: Block, tmp_path: Path) -> None:
    (tmp_path / f"shown.{'py' if block.info.startswith('python') else 'yaml'}").write_text(block.text, encoding="utf-8")
    (loaded,) = load_folder(tmp_path)
    assert loaded.warnings == []


def test_pages_show_the_first_example_as_it_is() -> None:
    text = (FIRST / "sources" / "notices.yaml").read_text(encoding="utf-8")
    for page in ("README.md", "README.zh-CN.md"):
        assert text in text_of(ROOT / page)
    # Fifteen lines, and one that a public site does not need.
    assert len(text.splitlines()) == 16
    assert load_file(FIRST / "sources" / "notices.yaml").warnings == []


@contextmanager
def lab_site(**config: Any) -> Iterator[RunningSite]:
    """The lab's site in a thread of its own: the command line has this one, as it has a terminal's."""
    found: Queue[RunningSite] = Queue()
    ended = threading.Event()

    async def serve() -> None:
        async with await serve_site(SiteConfig(**config)) as site:
            found.put(site)
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield found.get(timeout=30)
    finally:
        ended.set()
        thread.join()


def test_the_first_example_runs_on_the_lab_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FYKE_SOURCES", str(FIRST / "sources"))
    monkeypatch.setenv("FYKE_LEDGER", "sqlite:///fyke.db")
    Path("fyke.toml").write_text('[lanes."127.0.0.1:8080"]\ndelay = "0s"\njitter = "0s"\nconcurrency = 8\n')
    with lab_site(items=30) as site:
        monkeypatch.setenv("FYKE_FETCH_REPLAY", site.url)
        assert run(["try", "notices"]) == 0
        site.reset_hits()
        assert run(["run", "--once"]) == 0
        assert run(["audit"]) == 0
        with closing(sqlite3.connect("fyke.db")) as ledger:
            rows = ledger.execute("SELECT _key, title, buyer FROM notices ORDER BY _key").fetchall()
        assert [row[0] for row in rows] == sorted(site.truth()["ids"])
        assert all(title for _, title, _ in rows)
        assert run(["explain", "notices", "25000030"]) == 0
        assert run(["run", "--once"]) == 0
        fetched = site.hits()["detail"]
        assert (len(fetched), set(fetched.values())) == (30, {1})


# --- The reference of the language ---


def example_rows() -> dict[str, str]:
    """The reference's rows whose first cell is a path: path → example."""
    found: dict[str, str] = {}
    for row in table_rows(REFERENCE):
        first = re.fullmatch(r"`([a-z][\w.\[\]]*)`", row[0])
        example = re.fullmatch(r"`(.+)`", row[-1])
        if first and example and len(row) == 3 and ": " in example[1] and not example[1].startswith("{"):
            found.setdefault(first[1], example[1])
    return found


def schema_paths() -> set[str]:
    """Every key of the language by its path; selectors and fields are told once for all."""
    found: set[str] = set()

    def walk(schema: dict[str, Any], path: str) -> None:
        for name, part in schema.get("properties", {}).items():
            if part.get("description") == f"({NO_EFFECT})":
                continue
            found.add(f"{path}{name}")
            if {"css", "first_of", "template"} <= part.get("properties", {}).keys():
                continue
            walk(part, f"{path}{name}.")
            for kind in part.get("anyOf", ()):
                walk(kind, f"{path}{name}.")
            if "items" in part:
                walk(part["items"], f"{path}{name}[].")

    walk(json_schema(), "")
    return {path for path in found if not re.match(r"detail\.steps\[\]\.request\.", path)}


def test_every_key_of_the_language_is_explained() -> None:
    told = set(spans(REFERENCE))
    assert schema_paths() - told == set()


def test_no_key_is_explained_that_is_not_there() -> None:
    tops = set(SOURCE.keys)
    told = {path for path in example_rows() if path.partition(".")[0] in tops and "." in path}
    assert told - schema_paths() == set()


def test_every_selector_step_and_duty_of_a_field_is_explained() -> None:
    told = {row[0].strip("`") for row in table_rows(REFERENCE)}
    assert {*KINDS, "then", "required", "optional", "type"} - told == set()
    assert set(STEPS) - told == set()


def test_every_key_that_comes_later_is_listed_under_what_becomes_of_it() -> None:
    text = text_of(REFERENCE)
    warned, refused = text[text.index("## Keys that come later") :].split("These are refused")
    for (section, key), effect in LATER.items():
        written = f"`{key}`" if section == "source" else f"`{section}.{key}`"
        assert written in (warned if effect == NO_EFFECT else refused), written
        assert written not in (refused if effect == NO_EFFECT else warned), written
        assert effect in (NO_EFFECT, REFUSED)


def place(path: str, value: Any) -> dict[str, Any]:
    """A whole source with `value` at `path`."""
    data = copy.deepcopy(BASE)
    at: Any = data
    *above, last = path.split(".")
    for part in above:
        name = part.removesuffix("[]")
        at = at.setdefault(name, [{}] if part != name else {})
        at = at[0] if part != name else at
    rivals: set[str] = set().union(*(group for group in ONE_OF if last in group))
    for rival in rivals - {last}:
        at.pop(rival, None)
    at.update(BESIDE.get(path, {}))
    at[last] = value
    if path.endswith(("request.form", "request.json")):
        at["method"] = "POST"
    return data


EXAMPLES = sorted((path, line) for path, line in example_rows().items() if path in schema_paths())


@pytest.mark.parametrize(("path", "line"), EXAMPLES)
def test_an_example_of_a_key_is_right(path: str, line: str) -> None:
    data, _ = parse_yaml(line, "the example")
    ((key, value),) = data.items()
    assert key == path.rpartition(".")[2]
    check(place(path, value), python=path == "source")


def field_examples() -> list[str]:
    after = False
    found = []
    for row in table_rows(REFERENCE):
        after = after or row[0] == "selector"
        if after and len(row) == 3 and row[2].startswith("`"):
            found.append(row[2].strip("`"))
    return found


@pytest.mark.parametrize("line", field_examples())
def test_an_example_of_a_selector_or_step_is_right(line: str) -> None:
    data, _ = parse_yaml(line if not line.startswith("{") else f"value: {line}", "the example")
    source = copy.deepcopy(BASE)
    source["listing"]["fields"] |= data
    check(source)


def test_a_wrong_example_would_be_found() -> None:
    with pytest.raises(Exception, match="connect"):
        check(place("listing.connect.known", "many"))
    with pytest.raises(UsageError):
        parse_yaml("key: [", "the example")
    assert len(EXAMPLES) > 60
