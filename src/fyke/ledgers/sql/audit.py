"""Both sides of `listed = stored + dead + ignored + open`, each counted from another table in one snapshot.

Keeps P2 provable: sightings against items, rows against head versions, letters against states, pages against refused
entries. Read in pages inside one snapshot, in order of id or key; memory is a byte for each item id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from fyke.db.connection import Connection, listed
from fyke.db.migrate import refuse_closed
from fyke.db.typed import TypedTable, decode_table, quoted
from fyke.ledgers.sql.access import Statements
from fyke.ledgers.sql.comparing import is_head, wrong_with
from fyke.ledgers.sql.findings import GONE, ITEM, LETTER, ROW, ROW_EQUAL, SIGHTED, Findings, Flags, Kind
from fyke.model import AuditReport, AuditSource

# A page is written before its items are offered: what is younger than this is on its way.
GRACE_MS = 3_000
CHUNK = 2_000  # rows in one statement: what a process has in hand, and how often it shows how far it is
LOWEST = -(2**63)
HIGHEST = (
    "SELECT max(id) FROM item",
    "SELECT max(item_id) FROM version",
    "SELECT max(item_id) FROM dead",
)
EXPECTED = "SELECT coalesce(sum(2 * listed + stored), 0) FROM tally"
PAGES = """
SELECT p.source_id, sum(g.entries), sum(g.new), sum(g.known), sum(g.refused)
FROM pass p JOIN page g ON g.pass_id = p.id GROUP BY p.source_id
"""
PAGES_WRONG = """
SELECT p.source_id, g.pass_id, g.seq, g.entries, g.new, g.known, g.refused
FROM pass p JOIN page g ON g.pass_id = p.id WHERE g.entries <> g.new + g.known + g.refused ORDER BY g.pass_id, g.seq
"""
PASSES_WRONG = """
SELECT p.source_id, p.id, p.entries, coalesce(g.entries, 0) FROM pass p LEFT JOIN (
  SELECT pass_id, sum(entries) AS entries, sum(new) AS new, sum(known) AS known, sum(refused) AS refused
  FROM page GROUP BY pass_id) g ON g.pass_id = p.id
WHERE (p.entries, p.new, p.known, p.refused)
  <> (coalesce(g.entries, 0), coalesce(g.new, 0), coalesce(g.known, 0), coalesce(g.refused, 0))
ORDER BY p.id
"""
REFUSED = """
SELECT p.source_id, count(*) FROM refused r JOIN pass p ON p.id = r.pass_id GROUP BY p.source_id
"""
REFUSED_WRONG = """
SELECT w.source_id, w.pass_id, w.seq, w.counted, w.kept FROM (
  SELECT p.source_id, g.pass_id, g.seq, g.refused AS counted,
    (SELECT count(*) FROM refused r WHERE r.pass_id = g.pass_id AND r.seq = g.seq) AS kept
  FROM pass p JOIN page g ON g.pass_id = p.id
) w WHERE w.counted <> w.kept ORDER BY w.pass_id, w.seq
"""
LISTINGS = "SELECT l.id, l.source_id, s.scope FROM source s JOIN listing l ON l.source_id = s.id ORDER BY l.id"
# Pages of one table, in order of their first column; what belongs to their rows is asked for by list. A join would be
# quicker in SQLite, and on a server begin at the table's first row for each page, where the planner likes it so.
SIGHTINGS = "SELECT key, item_id FROM sighting WHERE listing_id = ? AND key {after} ? ORDER BY key LIMIT ?"
ITEMS_OF_KEYS = "SELECT key, id FROM item WHERE scope = ? AND key IN (SELECT value FROM json_each(?))"
HEADS = """
SELECT i.id, i.source_id, i.scope, i.key, i.head_n, v.content
FROM item i LEFT JOIN version v ON v.item_id = i.id AND v.n = i.head_n
WHERE i.id IN (SELECT value FROM json_each(?))
"""
LETTERS = """
SELECT item_id, source_id, scope, key FROM dead WHERE closed_at IS NULL AND item_id > ? ORDER BY item_id LIMIT ?
"""
ITEMS = """
SELECT id, source_id, scope, key, state, pending, lane, head_n FROM item WHERE id > ? ORDER BY id LIMIT ?
"""
VERSIONS_OF_ITEMS = "SELECT item_id, n FROM version WHERE item_id IN (SELECT value FROM json_each(?))"
VERSIONS_ALONE = """
SELECT DISTINCT v.item_id FROM version v LEFT JOIN item i ON i.id = v.item_id AND i.id > ?1
WHERE i.id IS NULL AND v.item_id > ?1 ORDER BY v.item_id LIMIT ?2
"""
REVISITS = """
SELECT id, source_id, scope, key, generation FROM item
WHERE pending = 1 AND state = 'stored' AND id > ? ORDER BY id LIMIT ?
"""
ENDED = """
SELECT item_id, generation FROM visit WHERE item_id IN (SELECT value FROM json_each(?)) AND final IS NOT NULL
"""
DUE = """
SELECT i.id, i.source_id, i.scope, i.key FROM item i JOIN source s ON s.id = i.source_id
WHERE i.pending = 1 AND (i.due_at <= ? OR i.due_at > ?) AND i.lane <> ''
  AND s.paused_at IS NULL AND s.removed_at IS NULL
  AND i.id > ? ORDER BY i.id LIMIT ?
"""
DEAD = "SELECT source_id, count(*) FROM dead WHERE closed_at IS NULL GROUP BY source_id"
TALLY_NAMES = ("entries", "new", "known", "refused", "listed", "open", "stored", "dead", "ignored", "versions")
TALLY = f"SELECT source_id, {', '.join(TALLY_NAMES)} FROM tally ORDER BY source_id"

Progress: TypeAlias = Callable[[int, int], None]


class AuditStatements(Statements):
    async def audit(self, known_tasks: set[str] | None = None, progress: Progress | None = None) -> AuditReport:
        now = self._clock.now()

        def call(connection: Connection) -> AuditReport:
            refuse_closed(connection)
            return Audit(connection, now, known_tasks, progress).run()

        return await self._db.read_long(call)


class Audit:
    """One count over one snapshot."""

    def __init__(
        self,
        connection: Connection,
        now: int,
        known_tasks: set[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._connection, self._now, self._tasks = connection, now, known_tasks
        self._flags = Flags(max(connection.execute(statement).fetchone()[0] or 0 for statement in HIGHEST))
        self._found = Findings(connection, self._flags)
        self._counts: dict[str, Counter[int]] = {name: Counter() for name in (*TALLY_NAMES, "sighted")}
        self._unqueued: Counter[int] = Counter()
        self._stored: Counter[int] = Counter()
        self._refused: Counter[int] = Counter()
        self._letters: Counter[int] = Counter()
        self._progress, self._done = progress, 0
        self._expected = int(connection.execute(EXPECTED).fetchone()[0])

    def run(self) -> AuditReport:
        self._pages()
        self._sightings()
        for page in self._pages_of(LETTERS):
            for item, *_ in page:
                self._flags.set(item, LETTER)
        self._letters.update(dict(self._connection.execute(DEAD).fetchall()))
        for name, columns in self._connection.execute("SELECT name, columns FROM typed_table ORDER BY name").fetchall():
            self._rows(decode_table(name, columns))
        self._items()
        self._leftovers()
        self._tally()
        if self._tasks is not None:
            self._due(self._tasks)
        return self._report()

    def _pages(self) -> None:
        for source, *sums in self._connection.execute(PAGES):
            for name, value in zip(TALLY_NAMES, sums, strict=False):
                self._counts[name][source] = value
        for source, pass_id, seq, entries, new, known, refused in self._connection.execute(PAGES_WRONG):
            detail = f"{entries} entries, {new} new, {known} known, {refused} refused"
            count = abs(entries - new - known - refused)
            self._found.place(Kind.PAGE_DIFFERS, source, _place(pass_id, seq), count=count, detail=detail)
        for source, pass_id, entries, kept in self._connection.execute(PASSES_WRONG):
            detail = f"{entries} entries, {kept} on its pages"
            self._found.place(Kind.PASS_DIFFERS, source, f"pass {pass_id}", count=abs(entries - kept), detail=detail)
        self._refused.update(dict(self._connection.execute(REFUSED).fetchall()))
        for source, pass_id, seq, counted, kept in self._connection.execute(REFUSED_WRONG):
            detail = f"{counted} counted, {kept} on record"
            self._found.place(
                Kind.REFUSED_MISSING, source, _place(pass_id, seq), count=abs(counted - kept), detail=detail
            )

    def _sightings(self) -> None:
        for listing, source, scope in self._connection.execute(LISTINGS).fetchall():
            after, operator = "", ">="
            while rows := self._read(SIGHTINGS.format(after=operator), listing, after):
                self._sighted(source, scope, rows)
                after, operator = rows[-1][0], ">"
                if len(rows) < CHUNK:
                    break

    def _sighted(self, source: int, scope: str, rows: list[Any]) -> None:
        flags, listed_ = self._flags, self._counts["sighted"]
        items = dict(self._connection.execute(ITEMS_OF_KEYS, (scope, listed(key for key, _ in rows))).fetchall())
        for key, named in rows:
            item = items.get(key)
            if item is not None:
                flags.set(item, SIGHTED)
                if item != named:
                    self._found.item(Kind.SIGHTING_DIFFERS, source, item, scope, key)
            elif not flags.set(named, GONE) & GONE:
                listed_[source] += 1
                self._found.item(Kind.ITEM_MISSING, source, named, scope, key)
        self._tell(len(rows))

    def _rows(self, table: TypedTable) -> None:
        """Compare each row with its item's head version, cell by cell as the commit binds them."""
        names = ["_item_id", "_scope", "_key", "_version", *(name for name, _ in table.columns)]
        statement = (
            f"SELECT {', '.join(map(quoted, names))} FROM {quoted(table.name)}"
            " WHERE _item_id > ? ORDER BY _item_id LIMIT ?"
        )
        for page in self._pages_of(statement):
            ids = listed(row[0] for row in page)
            heads = {item: head for item, *head in self._connection.execute(HEADS, (ids,))}
            for item, *row in page:
                if item in heads:
                    self._flags.set(item, ROW | (ROW_EQUAL if is_head(table, row, heads[item]) else 0))
                else:
                    self._row_alone(table, item, *row[:2])
            self._tell(len(page))

    def _read(self, statement: str, *values: Any) -> list[Any]:
        return self._connection.execute(statement, (*values, CHUNK)).fetchall()

    def _pages_of(self, statement: str, *values: Any) -> Iterator[list[Any]]:
        """All rows, page by page: the first column is what they are in order of."""
        after = LOWEST
        while rows := self._read(statement, *values, after):
            yield rows
            after = rows[-1][0]
            if len(rows) < CHUNK:
                return

    def _tell(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            self._progress(min(self._done, self._expected), self._expected)

    def _row_alone(self, table: TypedTable, item: int, scope: str, key: str) -> None:
        if self._flags.set(item, ROW) & GONE:
            return
        sources = [
            number
            for (number,) in self._connection.execute(
                "SELECT id FROM source WHERE scope = ? AND table_name = ? ORDER BY id", (scope, table.name)
            )
        ]
        other = self._connection.execute("SELECT 1 FROM item WHERE scope = ? AND key = ?", (scope, key)).fetchone()
        cannot = ""
        if other is not None:
            cannot = (
                f"cannot be mended: the key has a newer item; remove row {item} of '{table.name}' once that is stored"
            )
        elif len(sources) != 1:
            cannot = f"cannot be mended: {len(sources)} sources have the scope '{scope}', so its owner is unknown"
        self._found.item(Kind.ROW_WITHOUT_ITEM, sources[0] if len(sources) == 1 else 0, item, scope, key, cannot=cannot)

    def _items(self) -> None:
        for page in self._pages_of(ITEMS):
            versions: dict[int, list[int]] = {}
            for item, n in self._connection.execute(VERSIONS_OF_ITEMS, (listed(row[0] for row in page),)):
                versions.setdefault(item, []).append(n)
            for item, *row in page:
                self._item(item, versions.get(item, ()), *row)
            self._tell(len(page))
        for page in self._pages_of(REVISITS):
            ended = set(self._connection.execute(ENDED, (listed(row[0] for row in page),)).fetchall())
            for item, source, scope, key, generation in page:
                if (item, generation) in ended:
                    self._found.item(Kind.COLLECTED_PENDING, source, item, scope, key)

    def _item(
        self,
        item: int,
        versions: Sequence[int],
        source: int,
        scope: str,
        key: str,
        state: str,
        pending: int,
        lane: str,
        head: int,
    ) -> None:
        found, counts, flag = self._found, self._counts, self._flags.set(item, ITEM)
        counts["listed"][source] += 1
        counts["versions"][source] += len(versions)
        counts[state][source] += 1
        if flag & SIGHTED:
            counts["sighted"][source] += 1
        else:
            found.item(Kind.SIGHTING_MISSING, source, item, scope, key)
        if state == "stored" and flag & ROW_EQUAL:
            self._stored[source] += 1
            if len(versions) == head and not flag & LETTER:
                return
        for kind in wrong_with(state, bool(pending), lane, head, versions, flag):
            found.item(kind, source, item, scope, key)

    def _leftovers(self) -> None:
        """What belongs to an item that is not there; an item that a sighting names is told by that alone."""
        for page in self._pages_of(LETTERS):
            for item, source, scope, key in page:
                if not self._flags.get(item) & (GONE | ITEM):
                    self._found.item(Kind.LETTER_ORPHAN, source, item, scope, key)
        for page in self._pages_of(VERSIONS_ALONE):
            for (item,) in page:
                if not self._flags.get(item) & (GONE | ROW):
                    self._found.item(Kind.VERSION_WITHOUT_ITEM, 0, item, "", f"item {item}")

    def _tally(self) -> None:
        for source, *kept in self._connection.execute(TALLY):
            counted = [self._counts[name][source] for name in TALLY_NAMES]
            if kept != counted:
                wrong = [
                    f"{name} {old}, counted {new}"
                    for name, old, new in zip(TALLY_NAMES, kept, counted, strict=True)
                    if old != new
                ]
                self._found.place(Kind.TALLY_DIFFERS, source, "", detail="; ".join(wrong))

    def _due(self, tasks: set[str]) -> None:
        for page in self._pages_of(DUE, self._now - GRACE_MS, self._now):
            for item, source, scope, key in page:
                if f"i{item}" not in tasks:
                    self._unqueued[source] += 1
                    self._found.item(Kind.UNQUEUED, source, item, scope, key)
        for item in _items_of(tasks):
            if not self._flags.get(item) & ITEM:
                self._found.item(Kind.TASK_UNKNOWN, 0, item, "", f"item {item}")

    def _report(self) -> AuditReport:
        counts, wrong, asked = self._counts, self._found.unaccounted, self._tasks is not None
        by_source = {
            name: AuditSource(
                entries=counts["entries"][number],
                listed=counts["sighted"][number],
                stored=self._stored[number],
                dead=self._letters[number],
                ignored=counts["ignored"][number],
                open=counts["open"][number],
                unqueued=self._unqueued[number] if asked else None,
                unaccounted=wrong[number],
            )
            for number, name in sorted(self._found.names.items(), key=lambda source: source[1])
        }
        (holes,) = self._connection.execute("SELECT count(*) FROM hole WHERE closed_at IS NULL").fetchone()
        return AuditReport(
            entries=counts["entries"].total(),
            new=counts["new"].total(),
            known=counts["known"].total(),
            refused=self._refused.total(),
            listed=counts["sighted"].total(),
            stored=self._stored.total(),
            dead=self._letters.total(),
            ignored=counts["ignored"].total(),
            open=counts["open"].total(),
            unqueued=self._unqueued.total() if asked else None,
            unaccounted=wrong.total(),
            open_holes=holes,
            by_source=by_source,
            findings=self._found.kept,
            balanced=wrong.total() == 0,
        )


def _place(pass_id: int, seq: int) -> str:
    return f"pass {pass_id}, page {seq}"


def _items_of(tasks: set[str]) -> Iterator[int]:
    return (int(key[1:]) for key in tasks if key.startswith("i") and key[1:].isdigit())
