"""Every source that a page shows loads, every key of the language is explained, and the first example runs."""

import asyncio
import copy
import json
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
from fyke.sources.examples import EXAMPLES
from fyke.sources.loader import load_file, load_folder
from fyke.sources.reference import FIELD, STEP, Told, all_keys, field_keys, file_keys, selector_keys, step_keys
from fyke.sources.schema import LATER, json_schema
from fyke.sources.selectors import KINDS
from fyke.sources.shapes import NO_EFFECT, REFUSED
from fyke.sources.steps import STEPS
from fyke.sources.yamlfile import parse_yaml
from tests.docs.pages import PAGES, ROOT, Block, blocks, name, table_rows, text_of

FIRST = ROOT / "examples" / "first"
REFERENCE = ROOT / "docs" / "reference" / "source-file.md"
REFERENCES = [REFERENCE, ROOT / "docs" / "zh" / "reference" / "source-file.md"]
SHOWN = [block for path in PAGES for block in blocks(path) if block.info in ("yaml source", "python source")]


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: f"{block.page}-{SHOWN.index(block)}")
def test_a_source_that_a_page_shows_loads(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FYKE_SECRET_EXAMPLE_TOKEN", "open-to-all")
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


def schema_paths() -> set[str]:
    """Every key of the language by its path; selectors and fields are told once for all."""
    found: set[str] = set()

    def walk(schema: dict[str, Any], path: str) -> None:
        for key, part in schema.get("properties", {}).items():
            if part.get("description") == f"({NO_EFFECT})":
                continue
            found.add(f"{path}{key}")
            if {"css", "first_of", "template"} <= part.get("properties", {}).keys():
                continue
            # Told once, as `listing.request`.
            if {"url", "method"} <= part.get("properties", {}).keys() and f"{path}{key}" != "listing.request":
                continue
            # Told once, as `listing.pages` and `listing.rows`.
            if f"{path}{key}" in ("listing.fill.pages", "listing.fill.rows"):
                continue
            walk(part, f"{path}{key}.")
            for kind in part.get("anyOf", ()):
                walk(kind, f"{path}{key}.")
            if "items" in part:
                walk(part["items"], f"{path}{key}[].")

    walk(json_schema(), "")
    return found


def first_cells(path: Path) -> set[str]:
    return {row[0].strip("`") for row in table_rows(path)}


@pytest.mark.parametrize("page", REFERENCES, ids=name)
def test_every_key_of_the_language_is_explained(page: Path) -> None:
    assert {key.path for key in file_keys()} - first_cells(page) == set()
    assert {key.path.partition(".")[2] for key in (*selector_keys(), *field_keys(), *step_keys())} - first_cells(
        page
    ) == set()


def test_what_the_reference_tells_is_what_the_schema_of_editors_has() -> None:
    assert {re.sub(r"\.NAME\b", "", key.path) for key in file_keys()} == schema_paths()
    assert {key.name for key in step_keys()} >= set(STEPS)
    assert {key.name for key in selector_keys()} == set(KINDS)


def test_every_key_that_comes_later_is_listed_under_what_becomes_of_it() -> None:
    text = text_of(REFERENCE)
    warned, refused = text[text.index("## Keys that come later") :].split("These are refused")
    for (section, key), effect in LATER.items():
        written = f"`{key}`" if section == "source" else f"`{section}.{key}`"
        assert written in (warned if effect == NO_EFFECT else refused), written
        assert written not in (refused if effect == NO_EFFECT else warned), written
        assert effect in (NO_EFFECT, REFUSED)


# --- Examples ---

# Another kind of row has other fields, another way to the next page another address.
ROWS = {
    "json": ("json", "title", "url"),
    "columns": ("json", "title", "url"),
    "feed": ("feed", "title", "link"),
    "sitemap": ("sitemap", "news:title", "loc"),
}
ENTRIES = {"feed": "entries", "sitemap": "urls"}
NUMBERED = "https://example.org/{kind}/{page}"
BASE: dict[str, Any] = {
    "id": "base",
    "each": {"kind": ["a", "b"]},
    "listing": {
        "request": {"url": NUMBERED},
        "pages": {"number": {"first": 1}},
        "rows": {"css": "li"},
        "fields": {"title": {"css": "a"}, "url": {"css": "a::attr(href)", "then": ["absolute_url"]}},
    },
    "identity": {"scope": "example.org", "key": {"field": "url"}},
    "detail": {"steps": [{"request": {"url": "{url}"}, "fields": {"text": {"css": "p"}}}]},
    "store": {"table": "base"},
}
BULLETIN = """
from fyke.sources.python import PythonSource


class Bulletin(PythonSource):
    def rows(self, page, listing):
        return []
"""


def value_of(example: str) -> Any:
    return parse_yaml(f"value: {example}", "the example")[0]["value"]


def whole(key: Told) -> dict[str, Any]:
    """A whole source with the example at its place, and beside it what its sections ask for."""
    data = copy.deepcopy(BASE)
    value = value_of(key.example)
    group = key.path.partition(".")[0]
    if group in (FIELD, STEP):
        fit(data, key.name)
        data["listing"]["fields"]["example"] = value
        return data
    above: Any = data
    path = ""
    for part in key.path.split(".")[:-1]:
        path += f".{part}" if path else part
        step = part.removesuffix("[]")
        at = above.get(step)
        if not isinstance(at, dict | list) or part == "NAME":
            shown = value_of(EXAMPLES[path.removesuffix("[]")])
            at = above[step] = shown if isinstance(shown, dict | list) else {}
        one_of(above, TOLD[path.removesuffix("[]")])
        above = at[0] if isinstance(at, list) else at
    above[key.name] = value
    one_of(above, key)
    complete(above, key)
    fit(data)
    return data


def fit(data: dict[str, Any], selector: str = "") -> None:
    """Make the rest of the list fit the example: its fields the rows, its address the pages."""
    listing = data["listing"]
    if selector in ENTRIES:
        listing["rows"] = {selector: ENTRIES[selector]}
    for part in (listing, data.get("each", {}).get("discover")):
        if part:
            fit_fields(part)
    if "sitemap" in listing["rows"]:
        listing.pop("pages", None)
    pages = listing.get("pages", {})
    if "number" not in pages and listing["request"]["url"] == NUMBERED:
        listing["request"]["url"] = "https://example.org/{kind}"
        listing["request"] |= {"query": {way: f"{{{way}}}" for way in ("offset", "cursor") if way in pages}}


def fit_fields(part: dict[str, Any]) -> None:
    rows = part["rows"]
    if "regex" in rows and not {"json", "columns"} & rows.keys():
        rows.pop("css", None)
        rows["json"] = "@"
    if rows.get("css", "").startswith(">"):
        rows.setdefault("in", "ul")
    for selector, *paths in (ROWS[kind] for kind in ROWS.keys() & rows.keys()):
        part["fields"] = {field: {selector: path} for field, path in zip(part["fields"], paths, strict=False)}


def one_of(above: dict[str, Any], key: Told) -> None:
    """Where a section has one of several keys, the others make room."""
    if key.section and key.name in key.section.one_of:
        for rival in set(key.section.one_of) - {key.name}:
            above.pop(rival, None)


def complete(above: dict[str, Any], key: Told) -> None:
    """What the key's own section cannot be without, and what its value asks for elsewhere in it."""
    assert key.section is not None
    parent = key.path.rpartition(".")[0]
    if key.section.one_of and not set(above) & set(key.section.one_of):
        above[key.section.one_of[0]] = value_of(EXAMPLES[f"{parent}.{key.section.one_of[0]}"])
    for other, told in key.section.keys.items():
        if told.required and other not in above:
            above[other] = value_of(EXAMPLES[f"{parent}.{other}"])
    for beside in BESIDE.get(key.path, {}).items():
        above.setdefault(*beside)


TOLD = {key.path: key for key in all_keys()}
# What an example needs besides.
BESIDE: dict[str, dict[str, Any]] = {
    "listing.request.form": {"method": "POST"},
    "listing.request.json": {"method": "POST"},
    "listing.pages.request": {"carry": {"state": {"css": "#state::attr(value)"}}},
}


def load(data: dict[str, Any], folder: Path) -> list[str]:
    """Load it as `fyke source check` does, and return its warnings."""
    (folder / "profiles").mkdir()
    (folder / "profiles" / "cn-gov.yaml").write_text("fetch: {robots: respect}", encoding="utf-8")
    (folder / "bulletin.py").write_text(BULLETIN, encoding="utf-8")
    file = folder / "example.yaml"
    file.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return load_file(file, secrets={"PROXY": "http://127.0.0.1:3128"}.get).warnings


@pytest.mark.parametrize("key", all_keys(), ids=lambda key: str(key.path))
def test_an_example_of_a_key_loads_as_part_of_a_whole_source(key: Told, tmp_path: Path) -> None:
    assert key.example, f"{key.path} has no example: write one in src/fyke/sources/examples.py"
    assert load(whole(key), tmp_path) == []


def test_no_example_is_of_a_key_that_is_not_there() -> None:
    assert set(EXAMPLES) - {key.path for key in all_keys()} == set()
    assert len(EXAMPLES) > 90


def test_a_wrong_example_would_be_found(tmp_path: Path) -> None:
    data = copy.deepcopy(BASE)
    data["listing"]["connect"] = {"known": "many"}
    with pytest.raises(UsageError, match="known"):
        load(data, tmp_path)
    with pytest.raises(UsageError):
        value_of("[")
