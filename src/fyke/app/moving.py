"""`fyke ledger copy`: a ledger moves to another database, of any kind, and nothing is collected again.

The old ledger is closed first, so that every process on it ends; the new one opens last, and only when each row was
read back and both audits say the same (P1-P3). Whatever dies in between, one of the two is open or none, never both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import zip_longest
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fyke.app.stores import check_place, open_clocked
from fyke.db import copying
from fyke.db.connection import Connection, Database
from fyke.db.copying import Part, Sizes, State
from fyke.db.migrate import schema_of
from fyke.db.typed import decode_table, ensure_table
from fyke.errors import FykeError, LedgerClosed, UsageError
from fyke.ledgers.sql import SqlLedger
from fyke.ledgers.sql.audit import Audit
from fyke.model import AuditReport, Column
from fyke.ports import Clock
from fyke.settings import Settings, masked
from fyke.settings.places import ledger_kind

log = logging.getLogger("fyke.ledger")

Progress = Callable[[int, int], None]


class Moved(Struct, frozen=True):
    """What `copy_ledger` has done. `report` is the audit of the new ledger, and of the old one too."""

    source: str
    target: str
    rows: dict[str, int]
    report: AuditReport


class MoveBroken(FykeError):
    """The move was broken off while the old ledger is closed; the message says how to go on."""


class Place(Struct, frozen=True):
    """A ledger's database. `name` is its address for people."""

    name: str
    database: Database
    clock: Clock

    async def migrate(self) -> None:
        await SqlLedger(self.database, self.clock).migrate()

    async def state(self) -> State:
        return await self.database.read(copying.read_state)


async def copy_ledger(
    settings: Settings,
    source_url: str,
    target_url: str,
    *,
    again: bool = False,
    progress: Progress | None = None,
    audited: Progress | None = None,
) -> Moved:
    """Move the ledger. `again`: a move between these two was broken off; what has arrived of it is thrown away.

    Raises:
        UsageError: there is no such ledger, it was moved, the other one is not empty; nothing was changed.
        MoveBroken: it did not end, and the old ledger stays closed.
    """
    async with (
        _place(settings, source_url, "FROM") as source,
        _place(settings, target_url, "TO", create=True) as target,
    ):
        state = await _source_state(source, target, again=again)
        await _take(source, target, state, again=again)
        with _broken_off(source_url, target_url):
            await source.database.write(lambda c: copying.close_ledger(c, {"moved_to": target.name, "moved": None}))
            rows = await _Copy(source, target, progress).run()
            report = await _same_audit(source, target, audited)
            await _open(source, target, state)
    return Moved(source.name, target.name, rows, report)


async def reopen_ledger(settings: Settings, url: str, *, force: bool = False) -> bool:
    """Undo a move that did not end: the ledger is used again, and its frontier is filled anew. False: it is open.

    `force`: also one that has ended; what the new ledger has stored since is not in this one.
    """
    async with _place(settings, url, "LEDGER") as place:
        state = await place.state()
        if state.filled_from:
            raise UsageError(
                f"{place.name} is no ledger that was moved away: it is being filled from {state.filled_from}",
                hint="`fyke ledger copy` with --again fills it anew; else throw that database away",
            )
        if not state.moved_to:
            return False
        if state.moved and not force:
            raise UsageError(
                f"the move of {place.name} to {state.moved_to} has ended, and that one is the ledger now",
                hint="move it back into a new one; --force only where it is lost: what it has stored since is not here",
            )
        # The new ledger's epoch is one higher than the old one's was: a frontier that has served it is filled anew.
        opened = {"moved_to": None, "moved": None, "epoch": str(state.epoch + 2)}
        await place.database.write(lambda c: copying.write_state(c, opened))
        return True


@asynccontextmanager
async def _place(settings: Settings, url: str, field: str, *, create: bool = False) -> AsyncIterator[Place]:
    try:
        ledger_kind(url)
    except ValueError as error:
        raise UsageError(str(error), field=field) from None
    chosen = replace(settings, ledger=url)
    if chosen.ledger_path is not None:
        check_place(chosen.ledger_path, create=create)
    async with open_clocked(chosen) as (database, clock):
        yield Place(masked(url), database, clock)


@contextmanager
def _broken_off(source: str, target: str) -> Iterator[None]:
    """Say how to go on, whatever ends the move while the old ledger is closed."""
    way = (
        f"the old ledger stays closed: `fyke ledger copy {masked(source)} {masked(target)} --again` begins the move"
        f" anew, `fyke ledger reopen {masked(source)}` gives it up"
    )
    try:
        yield
    except FykeError as error:
        raise MoveBroken(f"{error}; {way}") from error
    except asyncio.CancelledError:
        log.warning("the move was broken off; %s", way)
        raise


async def _source_state(source: Place, target: Place, *, again: bool) -> State:
    """What the old ledger says of itself; it is brought to this release's schema."""
    try:
        found = await source.database.read(schema_of)
    except LedgerClosed as error:
        state = await source.state()
        if state.filled_from:
            raise
        if not again:
            raise UsageError(
                f"{source.name}: {error.message}", hint="a move that was broken off is begun anew with --again"
            ) from None
        if state.moved_to != target.name:
            raise UsageError(
                f"{source.name} was being moved to {state.moved_to}, not to {target.name}",
                hint=f"name that one, or `fyke ledger reopen {source.name}` first",
            ) from None
        return state
    if not found:
        raise UsageError(f"{source.name} has no ledger", field="FROM")
    await source.migrate()
    return await source.state()


async def _take(source: Place, target: Place, state: State, *, again: bool) -> None:
    """Mark the new ledger as being filled, so that nobody uses it before its time."""
    try:
        await target.migrate()
    except LedgerClosed:
        known = await target.state()
        if known.filled_id != state.ledger_id:
            raise
        if not again:
            raise UsageError(
                f"{target.name} has been filled in part from {known.filled_from}",
                hint="--again throws that away and begins anew",
            ) from None
        await target.database.write(_empty)
        return
    known = await target.state()
    if known.ledger_id == state.ledger_id and state.moved_to:
        raise UsageError(f"{source.name} was moved to {target.name}, and that has ended: it is the ledger now")
    if known.ledger_id == state.ledger_id:
        raise UsageError(f"{source.name} and {target.name} have one identity: they are one ledger", field="TO")
    used = await target.database.read(copying.in_use)
    if used:
        raise UsageError(
            f"{target.name} is not empty: there are rows in its table '{used}'",
            field="TO",
            hint="a ledger moves into a new database only; make one and name that",
        )
    marks: dict[str, str | None] = {"filled_from": source.name, "filled_id": state.ledger_id}
    await target.database.write(lambda c: copying.close_ledger(c, marks))
    try:
        # What is wrong with the names of its tables is told before the old ledger is closed.
        await _make_tables(source, target)
    except UsageError:
        await target.database.write(_empty)
        await target.database.write(lambda c: copying.write_state(c, dict.fromkeys(marks)))
        raise


def _empty(connection: Connection) -> None:
    for part in [*copying.typed_parts(connection), *copying.core_parts()]:
        copying.empty(connection, part)


async def _make_tables(source: Place, target: Place) -> None:
    rows = await source.database.read(copying.registry)

    def make(connection: Connection) -> None:
        for name, columns, made_at, changed_at in rows:
            found = [Column(column, kind) for column, kind in decode_table(name, columns).columns]
            ensure_table(connection, name, found, made_at)
            connection.execute("UPDATE typed_table SET changed_at = ? WHERE name = ?", (changed_at, name))

    await target.database.write(make)


class _Copy:
    def __init__(self, source: Place, target: Place, progress: Progress | None) -> None:
        self._source, self._target, self._progress = source, target, progress
        self._done = self._total = 0

    async def run(self) -> dict[str, int]:
        """Move all rows; how many of which table."""
        await _make_tables(self._source, self._target)
        parts = [*copying.core_parts(), *await self._source.database.read(copying.typed_parts)]
        counts = {part.name: await self._source.database.read(partial(copying.count, part=part)) for part in parts}
        self._total = sum(counts.values())
        for part in parts:
            moved = await self._part(part)
            arrived = await self._target.database.read(partial(copying.count, part=part))
            if not moved == arrived == counts[part.name]:
                raise FykeError(f"table '{part.name}' has {counts[part.name]} rows, and {arrived} arrived")
        return counts

    async def _part(self, part: Part) -> int:
        """Move one table, page by page; the next page is read while this one is written."""
        sizes, after, moved = Sizes(), None, 0
        reading = self._read(part, after, sizes.rows)
        while rows := await reading:
            behind = part.after(rows[-1])
            sizes.saw(rows)
            reading = self._read(part, behind, sizes.rows)
            try:
                await self._write(part, rows, after)
            except BaseException:
                reading.cancel()
                raise
            after, moved = behind, moved + len(rows)
            self._done += len(rows)
            if self._progress is not None:
                self._progress(self._done, self._total)
        return moved

    def _read(self, part: Part, after: tuple[Any, ...] | None, limit: int) -> asyncio.Task[list[Any]]:
        page = self._source.database.read(lambda c: copying.plain(part, copying.read_page(c, part, after, limit)))
        return asyncio.ensure_future(page)

    async def _write(self, part: Part, rows: list[Any], after: tuple[Any, ...] | None) -> None:
        try:
            await self._target.database.write(lambda c: copying.write_page(c, part, rows), durable=False)
        except ValueError as error:
            raise FykeError(f"table '{part.name}' has a row that {self._target.name} cannot hold: {error}") from error
        limit = len(rows)
        back = await self._target.database.read(lambda c: copying.plain(part, copying.read_page(c, part, after, limit)))
        for sent, arrived in zip_longest(rows, back):
            if sent != arrived:
                raise FykeError(
                    f"a row of table '{part.name}' did not arrive as it was sent: {part.after(sent or arrived)}"
                )


async def _same_audit(source: Place, target: Place, progress: Progress | None) -> AuditReport:
    """The audit of both, which must not differ: rows were not only moved, they still belong together."""
    now = source.clock.now()

    def count(connection: Connection) -> AuditReport:
        return Audit(connection, now, progress=progress).run()

    before, after = await source.database.read_long(count), await target.database.read_long(count)
    if before != after:
        raise FykeError(f"the audit of {target.name} differs from that of {source.name}")
    return after


async def _open(source: Place, target: Place, state: State) -> None:
    """From here on the new ledger is the one. The old one knows it first: it is never opened again by mistake."""
    given = await source.database.read(copying.given_ids)
    await target.database.write(lambda c: copying.keep_ids(c, given))
    await source.database.write(lambda c: copying.write_state(c, {"moved": "yes"}))
    opened: dict[str, str | None] = {
        **dict(await source.database.read(copying.cursors)),
        **{"ledger_id": state.ledger_id, "epoch": str(state.epoch + 1), "filled_from": None, "filled_id": None},
    }
    await target.database.write(lambda c: copying.write_state(c, opened))
