"""`fyke lab load` on a few pages: every request with its start and end, a record that is kept, a site of one's own."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from fyke.cli import run
from fyke.lab.site import SiteConfig, serve_site

SOURCE = """\
id: own
schedule: {{cron: ["0 0 1 1 *"]}}
fetch: {{politeness: {{delay: 50ms, jitter: 0s, concurrency: 2}}, private_addresses: allow}}
listing:
  request: {{url: "{url}/list/index.html"}}
  rows: {{in: ul.list, css: "> li"}}
  fields: {{url: {{css: "a::attr(href)", then: [absolute_url]}}}}
  connect: all
identity: {{scope: own, key: {{field: url}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: "div#content"}}
      fields: {{title: {{css: h1}}}}
store: {{table: own_rows}}
"""


def played(folder: Path, *words: str) -> tuple[int, list[dict[str, Any]], Path]:
    """Exit code, rounds, and the record's folder."""
    code = run(["lab", "load", "--dir", str(folder / "load"), "--json", *words])
    (place,) = (folder / "load").iterdir()
    return code, json.loads((place / "record.json").read_text(encoding="utf-8"))["rounds"], place


def databases_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.db"))


def test_a_small_test_tells_start_and_end_of_each_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--small", "--urls", "9", "--latency", "30", "--backend", "sqlite"]
    assert run(["lab", "load", *words, "--dir", str(tmp_path / "load")]) == 0
    told = capsys.readouterr().out
    lines = re.findall(r"^(\d+\.\d{3})\s+(\d+\.\d{3})\s+(\d+\.\d{3})\s+/detail/\S+$", told, re.MULTILINE)
    assert len(lines) == 9
    assert all(float(start) < float(end) and float(took) >= 0.03 for start, end, took in lines)
    assert "WORKERS" in told


def test_each_number_of_workers_is_a_round_of_its_own_and_all_of_it_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, rounds, place = played(
        tmp_path, "--workers", "2,1", "--urls", "6", "--latency", "20", "--slots", "2", "--backend", "sqlite"
    )
    assert code == 0
    assert [one["workers"] for one in rounds] == [1, 2]
    assert [len(one["requests"]) for one in rounds] == [6, 12]
    assert all(one["finished"] and one["failures"] == 0 and one["samples"] for one in rounds)
    assert {path.name for path in place.iterdir()} == {"record.json", "summary.md", "load.svg"}
    printed = json.loads(capsys.readouterr().out)
    assert [one["pages"] for one in printed["rounds"]] == [6, 12]
    assert printed["record"] == str(place / "record.json")


async def test_a_source_of_ones_own_is_asked_as_politely_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with await serve_site(SiteConfig(items=8, robots=None)) as site:
        (tmp_path / "sources").mkdir()
        (tmp_path / "sources" / "own.yaml").write_text(SOURCE.format(url=site.url))
        code, rounds, _ = await asyncio.to_thread(
            played, tmp_path, "--source", "own", "--live", "--workers", "1", "--slots", "8"
        )
        asked = sorted(at for at, path, _ in site.hits()["arrivals"] if path.startswith("/detail/"))
    assert code == 0
    assert len(rounds[0]["requests"]) == 8
    assert rounds[0]["limits"]["host_concurrency"] == 2
    # The source's gap holds: seven gaps lie between eight requests (a little is lost on the way).
    assert asked[-1] - asked[0] >= 7 * 50 * 0.9
    # The ledger of the user is not touched: there is none.
    assert databases_in(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--source", "ccgp"], "--live"),
        (["--live"], "--source"),
        (["--workers", "1,x"], "1,3,6,12"),
        (["--workers", "0"], "from 1 to"),
        (["--backend", "oracle"], "sqlite"),
    ],
)
def test_a_mistake_asks_no_site_and_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "load", *words]) == 2
    assert told in capsys.readouterr().err
