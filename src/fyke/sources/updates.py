"""`updates`: what a change is, when an item is visited again, what belongs together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fyke.policy.units import parse_duration
from fyke.sources.faults import Fault, Path
from fyke.sources.shapes import DURATION, Key, ListOf, Section, Text

REVISIT: Final = Section(
    "revisit",
    {
        "after": Key(ListOf(DURATION, single=True, least=1), "Ages since it was first listed, rising.", required=True),
        "until": Key(DURATION, "The age of the last visit; the last of `after` is repeated until then."),
    },
)
RELATE: Final = Section(
    "relate",
    {
        "title": Key(
            ListOf(Text(), single=True, least=1), "Texts that the title of such a record has one of.", required=True
        ),
        "by": Key(Text(), "The field whose text both records have.", required=True),
        "as": Key(Text(pattern=r"[a-z][a-z0-9_]{0,62}", example="corrects"), "What it is to the other.", required=True),
    },
)
UPDATES: Final = Section(
    "updates",
    {
        "compare": Key(ListOf(Text(), single=True), "Fields whose change makes a new version. Default all."),
        "ignore": Key(ListOf(Text(), single=True), "Regular expressions of what is no change."),
        "revisit": Key(REVISIT, "When the page behind a stored item is visited again."),
        "relate": Key(ListOf(RELATE), "Which records belong together, as a correction and its original do."),
    },
)
Calendar = tuple[tuple[int, ...], int | None]


def compile_revisit(spec: Mapping[str, Any] | None, *, has_detail: bool) -> Calendar | None:
    """The ages in ms, and that of the last visit."""
    if spec is None:
        return None
    path: Path = ("updates", "revisit")
    if not has_detail:
        raise Fault("there is no page behind a row to visit", path, hint="a list is read whenever the source runs")
    said = spec["after"] if isinstance(spec["after"], list) else [spec["after"]]
    after = tuple(parse_duration(str(part)) for part in said)
    if min(after) <= 0 or list(after) != sorted(set(after)):
        raise Fault("the ages do not rise", (*path, "after"), hint="write for example [1h, 1d, 7d]")
    until = parse_duration(str(spec["until"])) if "until" in spec else None
    if until is not None and until < after[-1]:
        raise Fault("is before the last of `after`", (*path, "until"), hint=f"at least {said[-1]}")
    return after, until
