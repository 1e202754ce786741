"""A site with more than its list shows, by the command line alone: filled by date, then moved to other keys."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from fyke.cli import run

SOURCE = """\
id: archive
schedule: {timezone: UTC}
fetch: {politeness: {delay: 0s, jitter: 0s, concurrency: 16}, private_addresses: allow}
listing:
  request: {url: "SITE/list", query: {page: "{page}"}}
  pages: {number: {first: 1}, max: 2}
  rows: {json: rows}
  fields:
    id: {json: id}
    url: {json: url}
    published: {json: at, then: [{datetime: auto}]}
  connect: {known: 3}
  start: 3d
  fill:
    request: {url: "SITE/search", query: {since: "{from:%Y-%m-%d}", until: "{to:%Y-%m-%d}", page: "{page}"}}
    pages: {number: {first: 1}, max: 20}
identity: {scope: archive, key: {field: url}}
store: {table: notices}
"""
PER_DAY, DAYS, PER_PAGE = 4, 20, 3
NOW = datetime.now(UTC).replace(microsecond=0)
ROWS = [NOW - timedelta(days=n / PER_DAY) for n in range(PER_DAY * DAYS)]


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts, asked = urlsplit(self.path), parse_qs(urlsplit(self.path).query)
        if parts.path == "/robots.txt":
            self.send_error(404)
            return
        rows = list(enumerate(ROWS))
        if parts.path == "/search":
            since, until = asked["since"][0], asked["until"][0]
            rows = [(n, at) for n, at in rows if since <= at.strftime("%Y-%m-%d") <= until]
        page = int(asked["page"][0])
        shown = rows[(page - 1) * PER_PAGE : page * PER_PAGE]
        found = [{"id": f"n{n}", "url": f"http://old/{n}", "at": at.strftime("%Y-%m-%d %H:%M:%S")} for n, at in shown]
        body = json.dumps({"rows": found}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_list_is_filled_by_date_and_its_items_get_other_keys(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sources").mkdir()
    file = tmp_path / "sources" / "archive.yaml"
    file.write_text(SOURCE.replace("SITE", site))

    def fyke(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        return code, *capsys.readouterr()

    def stored() -> int:
        return int(json.loads(fyke("status", "--json")[1])["sources"][0]["stored"])

    # The list shows six rows of three days: the rest comes by date, and the hole is closed.
    code, out, err = fyke("run", "--once")
    assert (code, "no gap" in out) == (0, True), (out, err)
    (gap,) = json.loads(fyke("gaps", "--all", "--json")[1])
    assert gap["closed_reason"].startswith("filled by")
    first = stored()
    assert first >= 3 * PER_DAY

    day = (NOW - timedelta(days=10)).strftime("%Y-%m-%d")
    code, out, _ = fyke("fill", "archive", "--from", day, "--to", day, "--dry-run")
    assert (code, "1 window(s) to read." in out, f"since={day}" in out) == (0, True, True), out
    assert stored() == first
    for _ in range(2):
        code, out, err = fyke("fill", "archive", "--from", day, "--to", day)
        assert code == 0, (out, err)
        assert stored() == first + PER_DAY
    code, _, err = fyke("fill", "archive")
    assert (code, "--from DATE" in err) == (2, True)
    code, out, _ = fyke("fill", "archive", "--holes")
    assert (code, "No window" in out) == (0, True)

    # What is only opened is done by whoever works next.
    before = (NOW - timedelta(days=12)).strftime("%Y-%m-%d")
    code, out, _ = fyke("fill", "archive", "--from", before, "--to", before, "--open-only")
    assert (code, "is open" in out, stored()) == (0, True, first + PER_DAY)
    assert fyke("run", "--once")[0] == 0
    first += PER_DAY
    assert stored() == first + PER_DAY

    file.write_text(file.read_text().replace("key: {field: url}", "key: {field: id}"))
    code, _, err = fyke("source", "apply")
    assert (code, "fyke source rekey archive" in err) == (2, True), err
    code, out, _ = fyke("source", "rekey", "archive", "--dry-run")
    assert (code, "http://old/0" in out, "n0" in out) == (0, True, True), out
    assert fyke("source", "rekey", "archive")[1].startswith(f"{first + PER_DAY} item(s) have new keys")
    assert "nothing to do" in fyke("source", "rekey", "archive")[1]
    for key in ("http://old/0", "n0"):
        assert fyke("explain", "archive", key)[0] == 0
    assert fyke("run", "--once")[0] == 0
    assert stored() == first + PER_DAY
    code, out, _ = fyke("audit")
    assert code == 0, out
