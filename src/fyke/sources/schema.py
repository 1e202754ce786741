"""The source file: every key with its shape and meaning, and the table of keys that come later.

The loader checks by it, and the JSON Schema is made from it, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from fyke.sources.attachments import ATTACHMENTS
from fyke.sources.fieldshape import FIELD_NAME, SELECTOR, fields_shape
from fyke.sources.listshape import FILL, PAGES, REQUEST, ROW_KEYS, ROW_KINDS, ROWS, WORDS
from fyke.sources.shapes import (
    DURATION,
    NO_EFFECT,
    RATE,
    REFUSED,
    SIZE,
    Either,
    Key,
    ListOf,
    MapOf,
    Notes,
    Scalar,
    Section,
    Share,
    Text,
    Whole,
)
from fyke.sources.steps import steps_schema
from fyke.sources.updates import UPDATES

# Keys of later work, by section. NO_EFFECT: they load with a warning; REFUSED: what they ask for would be missed.
LATER: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("source", "alerts"): NO_EFFECT,
        ("detail", "snapshot"): NO_EFFECT,
        ("checks", "new_items"): NO_EFFECT,
        ("checks", "learn"): NO_EFFECT,
        ("request", "body"): REFUSED,
        ("fetch", "render"): REFUSED,
        ("fetch", "login"): REFUSED,
        ("fetch", "impersonate"): REFUSED,
        ("fetch", "proxies"): REFUSED,
        ("detail", "render"): REFUSED,
        ("listing", "render"): REFUSED,
        ("source", "render"): REFUSED,
        ("source", "pool"): REFUSED,
    }
)

ID: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
CONNECT: Final = Either(
    (
        (str, Text(choices=("all",))),
        (
            Mapping,
            Section(
                "connect",
                {
                    "known": Key(
                        Whole(1, 100_000), "Anchors in a row that connect. Default 10 where there are pages, else 1."
                    ),
                    "lookback": Key(DURATION, "How much further is read after that."),
                },
            ),
        ),
    ),
    "'all' or a mapping",
)
SCHEDULE: Final = Section(
    "schedule",
    {
        "cron": Key(
            ListOf(Text(), single=True, least=1),
            "One or several times: minute hour day month weekday, or six fields with the second first.",
        ),
        "timezone": Key(Text(), "IANA zone of these times, and of dates without a zone. Default Asia/Shanghai."),
        "late": Key(Text(choices=("run", "skip")), "A missed time: `run` late, once (default), or `skip`."),
        "overlap": Key(
            Text(choices=("skip", "queue", "cancel")),
            "A time due while a run is going: `skip` (default), `queue`, or `cancel` the run.",
        ),
        "limit": Key(DURATION, "How long a run may take. Default 1h."),
    },
)
FETCH: Final = Section(
    "fetch",
    {
        "headers": Key(WORDS, "Headers of every request."),
        "timeout": Key(
            Section(
                "timeout",
                {
                    "connect": Key(DURATION, "For connecting. Default 5s."),
                    "read": Key(DURATION, "For silence while reading. Default 10s."),
                    "total": Key(DURATION, "In total. Default 20s."),
                },
            ),
            "Limits of one request.",
        ),
        "politeness": Key(
            Section(
                "politeness",
                {
                    "delay": Key(DURATION, "Time between two starts at a host. Default 1.2s."),
                    "jitter": Key(DURATION, "How much it varies, either way. Default 0.4s; not over the delay."),
                    "concurrency": Key(Whole(1, 1_000), "Requests at once to a host. Default 2."),
                    "rate": Key(RATE, "Starts at most, such as 6/min."),
                },
            ),
            "What one host bears, for the whole cluster.",
        ),
        "proxy": Key(Text(), "One proxy, `http://user:password@host:port`, by a secret; no literal password."),
        "private_addresses": Key(
            Text(choices=("allow", "refuse")), "Whether addresses inside a network may be asked; default refuse."
        ),
        "user_agent": Key(Text(), "Default: Fyke with its version and address."),
        "robots": Key(Text(choices=("respect", "ignore")), "`respect` (default) or `ignore`."),
        "encoding": Key(Text(), "Of all pages, where the site names a wrong one and Fyke does not see through it."),
        "max_body": Key(SIZE, "The largest answer. Default 20MB."),
        "max_redirects": Key(Whole(0, 20), "Redirects that are followed. Default 5."),
        "blocked": Key(
            Section("blocked", {"text": Key(ListOf(Text(), single=True), "Texts that only a block page has.")}),
            "Marks of a block, besides the built-in ones.",
        ),
    },
)
IDENTITY: Final = Section(
    "identity",
    {
        "scope": Key(Text(pattern=r"\S{1,100}", example="example.org"), "The name space of keys.", required=True),
        "key": Key(SELECTOR, "What makes an entry this item: field, template, hash or first_of.", required=True),
    },
)
CHECKS: Final = Section(
    "checks",
    {
        "rows_per_page": Key(
            Section("rows_per_page", {"min": Key(Whole(0, 100_000), "The number.", required=True)}),
            "Fewer rows are suspicious; the last page is exempt.",
        ),
        "coverage": Key(MapOf(Share()), "Least share of rows with a value, by field of the list."),
    },
)
STORE: Final = Section(
    "store", {"table": Key(Text(pattern=r"[a-z][a-z0-9_]{0,62}", example="notices"), "The table.", required=True)}
)
_VALUES: Final = ListOf(Scalar(), least=1)
DISCOVER: Final = Section(
    "discover",
    {
        "request": Key(
            REQUEST, "How the page that names the values is asked for, as `listing.request`.", required=True
        ),
        "rows": Key(Section("rows", ROW_KEYS, one_of=ROW_KINDS), "The rows that give one listing each.", required=True),
        "fields": Key(
            fields_shape(python=False),
            "The values of a row, by name of their {placeholder}; together they name its listing.",
            required=True,
        ),
    },
    elsewhere=(("pages", "a discovery reads one page; ask for one that names all values"),),
)
EACH: Final = Either(
    (
        (list, ListOf(MapOf(Scalar(), FIELD_NAME, least=1), least=1)),
        (
            Mapping,
            Section(
                "each",
                {
                    "discover": Key(
                        DISCOVER,
                        "Values that the site names, read anew at the start of each run: new ones begin with `start`, "
                        "vanished ones keep their coverage, and a discovery that fails is a failed run.",
                    )
                },
                others=MapOf(_VALUES, FIELD_NAME, least=1),
            ),
        ),
    ),
    "a mapping of names to lists, or a list of mappings",
)


def listing(python: bool) -> Section:
    filling = (
        {} if python else {"fill": Key(FILL, "How older entries are asked for by date: fills holes, and `fyke fill`.")}
    )
    return Section(
        "listing",
        {
            "order": Key(Text(choices=("newest_first", "none")), "Default newest_first; none needs connect: all."),
            "request": Key(REQUEST, "How a page is asked for.", required=True),
            "pages": Key(PAGES, "How the next page is found; left out: one page."),
            "rows": Key(ROWS, "Where the rows are.", required=not python),
            "fields": Key(fields_shape(python), "The fields of a row.", required=True),
            "connect": Key(
                CONNECT, "When a walk has connected to what was known; or `all`: the list is walked to its end."
            ),
            "start": Key(Text(), "How far back the first walk goes: a duration, a date, or `all`; left out: page one."),
            **filling,
        },
    )


def detail(python: bool) -> Section:
    step = Section(
        "step",
        {
            "request": Key(REQUEST, "The hop's request, as `listing.request`, from the fields before.", required=True),
            "ready": Key(READY, "What a page has that is whole."),
            "fields": Key(fields_shape(python), "The hop's fields.", required=True),
        },
    )
    return Section(
        "detail",
        {
            "steps": Key(ListOf(step, least=1), "Hops in order.", required=True),
            "attachments": Key(ATTACHMENTS, "The files that the pages name, each an item of its own."),
        },
    )


READY: Final = Section(
    "ready",
    {
        "css": Key(Text(), "An element that is there."),
        "xpath": Key(Text(), "The same by XPath."),
        "json": Key(Text(), "The same by JMESPath."),
        "min_chars": Key(Whole(1, 10**7), "How much text it has at least."),
    },
    one_of=("css", "xpath", "json"),
)


def top(python: bool = False) -> Section:
    """The whole file. `python`: of a source whose class reads the pages, so that fields have no selectors."""
    return Section(
        "source",
        {
            "id": Key(Text(pattern=ID, example="ccgp"), "The source's name, unique.", required=True),
            "title": Key(Text(longest=500), "What people call it."),
            "extends": Key(ListOf(Text(), single=True), "Profiles that this file is merged over; the file wins."),
            "source": Key(Text(), "A Python class that reads the pages: `module:Class`."),
            "priority": Key(
                Text(choices=("high", "normal", "low")),
                "`high`, `normal` (default) or `low`: who goes first on a busy host.",
            ),
            "schedule": Key(SCHEDULE, "When it runs; without it by hand only."),
            "listing": Key(listing(python), "The list.", required=True),
            "each": Key(EACH, "One listing, with its own coverage, per value or combination."),
            "identity": Key(IDENTITY, "What makes an entry one item.", required=True),
            "detail": Key(detail(python), "The pages behind the rows; left out: the row is the record."),
            "updates": Key(UPDATES, "What a change is."),
            "checks": Key(CHECKS, "What makes a walk suspicious."),
            "fetch": Key(FETCH, "How it is asked."),
            "store": Key(STORE, "Where records go.", required=True),
        },
    )


SOURCE: Final = top()
PYTHON_SOURCE: Final = top(python=True)


def check(data: Any, *, python: bool = False) -> list[str]:
    """Check a whole source; returns the keys that have no effect yet.

    Raises:
        Fault: the first mistake, with its path.
    """
    notes = Notes(LATER)
    (PYTHON_SOURCE if python else SOURCE).check(data, (), notes)
    return notes.ignored


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a source file, for editors."""
    schema = SOURCE.json()
    _allow_later(schema, SOURCE)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A source of Fyke",
        **schema,
        "$defs": {"selector": SELECTOR.json(), "steps": steps_schema()},
    }


def _allow_later(schema: dict[str, Any], section: Section) -> None:
    properties = schema["properties"]
    for (name, key), effect in LATER.items():
        if name == section.name and effect == NO_EFFECT:
            properties[key] = {"description": f"({NO_EFFECT})"}
    for name, part in section.keys.items():
        if isinstance(part.shape, Section):
            _allow_later(properties[name], part.shape)
