"""One history, drawn by a seed, tells the same on each database: the same counts for the same offers, the same text."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fyke.db.sqlite import SqliteDatabase
from fyke.ledgers.sql import SqlLedger
from fyke.model import DeadFilter, Entry, Fields, ItemState, Outcome, PassState, Result
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_steps import DAY, Book, failure, make_entry, make_result, refusal
from tests.ledgers import OpenDatabase
from tests.servers import DATABASES

SEED, STEPS = 13, 90
# What databases are known to take for another, to cut, to fold or to refuse.
KEYS = [
    "x",
    "X",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "😀",
    "😁",
    "%",
    "_",
    "'",
    "\\",
    "0",
    "00",
    "０",
    "公告",
    "公告2",
    "k" * 255,
]
TEXTS = [
    "",
    " ",
    "a ",
    " a",
    "tab\t",
    "line\nline",
    "\\'\"%_",
    "nul\x00nul",
    "lone \ud800",
    "𠮷野家",
    "e\u0301 é",
    "x" * 70_000,
]
NUMBERS = ["0.10", 7, -1, "12345678901234567890.123456789", 2**63 - 1, "not a number", None]
ENDS = [PassState.COMPLETE, PassState.COMPLETE, PassState.GAP, PassState.SUSPICIOUS, PassState.FAILED]
FAILURES = [
    (Outcome.NOT_FOUND, ItemState.DEAD),
    (Outcome.ROBOTS, ItemState.IGNORED),
    (Outcome.UNAVAILABLE, None),
    (Outcome.MISFIT, None),
]
IDS = re.compile(r"\b(run|pass|visit|item|letter) \d+")


def plain(value: Any) -> Any:
    """Without numbers that a database may give as it likes."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if name not in ("id", "item_id", "visit_id", "pass")}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return IDS.sub(r"\1", value) if isinstance(value, str) else value


class History:
    """The same calls on any ledger, and what each has answered."""

    def __init__(self, ledger: SqlLedger, seed: int) -> None:
        self.ledger, self.clock, self.random = ledger, FakeClock(), Random(seed)
        self.book = Book(ledger, self.clock)
        self.answers: list[Any] = []

    async def play(self) -> list[Any]:
        await self.book.prepare()
        steps = [*[self.walk] * 4, *[self.visit] * 3, self.decide, self.pause, self.resume]
        for _ in range(STEPS):
            self.clock.advance(self.random.choice([1_000, DAY]))
            self.answers.append(await self.random.choice(steps)())
        return [*self.answers, await self.told()]

    def entry(self, at: int, direct: bool) -> Entry:
        key, title = self.random.choice(KEYS), self.random.choice(TEXTS[:-1])
        return make_entry(key, title, position=at, direct=direct)

    async def walk(self) -> Any:
        source, end = self.random.choice(["gov", "feed"]), self.random.choice(ENDS)
        lease = await self._begin(source)
        if lease is None:
            return "not due"
        entries = [self.entry(at, source == "feed") for at in range(self.random.randrange(12))]
        refused = [refusal("bad row", 9)] if self.random.random() < 0.2 else []
        shown = await self.book.show(lease, *entries, refused=refused)
        keys = [entry.key for entry in entries] or [""]
        ended = await self.book.end(lease, end, keys[0], keys[-1])
        return (source, shown.new, shown.known, shown.refused, shown.changed, len(shown.due), ended)

    async def _begin(self, source: str) -> Any:
        for row in await self.ledger.running(source):
            await self.ledger.cancel_run(row.id, "another walk begins")
        run = await self.book.open(source, "all")
        return await self.ledger.start_pass(run.tasks[0].ref, "w1") if run.tasks else None

    async def visit(self) -> Any:
        due = [task for task in await self.ledger.due(after=None, limit=1_000, older_than_ms=0) if task.key[0] == "i"]
        items = await self.ledger.still_due([(task.ref, task.generation) for task in due])
        found = sorted(
            ((item.key, task) for item, task in zip(items, due, strict=True) if item is not None),
            key=lambda pair: pair[0],
        )
        results: list[Result] = []
        for _, task in found:
            if self.random.random() < 0.6:
                record: Fields = {"title": self.random.choice(TEXTS), "budget": self.random.choice(NUMBERS)}
                results.append(make_result(task, record, filled={"title": bool(record["title"])}))
            else:
                outcome, final = self.random.choice(FAILURES)
                costs = outcome is Outcome.MISFIT
                results.append(failure(task, outcome, final, costs=costs, started_at=self.clock.now()))
        answers = [str(answer) for answer, _ in await self.ledger.commit(results + results[:1])]
        return list(zip([key for key, _ in found], answers, strict=False)), answers[-1:]

    async def decide(self) -> Any:
        chosen = self.random.randrange(3)
        if chosen == 0:
            count, tasks = await self.ledger.replay(DeadFilter(key=self.random.choice(KEYS)))
            return ("replayed", count, len(tasks))
        if chosen == 1:
            return ("ignored", await self.ledger.ignore("notice", self.random.choice(KEYS), "by the history"))
        return ("expired", [row.source_id for row in await self.ledger.expire_runs()])

    async def pause(self) -> Any:
        return ("paused", await self.ledger.pause_source("gov", "for a while"))

    async def resume(self) -> Any:
        return ("resumed", await self.ledger.resume_source("gov"))

    async def told(self) -> list[Any]:
        """All that can be asked about it."""
        known = [await self.ledger.explain(scope, key) for scope in ("notice", "feed") for key in KEYS]
        items = [
            (i.scope, i.key, i.state, i.generation, i.pending, i.lines, i.sightings, i.visits, i.versions, i.dead)
            for i in known
            if i is not None
        ]
        counts = [(c.source_id, c.entries, c.listed, c.stored, c.dead, c.ignored, c.open, c.refused, c.versions)
                  for c in await self.ledger.counts()]  # fmt: skip
        rows = [sorted((await self.book.rows(source)).items()) for source in ("gov", "feed")]
        events = [(event.kind, event.message) for event in await self.ledger.events(limit=1_000)]
        gaps = [(gap.source_id, gap.newer_key, gap.older_key, gap.reason) for gap in await self.ledger.gaps()]
        runs = [(run.source_id, run.state, run.new, run.known, run.refused, run.reason)
                for run in await self.ledger.runs(limit=1_000)]  # fmt: skip
        report = await self.ledger.audit()
        assert report.findings == []
        assert report.balanced
        # It was a life: all ends were met.
        assert 0 not in (report.stored, report.dead, report.ignored, report.refused, report.new, report.known)
        return [plain(items), counts, plain(rows), plain(events), gaps, runs]


def differences(place: str, here: Any, there: Any) -> Iterator[str]:
    """Where two tellings differ, and how."""
    if isinstance(here, dict) and isinstance(there, dict):
        for name in here | there:
            yield from differences(f"{place}/{name}", here.get(name), there.get(name))
    elif isinstance(here, list | tuple) and isinstance(there, list | tuple) and len(here) == len(there):
        for at, (one, two) in enumerate(zip(here, there, strict=True)):
            yield from differences(f"{place}/{at}", one, two)
    elif here != there or type(here) is not type(there):
        yield f"{place}: {here!r:.200} is {there!r:.200}"


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[SqlLedger]:
    ledger = SqlLedger(SqliteDatabase(tmp_path / "ledger.db"), FakeClock())
    await ledger.migrate()
    yield ledger
    await ledger.close()


@pytest.mark.parametrize("kind", DATABASES)
async def test_a_history_tells_the_same_on_each_database(
    embedded: SqlLedger, open_database: OpenDatabase, kind: str
) -> None:
    wanted = History(embedded, SEED)
    embedded._clock = wanted.clock
    on_server = SqlLedger(await open_database(kind), FakeClock())
    played = History(on_server, SEED)
    on_server._clock = played.clock
    first, second = await wanted.play(), await played.play()
    assert list(differences("", first, second)) == []
