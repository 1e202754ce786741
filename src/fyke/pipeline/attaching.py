"""Attachments of visited items become items before the visit is committed: whatever dies between, none is missed (P2).

A visit that is repeated names them again, and known ones are not made twice (P1).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from fyke.errors import TransientError, UsageError
from fyke.model import Entry, Fields, ItemState
from fyke.pipeline.collector import Visited
from fyke.policy.attaching import SUFFIX, attached_key, attached_source
from fyke.policy.identity import content_hash
from fyke.policy.politeness import lane_of
from fyke.ports import Frontier, Ledger

log = logging.getLogger("fyke.worker")

COMPARED = ("parent", "name", "url")


def entries_of(parent: str, found: Iterable[tuple[str, Fields]]) -> list[Entry]:
    """The entries of the files that an item's pages name; each with the address of its page. None twice."""
    entries: dict[str, Entry] = {}
    for page, fields in found:
        url = str(fields["url"])
        try:
            key, lane = attached_key(parent, url), lane_of(url)
        except (UsageError, ValueError) as error:
            log.warning("attachment %s of %s is no item: %s", url[:200], parent, error)
            continue
        whole = {"parent": parent, "page": page, **fields}
        entry = Entry(len(entries), key, whole, content_hash(whole, COMPARED), url=url, lane=lane)
        entries.setdefault(key, entry)
    return list(entries.values())


async def keep_attachments(ledger: Ledger, frontier: Frontier, batch: Iterable[tuple[Visited, str]]) -> None:
    """Write the attachments of visits that are about to be stored, and offer them.

    Raises:
        TransientError: the ledger is away; safe to repeat.
    """
    by_source: dict[str, list[Entry]] = {}
    for visited, source_id in batch:
        if visited.files and visited.result.final is ItemState.STORED:
            entries = entries_of(visited.key, visited.files)
            by_source.setdefault(attached_source(source_id), []).extend(entries)
    for source_id, entries in by_source.items():
        try:
            result = await ledger.submit(source_id, entries, listing=SUFFIX)
        except UsageError as error:
            log.warning("%d attachments are not kept: %s", len(entries), error)
            continue
        try:
            await frontier.offer(result.due)
        except TransientError as error:
            log.info("the reconciler offers %d attachments: %s", len(result.due), error)
