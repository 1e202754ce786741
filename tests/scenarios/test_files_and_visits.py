"""Attachments, visits on a calendar and corrections through `fyke run --once`, on a small site of the test's own."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fyke.app import apply_folder, open_stores, run_once_here
from fyke.errors import TransientError
from fyke.lab.serving import listen
from fyke.model import AuditReport, Committed, Explanation, Result
from fyke.pipeline.once import OnceReport
from fyke.settings import Settings, load_settings

SOURCE = """\
id: notices
fetch:
  politeness: {{delay: 0s, jitter: 0s, concurrency: 4}}
  private_addresses: allow
  robots: ignore
listing:
  request: {{url: "{url}/list"}}
  rows: {{in: ul, css: "> li"}}
  fields: {{url: {{css: "a::attr(href)", then: [absolute_url]}}, title: {{css: a}}}}
identity: {{scope: town, key: {{field: url, then: [{{regex: '(\\d+)$'}}]}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      fields: {{title: {{css: h1}}, number: {{label: 项目编号, optional: true}}, body: {{css: p}}}}
{files}
updates:
  compare: [title, body]
  revisit: {{after: [1h, 1d], until: 30d}}
  relate: [{{title: 更正公告, by: number, as: corrects}}]
store: {{table: notices}}
"""
FILES = """  attachments: {css: "div a::attr(href)", match: '\\.(pdf|zip)$', max_size: 1kB}"""
DETAIL = "<h1>{title}</h1><span>项目编号：{number}</span><p>{body}</p><div>{links}</div>"


class Town:
    """Three notices: a correction that is listed above its original, and one with files of every fate."""

    def __init__(self) -> None:
        self.url = ""
        self.hits: Counter[str] = Counter()
        self.body = "as it was"
        self.notices = {
            "3": ("某项目更正公告", "JSZC-1", ""),
            "2": ("某项目公告", "jszc-1", ""),
            "1": ("别的公告", "JSZC-2", self._links()),
        }

    def _links(self) -> str:
        names = ("good.pdf", "good.pdf#page=2", "gone.pdf", "large.zip", "login.pdf", "page.html")
        return "".join(f"<a href=/files/{name}>{name}</a>" for name in names)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        path = request.path
        self.hits[path] += 1
        if path == "/list":
            rows = "".join(f"<li><a href=/n/{key}>{title}</a></li>" for key, (title, _, _) in self.notices.items())
            return _html(f"<ul>{rows}</ul>")
        if path.startswith("/n/"):
            title, number, links = self.notices[path[3:]]
            return _html(DETAIL.format(title=title, number=number, body=self.body, links=links))
        if path == "/files/good.pdf":
            return web.Response(body=b"%PDF-1.4 good", content_type="application/pdf")
        if path == "/files/large.zip":
            return web.Response(body=b"PK\x03\x04" + b"x" * 2_000, content_type="application/zip")
        if path == "/files/login.pdf":
            return _html("<html><body>not for you</body></html>")
        return web.Response(status=410)


def _html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


class Here:
    """A working folder with the town's source."""

    def __init__(self, folder: Path, town: Town) -> None:
        self.folder, self.town = folder, town
        (folder / "sources").mkdir()
        (folder / "fyke.toml").write_text("[attempts]\nlimit = 1\n", encoding="utf-8")
        self.write()

    def write(self, files: str = FILES) -> None:
        text = SOURCE.format(url=self.town.url, files=files)
        (self.folder / "sources" / "notices.yaml").write_text(text, encoding="utf-8")

    @property
    def settings(self) -> Settings:
        place = {"FYKE_LEDGER": f"sqlite:///{self.folder / 'fyke.db'}", "FYKE_SOURCES": str(self.folder / "sources")}
        return load_settings(self.folder, place).settings

    async def once(self, *ids: str) -> OnceReport:
        async with open_stores(self.settings) as stores:
            await apply_folder(stores, strict=True)
            return await run_once_here(stores, list(ids), 60_000)

    async def explain(self, key: str, scope: str = "town") -> Explanation:
        async with open_stores(self.settings) as stores:
            found = await stores.ledger.explain(scope, key)
        assert found is not None
        return found

    async def audit(self) -> AuditReport:
        async with open_stores(self.settings) as stores:
            return await stores.ledger.audit()

    def rows(self, question: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.folder / "fyke.db") as connection:
            return connection.execute(question).fetchall()

    def let_time_pass(self) -> None:
        with sqlite3.connect(self.folder / "fyke.db") as connection:
            connection.execute("UPDATE revisit SET at = 1")


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    found = Town()
    runner = await listen(found.answer, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        await runner.cleanup()


@pytest.fixture
def here(tmp_path: Path, town: Town) -> Here:
    return Here(tmp_path, town)


async def test_each_attachment_is_fetched_once_and_ends_in_a_state_that_is_shown(here: Here) -> None:
    report = await here.once("notices")
    assert report.still_open == 0
    place = here.town.url.removeprefix("http://")
    assert here.rows("SELECT _key, parent, name, file_name, media_type, size FROM notices_attachments") == [
        (f"1/{place}/files/good.pdf", "1", "good.pdf#page=2", "good.pdf", "application/pdf", 13)
    ]
    outcomes = {
        "gone.pdf": ("dead", "gone"),
        "large.zip": ("dead", "too_large"),
        "login.pdf": ("dead", "misfit"),
    }
    states = {
        key.rpartition("/")[2]: (state, outcome)
        for key, state, outcome in here.rows(
            "SELECT key, state, outcome FROM item WHERE scope = 'town/attachments' AND state <> 'stored'"
        )
    }
    assert states == outcomes
    assert "/files/page.html" not in here.town.hits
    assert here.town.hits["/files/good.pdf"] == 1
    shown = (await here.explain("1")).attachments
    assert [(row["key"].rpartition("/")[2], row["state"]) for row in shown] == [
        ("gone.pdf", "dead"),
        ("good.pdf", "stored"),
        ("large.zip", "dead"),
        ("login.pdf", "dead"),
    ]
    found = await here.audit()
    assert (found.findings, found.balanced) == ([], True)
    before = here.town.hits.copy()
    await here.once()
    assert here.town.hits - before == Counter({"/list": 1})


async def test_attachments_are_items_before_their_notice_is_stored_and_once_however_often_it_is_written(
    here: Here,
) -> None:
    known: list[int] = []
    async with open_stores(here.settings) as stores:
        await apply_folder(stores, strict=True)
        commit = stores.ledger.commit

        async def fails_at_first(results: Sequence[Result]) -> list[tuple[Committed, str]]:
            ((item,),) = here.rows("SELECT id FROM item WHERE scope = 'town' AND key = '1'")
            if not known and any(result.item_id == item for result in results):
                known.append(here.rows("SELECT count(*) FROM item WHERE scope = 'town/attachments'")[0][0])
                raise TransientError("the ledger went away")
            return await commit(results)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stores.ledger, "commit", fails_at_first)
            await run_once_here(stores, [], 60_000)
    assert (known, here.rows("SELECT count(*) FROM notices")) == ([4], [(3,)])
    assert here.rows("SELECT count(*), count(DISTINCT key) FROM item WHERE scope = 'town/attachments'") == [(4, 4)]
    assert here.town.hits["/n/1"] == here.town.hits["/files/good.pdf"] == 1


async def test_a_source_that_asks_for_no_attachments_any_more_closes_theirs(here: Here) -> None:
    await here.once()
    here.write(files="")
    await here.once()
    assert here.rows("SELECT name, removed_at IS NULL FROM source ORDER BY id") == [
        ("notices", 1),
        ("notices.attachments", 0),
    ]
    here.write()
    await here.once()
    assert here.rows("SELECT count(*) FROM source WHERE removed_at IS NULL") == [(2,)]
    assert here.town.hits["/files/good.pdf"] == 1


async def test_a_calendar_that_a_source_gains_is_for_what_is_stored_already_too(here: Here) -> None:
    file = here.folder / "sources" / "notices.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("  revisit: {after: [1h, 1d], until: 30d}\n", ""), encoding="utf-8")
    await here.once()
    assert here.rows("SELECT count(*) FROM revisit") == [(0,)]
    file.write_text(text, encoding="utf-8")
    async with open_stores(here.settings) as stores:
        await apply_folder(stores, strict=True)
    ages = here.rows("SELECT r.at - i.opened_at FROM revisit r JOIN item i ON i.id = r.item_id")
    assert ages == [(3_600_000,)] * 3
    # What has no visit by then has none for a reason: its calendar is over.
    with sqlite3.connect(here.folder / "fyke.db") as connection:
        connection.execute("DELETE FROM revisit")
    async with open_stores(here.settings) as stores:
        await apply_folder(stores, strict=True)
    assert here.rows("SELECT count(*) FROM revisit") == [(0,)]


async def test_a_visit_on_the_calendar_makes_a_version_of_a_change_and_survives_the_process(here: Here) -> None:
    await here.once()
    assert here.rows("SELECT count(*) FROM revisit") == [(3,)]
    here.let_time_pass()
    await here.once()
    assert {path: count for path, count in here.town.hits.items() if path.startswith("/n/")} == {
        "/n/1": 2,
        "/n/2": 2,
        "/n/3": 2,
    }
    # Nothing has changed: no version, and the next visit is planned.
    assert here.rows("SELECT count(*), max(n) FROM version WHERE item_id IN (SELECT _item_id FROM notices)") == [(3, 1)]
    assert here.rows("SELECT count(*) FROM revisit WHERE at > 1") == [(3,)]
    here.town.body = "changed"
    here.let_time_pass()
    await here.once()
    assert here.rows("SELECT DISTINCT body, _version FROM notices") == [("changed", 2)]
    assert here.town.hits["/files/good.pdf"] == 1
    found = await here.audit()
    assert (found.findings, found.balanced) == ([], True)


async def test_a_correction_is_shown_with_its_original(here: Here) -> None:
    await here.once()
    (correction,) = (await here.explain("3")).relations
    (original,) = (await here.explain("2")).relations
    assert (correction["key"], correction["kind"], correction["inverse"]) == ("2", "corrects", False)
    assert (original["key"], original["kind"], original["inverse"]) == ("3", "corrects", True)
    assert (await here.explain("1")).relations == []
    assert any("corrects 2" in text for _, text in (await here.explain("3")).lines)
