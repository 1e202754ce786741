"""A new user's first day, by the command line: init, new, try, record, test, diff, run, query, export, completion."""

import asyncio
import csv
import io
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from fyke.cli import VERBS, run
from fyke.lab.replay import load_index
from fyke.lab.site import RunningSite, SiteConfig, serve_site
from fyke.sources.loader import load_file

PACE = "\nfetch: {private_addresses: allow, politeness: {delay: 0s, jitter: 0s, concurrency: 8}}\n"


class Fyke:
    """Runs a command line in this process, in a folder of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        found = run(arguments)
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        assert found == code, (out, err)
        return out if code != 2 else err

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))


@pytest.fixture
def fyke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fyke:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FYKE_")]:
        monkeypatch.delenv(name)
    return Fyke(capsys)


@contextmanager
def site(**config: Any) -> Iterator[str]:
    """The lab's site in a loop of its own; ends with the block."""
    ready: Queue[tuple[RunningSite, asyncio.AbstractEventLoop, asyncio.Event]] = Queue()

    async def serve() -> None:
        async with await serve_site(SiteConfig(items=25, per_page=10, **config)) as running:
            done = asyncio.Event()
            ready.put((running, asyncio.get_running_loop(), done))
            await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    running, loop, done = ready.get(timeout=20)
    try:
        yield running.url
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(20)


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    with site() as url:
        yield url


def test_init_makes_a_project_whose_source_works_and_overwrites_nothing(fyke: Fyke, lab: str) -> None:
    out = fyke("init", "mine")
    assert "fyke lab site --port 8080" in out
    files = {path.relative_to("mine").as_posix() for path in Path("mine").rglob("*") if path.is_file()}
    assert files == {"fyke.toml", ".gitignore", "sources/notices.yaml"}
    before = {path: path.read_bytes() for path in Path("mine").rglob("*") if path.is_file()}
    assert "is there already, and is not overwritten" in fyke("init", "mine", code=2)
    assert {path: path.read_bytes() for path in before} == before
    os.chdir("mine")
    fyke("settings", "show")
    source = Path("sources/notices.yaml")
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("http://127.0.0.1:8080", lab).replace("\nfetch: {private_addresses: allow}\n", PACE))
    assert len(fyke.json("try", "notices")["entries"]) == 10
    fyke("run", "--once")
    assert "25 row(s)" in fyke("query", "notices", "--limit", "25")


def test_every_setting_that_init_shows_may_have_its_mark_taken_away(fyke: Fyke) -> None:
    fyke("init")
    toml = Path("fyke.toml")
    text = toml.read_text(encoding="utf-8")
    shown = re.findall(r"^# (\w+) = ", text, re.MULTILINE)
    assert len(shown) > 8
    toml.write_text(re.sub(r"^# (\w+ = (?!\"\"$).*)", r"\1", text, flags=re.MULTILINE), encoding="utf-8")
    fyke("settings", "show")


def test_init_writes_nothing_where_one_of_its_files_is_there(fyke: Fyke) -> None:
    Path(".gitignore").write_text("mine\n")
    assert ".gitignore: is there already" in fyke("init", code=2)
    assert [path.name for path in Path().iterdir()] == [".gitignore"]


def test_new_proposes_a_source_that_try_reads_and_a_feed_stands_first(fyke: Fyke, lab: str) -> None:
    out = fyke("new", f"{lab}/list/index.html", "--private", "-o", "sources/lab.yaml")
    assert "Type next: fyke try sources/lab.yaml" in out
    tried = fyke.json("try", "lab")
    assert (tried["outcome"], len(tried["entries"]), tried["refused"]) == ("ok", 10, [])
    assert tried["next"] == f"{lab}/list/index_2.html"
    assert all(row["fields"]["published"] for row in tried["entries"])
    assert "is not overwritten" in fyke("new", lab, "-o", "sources/lab.yaml", code=2)


def test_new_keeps_to_robots_txt(fyke: Fyke) -> None:
    with site(robots="User-agent: *\nDisallow: /list/\n") as url:
        out = fyke("new", f"{url}/list/index.html", "--private", "-o", "sources/lab.yaml", code=1)
    assert "robots" in out
    assert not Path("sources").exists()


def test_new_reads_a_saved_page_and_asks_nobody(fyke: Fyke) -> None:
    rows = "".join(f'<li><a href="/n/{n}.html">Notice of the county {n}</a></li>' for n in range(5))
    Path("page.html").write_text(f'<ul class="list">{rows}</ul>', encoding="utf-8")
    found = fyke.json("new", "https://no-such-host.invalid/list", "--page", "page.html")
    assert [one["kind"] for one in found["proposals"]] == ["list"]
    assert [entry["key"] for entry in found["proposals"][0]["entries"]] == ["0", "1", "2", "3", "4"]
    Path("empty.html").write_text("<p>Nothing</p>", encoding="utf-8")
    assert "network view" in fyke("new", "https://no-such-host.invalid/", "--page", "empty.html", code=1)
    assert "is not a public address; --private allows it" in fyke("new", "http://127.0.0.1:9/", code=1)
    for arguments, part in (
        (("new", "example.org"), "is no address"),
        (("new", "https://e.org/", "--page", "page.html", "--take", "4"), "there is no proposal 4"),
        (("new", "https://e.org/", "-o", "source.txt"), "is no name of a source file"),
        (("new", "https://e.org/", "--form", "x"), "--form x has no value"),
    ):
        assert part in fyke(*arguments, code=2)


def collected(fyke: Fyke, lab: str) -> Path:
    """A project with a source of two pages and details, without waits."""
    fyke("init")
    path = Path("sources/notices.yaml")
    text = path.read_text(encoding="utf-8").replace("http://127.0.0.1:8080", lab)
    path.write_text(text.replace("\nfetch: {private_addresses: allow}\n", PACE), encoding="utf-8")
    return path


def test_recorded_pages_are_tested_offline_and_replayed(fyke: Fyke, lab: str) -> None:
    with site() as url:
        path = collected(fyke, url)
        out = fyke("record", "notices", "--pages", "2", "--details", "3")
        assert "2 list page(s) with 20 entries, 3 detail(s)" in out
        assert "recorded there already" in fyke("record", "notices", code=2)
    # The site is gone.
    assert len(load_index(Path("sources/notices.pages/replay.tsv"))) == 5
    assert "no expected values yet" in fyke("source", "test", "notices", code=1)
    fyke("source", "test", "notices", "--accept")
    found = fyke.json("source", "test")
    assert [(one["lists"], one["entries"], one["details"], one["differences"]) for one in found] == [(2, 20, 3, [])]
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("{css: h1, required: true}", "{css: h1, then: [{regex: '^.{4}'}]}"), encoding="utf-8")
    told = fyke("source", "test", "notices", code=1)
    assert re.search(r"details\[\d+\]\.record\.title: expected", told)
    path.write_text(text.replace("ul.list", "ul.gone"), encoding="utf-8")
    assert "the container 'ul.gone' is not on the page" in fyke("source", "test", "notices", code=1)
    assert fyke("source", "list")


def test_a_changed_key_is_told_before_it_makes_doubles(fyke: Fyke, lab: str) -> None:
    path = collected(fyke, lab)
    fyke("record", "notices", "--pages", "1", "--details", "1")
    fyke("run", "--once")
    Path("old.yaml").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    assert fyke.json("source", "diff", "old.yaml", "notices")["changed_keys"] == []
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("'_(\\d+)\\.html'", "'(\\d+_\\d+)\\.html'"), encoding="utf-8")
    found = fyke.json("source", "diff", "notices", "--stored", code=1)
    assert (found["entries_old"], found["entries_new"], found["same_keys"]) == (10, 10, 0)
    assert len(found["changed_keys"]) == 10
    assert all(one["stored"] for one in found["changed_keys"])
    assert "10 key(s) change: such items would be there twice" in fyke("source", "diff", "old.yaml", "notices", code=1)
    path.write_text(text.replace("css: em,", "css: i,"), encoding="utf-8")
    found = fyke.json("source", "diff", "old.yaml", "notices", code=1)
    assert [(one["name"], one["changed"], one["new"]) for one in found["fields"]] == [("published", 10, None)]


def test_try_tells_on_how_many_rows_each_selector_hits(fyke: Fyke) -> None:
    fyke("init")
    path = Path("sources/notices.yaml")
    rows = "".join(
        f'<li><a href="/detail/t20260101_{n}.html">甲</a><em>{"soon" if n % 2 else "2026-01-02 03:04"}</em></li>'
        for n in range(1, 5)
    )
    Path("page.html").write_text(f'<ul class="list">{rows}</ul>', encoding="utf-8")
    found = fyke.json("try", str(path), "--page", "page.html")
    assert [(hit["field"], hit["selector"], hit["rows"], hit["found"], hit["values"]) for hit in found["hits"]] == [
        ("url", "css a::attr(href)", 4, 4, 4),
        ("published", "css em", 4, 4, 2),
    ]
    out = fyke("try", str(path), "--page", "page.html")
    assert "found, but its steps give no value" in out


def test_try_tells_of_values_that_were_left_out_for_the_page_says_them_in_two_ways(fyke: Fyke) -> None:
    fyke("init")
    path = Path("sources/notices.yaml")
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace("    published:", "    sum: {css: b, then: [{money: CNY}]}\n    published:", 1), "utf-8"
    )
    row = (
        '<li><a href="/detail/t20260101_1.html">甲</a><b>12万元（大写：壹拾叁万元整）</b><em>2026-01-02 03:04</em></li>'
    )
    Path("page.html").write_text(f'<ul class="list">{row}</ul>', encoding="utf-8")
    (doubt,) = fyke.json("try", str(path), "--page", "page.html")["doubts"]
    assert doubt.startswith("row 1, field 'sum': the sum is said twice and differs")
    assert f"left out: {doubt}" in fyke("try", str(path), "--page", "page.html")


def test_rows_are_looked_at_by_typed_comparisons_and_no_sql(fyke: Fyke, lab: str) -> None:
    collected(fyke, lab)
    fyke("run", "--once")
    every = fyke.json("query", "notices", "--limit", "100")
    assert (len(every["rows"]), every["more"]) == (25, False)
    budgets = sorted(int(float(row["budget"])) for row in every["rows"] if row["budget"] is not None)
    middle = budgets[len(budgets) // 2]
    found = fyke.json("query", "notices", "--where", f"budget>={middle}", "--limit", "100")["rows"]
    assert len(found) == sum(budget >= middle for budget in budgets)
    one = every["rows"][3]
    assert fyke.json("query", "notices", "--where", f"_key={one['_key']}")["rows"] == [one]
    day = one["published"][:10]
    later = fyke.json("query", "notices", "--where", f"published>={day}", "--limit", "100")["rows"]
    assert {row["_key"] for row in later} == {row["_key"] for row in every["rows"] if row["published"][:10] >= day}
    part = one["title"][2:6]
    found = fyke.json("query", "notices", "--where", f"title~{part}", "--columns", "title,_key", "--limit", "100")[
        "rows"
    ]
    assert {"title": one["title"], "_key": one["_key"]} in found
    assert all(part in row["title"] for row in found)
    assert fyke.json("query", "notices", "--where", "title=x' OR '1'='1")["rows"] == []
    assert [row["_key"] for row in fyke.json("query", "notices", "--newest", "--limit", "1")["rows"]] == [
        every["rows"][-1]["_key"]
    ]
    for condition, part in (
        ("titel=x", "did you mean 'title'?"),
        ("budget>=much", "is no number"),
        ("published>soon", "is no datetime"),
        ("1=1; DROP TABLE item", "is no condition"),
    ):
        assert part in fyke("query", "notices", "--where", condition, code=2)


def test_chosen_columns_and_rows_since_a_moment_are_exported(fyke: Fyke, lab: str) -> None:
    collected(fyke, lab)
    fyke("run", "--once")
    text = fyke("export", "notices", "--format", "csv", "--columns", "_key,title", "--since", "1h")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert (len(rows), list(rows[0])) == (25, ["_key", "title"])
    assert fyke("export", "notices", "--format", "jsonl", "--since", "2099-01-01") == ""
    assert "25 row(s) in rows.jsonl" in fyke("export", "notices", "-o", "rows.jsonl")
    assert "did you mean 'title'?" in fyke("export", "notices", "--format", "csv", "--columns", "titel", code=2)
    assert "it needs a file" in fyke("export", "notices", "--format", "xlsx", code=2)
    assert "is no moment" in fyke("export", "notices", "--format", "csv", "--since", "lately", code=2)
    assert "the format is not said" in fyke("export", "notices", "-o", "rows.txt", code=2)


def test_what_is_recorded_and_exported_leaves_no_source_file(fyke: Fyke, lab: str) -> None:
    collected(fyke, lab)
    fyke("record", "notices", "--pages", "1", "--details", "1")
    fyke("source", "test", "notices", "--accept")
    assert [one["error"] for one in fyke.json("source", "check")] == [None]
    assert load_file("sources/notices.yaml").source.resolved.id == "notices"


def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, at: int) -> list[str]:
    monkeypatch.setenv("_FYKE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(at))
    with pytest.raises(SystemExit):
        run([])
    return capsys.readouterr().out.split()


def test_the_shell_completes_verbs_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(complete(monkeypatch, capsys, "fyke ", 1)) >= set(VERBS)
    assert complete(monkeypatch, capsys, "fyke expl", 1) == ["explain"]
    assert complete(monkeypatch, capsys, "fyke source dif", 2) == ["diff"]
    assert "--columns" in complete(monkeypatch, capsys, "fyke export --col", 2)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    monkeypatch.setenv("_FYKE_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit):
        run([])
    assert "_FYKE_COMPLETE=complete" in capsys.readouterr().out
