"""The verdict: what the site knows it has shown and served, against what is in the ledger and in the user's table.

The site's own log is the oracle: it counts what was fetched, and knows each record as it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from fyke.model import AuditReport

OK: int = 200


class Row(Struct, frozen=True):
    """A row of the user's table: its key, its version, and one field to compare with the site."""

    key: str
    version: int
    title: str


class Evidence(Struct, frozen=True):
    """What was found when all was quiet.

    Args:
        truth: the site's `/_truth`.
        hits: the site's `/_hits`.
        twice: (scope, key, version, times) of what the triggers of the table counted more than once.
        attempts: how often an item may be fetched before it is dead.
    """

    truth: Mapping[str, Any]
    hits: Mapping[str, Any]
    rows: Sequence[Row]
    twice: Sequence[tuple[str, str, int, int]]
    audit: AuditReport
    attempts: int


class Verdict(Struct, frozen=True):
    """The keys that are wrong, by what is wrong with them; `extra_fetches` are good pages served once more."""

    listed: int
    stored: int
    dead: int
    open: int
    dead_expected: int
    lost: list[str]
    doubled: list[str]
    wrong: list[str]
    unaccounted: int
    balanced: bool
    extra_fetches: int

    @property
    def good(self) -> bool:
        broken = self.lost or self.doubled or self.wrong or self.unaccounted or self.open
        return self.balanced and not broken and self.dead == self.dead_expected


def check(evidence: Evidence) -> Verdict:
    """Compare. Nothing is lost when every linked item of the site has its row or, being poison, its dead letter."""
    truth, audit = evidence.truth, evidence.audit
    records: Mapping[str, Mapping[str, Any]] = truth["records"]
    poison = set(truth["poison"]) | set(truth["dead"])
    stored = Counter(row.key for row in evidence.rows)
    newer = {row.key for row in evidence.rows if row.key in records and row.version > records[row.key]["version"]}
    twice = {key for _, key, _, _ in evidence.twice}
    wrong = {
        row.key
        for row in evidence.rows
        if row.key not in records or row.key in poison or row.title != records[row.key]["title"]
    }
    return Verdict(
        listed=audit.listed,
        stored=len(stored),
        dead=audit.dead,
        open=audit.open,
        dead_expected=len(poison),
        lost=sorted(key for key in records if key not in poison and key not in stored),
        doubled=sorted({key for key, count in stored.items() if count > 1} | newer | twice),
        wrong=sorted(wrong),
        unaccounted=audit.unaccounted,
        balanced=audit.balanced,
        extra_fetches=extra_fetches(evidence.hits, records, poison, evidence.attempts),
    )


def extra_fetches(
    hits: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]], poison: Iterable[str], attempts: int
) -> int:
    """How many details the site has served once more than was needed. Answers that failed had to be asked again.

    Where its log was full, each request counts, so the number is rather too high.
    """
    if hits["arrivals_dropped"]:
        served = Counter(dict(hits["detail"]))
    else:
        served = Counter(path for _, path, status in hits["arrivals"] if status == OK)
    allowed = {path_of(records[key]): attempts if key in poison else 1 for key in records}
    return sum(max(0, served[path] - most) for path, most in allowed.items())


def path_of(record: Mapping[str, Any]) -> str:
    return urlsplit(str(record["url"])).path
