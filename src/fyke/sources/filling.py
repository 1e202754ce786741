"""`listing.fill`: how the entries of a date window are asked for and read (P5).

A window is a listing of its own, so that what it shows says nothing of what the list itself has covered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from fyke.errors import UsageError, nearest
from fyke.model import Listing
from fyke.policy.units import parse_duration
from fyke.policy.windows import EDGES
from fyke.sources.faults import Fault, Path
from fyke.sources.paging import ListRequests
from fyke.sources.plan import FieldReading, FillPlan
from fyke.sources.rows import Rows
from fyke.sources.secrets import Secrets

FIGURES: Final = ("from_s", "from_ms", "to_s", "to_ms")
NAMES: Final = (*EDGES, *FIGURES)
SHORTEST_MS: Final = 1_000
PATH: Final[Path] = ("listing", "fill")

ReadFields = Callable[[Mapping[str, Any], Path, str, tuple[str, ...]], tuple[FieldReading, ...]]


def compile_fill(
    listing: Mapping[str, Any],
    values: tuple[str, ...],
    read_fields: ReadFields,
    secrets: Secrets,
    folder: str | None,
) -> FillPlan | None:
    """The plan of `listing.fill`; what it leaves out is as in the listing.

    Raises:
        Fault: the first mistake.
    """
    spec = listing.get("fill")
    if spec is None:
        return None
    for name in values:
        if name in NAMES:
            raise Fault(f"'{name}' names an edge of a date window", ("each", name), hint="take another name")
    window = parse_duration(str(spec.get("window", "1d")))
    exclusive = spec.get("ends") == "exclusive"
    if window < SHORTEST_MS:
        raise Fault("a window is at least a second long", (*PATH, "window"))
    rows_path: Path = (*PATH, "rows") if "rows" in spec else ("listing", "rows")
    rows = Rows(spec.get("rows", listing.get("rows")), rows_path)
    path: Path = (*PATH, "fields") if "fields" in spec else ("listing", "fields")
    fields = read_fields(spec.get("fields", listing["fields"]), path, rows.row, (*values, *NAMES))
    for field in fields:
        if field.name not in listing["fields"]:
            hint = nearest(field.name, listing["fields"]) or "a window has fields of the listing only"
            raise Fault(f"the listing has no field '{field.name}'", (*path, field.name), hint=hint)
    requests = ListRequests(spec, (*values, *NAMES), PATH, secrets, folder, rows.row)
    names = requests.maker.names | requests.later.names
    for edge in EDGES:
        if not names & {edge, f"{edge}_s", f"{edge}_ms"}:
            raise Fault(f"the request does not say where a window ends: {{{edge}}}", (*PATH, "request"))
    max_pages = spec.get("pages", {}).get("max", 100)
    return FillPlan(requests, rows, fields, window, max_pages, exclusive, aside="fields" in spec)


def asked(listing: Listing, plan: FillPlan) -> Listing:
    """The window's listing with the values that its request is made of."""
    since, until = (datetime.fromisoformat(listing.values[edge]) for edge in EDGES)
    # The moments of sites are seconds, and with a format of days the last one is on the window's last day.
    last = until if plan.exclusive else until - timedelta(seconds=1)
    values = dict(listing.values)
    for edge, at in zip(EDGES, (since, last), strict=True):
        seconds = int(at.timestamp())
        values |= {edge: at.isoformat(), f"{edge}_s": str(seconds), f"{edge}_ms": str(seconds * 1_000)}
    return replace(listing, values=values)


def sample(values: Mapping[str, str], plan: FillPlan) -> str:
    """The address of some window, which tells the host.

    Raises:
        Fault: no address comes out.
    """
    edges = dict(zip(EDGES, ("2025-01-01T00:00:00+00:00", "2025-01-02T00:00:00+00:00"), strict=True))
    try:
        return plan.requests.make(asked(Listing("", {**values, **edges}), plan).values, None).url
    except UsageError as error:
        raise Fault(error.message, (*PATH, "request"), hint=error.hint) from error
