"""The desk's verbs on a real ledger: what they say, their JSON, their exit codes, and the nearest name on a slip."""

import asyncio
import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fyke.app import Stores, open_stores
from fyke.cli import run
from fyke.model import (
    Column,
    ColumnType,
    Entry,
    ItemState,
    Listing,
    NewRun,
    Outcome,
    PageCommit,
    PassEnd,
    PassState,
    RefusedEntry,
    ResolvedSource,
    Result,
    WorkerRow,
)
from fyke.settings import load_settings

SCOPE, SOURCE, LANE = "example.org", "notices", "example.org"
RESOLVED = ResolvedSource(
    id=SOURCE,
    title="公告",
    text='{"id": "notices"}',
    hash="h1",
    scope=SCOPE,
    table="gov_procure",
    identity="key",
    columns=(Column("title", required=True), Column("budget", ColumnType.NUMBER)),
    has_detail=True,
)
TITLES = {"1": "=cmd|' /C calc'!A0", "2": "第二条"}


def entry(position: int, key: str) -> Entry:
    url = f"http://{LANE}/{key}.html"
    return Entry(position, key, {"title": key, "url": url}, b"e" + key.encode(), url=url, lane=LANE)


def result(task: Any, **values: Any) -> Result:
    given: dict[str, Any] = {"worker": "w", "started_at": 1_000, "ended_at": 2_000, "starts": 1} | values
    return Result(item_id=task.ref, generation=task.generation, **given)


async def fill(stores: Stores) -> None:
    """Five entries listed: two stored, one dead, two open and in the frontier; one row refused; a gap."""
    ledger, frontier = stores.ledger, stores.frontier
    await ledger.apply_source(RESOLVED)
    now = await ledger.now()
    opened = await ledger.open_run(NewRun(SOURCE, now, [Listing("all")], [LANE], trigger="hand"))
    lease = await ledger.start_pass(opened.tasks[0].ref, "w")
    assert lease is not None
    keys = ("1", "2", "404", "4", "5")
    entries = [entry(position, key) for position, key in enumerate(keys)]
    refused = [RefusedEntry(5, "no key", "<li>a row without a link</li>", b"f")]
    page = PageCommit(1, 0, f"http://{LANE}/", now, entries, refused, b"{}")
    written = await ledger.page(lease.pass_id, lease.fence, page)
    due = await ledger.still_due([(task.ref, task.generation) for task in written.due])
    tasks = {item.key: task for item, task in zip(due, written.due, strict=True) if item is not None}
    end = PassEnd(PassState.SUSPICIOUS, "1 row was refused", newest_key="1", oldest_key="5", first_page_rows=5)
    await ledger.end_pass(lease.pass_id, lease.fence, end)
    results = [
        result(
            *(tasks[key],),
            outcome=Outcome.OK,
            final=ItemState.STORED,
            record={"title": title, "budget": f"-{key}.50"},
            record_hash=b"r" + key.encode(),
            entry_hash=b"e" + key.encode(),
        )
        for key, title in TITLES.items()
    ]
    results.append(
        result(tasks["404"], outcome=Outcome.NOT_FOUND, final=ItemState.DEAD, reason="status 404", costs=True)
    )
    await ledger.commit(results)
    await frontier.offer([tasks["4"], tasks["5"]])


def with_stores(work: Callable[[Stores], Awaitable[Any]]) -> Any:
    """Do something to the ledger of the working folder."""

    async def main() -> Any:
        async with open_stores(load_settings(Path.cwd(), {}).settings) as stores:
            return await work(stores)

    return asyncio.run(main())


class Desk:
    """Runs a command line in this process; `code`, `out` and `err` are those of the last one."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.code, self.out, self.err = -1, "", ""

    def __call__(self, *arguments: str) -> str:
        self.code = run(arguments)
        self.out, self.err = self._capsys.readouterr()
        return self.out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FYKE_")]:
        monkeypatch.delenv(name)
    with_stores(fill)
    return Desk(capsys)


def test_the_audit_counts_both_sides_and_is_balanced(desk: Desk) -> None:
    report = desk.json("audit")
    assert desk.code == 0
    counts = {name: report[name] for name in ("entries", "listed", "stored", "dead", "ignored", "open", "unaccounted")}
    assert counts == {"entries": 6, "listed": 5, "stored": 2, "dead": 1, "ignored": 0, "open": 2, "unaccounted": 0}
    assert report["by_source"][SOURCE]["listed"] == 5
    assert {"unqueued", "findings", "balanced"} <= set(report)
    assert "Nothing is unaccounted." in desk("audit")


def test_the_audit_names_what_is_missing_and_repairs_it(desk: Desk) -> None:
    with sqlite3.connect("fyke.db") as connection:
        connection.execute("DELETE FROM gov_procure WHERE _key = ?", ("1",))
    connection.close()
    report = desk.json("audit")
    assert desk.code == 1
    assert report["unaccounted"] == 1
    assert [(found["scope"], found["key"]) for found in report["findings"]] == [(SCOPE, "1")]
    assert f"{SCOPE} 1" in desk("audit")
    assert desk.code == 1
    report = desk.json("audit", "--repair")
    assert desk.code == 0
    assert [(found["key"], found["mended"]) for found in report["repair"]] == [("1", True)]
    assert report["unaccounted"] == 0


def test_status_shows_counts_and_what_waits(desk: Desk) -> None:
    found = desk.json("status")
    assert desk.code == 0
    (source,) = found["sources"]
    assert (source["listed"], source["stored"], source["dead"], source["open"]) == (5, 2, 1, 2)
    assert found["frontier"]["ready"] == 2
    out = desk("status")
    assert "No worker runs now." in out
    assert LANE in out


def test_a_worker_that_lives_is_shown_with_its_last_sign(desk: Desk) -> None:
    async def beat(stores: Stores) -> None:
        now = await stores.ledger.now()
        process = {"process": {"done": 7, "failed": 2, "restarts": 1}}
        row = WorkerRow("w1", "host1", 77, "0.1", "text", now - 120_000, now, 3, 40, 5, 125_900_000, process)
        await stores.ledger.beat(row)

    with_stores(beat)
    lines = desk("status").splitlines()
    assert desk.code == 0
    (head,) = [line for line in lines if "LAST SIGN" in line]
    (row,) = [line for line in lines if "host1" in line]
    assert head.split()[-6:] == ["DONE/MIN", "FAILED/MIN", "DONE", "FAILED", "MEMORY", "RESTARTS"]
    assert row.split()[:4] == ["host1", "77", "0.1", "text"]
    assert row.split()[-7:] == ["3", "7", "2", "40", "5", "125MB", "1"]
    found = desk.json("status")
    assert len(found["workers"]) == 1
    assert "process" not in found["stages"]


def test_a_suspicious_run_is_shown_and_accepted_once(desk: Desk) -> None:
    (row,) = desk.json("runs")
    assert (row["state"], row["entries"], row["new"], row["refused"]) == ("suspicious", 6, 5, 1)
    assert "1 row was refused" in desk("runs", "--source", SOURCE)
    assert "accepted" in desk("runs", "accept", str(row["id"]), "--reason", "right")
    assert desk.code == 0
    assert desk.json("runs")[0]["accepted_at"] is not None
    desk("runs", "accept", "99", "--reason", "right")
    assert desk.code == 2
    assert "there is no run 99 (" in desk.err


def test_an_item_is_explained_from_its_listing_to_its_task(desk: Desk) -> None:
    told = desk.json("explain", SCOPE, "404")
    assert (told["state"], told["key"], told["task"]) == ("dead", "404", None)
    assert told["sightings"]
    assert told["dead"]
    out = desk("explain", SCOPE, "404")
    assert "status 404" in out
    waiting = desk.json("explain", SCOPE, "4")
    assert (waiting["state"], waiting["pending"], waiting["task"]["state"]) == ("open", True, "ready")
    assert "Its task is ready" in desk("explain", SCOPE, "4")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("explain", "exmaple.org", "4"), "did you mean 'example.org'?"),
        (("explain", SCOPE, "405"), "did you mean '404'?"),
        (("ignore", SCOPE, "405", "--reason", "x"), "did you mean '404'?"),
        (("forget", "--scope", SCOPE, "--key", "405"), "did you mean '404'?"),
        (("export", "notises", "--format", "csv"), "did you mean 'notices'?"),
        (("runs", "--source", "notises"), "did you mean 'notices'?"),
        (("dead", "list", "--source", "notises"), "did you mean 'notices'?"),
        (("dead", "list", "--key", "404"), "a key is unique in its scope only"),
        (("source", "pause", "notises", "--reason", "x"), "did you mean 'notices'?"),
        (("gaps", "close", "7", "--reason", "x"), "none is open"),
        (("dead", "drop"), "choose with --source or --reason, or say --all"),
        (("forget",), "--source or --scope"),
        (("forget", "--source", SOURCE, "--since", "yesterday"), "write 2025-06-27"),
        (("export", SOURCE), "--format"),
        (("ignore", SCOPE, "4"), "--reason"),
    ],
)
def test_a_slip_ends_with_2_and_says_what_is_near(desk: Desk, arguments: tuple[str, ...], hint: str) -> None:
    before = with_stores(lambda stores: stores.ledger.counts())
    assert desk(*arguments) == ""
    assert desk.code == 2
    assert hint in desk.err
    assert with_stores(lambda stores: stores.ledger.counts()) == before


def test_dead_letters_are_chosen_by_source_and_reason(desk: Desk) -> None:
    (letter,) = desk.json("dead", "list", "--reason", "not_found", "--source", SOURCE)
    assert (letter["key"], letter["outcome"]) == ("404", "not_found")
    assert desk.json("dead", "list", "--reason", "misfit") == []
    assert "status 404" in desk("dead", "list")


def test_a_replayed_letter_is_open_again_and_in_the_frontier(desk: Desk) -> None:
    assert desk.json("dead", "replay", "--dry-run") == {"replayed": 1, "dry_run": True, "frontier_away": ""}
    assert desk.json("audit")["dead"] == 1
    assert desk.json("dead", "replay", "--reason", "404")["replayed"] == 1
    report = desk.json("audit")
    assert (report["dead"], report["open"], report["unqueued"]) == (0, 3, 0)
    assert desk.json("status")["frontier"]["ready"] == 3


def test_a_dropped_letter_is_ignored_and_the_sums_still_balance(desk: Desk) -> None:
    assert "why they are dropped is said by --because" in desk("dead", "drop", "--reason", "withdrawn by the site")
    assert desk.json("dead", "drop", "--all", "--dry-run") == {"dropped": 1, "dry_run": True}
    assert desk.json("dead", "drop", "--source", SOURCE, "--because", "withdrawn") == {"dropped": 1, "dry_run": False}
    report = desk.json("audit")
    assert (report["dead"], report["ignored"], report["unaccounted"]) == (0, 1, 0)
    assert "withdrawn" in desk("explain", SCOPE, "404")


def test_an_ignored_item_is_closed_with_its_reason(desk: Desk) -> None:
    assert "is ignored" in desk("ignore", SCOPE, "4", "--reason", "a test notice")
    assert desk.code == 0
    report = desk.json("audit")
    assert (report["ignored"], report["open"], report["unaccounted"]) == (1, 1, 0)


def test_what_is_forgotten_leaves_no_trace_and_a_dry_run_leaves_all(desk: Desk) -> None:
    would = desk.json("forget", "--scope", SCOPE, "--key", "1", "--dry-run")
    assert would["dry_run"]
    assert desk.json("audit")["listed"] == 5
    assert desk.json("forget", "--scope", SCOPE, "--key", "1")["removed"] == would["removed"]
    report = desk.json("audit")
    assert (report["listed"], report["stored"], report["unaccounted"]) == (4, 1, 0)
    desk("explain", SCOPE, "1")
    assert desk.code == 2


def test_csv_on_standard_output_has_safe_text_and_plain_numbers(desk: Desk) -> None:
    rows = list(csv.DictReader(io.StringIO(desk("export", SOURCE, "--format", "csv"))))
    assert desk.code == 0
    assert [(row["_key"], row["title"], float(row["budget"])) for row in rows] == [
        ("1", f"'{TITLES['1']}", -1.5),
        ("2", TITLES["2"], -2.5),
    ]
    assert {row["_scope"] for row in rows} == {SCOPE}
    assert [int(row["_item_id"]) for row in rows] == sorted({int(row["_item_id"]) for row in rows})


def test_json_lines_in_a_file_are_whole_or_not_there(desk: Desk) -> None:
    assert "2 row(s) in out.jsonl" in desk("export", SOURCE, "--format", "jsonl", "-o", "out.jsonl")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["title"], row["budget"]) for row in rows] == [(TITLES["1"], -1.5), (TITLES["2"], -2.5)]
    own = ["_item_id", "_scope", "_key", "_url", "_version", "_first_at", "_updated_at"]
    assert [list(row) for row in rows] == [["title", "budget", *own]] * 2
    assert sorted(path.name for path in Path().glob("out*")) == ["out.jsonl"]
    desk("export", SOURCE, "--format", "csv", "-o", "no/such/folder.csv")
    assert desk.code == 2


def test_a_paused_source_says_why_until_it_goes_on(desk: Desk) -> None:
    assert desk("source", "pause", SOURCE, "--reason", "being rebuilt") == f"{SOURCE} is paused.\n"
    assert "being rebuilt" in desk("status")
    assert "was paused before: being rebuilt" in desk("source", "pause", SOURCE, "--reason", "again")
    assert desk("source", "resume", SOURCE) == f"{SOURCE} goes on.\n"
    assert desk("source", "resume", SOURCE) == f"{SOURCE} was not paused.\n"


def test_a_gap_is_shown_and_closed_with_a_reason(desk: Desk) -> None:
    async def gap(stores: Stores) -> None:
        ledger = stores.ledger
        for keys, state in ((("9", "8"), PassState.COMPLETE), (("30", "29"), PassState.GAP)):
            opened = await ledger.open_run(NewRun(SOURCE, await ledger.now(), [Listing("b")], [LANE]))
            lease = await ledger.start_pass(opened.tasks[0].ref, "w")
            assert lease is not None
            entries = [entry(position, key) for position, key in enumerate(keys)]
            await ledger.page(lease.pass_id, lease.fence, PageCommit(1, 0, "u", await ledger.now(), entries, [], b"{}"))
            end = PassEnd(state, "the pages ended", newest_key=keys[0], oldest_key=keys[-1], first_page_rows=2)
            await ledger.end_pass(lease.pass_id, lease.fence, end)

    assert "No gap." in desk("gaps")
    with_stores(gap)
    (hole,) = desk.json("gaps")
    assert (hole["listing"], hole["newer_key"], hole["older_key"]) == ("b", "29", "9")
    assert desk.json("audit")["open_holes"] == 1
    assert "is closed" in desk("gaps", "close", str(hole["id"]), "--reason", "nothing was published")
    assert desk.json("gaps") == []
    assert desk.json("gaps", "--all")[0]["closed_reason"] == "nothing was published"
    assert "closed before" in desk("gaps", "close", str(hole["id"]), "--reason", "again")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("audit", "--json"), 0), (("explain", SCOPE, "405"), 2)],
)
def test_exit_codes_reach_the_shell(desk: Desk, arguments: tuple[str, ...], code: int) -> None:
    ended = subprocess.run((sys.executable, "-m", "fyke", *arguments), capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr


def test_a_file_that_is_no_ledger_is_named(desk: Desk) -> None:
    Path("notes.txt").write_text("these are notes, not a database")
    desk("status", "--ledger", "sqlite:///notes.txt")
    assert desk.code == 2
    assert "notes.txt is no SQLite file" in desk.err


@pytest.mark.parametrize("arguments", [("audit",), ("run", "--once"), ("source", "list"), ("status",)])
def test_another_programs_database_is_refused_and_left_as_it_was(desk: Desk, arguments: tuple[str, ...]) -> None:
    connection = sqlite3.connect("other.db")
    connection.execute("CREATE TABLE meta(key TEXT, value TEXT)")
    connection.execute("CREATE TABLE notes(text TEXT)")
    connection.close()
    before = Path("other.db").read_bytes()
    desk("--ledger", "sqlite:///other.db", *arguments)
    assert desk.code == 2
    assert "other.db is a database of another program" in desk.err
    assert Path("other.db").read_bytes() == before
    assert [path.name for path in Path().glob("other.db*")] == ["other.db"]


def test_a_damaged_ledger_is_told_with_a_way_out(desk: Desk) -> None:
    whole = Path("fyke.db").read_bytes()
    Path("fyke.db").write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    desk("status")
    assert desk.code == 2
    assert "the ledger fyke.db is damaged: database disk image is malformed (stop all that use it" in desk.err
