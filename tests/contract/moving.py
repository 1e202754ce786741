"""A ledger with rows of all kinds, and what all its tables hold, whatever database it is in."""

from pathlib import Path
from typing import Any

from fyke.app.stores import open_clocked
from fyke.db import copying
from fyke.db.connection import Connection
from fyke.errors import LedgerClosed
from fyke.ledgers.sql import SqlLedger
from fyke.model import Entry, ForgetFilter, Listing, NewRun, PageCommit, PassEnd, PassState
from fyke.settings import Settings, load_settings
from fyke.testing.clock import FakeClock
from fyke.testing.desk_setting import everything
from fyke.testing.desk_steps import Steps, digest

AWKWARD: dict[str, dict[str, Any]] = {
    "emoji 🐟": {"title": "🐟渔网 \U0001f469‍\U0001f4bb", "budget": "12345678901234567890.123456789"},
    "x": {"title": "  blanks at both ends  ", "budget": "9223372036854775807"},
    "X": {"title": "a 'quote', a \"quote\", a \\ and 100 %s :name ?1", "budget": "-0.1"},
    "é": {"title": "line\nbreak\ttab\r\n", "budget": "0.000000000000000000000001"},
    "e\u0301": {"title": "长" * 60_000, "budget": "-9223372036854775808"},
    "nothing": {"title": "nothing else", "budget": None, "lots": None, "open_bid": None},
    "false": {"title": "", "budget": "0", "open_bid": False, "lots": {"深": [1, None, "🐟"]}},
    "number": {"title": "x ", "budget": "1e3", "lots": 12345678901234567890},
}


async def fill(url: str) -> None:
    """All tables but `worker` have rows; ids were given whose rows are gone."""
    async with open_clocked(settings_of(url)) as (database, _):
        clock = FakeClock()
        ledger = SqlLedger(database, clock)
        await ledger.migrate()
        steps = Steps(ledger, clock)
        await steps.source()
        await everything(steps)
        await steps.walk(["x", "y"], state=PassState.GAP, reason="the pages ended", refused=["一行没有链接 🐟"])
        await steps.walk(["s"], state=PassState.SUSPICIOUS, refused=["banner"])
        await steps.listed("s")
        again, _ = await steps.walk(["t"], state=PassState.SUSPICIOUS, refused=["another banner"])
        await ledger.accept_run(again, "the banner is no notice")
        await _awkward(steps)
        await ledger.hold_lane("notices.example", clock.now() + 60_000, "Retry-After", blocked=True)
        await ledger.put_robots("notices.example", 200, "User-agent: *\nDisallow:\n")
        await ledger.cursor("alerts", 7)
        await steps.listed("forgotten", listing="last")
        await ledger.forget(ForgetFilter(scope="notice", key="forgotten"))
        await database.write(_rest)


def _rest(connection: Connection) -> None:
    """Rows that these steps do not make."""
    connection.execute("INSERT INTO revisit(item_id, at) VALUES (1, 7)")
    connection.execute("INSERT INTO relation(item_id, n, kind, field, shared) VALUES (1, 1, '', 'title', '编号 1')")
    connection.execute("INSERT INTO former_key(scope, key, item_id, at) VALUES ('notice', 'é ', 1, 7)")


async def _awkward(steps: Steps) -> None:
    steps.clock.advance(1_000)
    run = await steps.ledger.open_run(NewRun("plain", steps.clock.now(), [Listing("awkward")], ["notices.example"]))
    lease = await steps.ledger.start_pass(run.tasks[0].ref, "w1")
    assert lease is not None
    entries = [
        Entry(position=at, key=key, fields=fields, hash=digest(fields))
        for at, (key, fields) in enumerate(AWKWARD.items())
    ]
    page = PageCommit(1, 0, "https://notices.example/🐟", steps.clock.now(), entries, [], b"\x00\xff checkpoint")
    result = await steps.ledger.page(lease.pass_id, lease.fence, page)
    assert result.new == len(AWKWARD)
    end = PassEnd(PassState.COMPLETE, newest_key="emoji 🐟", oldest_key="number", first_page_rows=len(entries))
    await steps.ledger.end_pass(lease.pass_id, lease.fence, end)


async def answers(url: str) -> bool:
    """Whether a process could work with the ledger at this address."""
    async with open_clocked(settings_of(url)) as (database, clock):
        try:
            await SqlLedger(database, clock).migrate()
            await SqlLedger(database, clock).counts()
        except LedgerClosed:
            return False
        return True


async def assert_arrived(old: str, new: str, before: dict[str, list[Any]]) -> None:
    assert not await answers(old)
    assert await answers(new)
    arrived = await contents(new)
    for name, rows in before.items():
        assert arrived[name] == rows, name
    one, other = await state(old), await state(new)
    assert (other.ledger_id, other.epoch) == (one.ledger_id, one.epoch + 1), "its frontiers are filled anew"


async def contents(url: str) -> dict[str, list[Any]]:
    """All rows of all tables that are moved."""

    def read(connection: Connection) -> dict[str, list[Any]]:
        parts = [*copying.core_parts(), *copying.typed_parts(connection)]
        found = {part.name: copying.plain(part, copying.read_page(connection, part, None, 100_000)) for part in parts}
        return found | {"meta": copying.cursors(connection), "typed_table": copying.registry(connection)}

    async with open_clocked(settings_of(url)) as (database, _):
        return await database.read(read)


async def state(url: str) -> copying.State:
    async with open_clocked(settings_of(url)) as (database, _):
        return await database.read(copying.read_state)


def settings_of(url: str) -> Settings:
    return load_settings(Path(), {"FYKE_LEDGER": url}).settings
