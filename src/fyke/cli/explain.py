"""`fyke explain`: the whole life of one item, from the tables that saw it."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from fyke.app import open_desk
from fyke.cli.desk import no_such_item, trimmed
from fyke.cli.flags import Json
from fyke.cli.output import plain, print_json, say, when
from fyke.cli.verb import one_verb, verb
from fyke.model import Explanation, TaskView
from fyke.settings import Loaded

app = one_verb()

Scope = Annotated[str, typer.Argument(metavar="SCOPE", help="The name space of the key, e.g. ccgp.gov.cn.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The item's key.")]


@verb(app, example="fyke explain ccgp.gov.cn 24849291")
async def explain(loaded: Loaded, scope: Scope, key: Key, as_json: Json = False) -> None:
    """Tell the whole life of one item: where it was listed, each visit, each version, and what it waits for."""
    scope, key = trimmed(scope, key)
    async with open_desk(loaded.settings) as desk:
        found = await desk.ledger.explain(scope, key)
        if found is None:
            raise await no_such_item(desk.ledger, scope, key)
        task = f"i{found.item_id}"
        view = await desk.ask(lambda frontier: frontier.view(task))
    if as_json:
        unknown = {"state": "unknown", "reason": desk.away} if desk.away else found.task
        print_json(replace(found, task=unknown if view is None else _task(view)))
        return
    _show(found)
    if view is not None:
        say(_waits(view))
    elif desk.away:
        say(f"The frontier is not reachable ({desk.away}): whether it has a task there, or is unqueued, is unknown.")
    elif found.pending:
        say("It is due and not in the frontier; the reconciler offers it (`fyke run`, or `fyke audit --repair`).")


def _show(found: Explanation) -> None:
    due = ", due" if found.pending else ""
    say(f"{plain(found.scope)} {plain(found.key)}: {found.state}{due}, generation {found.generation}")
    say(f"source {found.source_id}, table {found.table}, item {found.item_id}")
    if found.url:
        say(plain(found.url))
    say()
    for moment, text in found.lines:
        say(f"{when(moment)}  {plain(text)}")


def _task(view: TaskView) -> dict[str, object]:
    return {
        "state": view.state,
        "generation": view.task.generation,
        "lane": view.task.lane,
        "starts": view.starts,
        "at": view.at,
        "worker": view.worker,
        "reason": view.reason,
        "lane_next_at": view.lane_next_at,
        "lane_hold_until": view.lane_hold_until,
    }


def _waits(view: TaskView) -> str:
    text = f"Its task is {view.state}"
    if view.worker:
        text += f", held by {view.worker}"
    if view.at is not None:
        text += f", until {when(view.at)}"
    if view.reason:
        text += f": {plain(view.reason)}"
    if view.lane_hold_until:
        text += f"; host {view.task.lane} is held until {when(view.lane_hold_until)}"
    return text
