"""Source files → ledger and lanes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fyke.app.stores import Stores
from fyke.errors import UsageError, nearest
from fyke.model import LanePolicy, SourceRow
from fyke.policy.politeness import strictest

if TYPE_CHECKING:
    from fyke.sources.loader import Loaded

log = logging.getLogger("fyke.sources")


def read_sources(folder: Path) -> list[Loaded]:
    """Load every source file of a folder, with warnings and errors that name file, line and field."""
    from fyke.sources.loader import load_folder

    return load_folder(folder)


async def apply_sources(stores: Stores, loaded: Sequence[Loaded]) -> list[tuple[str, str]]:
    """Write the resolved sources into the ledger and set the lanes; (id, created | changed | unchanged) of each."""
    answers = [(one.source.resolved.id, await stores.ledger.apply_source(one.source.resolved)) for one in loaded]
    await configure_lanes(stores)
    return answers


async def configure_lanes(stores: Stores) -> None:
    """Give every lane the strictest policy of all active sources that name it; settings say otherwise where a person
    did.
    """
    rows = [row for row in await stores.ledger.sources() if row.paused_at is None]
    named = strictest(policy for row in rows for policy in row.source.lanes if policy.lane != "*")
    set_here = {
        lane: LanePolicy(
            lane,
            gap=chosen.delay if chosen.delay is not None else LanePolicy(lane).gap,
            jitter=chosen.jitter if chosen.jitter is not None else min(LanePolicy(lane).jitter, chosen.delay or 0),
            concurrency=chosen.concurrency or LanePolicy(lane).concurrency,
        )
        for lane, chosen in stores.settings.lanes.items()
    }
    merged = {policy.lane: policy for policy in named} | set_here
    await stores.frontier.configure(list(merged.values()))


def pick(rows: Sequence[SourceRow], ids: Sequence[str]) -> list[str]:
    """The ids asked for, or all active sources.

    Raises:
        UsageError: an id that no source has, or a paused one.
    """
    known = {row.source.id: row for row in rows}
    for wanted in ids:
        if wanted not in known:
            raise UsageError(f"there is no source '{wanted}'", hint=nearest(wanted, known) or "see `fyke source list`")
        if known[wanted].paused_at is not None:
            raise UsageError(
                f"source '{wanted}' is paused: {known[wanted].paused_reason}", hint=f"`fyke source resume {wanted}`"
            )
    return list(ids) or [name for name, row in known.items() if row.paused_at is None]
