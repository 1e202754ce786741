"""`fyke migrate`: the tables of this release, made or brought up to date before anything starts."""

from __future__ import annotations

from fyke.app import open_stores
from fyke.cli.flags import Json
from fyke.cli.logs import start_logging
from fyke.cli.output import print_json, say
from fyke.cli.verb import one_verb, verb
from fyke.db.migrate import newest_schema
from fyke.settings import Loaded, masked

app = one_verb()


@verb(app, example="fyke migrate")
async def migrate(loaded: Loaded, as_json: Json = False) -> None:
    """Make the ledger's tables, or bring them to this release's schema; safe to repeat, and beside running processes.

    Each process does so at its start; this is for those who want it done first. Older releases refuse the ledger then.
    """
    start_logging(loaded.settings)
    async with open_stores(loaded.settings, wait=True) as stores:
        ledger_id, epoch = await stores.ledger.identity()
    if as_json:
        print_json({"schema": newest_schema(), "ledger_id": ledger_id, "epoch": epoch})
    else:
        say(f"{masked(loaded.settings.ledger)} has schema {newest_schema()}.")
