"""Where the records of a JSON answer are and what they say, for `fyke new`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final

from fyke.sources.proposing_fields import FieldFound
from fyke.sources.timestamps import AUTO, read_time

DEEPEST: Final = 8
ROWS_LOOKED_AT: Final = 50
_BARE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TITLES: Final = re.compile(r"(?:.*_)?(?:title|name|subject|headline|summary|标题|名称)", re.IGNORECASE)
_TITLES_INSIDE: Final = re.compile(r".*(?:title|subject|headline)", re.IGNORECASE)
_DATES: Final = re.compile(r".*(?:date|time|_at|published|created|updated|日期|时间)", re.IGNORECASE)
_BEST_DATES: Final = re.compile(r".*(?:publish|created|release|发布)", re.IGNORECASE)
_URLS: Final = re.compile(r"(?:.*_)?(?:html_url|url|link|href|uri|permalink)|.*(?:url|link|href)", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(?:https?:)?/{1,2}[^\s]+|[\w./-]+\.(?:s?html?|pdf|aspx?|jsp)(?:\?\S*)?", re.IGNORECASE)
_NO_ADDRESS: Final = re.compile(r"\{[^}]*\}")


def records_of(data: Any) -> tuple[str, list[Mapping[str, Any]]] | None:
    """The path to the longest list of objects, and the objects; the nearest to the root where several are as long."""
    found = sorted(_lists(data, (), 0), key=lambda one: (-one[2], len(one[0])))
    if not found:
        return None
    path, records, _ = found[0]
    return ".".join(map(_step, path)) or "@", records


def _step(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _lists(data: Any, path: tuple[str, ...], depth: int) -> Iterator[tuple[tuple[str, ...], list[Any], float]]:
    if isinstance(data, list):
        rows = [row for row in data if isinstance(row, Mapping)]
        if rows and len(rows) == len(data):
            yield (
                path,
                rows,
                len(rows) * sum(len(row) for row in rows[:ROWS_LOOKED_AT]) / min(len(rows), ROWS_LOOKED_AT),
            )
    elif isinstance(data, Mapping) and depth < DEEPEST:
        for name, part in data.items():
            yield from _lists(part, (*path, str(name)), depth + 1)


def json_fields(rows: Sequence[Mapping[str, Any]], zone: tzinfo) -> list[FieldFound]:
    """Id, title, time and address of the records, as far as they are there."""
    names = list(dict.fromkeys(name for row in rows[:ROWS_LOOKED_AT] for name in row))
    found = []
    key = _id(rows, names)
    if key is not None:
        found.append(_found("id", key, rows, []))
    title = _titles(rows, names)
    if title is not None:
        found.append(_found("title", title, rows, []))
    date = _date(rows, [name for name in names if name != key], zone)
    if date is not None:
        found.append(_found("published", date, rows, [{"datetime": "auto"}]))
    url = _url(rows, names)
    if url is not None:
        found.append(_found("url", url, rows, ["absolute_url"]))
    return found


def _found(name: str, key: str, rows: Sequence[Mapping[str, Any]], then: list[Any]) -> FieldFound:
    spec: dict[str, Any] = {"json": _step(key)}
    if then:
        spec["then"] = then
    return FieldFound(name, spec, sum(1 for row in rows if row.get(key) not in (None, "")))


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    given = (row.get(name) for row in rows)
    return [
        str(value) for value in given if isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    ]


def _id(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str | None:
    """What each record has and no two share: called id first, then …Id, then code, number, guid."""
    whole = []
    for name in names:
        values = _values(rows, name)
        if len(values) == len(rows) == len(set(values)) and all(len(value) <= 200 for value in values):
            whole.append(name)
    for pattern in ("id|guid|uuid|_id", r".*(?:[a-z]I|_i|I)d|.*ID", r".*(?:code|number|guid|uuid|no|key)"):
        for name in whole:
            if re.fullmatch(pattern, name, 0 if "I" in pattern else re.IGNORECASE):
                return name
    return None


def _titles(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str | None:
    texts = {name: _values(rows, name) for name in names}
    told = [name for name in names if len(texts[name]) >= 0.6 * len(rows) and len(set(texts[name])) > 0.5 * len(rows)]
    for pattern in (re.compile("title|subject|headline|标题", re.IGNORECASE), _TITLES_INSIDE, _TITLES):
        named = [name for name in told if pattern.fullmatch(name)]
        if named:
            return max(named, key=lambda name: sum(map(len, texts[name])))
    short = [name for name in told if 6 <= sum(map(len, texts[name])) / len(texts[name]) <= 150]
    wordy = [
        name for name in short if sum(bool(re.search(r"\s|[^\x00-\x7f]", text)) for text in texts[name]) > len(rows) / 2
    ]
    return max(wordy, key=lambda name: sum(map(len, texts[name])), default=None)


def _date(rows: Sequence[Mapping[str, Any]], names: Sequence[str], zone: tzinfo) -> str | None:
    def share(name: str) -> float:
        return sum(read_time(text, (AUTO,), zone) is not None for text in _values(rows, name)) / len(rows)

    named = [name for name in names if _DATES.fullmatch(name) and share(name) >= 0.6]
    best = [name for name in named if _BEST_DATES.fullmatch(name)]
    return next(iter(best or named), None)


def _url(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str | None:
    def share(name: str) -> float:
        fitting = [text for text in _values(rows, name) if _ADDRESS.fullmatch(text) and not _NO_ADDRESS.search(text)]
        return len(set(fitting)) / len(rows)

    named = [name for name in names if _URLS.fullmatch(name) and share(name) > 0.5]
    for wanted in ("html_url", "url", "link", "href", "permalink"):
        if wanted in named:
            return wanted
    return max(named, key=share, default=None)
