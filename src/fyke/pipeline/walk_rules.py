"""What a source says of its walks, as `policy.coverage` reads it; and a walk's state as it was a page before."""

from __future__ import annotations

import copy

import msgspec

from fyke.model import PassLease
from fyke.policy.coverage import Rules, Walk
from fyke.ports import Source


def rules_of(source: Source, lease: PassLease) -> Rules:
    """The source's words about walks, with the run's moment put in."""
    connect, checks = source.connect, source.checks
    since = connect.start_value if connect.start == "since" else lease.started_at - connect.start_value
    listed = set(source.list_fields)
    return Rules(
        known=connect.known,
        lookback=connect.lookback,
        all=connect.all,
        start="since" if connect.start in ("since", "length") else connect.start,
        since=since,
        max_pages=connect.max_pages,
        paged=source.paged,
        rows_min=checks.rows_per_page_min,
        coverage={name: share for name, share in checks.coverage.items() if name in listed},
    )


def copied(walk: Walk) -> Walk:
    """A state that the next page leaves as it is. Keys are shared, for a long walk has many."""
    fields = {name: copy.copy(getattr(walk, name)) for name in walk.__struct_fields__}
    return msgspec.structs.replace(walk, **fields | {"signs": copy.deepcopy(walk.signs)})
