"""`fyke doctor`: what is wrong with settings, servers or this machine, and what to change."""

from __future__ import annotations

from fyke.app.doctor import examine
from fyke.cli.flags import Json
from fyke.cli.output import plain, print_json, say
from fyke.cli.verb import one_verb, verb
from fyke.settings import Loaded

app = one_verb()


@verb(app, example="fyke doctor")
async def doctor(loaded: Loaded, as_json: Json = False) -> int:
    """Check settings, ledger, frontier, this machine, and who works; say of each fault what to change.

    Run it on each machine of a cluster. It changes nothing. Exits with 1 where a check fails.
    """
    found = []
    async for check in examine(loaded.settings):
        found.append(check)
        if not as_json:
            say(f"{check.level:<5} {check.name}: {plain(check.text)}")
            if check.hint and check.level != "ok":
                say(f"      → {plain(check.hint)}")
    if as_json:
        print_json(found)
    return 1 if any(check.level == "fail" for check in found) else 0
