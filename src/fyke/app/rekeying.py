"""`fyke source rekey`: the items of a source whose key rule or scope has changed get their new keys (P1).

What the rules of the file make of each stored item is told again from what the ledger holds; nothing is fetched. A
command that is killed goes on when it is given again: what has its new key is left as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from fyke.app.sources import apply_sources, find_source, named_sources
from fyke.app.stores import Stores
from fyke.errors import TransientError, UsageError
from fyke.model import ItemState, KeyItem, KeyMove, ResolvedSource
from fyke.policy.attaching import attached_key, attached_scope, keys_under
from fyke.policy.identity import content_hash, mark_of
from fyke.ports import Ledger
from fyke.settings import Settings
from fyke.sources.rekeying import key_again
from fyke.sources.source import FileSource

BATCH: Final = 500
MOST_TOGETHER: Final = 20_000
EXAMPLES: Final = 5
HAND_S: Final = 120.0
LOOK_S: Final = 0.5
ATTACHED: Final = ("parent", "name", "url")  # what an attachment's entry is compared by

Pair = tuple[str, str]


class RekeyPlan(Struct):
    """What the new rules come to. Examples are (old key, new key), or (key, reason) of what has none."""

    source_id: str
    scope: Pair  # before, now
    sources: list[str]
    kept: int = 0
    changed: int = 0
    attachments: int = 0
    collisions: int = 0  # items whose new key another one gets
    taken: int = 0  # items whose new key an item of another source has
    without: int = 0
    examples: list[Pair] = field(default_factory=list)
    colliding: list[Pair] = field(default_factory=list)
    lacking: list[Pair] = field(default_factory=list)
    moved: int = 0


class Rekeying:
    """One source, with those that share its scope: they have one key rule."""

    def __init__(self, ledger: Ledger, sources: Sequence[FileSource], before: str) -> None:
        self._ledger, self._before = ledger, before
        self._sources = {source.resolved.id: source for source in sources}
        self._scope = sources[0].resolved.scope
        # By a mark of the new key: the item that keeps it of those that want it. All items are in `_first`.
        self._first: dict[bytes, tuple[bool, int]] = {}
        self._several: dict[bytes, tuple[bool, int]] = {}
        self.plan = RekeyPlan(sources[0].resolved.id, (before, self._scope), sorted(self._sources))

    @property
    def resolved(self) -> list[ResolvedSource]:
        """The sources as they become, those of their attachments too."""
        found = [source.resolved for source in self._sources.values()]
        return [*found, *(source.attached.resolved for source in self._sources.values() if source.attached)]

    async def look(self) -> RekeyPlan:
        """Tell the new key of every item; nothing is changed."""
        plan = self.plan
        async for items in self._all():
            new = self._keys(items)
            foreign = await self._foreign(items, new)
            for item in items:
                key = new.get(item.item_id)
                if key is None:
                    continue
                mark, rank = mark_of(key), (item.state is not ItemState.STORED, item.item_id)
                held = self._first.setdefault(mark, rank)
                if held != rank:
                    self._several[mark] = self._first[mark] = min(held, rank)
                if key in foreign:
                    plan.taken += 1
                    _example(plan.colliding, item.key, key)
                elif held != rank:
                    plan.collisions += 1
                    _example(plan.colliding, item.key, key)
                elif (item.scope, item.key) == (self._scope, key):
                    plan.kept += 1
                else:
                    plan.changed += 1
                    _example(plan.examples, item.key, key)
        return plan

    async def move(self) -> None:
        """Move every item that gets a key, batch by batch; call `look` before."""
        main = self._sources[self.plan.source_id].resolved
        async for items in self._all():
            moves = await self._together(items)
            files = [move for source_id in self._sources for move in await self._files(source_id, moves)]
            # All in one transaction: an item and its files never have different names.
            done = await self._ledger.move_keys(main, [*(move for move, _ in moves), *files]) if moves else 0
            self.plan.moved += min(done, len(moves))
            self.plan.attachments += max(0, done - len(moves))

    async def _all(self) -> AsyncIterator[list[KeyItem]]:
        for source_id in sorted(self._sources):
            after = 0
            while items := await self._ledger.key_items(source_id, after, BATCH):
                yield items
                after = items[-1].item_id

    def _keys(self, items: Sequence[KeyItem]) -> dict[int, str]:
        """The new keys by item; those that have none are told in the plan."""
        found: dict[int, str] = {}
        for item in items:
            fields = {**item.record, **item.entry}
            try:
                found[item.item_id] = key_again(self._sources[item.source_id], fields, item.url, item.values)
            except UsageError as error:
                self.plan.without += 1
                _example(self.plan.lacking, item.key, error.message)
        return found

    async def _foreign(self, items: Sequence[KeyItem], new: dict[int, str]) -> set[str]:
        """New keys that items of other sources have in a scope which these come into."""
        if self._scope == self._before:
            return set()
        there = await self._ledger.items_of_keys(self._scope, new.values())
        return {item.key for item in there if item.source_id not in self._sources}

    async def _together(self, items: Sequence[KeyItem]) -> list[tuple[KeyMove, str]]:
        """The moves of these items, with those of items that have a key which one of them gets; each with its
        source.
        """
        moves: dict[int, tuple[KeyMove, str]] = {}
        waiting = list(items)
        while waiting:
            found = self._moves(waiting)
            moves |= {move.item_id: (move, source_id) for move, source_id in found}
            if len(moves) > MOST_TOGETHER:
                raise UsageError(f"the keys of more than {MOST_TOGETHER:,} items hang on each other")
            holders = await self._ledger.items_of_keys(self._scope, [move.new_key for move, _ in found])
            waiting = [item for item in holders if item.item_id not in moves and self._moves([item])]
        return list(moves.values())

    def _moves(self, items: Sequence[KeyItem]) -> list[tuple[KeyMove, str]]:
        new, moves = self._keys(items), []
        for item in items:
            key = new.get(item.item_id)
            if key is None:
                continue
            winner = self._several.get(mark_of(key), (False, item.item_id))[1]
            if winner == item.item_id and (item.scope, item.key) == (self._scope, key):
                continue
            into = 0 if winner == item.item_id else winner
            table = self._sources[item.source_id].resolved.table
            move = KeyMove(item.item_id, item.scope, item.key, self._scope, key, table, into)
            moves.append((move, item.source_id))
        return moves

    async def _files(self, source_id: str, moves: Sequence[tuple[KeyMove, str]]) -> list[KeyMove]:
        """The attachments of items that move: their keys begin with that of their item."""
        attached = self._sources[source_id].attached
        if attached is None:
            return []
        made: dict[int, KeyMove] = {}
        before, scope, table = attached_scope(self._before), attached.resolved.scope, attached.resolved.table
        for move, owner in moves:
            if owner == source_id:
                found = await self._ledger.items_under(before, *keys_under(move.key))
                files = [item for item in found if item.entry.get("parent") == move.key]
                made |= {item.item_id: _file_move(item, move.new_key, scope, table) for item in files}
        there = await self._ledger.items_of_keys(scope, [one.new_key for one in made.values()])
        keeps = {item.key: item.item_id for item in there if item.item_id not in made}
        for id, one in sorted(made.items()):
            # Of two items that become one the same file may have been kept twice.
            if (keeper := keeps.setdefault(one.new_key, id)) != id:
                made[id] = replace(one, into=keeper)
        return list(made.values())


def _file_move(item: KeyItem, parent: str, scope: str, table: str) -> KeyMove:
    entry = {**item.entry, "parent": parent}
    key = attached_key(parent, str(entry.get("url", item.url)))
    digest = content_hash(entry, ATTACHED)
    return KeyMove(item.item_id, item.scope, item.key, scope, key, table, entry=entry, entry_hash=digest)


def _example(found: list[Pair], first: str, second: str) -> None:
    if len(found) < EXAMPLES:
        found.append((first, second))


async def start_rekey(stores: Stores, name: str) -> Rekeying | None:
    """What is to be done for a source; None where its rule and scope are those of the ledger.

    Raises:
        UsageError: the ledger has no such source; its table changes; or another source of the scope has another rule.
    """
    source = find_source(stores.settings, name)
    resolved = source.resolved
    rows = {row.source.id: row for row in await stores.ledger.sources(removed=True)}
    old = rows.get(resolved.id)
    if old is None:
        raise UsageError(f"the ledger has no source '{resolved.id}'", hint="`fyke source apply` brings it there")
    if old.source.table != resolved.table:
        raise UsageError(
            f"source '{resolved.id}' has the table '{old.source.table}' in the ledger, and now '{resolved.table}'",
            field="store.table",
            hint="keep the table: keys and scope can change, not where records go",
        )
    same = (old.source.scope, old.source.identity) == (resolved.scope, resolved.identity)
    if same and not await stores.ledger.rekeying(resolved.id):
        return None
    others = [row.source for name, row in rows.items() if row.source.scope == old.source.scope and name != resolved.id]
    group = [source, *(_agreeing(stores.settings, other, resolved) for other in others)]
    files = [one for one in group if isinstance(one, FileSource)]
    return Rekeying(stores.ledger, files, old.source.scope)


def _agreeing(settings: Settings, other: ResolvedSource, chosen: ResolvedSource) -> FileSource:
    """The file of another source of the scope: it has to say the same."""
    for one in named_sources(settings):
        if isinstance(one, UsageError) or one.source.resolved.id != other.id:
            continue
        theirs = one.source.resolved
        if (theirs.scope, theirs.identity) != (chosen.scope, chosen.identity):
            raise UsageError(
                f"source '{other.id}' has the same scope '{other.scope}' and another rule in its file",
                file=str(one.path),
                field="identity",
                hint=f"write the identity of '{chosen.id}' there, too: the sources of a scope are changed together",
            )
        if isinstance(one.source, FileSource):
            return one.source
    raise UsageError(
        f"source '{other.id}' has the same scope '{other.scope}' and no file that says the new rule",
        hint="the sources of a scope are changed together",
    )


async def finish_rekey(stores: Stores, work: Rekeying, *, merge: bool, leave: bool) -> None:
    """Pause the sources, move their items, and let them go on under the new rules.

    Raises:
        UsageError: a run is going; items collide and `merge` is not said, or have no new key and `leave` is not said.
    """
    known = {row.source.id for row in await stores.ledger.sources(removed=True)}
    sources = [source for source in work.resolved if source.id in known]
    await stores.ledger.begin_rekey(sources)
    await _nothing_in_hand(stores)
    refuse(await work.look(), merge=merge, leave=leave)
    await work.move()
    await stores.ledger.end_rekey(sources)
    loaded = [one for one in named_sources(stores.settings) if not isinstance(one, UsageError)]
    await apply_sources(stores, [one for one in loaded if one.source.resolved.id in work.plan.sources])


def refuse(plan: RekeyPlan, *, merge: bool, leave: bool) -> None:
    """Refuse what would lose items without a word."""
    if plan.taken:
        old, new = plan.colliding[0]
        raise UsageError(
            f"{plan.taken} item(s) of '{plan.source_id}' would get a key that an item of another source has in scope"
            f" '{plan.scope[1]}', such as {old!r} → {new!r}",
            hint="choose another scope",
        )
    if plan.collisions and not merge:
        old, new = plan.colliding[0]
        raise UsageError(
            f"{plan.collisions} item(s) of '{plan.source_id}' would get a key that another one has, such as {old!r} →"
            f" {new!r}",
            hint="--merge keeps one of each, the one stored first; or change the rule",
        )
    if plan.without and not leave:
        key, why = plan.lacking[0]
        raise UsageError(
            f"{plan.without} item(s) of '{plan.source_id}' get no key by the new rule, such as {key!r}: {why}",
            hint="--leave keeps their old keys; or change the rule",
        )


async def _nothing_in_hand(stores: Stores) -> None:
    """Visits that began before the pause end first: what they find would be named after the old keys."""
    loop = asyncio.get_running_loop()
    until = loop.time() + HAND_S
    while True:
        try:
            if not (await stores.frontier.stats()).leased:
                return
        except TransientError:
            pass
        if loop.time() > until:
            text = "workers have had tasks in hand for two minutes"
            raise UsageError(text, hint="stop them, and give the command again")
        await stores.clock.sleep(LOOK_S)
