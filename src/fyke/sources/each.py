"""`each`: one listing for each value or combination, written in the file or found at the start of each run.

A listing's name is made of its values, sorted, so that the file's order does not change which coverage is whose.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

from fyke.model import FoundListings, Listing, Outcome, RefusedEntry
from fyke.model.source import DISCOVERING
from fyke.policy.identity import fingerprint
from fyke.sources.faults import Fault, Misfit, StepFailed
from fyke.sources.markup import sane, squeeze
from fyke.sources.nodes import Context, raw_of, text_of
from fyke.sources.placeholders import PAGE
from fyke.sources.plan import Discovery
from fyke.sources.rows import MOST_ROWS

DISCOVER: Final = "discover"
MOST_LISTINGS: Final = 10_000
ONLY_LISTING: Final = "main"
LONGEST_VALUE: Final = 200
LONGEST_RAW: Final = 2_000


def name_of(values: Mapping[str, str]) -> str:
    return ",".join(f"{key}={values[key]}" for key in sorted(values))


def listings_of(each: Any) -> tuple[Listing, ...]:
    """The listings of the file. With `discover` each is one that finds its own at the start of a run."""
    if each is None:
        return (Listing(ONLY_LISTING),)
    if isinstance(each, Mapping):
        fixed = {name: values for name, values in each.items() if name != DISCOVER}
        combinations = [
            dict(zip(fixed, values, strict=True))
            for values in itertools.islice(itertools.product(*fixed.values()), MOST_LISTINGS + 1)
        ]
    else:
        combinations = [dict(part) for part in each]
    if PAGE in combinations[0]:
        raise Fault("'page' names the page of a listing", ("each", PAGE), hint="take another name")
    found: dict[str, Listing] = {}
    for at, combination in enumerate(combinations):
        if combination.keys() != combinations[0].keys():
            raise Fault("names other values than the first", ("each", at))
        values = {name: str(value) for name, value in combination.items()}
        name = name_of(values)
        if isinstance(each, Mapping) and DISCOVER in each:
            name = f"{DISCOVERING}:{name}" if values else DISCOVERING
        if name in found:
            raise Fault(f"the listing {name} is there twice", ("each",))
        found[name] = Listing(name, values)
    if len(found) > MOST_LISTINGS:
        raise Fault(f"makes more than {MOST_LISTINGS:,} listings", ("each",))
    return tuple(found.values())


def read_listings(discovery: Discovery, listing: Listing, context: Context) -> FoundListings:
    """What the answer to a discovery names. A row without one of its values is refused, never guessed.

    Raises:
        Misfit: the page has no place for rows, or names nothing: a source without lists would be silent for ever.
    """
    found: dict[str, Listing] = {}
    refused: list[RefusedEntry] = []
    rows = discovery.rows.read(context.document)
    if len(rows) > MOST_ROWS:
        raise Misfit(f"the page has more than {MOST_ROWS:,} rows")
    for position, row in enumerate(rows):
        context.row, context.fields = row, {}
        try:
            values = {**listing.values, **_values(discovery, context)}
            found.setdefault(name_of(values), Listing(name_of(values), values))
        except (StepFailed, Misfit, RecursionError) as error:
            raw = squeeze(sane(raw_of(row, context.document)))
            refused.append(RefusedEntry(position, str(error), raw[:LONGEST_RAW], fingerprint(raw.encode())))
    if not found:
        raise Misfit("each.discover finds no value on the page" + (f": {refused[0].reason}" if refused else ""))
    if len(found) > MOST_LISTINGS:
        raise Misfit(f"each.discover finds more than {MOST_LISTINGS:,} listings")
    return FoundListings(Outcome.OK, listings=list(found.values()), refused=refused)


def _values(discovery: Discovery, context: Context) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in discovery.fields:
        value = field.read(context)
        text = squeeze(text_of(value) or "")
        if not text:
            raise Misfit(f"the row has no value for '{field.name}' (each.discover)")
        if len(text) > LONGEST_VALUE:
            raise Misfit(f"'{field.name}' (each.discover) is longer than {LONGEST_VALUE} characters")
        context.fields[field.name] = value
        found[field.name] = text
    return found
