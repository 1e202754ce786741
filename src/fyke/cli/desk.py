"""What the verbs of the desk share: finding what a person named, or saying what is near to it."""

from __future__ import annotations

from fyke.errors import UsageError, nearest, there_are
from fyke.model import DeadFilter, SourceRow
from fyke.policy.identity import key_of
from fyke.ports import Ledger


async def applied_source(ledger: Ledger, source_id: str) -> SourceRow:
    """The source of this id in the ledger, also a removed one.

    Raises:
        UsageError: there is none; it names the nearest id.
    """
    rows = {row.source.id: row for row in await ledger.sources(removed=True)}
    if source_id in rows:
        return rows[source_id]
    hint = nearest(source_id, rows) or (there_are(sorted(rows)) if rows else "none was applied yet")
    raise UsageError(f"the ledger has no source {source_id!r}", hint=hint)


def trimmed(scope: str, key: str) -> tuple[str, str]:
    """A scope and a key as the ledger spells them, however they were copied; what can be no key stays as it is."""
    try:
        return scope.strip(), key_of(key)
    except ValueError:
        return scope.strip(), key


async def which_dead(
    ledger: Ledger, source: str | None, reason: str | None, scope: str | None, key: str | None
) -> DeadFilter:
    """The filter of a person's options; a source is checked, so that a slip does not look like "none"."""
    if source is not None:
        await applied_source(ledger, source)
    if key is not None and scope is None:
        raise UsageError("--key needs --scope", hint="a key is unique in its scope only")
    named, spelt = trimmed(scope or "", key or "")
    return DeadFilter(source_id=source or "", reason=reason or "", scope=named, key=spelt)


def offered_later(why: str) -> str:
    """What becomes of tasks that the frontier could not be told of: the ledger has what was decided."""
    return f"The frontier is not reachable ({why}): the reconciler offers them when it is back."


async def no_such_item(ledger: Ledger, scope: str, key: str) -> UsageError:
    """The error for an item that is not there, with what is near."""
    scopes, keys = await ledger.near_keys(scope, key)
    if scope not in scopes:
        hint = nearest(scope, scopes) or (there_are(scopes) if scopes else "the ledger is empty")
        return UsageError(f"there is no scope {scope!r}", hint=hint)
    near = nearest(key, keys) or (f"near are {', '.join(keys[:5])}" if keys else None)
    return UsageError(f"scope {scope!r} has no item {key!r}", hint=near)
