"""`fyke ignore`: one item is closed by hand, with a reason."""

from __future__ import annotations

from fyke.app import open_ledger
from fyke.cli.desk import no_such_item, trimmed
from fyke.cli.explain import Key, Scope
from fyke.cli.flags import Reason
from fyke.cli.output import say
from fyke.cli.verb import one_verb, verb
from fyke.settings import Loaded

app = one_verb()


@verb(app, example='fyke ignore ccgp.gov.cn 24849291 --reason "a test notice"')
async def ignore(loaded: Loaded, scope: Scope, key: Key, reason: Reason) -> None:
    """Close one item by hand, also of a paused or removed source; what is stored stays stored."""
    scope, key = trimmed(scope, key)
    async with open_ledger(loaded.settings) as stores:
        if not await stores.ledger.ignore(scope, key, reason):
            raise await no_such_item(stores.ledger, scope, key)
        found = await stores.ledger.explain(scope, key)
    say(f"{scope} {key} is {found.state if found else 'gone'}.")
