"""`fyke source rekey`: stored items get the keys of a changed rule, so that none is listed as a new one (P1)."""

from __future__ import annotations

from typing import Annotated

import typer

from fyke.app import open_stores
from fyke.app.rekeying import Rekeying, RekeyPlan, finish_rekey, refuse, start_rekey
from fyke.cli.flags import DryRun, Json
from fyke.cli.output import print_json, say, table
from fyke.cli.verb import verb
from fyke.settings import Loaded

Id = Annotated[str, typer.Argument(metavar="ID", help="A source file or id.")]


def add(app: typer.Typer) -> None:
    """Give the group its verb."""
    verb(app, "rekey", example="fyke source rekey ccgp --dry-run")(rekey)


async def rekey(
    loaded: Loaded,
    source: Id,
    merge: Annotated[
        bool, typer.Option("--merge", help="Of items that get one key, keep the one stored first; the others go.")
    ] = False,
    leave: Annotated[
        bool, typer.Option("--leave", help="Items that get no key by the new rule keep their old one.")
    ] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Give the stored items of a source the keys of its changed identity or scope. Nothing is fetched.

    The sources of one scope are changed together. The source is paused meanwhile; a command that was killed goes on
    when it is given again. Old keys are remembered: `fyke explain` finds items by both.
    """
    async with open_stores(loaded.settings) as stores:
        work = await start_rekey(stores, source)
        if work is None:
            return _nothing(source, as_json=as_json)
        plan = await work.look()
        if dry_run:
            _shown(plan, as_json=as_json)
            return 1 if plan.collisions or plan.taken or plan.without else 0
        refuse(plan, merge=merge, leave=leave)
        again = await start_rekey(stores, source)
        done = again if again is not None else work
        await finish_rekey(stores, done, merge=merge, leave=leave)
    _done(done, as_json=as_json)
    return 0


def _nothing(source: str, *, as_json: bool) -> int:
    if as_json:
        print_json({"changed": 0})
    else:
        say(f"The identity and scope of {source} are those of the ledger: nothing to do.")
    return 0


def _shown(plan: RekeyPlan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    before, now = plan.scope
    say(f"Sources: {', '.join(plan.sources)}. Scope: {before}{f' → {now}' if now != before else ''}.")
    rows = [
        ("keep their key", plan.kept),
        ("get another key", plan.changed),
        ("would get one key with others (--merge)", plan.collisions),
        ("would get the key of another source's item", plan.taken),
        ("get no key by the new rule (--leave)", plan.without),
    ]
    table(("ITEMS THAT", "NUMBER"), rows)
    for title, examples in (("OLD KEY", plan.examples), ("OLD KEY, COLLIDES", plan.colliding)):
        if examples:
            table((title, "NEW KEY"), examples)
    if plan.lacking:
        table(("KEY", "WHY NONE"), plan.lacking)


def _done(work: Rekeying, *, as_json: bool) -> None:
    plan = work.plan
    if as_json:
        print_json(plan)
        return
    files = f" and {plan.attachments} of their attachments" if plan.attachments else ""
    say(f"{plan.moved} item(s){files} have new keys; {plan.kept} kept theirs.")
