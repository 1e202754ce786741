"""New keys for what is stored, told again from what the ledger holds: each item once, whatever is killed, and none is
lost without a word (P1, P2).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fyke.app import rekeying
from fyke.app.rekeying import Rekeying, RekeyPlan, refuse
from fyke.errors import UsageError
from fyke.ledgers.sql import SqlLedger
from fyke.model import Listing, NewRun, PageCommit, PassEnd, PassState
from fyke.pipeline.attaching import entries_of
from fyke.sources.source import FileSource
from tests.pipeline.conftest import Servers
from tests.unit.sources.making import made, response

HEAD = """
id: {name}
identity: {{scope: {scope}, key: {rule}}}
store: {{table: news}}
"""
LISTED = """
listing:
  request: {url: "http://site.example/list"}
  rows: {json: rows}
  fields: {id: {json: id}, place: {json: place}, number: {json: number}}
"""
DETAIL = """
detail:
  steps: [{request: {url: "http://site.example/{id}"}, fields: {title: {css: h1}}}]
  attachments: {css: a}
"""


def source_of(rule: str, *, scope: str = "site", name: str = "news", text: str = LISTED) -> FileSource:
    return made(text, head=HEAD.format(name=name, scope=scope, rule=rule))


BY_ID = "{field: id}"
BY_NUMBER = '{template: "{place}-{number}"}'


async def apply(ledger: SqlLedger, *sources: FileSource) -> None:
    for source in sources:
        await ledger.apply_source(source.resolved)
        if source.attached is not None:
            await ledger.apply_source(source.attached.resolved)


async def show(servers: Servers, source: FileSource, *rows: dict[str, Any], listing: str = "main") -> int:
    """Walk a listing that shows these rows; how many were new."""
    servers.clock.advance(3_600_000)
    ledger, name = servers.ledger, source.resolved.id
    run = await ledger.open_run(NewRun(name, servers.clock.now(), [Listing(listing)], ["site.example"]))
    lease = await ledger.start_pass(run.tasks[0].ref, "w")
    assert lease is not None
    page = source.read_page(Listing("main"), response(json.dumps({"rows": rows})), None)
    commit = PageCommit(1, 0, "", servers.clock.now(), page.entries, page.refused, b"")
    result = await ledger.page(lease.pass_id, lease.fence, commit)
    await ledger.end_pass(lease.pass_id, lease.fence, PassEnd(PassState.COMPLETE))
    return result.new


def row(id: str, place: str | None = "p", number: int | None = None) -> dict[str, Any]:
    found = {"id": id, "place": place, "number": number}
    return {name: value for name, value in found.items() if value is not None}


async def keys(ledger: SqlLedger, name: str = "news") -> dict[int, str]:
    return {item.item_id: item.key for item in await ledger.key_items(name, 0, 1_000)}


async def move(
    ledger: Any, *sources: FileSource, before: str = "site", merge: bool = False, leave: bool = False
) -> RekeyPlan:
    """What the command does once it has its sources."""
    work = Rekeying(ledger, sources, before)
    await ledger.begin_rekey(work.resolved)
    refuse(await work.look(), merge=merge, leave=leave)
    await work.move()
    await ledger.end_rekey(work.resolved)
    return work.plan


async def balanced(ledger: SqlLedger) -> None:
    report = await ledger.audit()
    assert (report.findings, report.balanced) == ([], True)


async def test_what_a_look_says_is_what_a_move_does_and_a_look_changes_nothing(servers: Servers) -> None:
    ledger, old, new = servers.ledger, source_of(BY_ID), source_of("{first_of: [{field: place}, {field: id}]}")
    await apply(ledger, old)
    await show(servers, old, row("a", place="a"), row("b", place="x"), row("c", place=None))
    before = await keys(ledger)
    plan = await Rekeying(ledger, [new], "site").look()
    assert (plan.kept, plan.changed, plan.collisions, plan.without) == (2, 1, 0, 0)
    assert plan.examples == [("b", "x")]
    assert await keys(ledger) == before
    done = await move(ledger, new)
    assert done.moved == 1
    assert sorted((await keys(ledger)).values()) == ["a", "c", "x"]
    assert await show(servers, new, row("a", place="a"), row("b", place="x"), row("c", place=None)) == 0
    await balanced(ledger)


async def test_items_of_one_new_key_are_refused_until_a_person_says_merge(servers: Servers) -> None:
    ledger, old, new = servers.ledger, source_of(BY_ID), source_of(BY_NUMBER)
    await apply(ledger, old)
    await show(servers, old, row("a", number=1), row("b", number=2), row("c", number=1))
    with pytest.raises(UsageError, match=r"1 item\(s\).*'c' → 'p-1'"):
        refuse(await Rekeying(ledger, [new], "site").look(), merge=False, leave=False)
    await move(ledger, new, merge=True)
    assert sorted((await keys(ledger)).values()) == ["p-1", "p-2"]
    found = [await ledger.explain("site", key) for key in ("a", "c", "p-1")]
    assert len({one.item_id for one in found if one is not None}) == 1
    assert all(found)
    await balanced(ledger)


async def test_items_that_get_no_key_are_refused_until_a_person_says_leave(servers: Servers) -> None:
    ledger, old, new = servers.ledger, source_of(BY_ID), source_of(BY_NUMBER)
    await apply(ledger, old)
    await show(servers, old, row("a", number=1), row("b", place=None, number=2))
    with pytest.raises(UsageError, match=r"1 item\(s\).*get no key.*'b'"):
        refuse(await Rekeying(ledger, [new], "site").look(), merge=False, leave=False)
    await move(ledger, new, leave=True)
    assert sorted((await keys(ledger)).values()) == ["b", "p-1"]
    await balanced(ledger)


async def test_sources_of_one_scope_move_together_and_into_another(servers: Servers) -> None:
    ledger = servers.ledger
    old = [source_of(BY_ID, name=name) for name in ("one", "two")]
    new = [source_of(BY_ID, name=name, scope="else") for name in ("one", "two")]
    await apply(ledger, *old)
    await show(servers, old[0], row("a"), row("b"))
    assert await show(servers, old[1], row("b"), row("c")) == 1
    assert (await move(ledger, *new)).moved == 3
    assert await show(servers, new[0], row("c"), row("a")) == 0
    assert await show(servers, new[1], row("a"), row("b")) == 0
    await balanced(ledger)


async def test_a_key_of_another_sources_item_is_refused(servers: Servers) -> None:
    ledger, old, there = servers.ledger, source_of(BY_ID), source_of(BY_ID, name="there", scope="else")
    await apply(ledger, old, there)
    await show(servers, old, row("a"), row("b"))
    await show(servers, there, row("b"))
    plan = await Rekeying(ledger, [source_of(BY_ID, scope="else")], "site").look()
    assert (plan.taken, plan.collisions) == (1, 0)
    with pytest.raises(UsageError, match="item of another source"):
        refuse(plan, merge=True, leave=True)


async def test_the_files_of_an_item_move_with_it(servers: Servers) -> None:
    ledger, text = servers.ledger, LISTED + DETAIL
    old, new = source_of(BY_ID, text=text), source_of(BY_NUMBER, text=text)
    await apply(ledger, old)
    await show(servers, old, row("a", number=1), row("b", number=2))
    file = {"url": "http://site.example/f.pdf", "name": "file"}
    for parent in ("a", "b"):
        await ledger.submit("news.attachments", entries_of(parent, [("http://site.example/", dict(file))]))
    plan = await move(ledger, new)
    assert (plan.moved, plan.attachments) == (2, 2)
    files = await ledger.key_items("news.attachments", 0, 10)
    assert [(item.key, item.entry["parent"]) for item in files] == [
        ("p-1/site.example/f.pdf", "p-1"),
        ("p-2/site.example/f.pdf", "p-2"),
    ]
    # A visit after that names the same files.
    again = await ledger.submit("news.attachments", entries_of("p-1", [("http://site.example/", dict(file))]))
    assert again.new == 0
    await balanced(ledger)


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A ledger of a process that dies at one of its calls that change something."""

    def __init__(self, ledger: SqlLedger, at: int, *, after: bool) -> None:
        self._ledger, self._left, self._after = ledger, at, after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ledger, name)
        if name not in ("begin_rekey", "move_keys", "end_rekey"):
            return method

        async def call(*values: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            answer = await method(*values)
            if self._left == 0:
                raise Killed
            return answer

        return call


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
async def test_a_command_that_is_killed_goes_on_when_it_is_given_again(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, at: int, after: bool
) -> None:
    monkeypatch.setattr(rekeying, "BATCH", 2)
    ledger, old, new = servers.ledger, source_of(BY_ID), source_of(BY_NUMBER)
    rows = [row(f"p-{n}", number=(n + 1) % 5) for n in range(5)]
    rows.append(row("same", number=1))
    await apply(ledger, old)
    await show(servers, old, *rows)
    ids = {key: id for id, key in (await keys(ledger)).items()}
    try:
        await move(Mortal(ledger, at, after=after), new, merge=True)
    except Killed:
        await move(ledger, new, merge=True)
    assert await keys(ledger) == {ids[f"p-{n}"]: f"p-{(n + 1) % 5}" for n in range(5)}
    assert await show(servers, new, *rows) == 0
    await balanced(ledger)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=st.lists(st.integers(0, 6), min_size=1, max_size=7), batch=st.integers(1, 4))
async def test_whatever_the_rule_makes_of_keys_each_new_one_is_one_item(
    servers: Servers, numbers: Sequence[int], batch: int
) -> None:
    """Keys go in circles, fall together, stay: afterwards each new key is there once, and all rows are known."""
    ledger = servers.ledger
    scope = f"s{servers.clock.now()}"
    old, new = source_of(BY_ID, name=scope, scope=scope), source_of(BY_NUMBER, name=scope, scope=scope)
    rows = [row(f"p-{n}", number=number) for n, number in enumerate(numbers)]
    await apply(ledger, old)
    await show(servers, old, *rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rekeying, "BATCH", batch)
        await move(ledger, new, before=scope, merge=True)
    assert sorted((await keys(ledger, scope)).values()) == sorted({f"p-{number}" for number in numbers})
    assert await show(servers, new, *rows) == 0
    await balanced(ledger)
