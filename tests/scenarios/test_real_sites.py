"""The main job on real sites: saved pages under their own addresses, real sources; `fyke try` and `fyke run --once`.

Skipped without ../shared/realdata; tests of our own small pages with the same hazards stand in tests/unit/sources.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fyke.cli import run
from tests.realdata import DATA, DETAILS, EXAMPLES, LISTS, OUTCOMES, REPLAY, ROBOTS, needs_saved_pages, saved_file

pytestmark = needs_saved_pages

COMMAND = (sys.executable, "-m", "fyke")
# Nobody is asked, so nobody is waited for.
FAST = "fetch:\n  politeness: {delay: 0s, jitter: 0s, concurrency: 8}\n"
SETTINGS = '[attempts]\ndelays = ["50ms", "100ms"]\n'
# What their own sites say of them: a part that is not there, rows without an address, 19 pages that were not saved.
EMPTY = ("eurovision_index", "mkdocs")
NOT_SAVED = 19


@contextmanager
def replaying(index: Path, root: Path) -> Iterator[str]:
    """`fyke lab replay` as a process; its address."""
    arguments = (*COMMAND, "lab", "replay", str(index), "--files", str(root))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


@pytest.fixture(scope="module")
def replay() -> Iterator[str]:
    with replaying(REPLAY, DATA) as url:
        yield url


def make_folder(folder: Path, sources: Mapping[str, str]) -> None:
    (folder / "sources" / "profiles").mkdir(parents=True)
    (folder / "sources" / "profiles" / "fast.yaml").write_text(FAST, encoding="utf-8")
    for name, text in sources.items():
        (folder / "sources" / f"{name}.yaml").write_text(f"{text}\nextends: profiles/fast\n", encoding="utf-8")
    (folder / "fyke.toml").write_text(SETTINGS, encoding="utf-8")


def real_sources() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.yaml")}


def command(folder: Path, replay: str, *arguments: str) -> tuple[int, Any]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FYKE_")}
    environ["FYKE_FETCH_REPLAY"] = replay
    done = subprocess.run(
        (*COMMAND, *arguments, "--json"),
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


class Here:
    """A folder in which commands run in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.folder, self._capsys = folder, capsys
        patch.chdir(folder)
        for name in [name for name in os.environ if name.startswith("FYKE_")]:
            patch.delenv(name)
        self._patch = patch

    def __call__(self, replay: str, *arguments: str) -> tuple[int, Any]:
        self._patch.setenv("FYKE_FETCH_REPLAY", replay)
        code = run((*arguments, "--json"))
        out, err = self._capsys.readouterr()
        assert out, err
        return code, json.loads(out)


@pytest.fixture
def here(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(tmp_path, capsys, monkeypatch)


def shown(values: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values.get(name) for name in expected}


def test_each_source_is_tried_on_its_site(here: Here, replay: str) -> None:
    make_folder(here.folder, real_sources())
    for name, pages in LISTS.items():
        code, tried = here(replay, "try", f"sources/{name}.yaml")
        if name == "eurovision_index":
            # Where a page is an index, its first part is tried, and that one is not there.
            assert (code, tried["outcome"], tried["entries"]) == (1, "not_found", [])
            continue
        page, entries = pages[0], tried["entries"]
        assert (code, tried["outcome"]) == (0, "ok"), (name, tried["reason"])
        assert (len(entries), len(tried["refused"])) == (page.rows, page.refused), name
        for entry, values in zip((*entries[:1], *entries[-1:]), (page.first, page.last), strict=False):
            assert shown({**entry["fields"], "key": entry["key"]}, values) == values
    for name, detail in DETAILS.items():
        code, tried = here(replay, "try", f"sources/{name}.yaml", "--detail")
        assert (code, tried["outcome"], tried["key"]) == (0, "ok", detail.key), name
        assert shown(tried["record"], detail.record) == detail.record


def test_all_sites_end_with_the_right_rows_and_a_second_run_asks_for_no_detail_again(here: Here, replay: str) -> None:
    make_folder(here.folder, real_sources())
    code, report = command(here.folder, replay, "run", "--once", "--wait", "60s")
    counts = {row["source_id"]: row for row in report["sources"]}
    expected = {
        name: (rows := sum(page.rows for page in pages), 1 if name == "ggzy" else rows, NOT_SAVED * (name == "ggzy"), 0)
        for name, pages in LISTS.items()
    }
    assert {name: (row["listed"], row["stored"], row["dead"], row["open"]) for name, row in counts.items()} == expected
    assert {run["source_id"]: run["state"] for run in report["runs"]} == {
        name: {"eurovision_index": "failed", "mkdocs": "suspicious"}.get(name, "complete") for name in LISTS
    }
    # Pages that were not saved are dead letters, and two sites do not show what they name: a person is told.
    assert code == 1
    with closing(sqlite3.connect(here.folder / "fyke.db")) as connection:
        connection.row_factory = sqlite3.Row
        check_rows(connection)
    before = hits(replay)
    _, report = here(replay, "run", "--once", "--wait", "60s")
    assert report["new_stored"] == 0
    asked = {url: count - before.get(url, 0) for url, count in hits(replay).items()}
    assert asked["GET https://www.livemint.com/rss/news"] == 1
    details = {
        url: count for url, count in asked.items() if "/deal/html/" in url or "/t20250627" in url or "/item/" in url
    }
    assert len(details) == 4
    assert not any(details.values()), "a stored detail was fetched again"


def hits(replay: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{replay}/_hits", timeout=10) as answer:
        found: dict[str, int] = json.load(answer)["page"]
        return found


def check_rows(connection: sqlite3.Connection) -> None:
    """The values of ../shared/realdata/INDEX.tsv, in the tables; a number there is a number."""
    tables = dict(connection.execute("SELECT name, table_name FROM source").fetchall())
    for name, pages in LISTS.items():
        if name in EMPTY:
            assert connection.execute(f"SELECT count(*) FROM {tables[name]}").fetchone()[0] == 0
            continue
        own = "WHERE _item_id IN (SELECT item_id FROM sighting JOIN listing ON listing.id = listing_id"
        own += " JOIN source ON source.id = source_id WHERE source.name = ?)"
        rows = {row["_key"]: row for row in connection.execute(f"SELECT * FROM {tables[name]} {own}", (name,))}
        wanted = [(values.get("key"), values) for page in pages for values in (page.first, page.last)]
        if name in DETAILS:
            wanted = [(DETAILS[name].key, DETAILS[name].record)]
        else:
            assert len(rows) == sum(page.rows for page in pages), name
        for key, values in wanted:
            if key is not None:
                check_row(rows[str(key)], {column: value for column, value in values.items() if column != "key"})


def check_row(row: sqlite3.Row, expected: Mapping[str, Any]) -> None:
    for name, value in expected.items():
        found = row[name]
        if isinstance(found, int | float) and isinstance(value, str):
            assert Decimal(str(found)) == Decimal(value), name
        else:
            assert (json.loads(found) if isinstance(value, list) else found) == value, name


# Takes whatever a page shows for a notice: what keeps a block page out is not that it lacks an element.
CREDULOUS = """\
id: {name}
schedule: {{timezone: UTC}}
listing:
  request: {{url: "{url}"}}
  rows: {{in: body, css: a}}
  fields: {{url: {{css: "a::attr(href)", then: [absolute_url]}}, title: {{css: a}}}}
identity: {{scope: {name}, key: {{field: url}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      fields: {{title: {{css: title}}, body: {{css: body}}}}
store: {{table: {name}_rows}}
"""
LINE = "{}\t{}\t{}\t{}\t{}\n"
OWN = "./outcomes.html"
HTML = '{"Content-Type": "text/html"}'


def refusing_site(folder: Path) -> tuple[Path, dict[str, str]]:
    """An index and sources: each page once as the detail of a notice, and once as the list itself."""
    lines, sources = ["method\turl\tfile\tstatus\theaders\n"], {}
    for page in OUTCOMES:
        # Two hosts, for the one that is blocked is left alone.
        site, other = f"https://{page}.example", f"https://lists-of-{page}.example"
        lines.append(LINE.format("GET", f"{site}/list", OWN, 200, HTML))
        for address in (f"{site}/page", f"{other}/page"):
            lines.append(LINE.format("GET", address, saved_file(page).name, 200, HTML))
        if page == "d08":
            # A login page is where one is sent to.
            lines.append(LINE.format("GET", f"{site}/notice", OWN, 302, '{"Location": "/page"}'))
        else:
            lines.append(LINE.format("GET", f"{site}/notice", saved_file(page).name, 200, ""))
        sources[f"{page}_detail"] = CREDULOUS.format(name=f"{page}_detail", url=f"{site}/list")
        sources[f"{page}_list"] = CREDULOUS.format(name=f"{page}_list", url=f"{other}/page")
    (folder / "outcomes.html").write_bytes((EXAMPLES / "pages" / "outcomes.html").read_bytes())
    index = folder / "replay.tsv"
    index.write_text("".join(lines), encoding="utf-8")
    return index, sources


def test_no_page_that_stands_in_for_the_page_becomes_a_row(here: Here, tmp_path: Path) -> None:
    """SCENARIOS 16 on saved block, login and redirect pages, before sources that would take anything for a notice."""
    index, sources = refusing_site(tmp_path)
    make_folder(here.folder, sources)
    with replaying(index, DATA) as replay:
        for page, (outcome, word) in OUTCOMES.items():
            for name, more in ((f"{page}_list", ()), (f"{page}_detail", ("--detail",))):
                code, tried = here(replay, "try", f"sources/{name}.yaml", *more)
                assert (code, tried["outcome"]) == (1, outcome), name
                assert word in tried["reason"]
        here(replay, "run", "--once", "--wait", "3s")
    with closing(sqlite3.connect(here.folder / "fyke.db")) as connection:
        for name in sources:
            assert connection.execute(f"SELECT count(*) FROM {name}_rows").fetchall() == [(0,)]
        visits = dict(connection.execute(VISITS).fetchall())
        assert visits == {f"{page}_detail": outcome for page, (outcome, _) in OUTCOMES.items()}
        # What is blocked is kept, and the page that has moved is a dead letter that says where to.
        states = dict(connection.execute("SELECT state, count(*) FROM item GROUP BY state").fetchall())
        assert states == {"open": len(OUTCOMES) - 1, "dead": 1}
        ((reason,),) = connection.execute("SELECT reason FROM dead").fetchall()
        assert "tutorial-frequencies.html" in reason


VISITS = "SELECT DISTINCT item.scope, visit.outcome FROM visit JOIN item ON item.id = visit.item_id"

ALIBABA = """\
id: alibaba
schedule: {timezone: UTC}
listing:
  request: {url: "https://www.alibaba.com/products/list.html"}
  rows: {in: ul, css: li}
  fields: {url: {css: "a::attr(href)", then: [absolute_url]}}
identity: {scope: alibaba, key: {field: url}}
detail: {steps: [{request: {url: "{url}"}, fields: {title: {css: h1}}}]}
store: {table: products}
"""
ASKED = {
    "/products/1.html": True,
    "/catalog/a?page=2": True,
    "/x?spm=a2700": True,
    "/x?page=2": False,
    "/bin/1.html": False,
    "/rss/a/b.rss": False,
}


def test_robots_txt_with_stars_and_without_slashes_is_kept(here: Here, tmp_path: Path) -> None:
    site = "https://www.alibaba.com"
    rows = "".join(f'<li><a href="{path}">{path}</a></li>' for path in ASKED)
    (tmp_path / "list.html").write_text(f"<ul>{rows}</ul>", encoding="utf-8")
    (tmp_path / "page.html").write_text("<h1>A product</h1>", encoding="utf-8")
    lines = ["method\turl\tfile\tstatus\theaders\n"]
    lines.append(
        LINE.format("GET", f"{site}/robots.txt", saved_file(ROBOTS).name, 200, '{"Content-Type": "text/plain"}')
    )
    lines.append(LINE.format("GET", f"{site}/products/list.html", "./list.html", 200, HTML))
    lines += [LINE.format("GET", f"{site}{path}", "./page.html", 200, HTML) for path in ASKED]
    (tmp_path / "replay.tsv").write_text("".join(lines), encoding="utf-8")
    make_folder(here.folder, {"alibaba": ALIBABA})
    with replaying(tmp_path / "replay.tsv", DATA) as replay:
        here(replay, "run", "--once", "--wait", "20s")
        asked = hits(replay)
    with closing(sqlite3.connect(here.folder / "fyke.db")) as connection:
        stored = {key for (key,) in connection.execute("SELECT _key FROM products")}
        others = connection.execute("SELECT key, state FROM item WHERE state <> 'stored'").fetchall()
        outcomes = {outcome for (outcome,) in connection.execute("SELECT outcome FROM visit WHERE outcome <> 'ok'")}
    assert stored == {f"{site}{path}" for path, allowed in ASKED.items() if allowed}
    assert dict(others) == {f"{site}{path}": "ignored" for path, allowed in ASKED.items() if not allowed}
    assert outcomes == {"robots"}
    assert not [path for path, allowed in ASKED.items() if not allowed and f"GET {site}{path}" in asked]
