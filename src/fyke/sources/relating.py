"""`updates.relate`: which records belong together, by the text of a field that they share.

A correction names its original by the project's number, whichever of the two is collected first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fyke.model import Fields, Relation
from fyke.policy.identity import key_of
from fyke.sources.faults import Fault, Path
from fyke.sources.nodes import text_of
from fyke.sources.shapes import nearest_key


@dataclass(frozen=True)
class Rule:
    """Records whose `title` has one of these texts are `kind` to the others with the same text in `by`."""

    texts: tuple[str, ...]
    by: str
    kind: str


def compile_rules(spec: Iterable[Mapping[str, Any]], names: Iterable[str]) -> tuple[Rule, ...]:
    rules, known = [], list(names)
    for at, part in enumerate(spec):
        path: Path = ("updates", "relate", at)
        for field in (part["by"], "title"):
            if field not in known:
                where = (*path, "by") if field == part["by"] else (*path, "title")
                raise Fault(f"there is no field '{field}'", where, hint=nearest_key(field, known))
        texts = part["title"] if isinstance(part["title"], list) else [part["title"]]
        rules.append(Rule(tuple(texts), part["by"], part["as"]))
    return tuple(rules)


def relations(rules: Iterable[Rule], record: Fields) -> list[Relation]:
    """What relates this record: its kinds, and for rules that it does not meet what others may be to it."""
    title = text_of(record.get("title")) or ""
    found: dict[tuple[str, str, str], None] = {}
    for rule in rules:
        shared = shared_text(record.get(rule.by))
        if shared is not None:
            kind = rule.kind if any(text in title for text in rule.texts) else ""
            found[kind, rule.by, shared] = None
    return [Relation(*part) for part in found]


def shared_text(value: Any) -> str | None:
    """A text as it is compared: whatever the width of its characters, without blanks, in capitals."""
    text = unicodedata.normalize("NFKC", text_of(value) or "").upper()
    text = "".join(text.split())
    if not text:
        return None
    try:
        return key_of(text)
    except ValueError:
        return None
