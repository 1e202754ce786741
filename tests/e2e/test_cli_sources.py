"""From a source file to rows, by the command line alone: check, try, apply, run once, submit, stop."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fyke.cli import run

COMMAND = (sys.executable, "-m", "fyke")
SOURCE = """\
id: demo
title: 演示站
schedule: {cron: ["0 8 * * *"], timezone: Asia/Shanghai}
fetch:
  politeness: {delay: 0s, jitter: 0s, concurrency: 16}
  private_addresses: allow
listing:
  request: {url: "SITE/list/{page}"}
  pages: {number: {first: index.html, then: "index_{n}.html", from: 2}}
  rows: {in: ul.list, css: "> li"}
  fields:
    url: {css: "a::attr(href)", then: [absolute_url]}
    title: {css: "a::attr(title)"}
  connect: {known: 5}
  start: all
identity: {scope: demo, key: {field: url, then: [{regex: '_(\\d+)\\.html'}]}}
detail:
  steps:
    - request: {url: "{url}"}
      fields:
        title: {css: h1, required: true}
        buyer: {label: 采购单位}
store: {table: gov_procure}
"""
LIST = '<ul class="list"><li><a href="/d/t_7.html" title="甲">甲</a></li><li>a row without a link</li></ul>'
DETAIL = "<html><h1>甲公告</h1><table><tr><td>采购单位</td><td>甲局</td></tr></table></html>"


class Fyke:
    """Runs a command line in this process, in a folder of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    def json(self, *arguments: str, code: int = 0) -> Any:
        found, out, err = self(*arguments, "--json")
        assert found == code, err
        return json.loads(out)

    def source(self, site: str) -> None:
        (self.folder / "sources").mkdir()
        (self.folder / "sources" / "demo.yaml").write_text(SOURCE.replace("SITE", site), encoding="utf-8")


@pytest.fixture
def fyke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fyke:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FYKE_")]:
        monkeypatch.delenv(name)
    return Fyke(tmp_path, capsys)


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """The address of a laboratory server, which ends cleanly when it is told to."""
    with subprocess.Popen((*COMMAND, "lab", *arguments), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:")
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


@pytest.fixture
def here(fyke: Fyke) -> Path:
    """A folder with a source, a saved list page and a saved detail page."""
    fyke.source("http://notices.example.org")
    (fyke.folder / "list.html").write_text(LIST, encoding="utf-8")
    (fyke.folder / "detail.html").write_bytes(DETAIL.encode("gb18030"))
    return fyke.folder


def test_a_saved_list_page_is_read_and_nothing_is_stored(fyke: Fyke, here: Path) -> None:
    arguments = ("try", "demo", "--page", "list.html", "--url", "http://notices.example.org/list/index.html")
    code, out, _ = fyke(*arguments, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["outcome"] == "ok"
    assert found["entries"] == [{"key": "7", "fields": {"url": "http://notices.example.org/d/t_7.html", "title": "甲"}}]
    assert [row["position"] for row in found["refused"]] == [1]
    assert "a row without a link" in found["refused"][0]["raw"]
    assert found["next"] == "http://notices.example.org/list/index_2.html"
    code, out, _ = fyke(*arguments)
    assert code == 0
    assert "1 entries, 1 refused" in out
    assert not list(here.glob("*.db*"))


def test_a_saved_detail_page_is_read_in_its_own_encoding(fyke: Fyke, here: Path) -> None:
    code, out, _ = fyke("try", "sources/demo.yaml", "--detail", "--page", "detail.html", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["outcome"], found["missing"]) == ("ok", [])
    assert (found["record"]["title"], found["record"]["buyer"]) == ("甲公告", "甲局")


def test_a_page_that_lacks_what_is_required_names_it_and_ends_with_1(fyke: Fyke, here: Path) -> None:
    (here / "detail.html").write_text(DETAIL.replace("h1", "h2"), encoding="utf-8")
    code, out, _ = fyke("try", "demo", "--detail", "--page", "detail.html", "--json")
    found = json.loads(out)
    assert code == 1
    assert (found["outcome"], found["missing"]) == ("misfit", ["title"])


@pytest.mark.parametrize("detail", [(), ("--detail",)])
def test_a_saved_block_page_is_told_as_such(fyke: Fyke, here: Path, detail: tuple[str, ...]) -> None:
    (here / "block.html").write_text("<title>Just a moment...</title><p>Checking your browser</p>", encoding="utf-8")
    found = fyke.json("try", "demo", *detail, "--page", "block.html", code=1)
    assert found["outcome"] == "blocked"
    assert "Just a moment" in found["reason"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("try", "dmo"), "did you mean 'demo'?"),
        (("try", "sources/none.yaml"), "sources/none.yaml: cannot be read"),
        (("try", "demo", "--page", "none.html"), "none.html: cannot be read"),
        (("try", "demo", "--url", "http://x/"), "--url and --step go with --page"),
        (("try", "demo", "--listing", "mian", "--page", "list.html"), "did you mean 'main'?"),
        (("try", "demo", "--detail", "--page", "detail.html", "--step", "2"), "there is no step 2"),
        (("source", "show", "dmo"), "did you mean 'demo'?"),
        (("run", "--once", "dmo"), "there is no source 'dmo'"),
        (("run", "demo"), "sources are named with --once only"),
        (("run", "--once", "--wait", "long"), "'long' is no duration"),
        (("run", "--once", "--sources", "nowhere"), "nowhere"),
        (("submit", "demo", "http://notices.example.org/d/t_7.html"), "there is no ledger at fyke.db"),
    ],
)
def test_a_slip_ends_with_2_and_says_what_is_near(
    fyke: Fyke, here: Path, arguments: tuple[str, ...], part: str
) -> None:
    code, out, err = fyke(*arguments)
    assert (code, out) == (2, "")
    assert part in err


def test_every_mistake_of_every_file_is_told_and_the_good_ones_too(fyke: Fyke, here: Path) -> None:
    bad = SOURCE.replace("id: demo", "id: bad").replace("connect:", "conect:")
    (fyke.folder / "sources" / "bad.yaml").write_text(bad, encoding="utf-8")
    code, out, _ = fyke("source", "check", "--json")
    found = {Path(each["file"]).name: each for each in json.loads(out)}
    assert code == 2
    assert (found["demo.yaml"]["id"], found["demo.yaml"]["error"]) == ("demo", None)
    line = bad[: bad.index("conect")].count("\n") + 1
    assert f"bad.yaml:{line}: " in found["bad.yaml"]["error"]
    assert "did you mean 'connect'?" in found["bad.yaml"]["error"]
    assert fyke("source", "check", "demo")[0] == 0
    code, out, _ = fyke("source", "list", "--json")
    assert (code, sorted(each["state"] for each in json.loads(out))) == (0, ["broken", "new"])


def test_an_applied_source_shows_when_its_file_was_changed(fyke: Fyke, here: Path) -> None:
    def states() -> dict[str, str]:
        return {each["id"]: each["state"] for each in json.loads(fyke("source", "list", "--json")[1])}

    assert states() == {"demo": "new"}
    assert json.loads(fyke("source", "apply", "--json")[1]) == [{"id": "demo", "change": "created"}]
    assert states() == {"demo": "applied"}
    file = here / "sources" / "demo.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("known: 5", "known: 6"), encoding="utf-8")
    assert states() == {"demo": "changed"}
    code, _, err = fyke("source", "remove", "demo")
    assert (code, "demo.yaml: the file of 'demo' is still there" in err) == (2, True)
    file.rename(here / "demo.yaml")
    assert states() == {"demo": "no file"}
    assert fyke("source", "remove", "demo")[1] == "demo is out of work.\n"
    assert states() == {"demo": "removed"}
    (here / "demo.yaml").rename(file)
    assert fyke("source", "apply")[0] == 0
    assert states() == {"demo": "applied"}


def test_show_tells_the_next_moments_in_both_zones_and_the_whole_resolved_file(fyke: Fyke, here: Path) -> None:
    code, out, _ = fyke("source", "show", "demo")
    moments = [line for line in out.splitlines() if line.endswith(" UTC")]
    assert code == 0
    assert len(moments) == 5
    assert all(" 08:00 Asia/Shanghai " in line and " 00:00 UTC" in line for line in moments)
    resolved = json.loads(fyke("source", "show", "demo", "--resolved")[1])
    assert resolved["source"]["id"] == "demo"


def test_show_tells_the_seconds_of_a_six_field_time(fyke: Fyke, here: Path) -> None:
    file = here / "sources" / "demo.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("0 8 * * *", "*/15 * * * * *"), encoding="utf-8")
    code, out, _ = fyke("source", "show", "demo")
    moments = [line for line in out.splitlines() if line.endswith(" UTC")]
    assert (code, len(set(moments))) == (0, 5)
    assert {line.split(":")[2][:2] for line in moments} == {"00", "15", "30", "45"}


@pytest.mark.parametrize("table", ["item", "task", "alembic_version", "item_open"])
def test_a_table_that_the_ledger_would_refuse_is_no_good_source(fyke: Fyke, here: Path, table: str) -> None:
    file = here / "sources" / "demo.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("gov_procure", table), encoding="utf-8")
    code, out, _ = fyke("source", "check")
    line = SOURCE[: SOURCE.index("store:")].count("\n") + 1
    assert (code, f"demo.yaml:{line}: store.table: '{table}' is a table of Fyke itself" in out) == (2, True)


CANARY = "c4n4ryPASS"


def holding_the_canary(fyke: Fyke, *arguments: str) -> tuple[int, list[str]]:
    """Runs it; the code, and where the canary is then: in what was printed, or in any file of the ledger."""
    code, out, err = fyke(*arguments)
    texts = {"out": out.encode(), "err": err.encode()} | {
        path.name: path.read_bytes() for path in fyke.folder.glob("fyke.db*")
    }
    return code, [name for name, text in texts.items() if CANARY.encode() in text]


@pytest.mark.parametrize(
    "proxy",
    [
        f"http://u:{CANARY}@127.0.0.1:9",
        f"http://{CANARY}@127.0.0.1:9",
        f"u:{CANARY}@127.0.0.1:9",
        f"http://u:{CANARY}${{secret:P}}@127.0.0.1:9",
        f"http://u:{CANARY}@127.0.0.1:${{secret:}}",
        f"http://u:{CANARY}@x@127.0.0.1:9",
    ],
)
def test_a_literal_password_of_a_proxy_is_refused_and_told_nowhere(
    fyke: Fyke, here: Path, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("FYKE_SECRET_P", "x")
    file = here / "sources" / "demo.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("fetch:", f'fetch:\n  proxy: "{proxy}"'), encoding="utf-8")
    for arguments in (("source", "check"), ("source", "apply"), ("run", "--once", "--wait", "1s")):
        assert holding_the_canary(fyke, *arguments) == (2, [])
    assert "fetch.proxy: a password may not stand here" in fyke("source", "check")[1]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (f"http://u:{CANARY}@127.0.0.1:9", 1),
        (f"u:{CANARY}@127.0.0.1:9", 2),
        (f"{CANARY}://::bad", 2),
        (f"http://u:p/{CANARY}@127.0.0.1:9", 2),
        (f"http://{CANARY}:99999", 2),
    ],
)
def test_a_secret_proxy_that_does_not_work_is_told_and_written_nowhere(
    fyke: Fyke, here: Path, monkeypatch: pytest.MonkeyPatch, value: str, code: int
) -> None:
    monkeypatch.setenv("FYKE_SECRET_PROXY", "http://good.example:1")
    file = here / "sources" / "demo.yaml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("fetch:", 'fetch:\n  proxy: "${secret:PROXY}"'), encoding="utf-8"
    )
    assert fyke("source", "apply")[0] == 0
    monkeypatch.setenv("FYKE_SECRET_PROXY", value)
    assert holding_the_canary(fyke, "run", "--once", "--wait", "1s") == (code, [])
    file.unlink()
    # The ledger's text alone is what workers go by.
    assert holding_the_canary(fyke, "run", "--once", "--wait", "1s")[1] == []


def test_a_password_by_reference_stands_in_a_literal_proxy(
    fyke: Fyke, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FYKE_SECRET_P", CANARY)
    file = here / "sources" / "demo.yaml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("fetch:", 'fetch:\n  proxy: "http://u:${secret:P}@127.0.0.1:9"'),
        encoding="utf-8",
    )
    assert holding_the_canary(fyke, "source", "check") == (0, [])


def test_saved_pages_are_served_under_their_own_addresses_and_tried(fyke: Fyke, here: Path) -> None:
    index = "method\turl\tfile\tstatus\theaders\tmatch\n" + "".join(
        f"GET\thttp://notices.example.org/{path}\t./{file}\t200\t\t\n"
        for path, file in (("list/index.html", "list.html"), ("d/t_7.html", "detail.html"))
    )
    (here / "replay.tsv").write_text(index, encoding="utf-8")
    with serving("replay", str(here)) as url:
        code, out, _ = fyke("try", "demo", "--detail", "--json", "--set", f"fetch.replay={url}")
        found = json.loads(out)
        assert (code, found["key"], found["record"]["buyer"]) == (0, "7", "甲局")


def test_one_run_stores_what_the_site_shows_and_the_next_finds_nothing_new(fyke: Fyke) -> None:
    with serving("site", "--items", "45", "--etag") as site:
        fyke.source(site)
        code, out, err = fyke("run", "--once", "--wait", "60s", "--json")
        report: dict[str, Any] = json.loads(out)
        assert code == 0, err
        assert (report["new_stored"], report["problems"], report["still_open"]) == (45, [], 0)
        assert re.search(r"run 1 of demo: slot 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00, 1 listing", err)
        audit = fyke.json("audit")
        assert (audit["listed"], audit["stored"], audit["unaccounted"]) == (45, 45, 0)
        code, out, _ = fyke("run", "--once", "demo")
        assert code == 0
        assert "0 stored and 0 dead by this run" in out
        assert len(fyke("export", "demo", "--format", "jsonl")[1].splitlines()) == 45
        (fyke.folder / "sources" / "demo.yaml").unlink()
        (fyke.folder / "sources").rmdir()
        assert fyke("run", "--once")[0] == 0


def test_a_submitted_address_is_stored_by_the_next_run(fyke: Fyke) -> None:
    with serving("site", "--items", "40") as site:
        fyke.source(site)
        assert fyke("source", "apply")[0] == 0
        page = fyke.json("try", "demo")
        entry = page["entries"][3]
        arguments = ("submit", "demo", entry["fields"]["url"], "--field", f"title={entry['fields']['title']}")
        found = fyke.json(*arguments)
        assert found == {
            "entries": [{"key": entry["key"], "url": entry["fields"]["url"]}],
            "new": 1,
            "known": 0,
            "due": 1,
            "frontier_away": "",
        }
        code, _, err = fyke("submit", "demo", f"{site}/about.html")
        assert (code, "no item comes out of" in err) == (2, True)
        assert fyke("run", "--once", "--wait", "60s")[0] == 0
        told = fyke.json("explain", "demo", entry["key"])
        assert (told["state"], told["generation"]) == ("stored", 1)
        assert {row["listing"] for row in told["sightings"]} == {"submitted", "main"}


def forget_hits(site: str) -> None:
    with urllib.request.urlopen(f"{site}/_reset_hits", data=b"{}", timeout=60) as answer:
        assert answer.status == 200


def wait_for_hits(site: str, hits: int) -> None:
    """Return as soon as the site was asked so many times."""
    with urllib.request.urlopen(f"{site}/_wait?hits={hits}", timeout=90) as answer:
        assert json.load(answer)["hits"] >= hits


@contextmanager
def collecting(fyke: Fyke, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`fyke run` as a process of its own, which does not outlive the test."""
    with subprocess.Popen(
        (*COMMAND, "run", *arguments), cwd=fyke.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("arguments", [("--once", "--wait", "90s"), ()])
def test_a_stopped_run_ends_with_0_and_gives_back_what_it_held(fyke: Fyke, arguments: tuple[str, ...]) -> None:
    with serving("site", "--items", "60", "--latency-ms", "1500") as site:
        fyke.source(site)
        assert fyke("source", "apply")[0] == 0
        urls = [entry["fields"]["url"] for entry in fyke.json("try", "demo")["entries"]]
        assert fyke.json("submit", "demo", *urls)["due"] == len(urls) > 16
        forget_hits(site)
        with collecting(fyke, *arguments) as process:
            wait_for_hits(site, 4)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
        assert "Traceback" not in err
        assert ("It was stopped" in out) is bool(arguments)
        assert fyke.json("status")["frontier"]["leased"] == 0
        assert fyke.json("audit")["unaccounted"] == 0


def test_attachments_are_paused_resumed_and_removed_with_their_source(fyke: Fyke) -> None:
    fyke.source("https://site.example")
    file = fyke.folder / "sources" / "demo.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("store:", '  attachments: {css: "a.file::attr(href)"}\nstore:'), encoding="utf-8")
    assert fyke("source", "apply")[0] == 0

    def states() -> dict[str, str]:
        return {line["id"]: line["state"] for line in fyke.json("source", "list")}

    assert "and so are its attachments" in fyke("source", "pause", "demo", "--reason", "rebuilt")[1]
    assert states() == {"demo": "paused", "demo.attachments": "paused"}
    assert "and so do its attachments" in fyke("source", "resume", "demo")[1]
    assert states() == {"demo": "applied", "demo.attachments": "applied"}
    file.unlink()
    assert "and so are its attachments" in fyke("source", "remove", "demo")[1]
    assert states() == {"demo": "removed", "demo.attachments": "removed"}
